"""A run that is killed or interrupted at random moments ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from town_server import town_server
from towns import read_jsonl, write_corpus

N_QUESTIONS = 80
N_KILLS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with town_server(delay_ms=25) as base_url:
        yield base_url


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"), N_QUESTIONS, pages_per_document=20)


def command(server: str, corpus: Path, run: Path) -> list[str]:
    spec = f"openai:towns@{server}"
    flags = {
        "--benchmark": "jsonl",
        "--data": str(corpus),
        "--model": spec,
        "--reader": spec,
        "--concurrency": "4",
        "--cache-dir": str(corpus / "pages"),
        "--run": str(run),
    }
    return [sys.executable, "-m", "awm", "eval", "--json", *(x for f in flags.items() for x in f)]


def run_to_the_end(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert isinstance(summary, dict)
    del summary["run"]
    return summary


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def wait_for_growth(file: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the process has written to `file`, or has ended."""
    before = file.stat().st_size if file.exists() else 0
    while process.poll() is None and (not file.exists() or file.stat().st_size == before):
        time.sleep(0.002)


@pytest.mark.slow
def test_a_run_killed_at_20_random_moments_ends_like_an_undisturbed_one(
    server: str, corpus: Path, tmp_path: Path
) -> None:
    undisturbed = run_to_the_end(command(server, corpus, tmp_path / "undisturbed"))
    run = tmp_path / "killed run"
    moments = random.Random(20260101)
    n_records_at_kill = []
    for kill in range(N_KILLS):
        process = start(command(server, corpus, run))
        if kill % 3:  # into the work on questions, at a random distance behind a random record
            wait_for_growth(run / "sessions.jsonl", process)
            for _ in range(moments.randrange(5)):
                wait_for_growth(run / "scores.jsonl", process)
            time.sleep(moments.uniform(0.0, 0.06))
        else:  # anywhere, the start of the process and the making of the folder included
            time.sleep(moments.uniform(0.0, 0.8))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL, f"kill {kill} came after the end"
        scores = run / "scores.jsonl"
        n_records_at_kill.append(len(read_whole_lines(scores)) if scores.exists() else 0)

    resumed = run_to_the_end(command(server, corpus, run))

    assert 0 < n_records_at_kill[-1] < N_QUESTIONS
    assert len(set(n_records_at_kill)) >= 8, "the kills did not fall into the work"
    assert resumed == undisturbed
    assert resumed["n"] == N_QUESTIONS
    assert set(resumed["cells"].values()) == {N_QUESTIONS // 4}
    for name in ("episodes", "readings", "scores"):
        per_question = Counter(row["question_id"] for row in read_jsonl(run / f"{name}.jsonl"))
        assert len(per_question) == N_QUESTIONS, name
        assert set(per_question.values()) == {1}, name


def read_whole_lines(file: Path) -> list[bytes]:
    return [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    server: str, corpus: Path, tmp_path: Path
) -> None:
    arguments = [*command(server, corpus, tmp_path / "run"), "--limit", "30"]
    process = start(arguments)
    wait_for_growth(tmp_path / "run" / "scores.jsonl", process)

    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)

    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "Interrupted. What is done is kept; start the same command again to resume." in stderr
    assert "Traceback" not in stderr
    done = [row["question_id"] for row in read_jsonl(tmp_path / "run" / "scores.jsonl")]
    assert 0 < len(done) < 30
    assert run_to_the_end(arguments)["n"] == 30
    assert read_jsonl(tmp_path / "run" / "scores.jsonl")[: len(done)] == [
        row for row in read_jsonl(tmp_path / "run" / "scores.jsonl") if row["question_id"] in done
    ]


def test_two_runs_side_by_side_do_not_disturb_each_other(
    server: str, corpus: Path, tmp_path: Path
) -> None:
    runs = [tmp_path / "one", tmp_path / "the other, 二"]
    processes = [start([*command(server, corpus, run), "--limit", "12"]) for run in runs]

    summaries = []
    for process in processes:
        stdout, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        summaries.append(json.loads(stdout))

    assert [summary.pop("run") for summary in summaries] == [str(run) for run in runs]
    assert summaries[0] == summaries[1]
    assert summaries[0]["n"] == 12


def test_a_second_command_on_the_same_folder_is_refused_while_the_first_runs(
    server: str, corpus: Path, tmp_path: Path
) -> None:
    arguments = [*command(server, corpus, tmp_path / "run"), "--concurrency", "1"]
    first = start(arguments)
    wait_for_growth(tmp_path / "run" / "sessions.jsonl", first)

    second = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=False)

    assert first.poll() is None, "the first run ended too early for this test"
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert "another process is writing" in second.stderr
    assert second.stdout == ""
