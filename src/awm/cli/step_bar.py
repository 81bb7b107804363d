"""The progress bar of work over a finished run: what is done, and what stays unmeasured."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class StepBar:
    """Shows progress on a console (stderr); call it with (done, all, unmeasured).

    Args:
        console: where it is drawn.
        unit: what is counted, e.g. "findings".
    """

    def __init__(self, console: Console, unit: str) -> None:
        self._bar = Progress(
            TextColumn(f"[bold]{unit}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,  # else it would end with an empty line in a log
        )
        self._task: TaskID | None = None

    def __call__(self, n_done: int, n_all: int, n_unmeasured: int) -> None:
        """Show where the work stands."""
        note = f"[red]{n_unmeasured} unmeasured[/red]" if n_unmeasured else ""
        if self._task is None:
            # What earlier sessions did must not count as speed.
            self._task = self._bar.add_task("", total=n_all, completed=n_done, note=note)
            return
        self._bar.update(self._task, completed=n_done, note=note)

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
