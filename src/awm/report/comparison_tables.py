"""The terminal tables of `awm compare`."""

from __future__ import annotations

from rich.console import Console

from awm.analysis.comparison import Cell, RunComparison
from awm.analysis.statistics.intervals import Estimate
from awm.counted import counted
from awm.memory import visible_line
from awm.report.cells import CELL_TITLES, SHORT_CELL_TITLES
from awm.report.intervals import interval_notes, is_bound
from awm.report.report_tables import Grid, print_grid, say
from awm.report.tables import format_share

_N_NAMED = 5


def print_comparison(compared: RunComparison, console: Console) -> None:
    """Print the differences, their tests, and what moved between the cells."""
    say(f"A  {compared.path_a}", console, style="bold")
    say(f"B  {compared.path_b}", console, style="bold")
    for line, differences in compared.crossed.items():
        say(f"OTHER {line.upper()}, compared on demand:", console, style="red")
        for difference in differences:
            say(f"  {difference}", console)
    say("settings that differ (A -> B):" if compared.settings else "same settings", console)
    for difference in compared.settings:
        say(f"  {difference}", console)
    say(f"{counted(compared.n_pairs, 'question', 'questions')} in both runs", console)
    for run, ids in (("A", compared.only_in_a), ("B", compared.only_in_b)):
        if ids:
            say(f"{len(ids)} only in {run}, left out: {_named(ids)}", console)
    for what, n in (
        ("a final", compared.n_answer_unmeasured),
        ("a memory-only", compared.n_memory_unmeasured),
    ):
        if n:
            say(f"{n} of them without {what} score in A or B, left out of its figures", console)
    console.print()
    print_grid(differences_grid(compared), console)
    for note in interval_notes(
        ((figure.title, figure.difference) for figure in compared.figures),
        "no document differs" if _is_same(compared) else "all documents differ alike",
    ):
        say(note, console, style="dim")
    console.print()
    print_grid(tests_grid(compared), console)
    say(
        "p: exact McNemar, two-sided. It takes questions as independent; the interval above does "
        "not, and is the one to quote. Of the four cells, compare p with 0.0125.",
        console,
        style="dim",
    )
    if any(a is not None and b is not None for a, b in compared.transitions):
        console.print()
        print_grid(transitions_grid(compared), console)


def differences_grid(compared: RunComparison) -> Grid:
    """Give the figures of both runs and B minus A, in points."""
    rows = tuple(
        (
            figure.title,
            format_share(figure.a),
            format_share(figure.b),
            _points(figure.difference.value),
            _interval_in_points(figure.difference),
            str(figure.difference.n),
        )
        for figure in compared.figures
    )
    return Grid(("figure", "A", "B", "B - A (points)", "95 % interval", "n"), rows)


def tests_grid(compared: RunComparison) -> Grid:
    """Give McNemar's tests."""
    titles = {"s_ans": "answer right", "s_mem": "memory-only answer right"}
    titles |= {cell.value: title for cell, title in CELL_TITLES.items()}
    rows = tuple(
        (
            titles[name],
            str(test.n_both),
            str(test.n_only_a),
            str(test.n_only_b),
            str(test.n_neither),
            _p_value(test.p_exact),
        )
        for name, test in compared.tests.items()
    )
    return Grid(("questions with", "both", "only A", "only B", "neither", "p"), rows)


def transitions_grid(compared: RunComparison) -> Grid:
    """Give the counts of moves from A's cell (row) to B's (column)."""
    cells: list[Cell] = list(CELL_TITLES)
    short = list(SHORT_CELL_TITLES.values())
    if any(None in move for move in compared.transitions):
        cells.append(None)
        short.append("unmeasured")
    rows = tuple(
        (
            CELL_TITLES[a] if a is not None else "unmeasured",
            *(str(compared.transitions.get((a, b), 0)) for b in cells),
        )
        for a in cells
    )
    return Grid(("from A (down) to B", *short), rows)


def _is_same(compared: RunComparison) -> bool:
    """Say whether the figures with a bound for an interval differ by nothing."""
    return all(
        figure.difference.value == 0 for figure in compared.figures if is_bound(figure.difference)
    )


def _named(ids: tuple[str, ...]) -> str:
    more = len(ids) - _N_NAMED
    names = ", ".join(visible_line(id_) for id_ in ids[:_N_NAMED])
    return names + (f" and {more} more (--json names all)" if more > 0 else "")


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f}"


def _interval_in_points(estimate: Estimate) -> str:
    if estimate.interval is None:
        return "-"
    return f"{_points(estimate.interval.low)} to {_points(estimate.interval.high)}"


def _p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"
