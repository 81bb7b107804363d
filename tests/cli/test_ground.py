"""`awm ground`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from awm.cli.main import app


def awm(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")
    result = awm("demo", "--run", "demo")
    assert result.exit_code == 0, result.output
    return tmp_path / "demo"


def test_the_findings_of_a_policy_that_copies_sentences_are_supported(run: Path) -> None:
    result = awm("ground", run, "--run", "verdicts", "--json")

    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["n_memories"] == 20
    assert report["n_unmeasured"] == 0
    assert report["supported"]["value"] > 0.8
    assert sum(sum(row.values()) for row in report["cross"].values()) == 20


def test_it_prints_the_cross_table_and_resumes(run: Path) -> None:
    first = awm("ground", run, "--run", "verdicts")
    second = awm("ground", run, "--run", "verdicts")

    assert first.exit_code == 0, first.output
    assert first.stderr == ""
    assert "verifier text" in first.stdout
    assert "of all findings" in first.stdout
    assert "supported, of the checked findings" in first.stdout
    assert "grounded: every finding supported" in first.stdout
    assert "not answerable" in first.stdout
    assert second.stdout == first.stdout


def test_one_of_the_failures_is_printed_in_its_own_words(run: Path) -> None:
    Path("verifier.jsonl").write_text('{"replies": ["It is true."], "repeat_last": true}\n')

    result = awm("ground", run, "--verifier", "scripted:verifier.jsonl", "--run", "verdicts")

    assert result.exit_code == 5
    assert "One of the failures: not one JSON object" in result.stdout
    assert "the reply: 'It is true.'" in result.stdout


def test_a_folder_that_is_no_run_is_refused(run: Path, tmp_path: Path) -> None:
    result = awm("ground", tmp_path / "nowhere", "--run", "verdicts")

    assert result.exit_code == 3
    assert "is not a run" in result.stderr


def test_verdicts_are_no_run_to_look_at(run: Path) -> None:
    awm("ground", run, "--run", "verdicts")

    again = awm("ground", "verdicts", "--run", "more")
    shown = awm("show", "verdicts")
    compared = awm("intervene", run, "--memory", "empty", "--run", "verdicts")

    assert (again.exit_code, shown.exit_code, compared.exit_code) == (3, 3, 2)
    assert "verdicts is what was made from a run" in again.stderr
    assert "verdicts is what was made from a run" in shown.stderr
    assert "kind 'grounding', and this is one of kind 'intervention'" in compared.stderr


def test_a_folder_of_another_run_is_refused(run: Path) -> None:
    result = awm("ground", run, "--verifier", "lexical", "--run", "verdicts")
    other = awm("ground", run, "--run", run)

    assert (result.exit_code, other.exit_code) == (2, 2)
    assert "the embedded verifier is 'text'" in result.stderr
    assert "must be another folder" in other.stderr
