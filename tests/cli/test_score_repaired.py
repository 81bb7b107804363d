"""`awm score` gives the repaired score and its rules beside the official one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awm.cli.main import app


@pytest.mark.parametrize(
    ("benchmark", "case", "official", "repaired", "rule"),
    [
        ("mmlongbench-doc", (1234, "1,234", "Int"), 0.0, 1.0, "thousands_separators"),
        ("mmlongbench-doc", (5, "5.9", "Int"), 1.0, 0.0, "int_truncation"),
        ("mmlongbench-doc", (5, "5", "Int"), 1.0, 1.0, None),
        ("longdocurl", ("Adam", "Ada", "String"), 1.0, 0.75, "unit_letters"),
        ("longdocurl", (5, "5.0", "Integer"), 0.0, 1.0, "same_number"),
    ],
)
def test_every_row_has_both_scores_and_the_rules(
    tmp_path: Path,
    benchmark: str,
    case: tuple[object, str, str],
    official: float,
    repaired: float,
    rule: str | None,
) -> None:
    cases = tmp_path / "cases.jsonl"
    row = dict(zip(("gold", "pred", "format"), case, strict=True)) | {"id": 7}
    cases.write_text(json.dumps(row) + "\n")

    result = CliRunner().invoke(app, ["score", str(cases), "--benchmark", benchmark])

    scored = json.loads(result.stdout)
    assert result.exit_code == 0
    assert scored["id"] == 7
    assert (scored["score"], scored["repaired"]) == (official, repaired)
    assert scored["repair_rules"] == [] if rule is None else rule in scored["repair_rules"]
    n_differ = 0 if rule is None else 1
    assert f"mean score {official:.4f}; repaired {repaired:.4f}" in result.stderr
    assert f"differs on {n_differ} row" in result.stderr
