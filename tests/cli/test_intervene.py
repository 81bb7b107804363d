"""`awm intervene`: what it prints, from a log and from a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from awm.cli.main import app
from towns import agent_replies, write_corpus, write_jsonl, write_script


def awm(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "140")


def write_table_3(path: Path) -> Path:
    """Write 500 questions: 151 memory-answerable originals, 224 improved, 94 gained, 21 lost."""
    rows = []
    for i in range(500):
        original = i < 151
        improved = i < 130 or 151 <= i < 245
        for arm, memory in (("empty", False), ("original", original), ("improved", improved)):
            rows.append(
                {
                    "question_id": f"q{i}",
                    "arm": arm,
                    "final_score": int(memory),
                    "memory_score": int(memory),
                }
            )
    return write_jsonl(path, rows)


def test_table_3_prints_its_figures(tmp_path: Path) -> None:
    result = awm("intervene", "--log", write_table_3(tmp_path / "log.jsonl"))

    assert result.exit_code == 0, result.output
    assert "30.2 %" in result.stdout
    assert "44.8 %" in result.stdout
    assert "+73" in result.stdout
    assert "+14.6" in result.stdout
    totals = next(line for line in result.stdout.splitlines() if line.startswith("all"))
    assert totals.split() == ["all", "500", "0", "151", "224", "0", "151", "224"]


def test_a_log_gives_the_same_figures_as_json(tmp_path: Path) -> None:
    log = write_table_3(tmp_path / "log.jsonl")

    report = json.loads(awm("intervene", "--log", log, "--json").stdout)

    assert report["arms"]["improved"]["memory"]["value"] == pytest.approx(0.448)
    gain = next(
        d
        for d in report["differences"]
        if (d["measure"], d["minuend"], d["subtrahend"]) == ("memory", "improved", "original")
    )
    assert (gain["n_gained"], gain["n_lost"], gain["change"]) == (94, 21, 73)
    assert sum(row["n"] for row in report["by_cell"].values()) == 500


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "corpus", 2)
    write_script(tmp_path / "agent.jsonl", {i: agent_replies(i) for i in range(2)})
    result = awm(
        *("eval", "--benchmark", "jsonl", "--data", "corpus", "--setting", "ep-given"),
        *("--model", "scripted:agent.jsonl", "--reader", "lexical", "--run", "source"),
    )
    assert result.exit_code == 0, result.output
    return tmp_path / "source"


def test_a_run_is_compared_and_the_command_resumes(run: Path, tmp_path: Path) -> None:
    command = ("intervene", run, "--writer", "lexical", "--generator", "lexical", "--run", "out")

    first = awm(*command)
    journal = (tmp_path / "out" / "scores.jsonl").read_bytes()
    second = awm(*command)

    assert first.exit_code == second.exit_code == 0, first.output
    assert "generator lexical (sees no page), reader lexical" in first.stdout
    assert "improved: 2 of 2 memories cite a gold page" in first.stdout
    assert "is no like-for-like estimate" in first.stdout
    assert second.stdout == first.stdout
    assert (tmp_path / "out" / "scores.jsonl").read_bytes() == journal


def test_the_other_reading_of_the_paper_is_labelled(run: Path) -> None:
    result = awm(
        *("intervene", run, "--memory", "empty", "--generator", "lexical"),
        *("--generator-sees-pages", "--run", "out"),
    )

    assert result.exit_code == 0, result.output
    assert "generator lexical (sees the gold pages)" in result.stdout
    assert "WARNING: the answer generator saw the gold pages" in result.stdout


def test_unmeasured_answers_end_with_exit_code_5(run: Path) -> None:
    # The agent's script has no reply for the first turn of another conversation but a tool call.
    write_script(Path("generator.jsonl"), {0: ["100"]})

    result = awm(
        *("intervene", run, "--memory", "empty"),
        *("--generator", "scripted:generator.jsonl", "--run", "out"),
    )

    assert result.exit_code == 5
    assert "1 pair of answers is unmeasured" in result.stdout


def test_memories_that_are_empty_because_of_refusals_are_warned_of(run: Path) -> None:
    Path("writer.jsonl").write_text('{"replies": ["Here you go."], "repeat_last": true}\n')
    command = ("intervene", run, "--writer", "scripted:writer.jsonl", "--generator", "lexical")

    printed = awm(*command, "--run", "out")
    warnings = json.loads(awm(*command, "--run", "out", "--json").stdout)["warnings"]

    (line,) = [line for line in printed.stdout.splitlines() if "refused, most often" in line]
    assert line.startswith("WARNING: 2 of 2 improved memories are empty because their writing was")
    assert "The reply is not one JSON object" in line
    assert "(4 of 4 refusals)" in line
    assert line.endswith("what differs from them says nothing about better memories.")
    assert any(warning in line for warning in warnings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("intervene",), "name a finished run, or a log with --log FILE"),
        (("intervene", "source"), "no --run"),
        (("intervene", "source", "--run", "out"), "--memory improved needs a model"),
        (("intervene", "source", "--memory", "best", "--run", "out"), "--memory 'best'"),
        (("intervene", "source", "--log", "x.jsonl"), "--log stands for itself"),
        (("intervene", "source", "--memory", "empty", "--run", "source"), "must be another folder"),
    ],
)
def test_a_command_that_cannot_be_used_says_why(
    run: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = awm(*arguments)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert len(result.stderr) < 300
    assert "{" not in result.stderr


def test_its_tables_fit_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    result = awm("intervene", "--log", write_table_3(tmp_path / "log.jsonl"))

    assert "…" not in result.stdout
    assert "mem. only" in result.stdout
