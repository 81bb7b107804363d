"""`awm eval` and `awm demo`: exit codes, what goes to stdout, and what a user is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from awm.cli.main import app
from town_server import town_server
from towns import (
    agent_replies,
    question_row,
    write_agent,
    write_corpus,
    write_jsonl,
    write_pdf,
    write_reader,
    write_script,
)

KEYS = {
    "n",
    "n_unmeasured",
    "final_accuracy",
    "memory_accuracy",
    "p_mmc",
    "cells",
    "dataset_hash",
    "missing_documents",
}


def awm(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_corpus(tmp_path / "corpus", 4)
    write_agent(tmp_path / "agent.jsonl", 4)
    write_reader(tmp_path / "reader.jsonl", 4)


EVAL = (
    *("eval", "--benchmark", "jsonl", "--data", "corpus", "--run", "run"),
    *("--model", "scripted:agent.jsonl", "--reader", "scripted:reader.jsonl"),
)


def summary_of(result: Result) -> dict[str, Any]:
    summary = json.loads(result.stdout)
    assert isinstance(summary, dict)
    return summary


def test_json_is_one_object_on_stdout_and_nothing_else() -> None:
    result = awm(*EVAL, "--json")

    assert result.exit_code == 0
    summary = summary_of(result)
    assert summary.keys() >= KEYS
    assert (summary["n"], summary["n_unmeasured"], summary["n_dataset"]) == (4, 0, 4)
    assert summary["cells"]["memory_supported_correct"] == 4
    assert summary["missing_documents"] == []


def test_a_figure_that_cannot_be_computed_is_null() -> None:
    write_script(Path("agent.jsonl"), {i: agent_replies(i, answer="no") for i in range(4)})

    nothing_right = summary_of(awm(*EVAL, "--json"))
    baseline = summary_of(awm(*EVAL, "--setting", "rag", "--run", "rag", "--json"))

    assert (nothing_right["final_accuracy"], nothing_right["memory_accuracy"]) == (0.0, 1.0)
    assert nothing_right["p_mmc"] is None
    # The scripted agent's first reply is a tool call, which is no answer of a baseline.
    assert baseline["memory_accuracy"] is baseline["p_mmc"] is baseline["cells"] is None


def test_a_run_says_what_it_measured_and_on_which_data() -> None:
    result = awm(*EVAL)

    assert result.exit_code == 0
    dataset_hash = summary_of(awm(*EVAL, "--json"))["dataset_hash"]
    assert f"dataset: 4 questions, 4 of them can run; hash {dataset_hash}" in result.stdout
    assert "jsonl, setting agent: 4 of 4 questions measured" in result.stdout
    for figure in ("final-answer accuracy", "memory-only accuracy", "P_mmc"):
        assert figure in result.stdout


def test_every_missing_or_faulty_document_is_named_at_the_start() -> None:
    rows = [question_row(i, f"gone_{i:02}.pdf", 1) for i in range(10, 30)]
    rows += [question_row(0, "towns_00.pdf", 9), question_row(1, "bad.pdf", 1)]
    Path("corpus/bad.pdf").write_text("not a PDF")
    write_jsonl(Path("corpus/questions.jsonl"), rows)

    result = awm(*EVAL)

    assert result.exit_code == 0
    assert "20 documents are missing, so 20 of 22 questions are left out: " in result.stderr
    for i in range(10, 30):
        assert f"gone_{i:02}.pdf" in result.stderr
    assert "unreadable document: " in result.stderr
    assert "bad.pdf" in result.stderr
    assert "evidence outside document: question 'town-00'" in result.stderr
    assert "20 documents are missing: gone_10.pdf" in result.stdout
    assert "Documents that cannot be read: 1" in result.stdout
    assert "Questions with gold pages outside their document: 1" in result.stdout
    summary = summary_of(awm(*EVAL, "--json"))
    assert summary["missing_documents"] == [f"gone_{i:02}.pdf" for i in range(10, 30)]
    assert (summary["n"], summary["n_dataset"]) == (1, 22)


def test_unmeasured_questions_give_exit_code_5_and_are_retried() -> None:
    write_script(Path("reader.jsonl"), {0: ["100"]}, default=[{"error": "garbage"}])

    first = awm(*EVAL)
    write_reader(Path("reader.jsonl"), 4)
    second = awm(*EVAL, "--json")

    assert first.exit_code == 5
    assert "3 questions are unmeasured (EndpointReplyError x3)" in first.stdout
    assert second.exit_code == 0
    assert summary_of(second)["n_unmeasured"] == 0


def test_an_endpoint_that_is_down_gives_exit_code_4() -> None:
    write_script(Path("agent.jsonl"), {}, default=[{"error": "timeout"}])

    result = awm(*EVAL, "--set", "max_failures_in_a_row=2", "--json")

    assert result.exit_code == 4
    assert result.stdout == ""
    assert "2 questions in a row failed" in result.stderr
    assert "start the same command to resume" in result.stderr


def test_changed_settings_give_exit_code_2_with_the_differences() -> None:
    awm(*EVAL)

    result = awm(*EVAL, "--set", "reader.temperature=0.5", "--json")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "reader.temperature: None -> 0.5" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--data", "nowhere"), 3, "nowhere cannot be read"),
        (("--benchmark", "nope"), 2, "benchmark 'nope' is none of: demo"),
        (("--benchmark", "demo"), 2, "benchmark 'demo' comes with AWM and takes no --data"),
        (("--reader", "lexcial"), 2, "--reader: unknown model 'lexcial'; did you mean 'lexical'?"),
        (("--extractor", "lexcial"), 2, "--extractor: unknown model 'lexcial'"),
        (("--model", "gpt"), 2, "--model: unknown model 'gpt'; did you mean openai:gpt?"),
        (("--model", "scripted:none.jsonl"), 2, "none.jsonl"),
        (
            ("--config", "none.toml"),
            2,
            "config none.toml cannot be read: No such file or directory",
        ),
        (("--set", "nope=1"), 2, "nope: no such setting; there are benchmark, data"),
        (("--limit", "0"), 2, "limit: 0 is out of range: it must be at least 1"),
        (("--setting", "other"), 2, "setting: 'other' is none of agent, ep-given, direct, rag"),
        (("--extraction-prompt", "x.txt"), 2, "needs an extractor"),
        (("--run", "corpus/questions.jsonl"), 3, "cannot be used as a run folder"),
        (("--limit", "many"), 2, "Invalid value for '--limit'"),
        (("--nope",), 2, "No such option"),
    ],
)
def test_what_cannot_be_used_is_said_without_a_traceback(
    arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    result = awm(*EVAL, *arguments, "--json")

    assert result.exit_code == code
    assert result.stdout == ""
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_reader_is_asked_for() -> None:
    result = awm("eval", "--benchmark", "demo", "--model", "lexical", "--run", "run")

    assert result.exit_code == 2
    assert "reader: missing (give --reader or" in result.stderr
    assert not Path("run").exists()


def test_a_toml_file_can_say_all_that_flags_say() -> None:
    Path("eval.toml").write_text(
        'benchmark = "jsonl"\ndata = "corpus"\nmodel = "scripted:agent.jsonl"\nlimit = 2\n'
        '[reader]\nspec = "scripted:reader.jsonl"\n'
        "extra_body = { chat_template_kwargs = { enable_thinking = false } }\n"
    )

    result = awm("eval", "--config", "eval.toml", "--limit", "3", "--run", "run", "--json")

    assert summary_of(result)["n"] == 3
    settings = json.loads(Path("run/manifest.json").read_bytes())["settings"]
    assert settings["limit"] == 3
    assert settings["reader"]["extra_body"] == {"chat_template_kwargs": {"enable_thinking": False}}


def test_a_run_folder_may_have_spaces_and_unicode_in_its_path() -> None:
    run = Path("my läufe/東京 [bold]")

    result = awm(*EVAL, "--run", run)

    assert result.exit_code == 0
    assert f"run: {run}" in result.stdout
    assert awm("show", run, "1").exit_code == 0


def test_the_demo_runs_without_settings_and_says_what_comes_next() -> None:
    result = awm("demo", "--run", "the demo")

    assert result.exit_code == 0
    assert "demo, setting agent" in result.stdout
    assert "Next: awm show 'the demo' lists the questions" in result.stdout
    again = awm("demo", "--run", "the demo", "--json")
    assert summary_of(again)["n_unmeasured"] == 0


@pytest.mark.parametrize("key", ["sk-right-7f3e9a", "sk-wrong-7f3e9a"])
def test_a_key_appears_in_no_file_and_no_output(tmp_path: Path, key: str) -> None:
    with town_server(delay_ms=0) as base_url:
        spec = f"openai:towns@{base_url}"
        done = subprocess.run(
            [sys.executable, "-m", "awm", "-v", *EVAL, "--model", spec, "--reader", spec],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"AWM_API_KEY": key},
        )

    assert done.returncode == (5 if "wrong" in key else 0), done.stderr
    assert "7f3e9a" not in done.stdout + done.stderr
    for file in (tmp_path / "run").iterdir():
        assert b"7f3e9a" not in file.read_bytes(), file.name


def test_documents_that_the_agent_reads_may_be_called_anything(tmp_path: Path) -> None:
    name = "a [bold] :key: ü 二.pdf"
    write_pdf(tmp_path / "corpus" / name, [0])
    write_jsonl(tmp_path / "corpus" / "questions.jsonl", [question_row(0, name, 1)])

    assert awm(*EVAL).exit_code == 0
    assert name in awm("show", "run", "1").stdout


def test_without_a_run_folder_the_same_settings_find_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "eval --benchmark pocket --limit 3 --model lexical --reader lexical --json"

    first, again = awm(*command.split()), awm(*command.split(), "--concurrency", "2")
    other = awm(*command.split(), "--seed", "2")

    assert (first.exit_code, again.exit_code, other.exit_code) == (0, 0, 0)
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert all(name.startswith("pocket-") for name in folders)
    folder = json.loads(first.stdout)["run"]
    assert len((tmp_path / folder / "sessions.jsonl").read_text().splitlines()) == 2
    assert f"show {folder} lists the questions" in awm(*command.split()[:-1]).stdout
