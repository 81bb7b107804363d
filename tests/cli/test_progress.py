"""The progress of a run, on a terminal and in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from awm.cli.progress import ProgressBar, StepBar
from awm.evaluate import Progress
from awm.scoring.outcome import Outcome


def make_progress(n_done: int) -> Progress:
    progress = Progress(n_questions=1082, n_done=n_done, n_unmeasured=3, prompt_tokens=12_345_678)
    progress.final_sum, progress.n_final = 583.2, 1079
    progress.cells[Outcome.MEMORY_SUPPORTED_CORRECT] = 828
    progress.cells[Outcome.MEMORY_MISSING_CORRECT] = 172
    return progress


def test_the_bar_fits_into_80_columns_and_shows_every_figure() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)

    with ProgressBar(console) as bar:
        bar(make_progress(1000))
        bar(make_progress(1001))

    shown = out.getvalue()
    for figure in ("1001/1082", "acc 54.1 %", "P_mmc 17.2 %", "3 failed", "12.3M tok", "left"):
        assert figure in shown


def test_a_log_gets_no_bar() -> None:
    out = io.StringIO()

    with ProgressBar(Console(file=out)) as bar:
        bar(make_progress(1000))

    assert out.getvalue() == ""


def test_work_over_a_run_shows_what_is_counted_and_what_stays_unmeasured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    with StepBar(
        Console(file=out, force_terminal=True, width=80, color_system=None), "findings"
    ) as b:
        b(3, 40, 0)
        b(4, 40, 1)
    assert "4/40 findings  1 unmeasured" in out.getvalue()

    log = io.StringIO()
    monkeypatch.setattr("awm.cli.progress.LINE_EVERY_S", -1.0)
    with StepBar(Console(file=log), "findings") as b:
        b(4, 40, 1)
    assert log.getvalue() == "4/40  findings  1 unmeasured\n"
