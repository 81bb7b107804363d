"""The progress of a run: figures so far, failures, tokens and time left.

A bar that fits into 80 columns on a terminal, a line a minute in a log.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from awm.evaluate import Progress as RunProgress

LINE_EVERY_S = 60.0
"""Time between two lines in a log."""


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share as a percentage; a dash where it is not measured."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def describe(progress: RunProgress) -> str:
    """Say where a run stands: accuracy and P_mmc so far, failures, tokens.

    >>> describe(RunProgress(n_questions=8, n_unmeasured=1, prompt_tokens=1_234_000))
    'acc -  P_mmc -  1 failed  1.2M tok'
    """
    parts = [f"acc {percent(progress.final_accuracy)}", f"P_mmc {percent(progress.p_mmc)}"]
    if progress.n_unmeasured:
        parts.append(f"{progress.n_unmeasured} failed")
    tokens = progress.prompt_tokens + progress.completion_tokens
    if tokens:
        parts.append(f"{tokens / 1e6:.1f}M tok" if tokens >= 1e6 else f"{tokens / 1e3:.0f}k tok")
    return "  ".join(parts)


class _Bar:
    """Items done of all, what there is to say about them, and the time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            transient=True,
            disable=not console.is_terminal,  # else it would end with an empty line in a log
            speed_estimate_period=600.0,
        )
        self._task: TaskID | None = None
        self._line_at_s = time.monotonic() + LINE_EVERY_S

    def _show(self, n_done: int, n_all: int, figures: str) -> None:
        if not self._console.is_terminal:
            self._log(f"{n_done}/{n_all}  {figures}")
        elif self._task is None:
            # What earlier sessions did must not count as speed.
            self._task = self._bar.add_task("", total=n_all, completed=n_done, figures=figures)
        else:
            self._bar.update(self._task, completed=n_done, figures=figures)

    def _log(self, line: str) -> None:
        if time.monotonic() >= self._line_at_s:
            self._line_at_s = time.monotonic() + LINE_EVERY_S
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


class ProgressBar(_Bar):
    """Shows a run's progress on a console (stderr); call it as `on_progress`."""

    def __call__(self, progress: RunProgress) -> None:
        """Show where the run stands."""
        self._show(progress.n_done, progress.n_questions, describe(progress))


class StepBar(_Bar):
    """Shows the progress of work over a finished run; call it with (done, all, unmeasured).

    Args:
        console: where it is drawn.
        unit: what is counted, e.g. "findings".
    """

    def __init__(self, console: Console, unit: str) -> None:
        super().__init__(console)
        self._unit = unit

    def __call__(self, n_done: int, n_all: int, n_unmeasured: int) -> None:
        """Show where the work stands."""
        failed = f"  {n_unmeasured} unmeasured" if n_unmeasured else ""
        self._show(n_done, n_all, f"{self._unit}{failed}")
