"""Whole trainings of seconds, through the command line: SFT, GRPO, a kill, and the export."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `local` is not installed")
pytest.importorskip("trl", reason="the extra `train` is not installed")

from training_world import grpo_settings, make_run

from awm.models.pocket import pocket_weights
from awm.train.config import TrainSettings

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "HF_HUB_OFFLINE": "1",
}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "awm", "train", *arguments]


def awm_train(*arguments: str) -> str:
    ran = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=170,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def write_config(settings: TrainSettings, path: Path) -> Path:
    """Write settings as TOML."""
    lines: list[str] = []

    def table(values: dict[str, Any], name: str) -> None:
        plain = {k: v for k, v in values.items() if v is not None and not isinstance(v, dict)}
        lines.extend(
            f"{name}{key} = {json.dumps(value)}" for key, value in plain.items() if value != []
        )
        for key, value in values.items():
            if isinstance(value, dict):
                table(value, f"{name}{key}.")

    table(settings.model_dump(mode="json", exclude_unset=True), "")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def curve(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def config_of(policy_folder: Path, out: Path, **changes: Any) -> Path:
    settings = grpo_settings(
        policy_folder,
        out,
        steps=4,
        evaluation={"benchmark": "pocket", "seed": 2, "limit": 4},
        evaluate_every=2,
        **changes,
    )
    return write_config(settings, out.with_suffix(".toml"))


def test_a_killed_grpo_resumes_on_the_same_curve(tmp_path: Path) -> None:
    policy, reader = pocket_weights() / "policy", "pocket"
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    said = awm_train("grpo", "--config", str(config_of(policy, straight)), "--reader", reader)
    assert "ok    sight" in said
    again = ("grpo", "--config", str(config_of(policy, broken)), "--reader", reader)
    process = subprocess.Popen(command(*again), env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (broken / "checkpoint-2" / "trainer_state.json").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()

    said = awm_train(*again)

    assert "resumed from" in said
    for name in ("steps.jsonl", "curve.jsonl"):
        assert curve(broken, name) == curve(straight, name)
    assert [line["step"] for line in curve(straight, "curve.jsonl")] == [0, 2, 4]
    assert [line["step"] for line in curve(straight, "steps.jsonl")] == [1, 2, 3, 4]
    state = json.loads((straight / "checkpoint-4" / "trainer_state.json").read_text())
    logged = {name for line in state["log_history"] for name in line}
    assert {"awm/share/unresolved_error", "awm/refused_calls", "awm/images"} <= logged
    assert {"eval_awm/final_accuracy", "eval_awm/memory_accuracy"} <= logged
    steps = curve(straight, "steps.jsonl")
    assert any(step["groups"]["n_groups_with_signal"] for step in steps)
    assert weights(straight / "final") != weights(policy)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_sft_learns_the_trajectories_of_a_run(policy_folder: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path, n_questions=4)
    out = tmp_path / "sft"

    said = awm_train(
        "sft",
        "--from",
        str(run),
        "--model",
        str(policy_folder),
        "--out",
        str(out),
        "--steps",
        "3",
        "--set",
        "policy.dtype=float32",
        "--set",
        "rows_per_step=4",
        "--set",
        "micro_batch=2",
        "--set",
        "learning_rate=0.003",
        "--set",
        "save_every=2",
    )

    losses = [
        float(line.split("loss ")[1].split(",")[0]) for line in said.splitlines() if "loss " in line
    ]
    assert "4 trajectories kept" in said
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert (out / "final" / "model.safetensors").is_file()
    awm_train("export", str(out / "checkpoint-3"), "--out", str(tmp_path / "exported"))
    assert (tmp_path / "exported" / "config.json").is_file()


def test_lora_trains_and_exports_a_merged_model(policy_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "lora"
    config = write_config(
        grpo_settings(
            policy_folder,
            out,
            steps=1,
            policy={
                "path": str(policy_folder),
                "dtype": "float32",
                "lora": {"rank": 4, "alpha": 8},
            },
        ),
        tmp_path / "lora.toml",
    )

    awm_train("grpo", "--config", str(config))

    assert (out / "checkpoint-1" / "adapter_config.json").is_file()
    assert not (out / "final" / "adapter_config.json").exists()
    awm_train("export", str(out / "checkpoint-1"), "--out", str(tmp_path / "merged"))
