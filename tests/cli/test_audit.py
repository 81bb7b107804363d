"""`awm audit sample` and `awm audit read`, from a run to a verdict on its scores."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from typer.testing import CliRunner

from awm.cli.main import app
from made_runs import Made, make_run


def audit(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ["audit", *map(str, arguments)], env={"COLUMNS": "80", "TERM": "dumb"}
    )
    return result.exit_code, result.stdout, result.stderr


def make_sheet(tmp_path: Path) -> Path:
    rows = [
        Made(f"q{i}", f"d{i}", "Oslo", "Oslo" if i % 2 else "City of Oslo", "Oslo")
        for i in range(6)
    ]
    run = make_run(tmp_path / "run", rows).path
    sheet = tmp_path / "audit.csv"
    code, out, err = audit("sample", run, "-n", "4", "--out", sheet, "--seed", "3")
    assert (code, out) == (0, "")
    assert "answering error 2 of 3, memory-supported correct 2 of 3" in err
    assert f"awm audit read {sheet}" in " ".join(err.split())
    return sheet


def test_an_audit_goes_from_a_sample_to_agreement(tmp_path: Path) -> None:
    sheet = make_sheet(tmp_path)
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["final_correct"] = "yes"
        row["kind"] = "alias" if row["final_official"] == "0" else ""
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

    code, out, err = audit("read", sheet)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "4 of 4 rows have a verdict, 0 have none" in lines
    assert any(line.startswith("final answer 4 0 0 50.0 %") for line in lines)
    assert "final answer 0 2 0.5000" in lines
    assert "alias 2" in lines
    assert max(map(len, out.splitlines())) <= 80

    found = json.loads(audit("read", sheet, "--json")[1])
    assert found["kinds"] == {"alias": 2}
    assert found["aspects"]["final_correct"]["n_too_strict"] == 2


def test_a_sheet_is_not_overwritten(tmp_path: Path) -> None:
    sheet = make_sheet(tmp_path)
    before = sheet.read_bytes()

    code, _, err = audit("sample", tmp_path / "run", "--out", sheet)

    assert code == 2
    assert "is there already" in err
    assert sheet.read_bytes() == before


def test_a_file_that_is_no_sheet_exits_3(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")

    code, _, err = audit("read", tmp_path / "x.csv")

    assert code == 3
    assert "has no column" in err
