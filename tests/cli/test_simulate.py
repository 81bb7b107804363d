from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from awm.cli.main import app

CELLS = [
    "memory_supported_correct",
    "memory_missing_correct",
    "answering_error",
    "unresolved_error",
]


def simulate(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["simulate", "--json", *arguments])
    assert result.exit_code == 0, result.stderr
    return orjson.loads(result.stdout)


def test_one_mixture_gives_both_rewards_by_both_methods() -> None:
    rows = simulate("--mixture", "0.4,0.2,0.1,0.3")

    assert [(row["reward"], row["method"]) for row in rows] == [
        ("awm", "exact"),
        ("awm", "monte_carlo"),
        ("answer_only", "exact"),
        ("answer_only", "monte_carlo"),
    ]
    for row in rows:
        assert row["mixture"] == {"p11": 0.4, "p10": 0.2, "p01": 0.1, "p00": 0.3}
        assert list(row["advantages"]) == CELLS
    for known, drawn in (rows[:2], rows[2:]):
        for cell in CELLS:
            distance = abs(drawn["advantages"][cell] - known["advantages"][cell])
            assert distance <= 4 * drawn["standard_errors"][cell]


def test_the_rows_raise_p11_through_the_crossing() -> None:
    rows = simulate("--method", "exact")
    awm = [row for row in rows if row["reward"] == "awm"]
    p11 = [row["mixture"]["p11"] for row in awm]
    missing = [row["advantages"]["memory_missing_correct"] for row in awm]

    assert len(rows) == 2 * len(awm) == 38
    assert p11 == sorted(p11)
    assert missing[0] > 0 > missing[-1]
    assert all(row["advantages"]["memory_supported_correct"] > 0 for row in awm)


def test_a_cell_without_probability_is_null() -> None:
    rows = simulate("--mixture", "0.5,0.5,0,0")
    assert all(row["advantages"]["unresolved_error"] is None for row in rows)


def test_options_reach_the_computation() -> None:
    rows = simulate(
        *("--mixture", "0.4,0.2,0.1,0.3", "--rewards", "2,1,0.5,0", "--group-size", "2"),
        *("--ddof", "1", "--groups", "40", "--seed", "7"),
    )
    assert rows[0]["rewards"] == dict(zip(CELLS, (2, 1, 0.5, 0), strict=True))
    assert rows[0]["group_size"] == 2
    # Of two with the sample deviation, the better gets +1/sqrt(2): (0.6 - 0) / sqrt(2).
    assert rows[0]["advantages"]["memory_supported_correct"] == pytest.approx(
        0.6 / 2**0.5, abs=1e-5
    )
    assert (rows[1]["n_groups"], rows[1]["seed"], rows[1]["ddof"]) == (40, 7, 1)
    assert rows[0]["n_groups"] is None


def test_sensitivity_lists_crossings() -> None:
    rows = simulate("--sensitivity")
    by_size = {row["group_size"]: row["mixture"]["p11"] for row in rows[:5]}
    assert by_size[8] == pytest.approx(0.52972, abs=1e-5)
    assert by_size[2] == pytest.approx(0.4, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "turns negative at p11 = 0.5297"),
        (["--rest", "0,1,1", "--groups", "50"], "standard errors off"),
        (["--mixture", "0.4,0.2,0.1,0.3", "--groups", "50"], "monte carlo"),
        (["--sensitivity"], "0.5297"),
    ],
)
def test_without_json_a_table_is_printed(arguments: list[str], expected: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 0, result.stderr
    assert expected in result.stdout
    assert "…" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mixture", "0.4,0.2,0.1"], "has 3 values; give 4"),
        (["--mixture", "0.4,0.2,0.1,0.3,0"], "has 5 values; give 4"),
        (["--mixture", "0.5,0.5,0.5,0.5"], "must add up to 1"),
        (["--mixture", "-0.1,0.5,0.3,0.3"], "p11: Input should be greater than or equal to 0"),
        (["--mixture", "nan,0,0,1"], "finite"),
        (["--mixture", "x,0,0,1"], "could not convert string to float: 'x'"),
        (["--group-size", "1"], "--group-size: Input should be greater than or equal to 2"),
        (["--groups", "0"], "--groups: Input should be greater than or equal to 1"),
        (["--ddof", "2"], "--ddof"),
        (["--rewards", "0.7,1,0.2,0"], "break the order"),
        (["--rewards", "1,0.7"], "has 2 values; give 4"),
        (["--rest", "0,0,0"], "all three shares are 0"),
        (["--rest", "0,1,1", "--sensitivity"], "no share of 1 - p11"),
        (["--figure", "curve.gif"], "use one of: .svg, .png, .pdf"),
        (["--figure", "a.svg", "--mixture", "1,0,0,0"], "--mixture is a single point"),
        (["--figure", "a.svg", "--sensitivity"], "leave out --figure"),
    ],
)
def test_bad_input_is_named_and_exits_with_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_figure_is_written_and_repeats_itself(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `figures`")
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    for path in (first, second):
        simulate("--groups", "200", "--figure", str(path))
    assert first.stat().st_size > 5_000
    assert first.read_bytes() == second.read_bytes()
    if ending == "svg":
        text = first.read_text()
        assert "(1,0) memory-missing correct" in text
        assert "at p11 = 0.530" in text


def test_a_figure_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `figures`")
    path = tmp_path / "missing" / "curve.svg"
    result = CliRunner().invoke(app, ["simulate", "--method", "exact", "--figure", str(path)])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_a_figure_without_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(
        app, ["simulate", "--method", "exact", "--figure", str(tmp_path / "curve.svg")]
    )
    assert result.exit_code == 2
    assert "pip install -e '.[figures]'" in result.stderr
