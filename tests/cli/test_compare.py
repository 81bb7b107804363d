"""`awm compare`: two runs side by side, and the comparisons it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awm.cli.main import app
from made_runs import Made, make_run

A = (
    Made("q1", "d1", "Oslo", "Oslo", "Oslo"),
    Made("q2", "d2", "Oslo", "Rome", "Rome"),
    Made("q3", "d3", "Oslo", "Rome", "Oslo"),
)
B = (
    Made("q1", "d1", "Oslo", "Oslo", "Rome"),
    Made("q2", "d2", "Oslo", "Oslo", "Oslo"),
    Made("q4", "d3", "Oslo", "Oslo", "Oslo"),
)


def compare(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ["compare", *map(str, arguments)], env={"COLUMNS": "80", "TERM": "dumb"}
    )
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    a = make_run(tmp_path / "a", A).path
    return a, make_run(tmp_path / "b", B, model={"temperature": 0.7}).path


def test_a_comparison_tells_differences_tests_and_moves(runs: tuple[Path, Path]) -> None:
    code, out, err = compare(*runs)

    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "model.temperature: None -> 0.7" in lines
    assert "2 questions in both runs" in lines
    assert "1 only in A, left out: q3" in lines
    assert "1 only in B, left out: q4" in lines
    assert any(line.startswith("final accuracy 50.0 % 100.0 % +50.0") for line in lines)
    assert "answer right 1 0 1 0 1.0000" in lines
    assert "memory-supported correct 0 1 0 0" in lines
    assert "unresolved error 1 0 0 0" in lines


def test_an_interval_that_is_a_bound_says_so(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", A).path
    b = make_run(tmp_path / "b", A, model={"temperature": 0.7}).path

    out = " ".join(compare(a, b)[1].split())

    assert "no document differs, so the interval is a bound from 3 documents." in out


def test_json_holds_the_same(runs: tuple[Path, Path]) -> None:
    found = json.loads(compare(*runs, "--json")[1])

    assert found["figures"]["accuracy"]["difference_b_minus_a"]["value"] == 0.5
    assert found["mcnemar"]["s_ans"]["n_only_b"] == 1
    assert {"a": "unresolved_error", "b": "memory_supported_correct", "n": 1} in found[
        "transitions"
    ]
    assert (found["only_in_a"], found["only_in_b"]) == (["q3"], ["q4"])


def test_other_extractors_are_refused_unless_told_to(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", A).path
    b = make_run(tmp_path / "b", B, extractor="openai:gpt-4o@http://x").path

    code, out, err = compare(a, b)
    assert (code, out) == (2, "")
    assert "extractor: None -> 'openai:gpt-4o@http://x'" in err
    assert "--across-extractors" in err

    code, out, _ = compare(a, b, "--across-extractors")
    assert code == 0
    assert "OTHER EXTRACTORS, compared on demand:" in out
    assert compare(a, b, "--across-judges")[0] == 2


def test_other_datasets_and_judges_have_flags_of_their_own(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", A).path
    b = make_run(tmp_path / "b", B, judge="longdocurl", dataset={"dataset_hash": "e" * 64}).path

    code, _, err = compare(a, b, "--across-judges")
    assert code == 2
    assert "--across-datasets" in err
    assert compare(a, b, "--across-judges", "--across-datasets")[0] == 0
