"""`awm report`: what is printed, written and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awm.cli.main import app
from made_runs import FAILED, Made, make_run

ROWS = (
    Made("q1", "d1", "Oslo", "Oslo", "Rome"),
    Made("q2", "d2", 1234, "1,234", "1234", format="Int"),
    Made("q3", "d3", "Bern", FAILED, FAILED),
)


def report(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        app, ["report", *map(str, arguments)], env={"COLUMNS": "80", "TERM": "dumb"}
    )
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", ROWS).path


def test_a_report_names_the_result_and_gives_figures_groups_and_limits(run: Path) -> None:
    code, out, err = report(run)

    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "judge mmlongbench-doc" in lines
    assert "2 of 3 questions measured, 1 unmeasured" in lines
    assert "figure official 95 % interval n repaired 95 % interval" in lines
    assert any(line.startswith("accuracy 50.0 %") for line in lines)
    assert any(line.startswith("memory-missing correct 1 50.0 %") for line in lines)
    assert any(line.startswith("single-page 50.0 %") for line in lines)
    assert "Repaired scores differ on 1 of 4 answers:" in lines
    assert any(
        line.startswith("0.00 -> 1.00 q2 (final, Int): gold 1234, given 1,234") for line in lines
    )
    assert "Routing verified: all 3 episodes read their question's document." in lines
    assert any("EndpointTimeoutError x1" in line for line in lines)
    tables = [line for line in out.splitlines() if not line.startswith(("- ", "run ", "  0."))]
    assert max(map(len, tables)) <= 80


def test_json_is_one_object_with_every_figure(run: Path) -> None:
    code, out, _ = report(run, "--json")

    found = json.loads(out)
    assert code == 0
    assert found["pooled"] is None
    (one,) = found["runs"]
    assert one["figures"]["accuracy"]["official"]["value"] == 0.5
    assert one["figures"]["accuracy"]["repaired"]["value"] == 1.0
    assert one["groups"][0]["name"] == "single-page"
    assert one["repaired_answers"][0]["question_id"] == "q2"
    assert one["routing"] == {"n_checked": 3, "mismatched": []}
    assert one["n_repaired"] == 1


def test_markdown_lists_every_repaired_answer_and_executes_nothing(tmp_path: Path) -> None:
    rows = [
        Made(f"q{i}", f"d{i}", 1000 + i, f"1,{i:03d}", "x|y <script>\n", format="Int")
        for i in range(15)
    ]
    run = make_run(tmp_path / "run", rows).path
    file = tmp_path / "report.md"

    code, out, err = report(run, "--markdown", file)

    assert code == 0
    assert f"Wrote {file}" in err
    assert "… and 5 more: --markdown FILE lists all" in out
    text = file.read_text(encoding="utf-8")
    assert all(f"| q{i} | final | {1000 + i} |" in text for i in range(15))
    assert "<script>" not in text
    for block in text.split("\n\n"):
        table = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in table}) <= 1


def test_text_of_models_cannot_reach_the_terminal_as_escapes(tmp_path: Path) -> None:
    rows = [Made("q\x1b[31m1", "d1", "less well off", "\x1b]0;x\x07Less well-off.")]
    run = make_run(tmp_path / "run", rows).path

    code, out, _ = report(run)

    assert code == 0
    assert "\x1b" not in out
    assert "\x07" not in out


def test_seeds_are_pooled_with_a_row_for_each_run(tmp_path: Path) -> None:
    runs = [
        make_run(
            tmp_path / f"s{seed}",
            [Made("q1", "d1", "Oslo", answer, "Oslo"), Made("q2", "d2", "Oslo", "Oslo", "Oslo")],
            model={"seed": seed},
        ).path
        for seed, answer in enumerate(("Oslo", "Rome", "Rome"))
    ]

    code, out, _ = report(*runs, "--pool")
    assert code == 0
    assert "3 runs pooled" in out
    pooled = next(line for line in out.splitlines() if line.startswith("pooled"))
    assert pooled.split()[1:3] == ["66.7", "%"]

    found = json.loads(report(*runs, "--pool", "--json")[1])["pooled"]
    assert found["seeds"] == [0, 1, 2]
    assert found["figures"]["accuracy"]["official"]["value"] == pytest.approx(4 / 6)


def test_runs_that_cannot_be_pooled_are_refused_with_their_differences(
    run: Path, tmp_path: Path
) -> None:
    other = make_run(tmp_path / "other", ROWS, setting="ep-given").path

    code, out, err = report(run, other, "--pool")

    assert (code, out) == (2, "")
    assert "setting: 'agent' -> 'ep-given'" in err
    assert report(run, other)[0] == 0


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    code, _, err = report(tmp_path)

    assert code == 3
    assert "is not a run" in err


def test_a_markdown_file_that_is_there_is_replaced_only_on_demand(
    run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("mine")

    code, out, err = report(run, "--markdown", file)

    assert (code, out, file.read_text()) == (2, "", "mine")
    assert "is there already: --force replaces it" in err
    assert report(run, "--markdown", file, "--force")[0] == 0
    assert file.read_text().startswith("# Report")


def test_a_reader_that_failed_everywhere_leaves_the_final_answers_measured(tmp_path: Path) -> None:
    rows = [Made(f"q{i}", f"d{i}", "Oslo", "Oslo", FAILED) for i in range(3)]
    run = make_run(tmp_path / "run", rows).path

    out = " ".join(report(run)[1].split())

    assert "memory-only not measured for 3" in out
    assert "final answer not measured" not in out


@pytest.mark.parametrize("name", ["scores.jsonl", "manifest.json"])
def test_a_damaged_run_is_told_in_one_sentence(run: Path, name: str) -> None:
    lines = (run / name).read_text().splitlines(keepends=True)
    (run / name).write_text("".join(['{"broken\n', *lines[1:]]))

    code, out, err = report(run)

    assert (code, out) == (3, "")
    assert f"{name}" in err
    assert "damaged" in err
    assert "http" not in err
    assert "input_value" not in err
    assert len(err) < 400


def test_a_markdown_file_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    code, _, err = report(run, "--markdown", tmp_path / "gone" / "x.md")

    assert code == 2
    assert "--markdown" in err
