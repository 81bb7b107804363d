"""The pocket world's pair of trainings differs in the reward alone, and is compared fairly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awm.pocket.grpo import CURVE_SEED, TEST_SEED, training_benchmark
from awm.runs import flatten_settings
from awm.train.pocket import Reproduction, pocket_grpo_settings, reproduce


def test_the_two_arms_differ_in_the_reward_and_the_folder_alone(tmp_path: Path) -> None:
    arms = [
        pocket_grpo_settings(kind, 1, tmp_path / kind, policy=tmp_path).model_dump(mode="json")
        for kind in ("answer_only", "awm")
    ]
    first, second = (dict(flatten_settings(arm)) for arm in arms)

    assert {key for key in first if first[key] != second[key]} == {"out", "reward.kind"}


def test_training_curve_and_test_ask_different_questions() -> None:
    assert len({CURVE_SEED, TEST_SEED}) == 2
    first, second = (training_benchmark(seed, 8).dataset_hash for seed in (0, 1))
    assert first != second
    assert training_benchmark(0, 8).dataset_hash == first


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_reproduction_compares_three_policies_and_can_be_repeated(
    policy_folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("trl", reason="the extra `train` is not installed")
    from awm.pocket.model import build_reader
    from awm.pocket.tokenizer import build_tokenizer

    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "policy").symlink_to(policy_folder)
    tokenizer = build_tokenizer()
    build_reader(tokenizer, layers=1).save_pretrained(weights / "reader")
    tokenizer.save_pretrained(weights / "reader")

    def run() -> tuple[Reproduction, list[str]]:
        told: list[str] = []
        small: dict[str, Any] = {"steps": 1, "n_test": 4, "n_curve": 2}
        out = tmp_path / "out"
        return reproduce(0, out, weights=weights, tell=told.append, **small), told

    result, told = run()
    assert [arm.name for arm in result.arms] == ["before", "answer_only", "awm"]
    assert all(arm.n == 4 for arm in result.arms)
    assert any(line.startswith("train step 1") for line in told)
    written = (tmp_path / "out" / "comparison.json").read_text(encoding="utf-8")
    assert Reproduction.model_validate_json(written) == result

    again, told = run()
    assert again == result
    assert not any(line.startswith("train step") for line in told)
