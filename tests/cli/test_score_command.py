"""`awm score`: rows in, rows with a score out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from awm.cli.main import app
from towns import write_jsonl

ROWS: list[dict[str, Any]] = [
    {"id": "a", "gold": "12", "pred": "12", "format": "Int"},
    {"id": "b", "gold": "12", "pred": "13", "format": "Int"},
    {"id": "c", "gold": "['x']", "pred": "__import__('os').abort()", "format": "List", "更": "✓"},
]


def score(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["score", *(str(argument) for argument in arguments)])


def test_rows_keep_their_fields_and_get_score_and_flags(tmp_path: Path) -> None:
    cases = write_jsonl(tmp_path / "cases.jsonl", ROWS)

    result = score(cases, "--benchmark", "mmlongbench-doc")

    assert result.exit_code == 0
    scored = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["score"] for row in scored] == [1.0, 0.0, 0.0]
    for before, after in zip(ROWS, scored, strict=True):
        assert before.items() <= after.items()
        assert isinstance(after["flags"], list)
    assert "3 rows, mean score 0.3333" in result.stderr


def test_rows_can_go_to_a_file(tmp_path: Path) -> None:
    cases = write_jsonl(tmp_path / "cases.jsonl", ROWS)
    out = tmp_path / "out.jsonl"

    result = score(cases, "--benchmark", "mmlongbench-doc", "--out", out)

    assert (result.exit_code, result.stdout) == (0, "")
    assert len(out.read_text().splitlines()) == 3


def test_no_rows_are_no_mean(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")

    result = score(tmp_path / "empty.jsonl", "--benchmark", "mmlongbench-doc")

    assert result.exit_code == 0
    assert "0 rows" in result.stderr
    assert "mean" not in result.stderr


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: a list, not an object with gold, pred, format"),
        ('{"gold": 1, "pred": 2}', "line 2, format: missing"),
        ('{"gold": 1, "format": "Int"}', "line 2, pred: missing"),
        ('{"gold": 1, "pred": 2, "format": 3}', "line 2, format: 3 is a number, not text"),
        ('{"gold": NaN, "pred": 2, "format": "Int"}', "line 2: not JSON"),
    ],
)
def test_a_faulty_row_is_named_by_its_line(tmp_path: Path, line: str, complaint: str) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(f"{json.dumps(ROWS[0])}\n{line}\n")

    result = score(cases, "--benchmark", "mmlongbench-doc")

    assert result.exit_code == 3
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_format_of_another_benchmark_is_refused_with_those_there_are(tmp_path: Path) -> None:
    cases = write_jsonl(tmp_path / "cases.jsonl", ROWS)

    result = score(cases, "--benchmark", "longdocurl", "--out", tmp_path / "out.jsonl")

    assert result.exit_code == 3
    assert "line 1, format: 'Int' is none of Integer, Float, String, List, None" in result.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_up_to_ten_faults_are_named_at_once_and_nothing_is_scored(tmp_path: Path) -> None:
    rows = [ROWS[0], *({"gold": 1, "pred": 1, "format": "Text"} for _ in range(20))]

    result = score(write_jsonl(tmp_path / "cases.jsonl", rows), "--benchmark", "mmlongbench-doc")

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.count(", format: 'Text' is none of") == 10
    assert "line 11, format" in result.stderr
    assert "line 12, format" not in result.stderr


def test_a_prediction_of_null_is_unmeasured_and_in_no_mean(tmp_path: Path) -> None:
    rows = [ROWS[0], {"gold": "12", "pred": None, "format": "Int"}]

    result = score(write_jsonl(tmp_path / "cases.jsonl", rows), "--benchmark", "mmlongbench-doc")

    scored = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["score"] for row in scored] == [1.0, None]
    assert (scored[1]["repaired"], scored[1]["repair_rules"]) == (None, [])
    assert "1 row, mean score 1.0000" in result.stderr
    assert "1 unmeasured (pred is null)" in result.stderr


def test_paths_and_names_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    cases = write_jsonl(tmp_path / "cases.jsonl", ROWS)
    out = tmp_path / "out.jsonl"
    known = ("--benchmark", "mmlongbench-doc")

    gone = score(tmp_path / "gone.jsonl", *known, "--out", out)
    assert (gone.exit_code, "cannot be read" in gone.stderr) == (3, True)
    assert not out.exists()
    unknown = score(cases, "--benchmark", "longdocul")
    assert unknown.exit_code == 2
    assert "is none of: " in unknown.stderr
    assert "did you mean 'longdocurl'?" in unknown.stderr
    same = score(cases, *known, "--out", cases)
    assert (same.exit_code, "another file than the cases" in same.stderr) == (2, True)
    assert len(cases.read_text().splitlines()) == 3
    nowhere = score(cases, *known, "--out", tmp_path / "none" / "out.jsonl")
    assert (nowhere.exit_code, "--out" in nowhere.stderr) == (2, True)
