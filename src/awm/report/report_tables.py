"""The tables of `awm report` and `awm compare`, as grids that a terminal and Markdown can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from awm.analysis.benchmark_report import Figures, PooledReport, RunReport
from awm.analysis.result_name import ResultName
from awm.analysis.scored_answers import RepairedAnswer
from awm.counted import counted
from awm.memory import visible_line
from awm.report.cells import CELL_TITLES
from awm.report.tables import format_interval, format_share

N_SHOWN = 10
"""Repaired answers that a terminal lists; Markdown and JSON have all."""
MAX_CELL_CHARS = 200
"""Longest text of an answer in a table."""

_CONTROL = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\t\n"
}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of texts."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_left: int = 1
    """So many of the first columns are texts, the rest numbers."""


def shown(value: object) -> str:
    """Write an answer for a table: on one line, visible characters only, cut where it is long."""
    text = visible_line(value if isinstance(value, str) else repr(value))
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def figures_grid(figures: Figures) -> Grid:
    """Official and repaired figures side by side."""
    rows = []
    for figure in figures.figures:
        official, repaired = figure.official, figure.repaired
        rows.append(
            (
                figure.title,
                format_share(official.value),
                format_interval(official),
                str(official.n),
                format_share(repaired.value),
                format_interval(repaired),
            )
        )
    headers = ("figure", "official", "95 % interval", "n", "repaired", "95 % interval")
    return Grid(headers, tuple(rows))


def cells_grid(figures: Figures) -> Grid | None:
    """Give counts and shares of the outcome cells; None where no memory was read."""
    if figures.cells is None or figures.outcomes is None:
        return None
    counts = figures.outcomes.as_dict()
    rows = [
        (
            CELL_TITLES[cell],
            str(counts[cell.value]),
            format_share(share.value),
            format_interval(share),
        )
        for cell, share in figures.cells.items()
    ]
    return Grid(("outcome cell", "count", "share", "95 % interval"), tuple(rows))


def groups_grid(figures: Figures, *, with_empty: bool) -> Grid:
    """Give the benchmark's groups; LongDocURL's with the official count that it divides by."""
    groups = [g for g in figures.groups if with_empty or g.accuracy.n or g.n_unmeasured]
    has_official = any(group.official_n is not None for group in groups)
    has_unmeasured = any(group.n_unmeasured for group in groups)
    headers = ["group", "accuracy", "95 % interval", "n"]
    headers += ["unmeasured"] if has_unmeasured else []
    headers += ["official", "of"] if has_official else []
    rows = []
    for group in groups:
        row = [
            group.name,
            format_share(group.accuracy.value),
            format_interval(group.accuracy),
            str(group.accuracy.n),
        ]
        row += [str(group.n_unmeasured)] if has_unmeasured else []
        if has_official:
            row += [format_share(group.official_accuracy), _text(group.official_n)]
        rows.append(tuple(row))
    return Grid(tuple(headers), tuple(rows))


def rules_grid(counts: dict[str, int]) -> Grid:
    """How many answers each repair changed."""
    return Grid(("repair", "answers"), tuple((rule, str(n)) for rule, n in counts.items()))


def repaired_grid(answers: Iterable[RepairedAnswer]) -> Grid:
    """List the answers whose repaired score is not the official one."""
    rows = tuple(
        (
            row.question_id,
            row.answer,
            shown(row.gold),
            shown(row.prediction),
            row.answer_format,
            ", ".join(row.rules),
            f"{row.official:.2f}",
            f"{row.repaired:.2f}",
        )
        for row in answers
    )
    headers = ("question", "answer", "gold", "given", "format", "repairs", "official", "repaired")
    return Grid(headers, rows, n_left=6)


def overview_grid(reports: Sequence[RunReport], pool: PooledReport | None) -> Grid:
    """One row a run, by its folder's name where that tells them apart, and the pool under them."""
    keys = {figure.key: figure.title for r in reports for figure in r.figures.figures}
    paths = [report.summary.path for report in reports]
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    rows = [
        (
            name,
            *(_headline(report.figures, key) for key in keys),
            str(report.summary.n),
        )
        for name, report in zip(names, reports, strict=True)
    ]
    if pool is not None:
        n = str(pool.figures.figures[0].official.n)
        rows.append(("pooled", *(_headline(pool.figures, key) for key in keys), n))
        rows.append(("(95 %)", *(_interval(pool.figures, key) for key in keys), ""))
    return Grid(("run", *keys.values(), "n"), tuple(rows))


def name_grid(name: ResultName) -> Grid:
    """List the parts of a result's name."""
    return Grid(("", ""), tuple((label, visible_line(part)) for label, part in name.parts()), 2)


def _headline(figures: Figures, key: str) -> str:
    return format_share(next((f.official.value for f in figures.figures if f.key == key), None))


def _interval(figures: Figures, key: str) -> str:
    return next((format_interval(f.official) for f in figures.figures if f.key == key), "-")


def _text(value: int | None) -> str:
    return "-" if value is None else str(value)


def print_reports(
    reports: Sequence[RunReport], pool: PooledReport | None, console: Console
) -> None:
    """Print runs one after another, or their pool with a row for each."""
    if len(reports) > 1:
        print_grid(overview_grid(reports, pool), console)
        console.print()
    if pool is not None:
        say(f"{counted(len(reports), 'run', 'runs')} pooled", console, style="bold")
        _print_name(pool.name, console)
        console.print()
        _print_figures(pool.figures, console)
        for note in pool.notes:
            _note(note, console)
    for number, report in enumerate(reports):
        if pool is None:
            print_report(report, console)
            if number + 1 < len(reports):
                console.print()
        else:
            say(f"run {report.summary.path}:", console, style="bold")
            _print_limits(report, console)


def print_report(report: RunReport, console: Console) -> None:
    """Print all that a run's report says."""
    summary = report.summary
    say(f"run {summary.path}", console, style="bold")
    _print_name(report.name, console)
    unmeasured = f", {summary.n_unmeasured} unmeasured" if summary.n_unmeasured else ""
    questions = counted(summary.n_questions, "question", "questions")
    say(f"{summary.n} of {questions} measured{unmeasured}", console)
    console.print()
    _print_figures(report.figures, console)
    _print_repairs(report, console)
    _print_limits(report, console)


def _print_name(name: ResultName, console: Console) -> None:
    print_grid(name_grid(name), console, show_header=False)


def _print_figures(figures: Figures, console: Console) -> None:
    for grid in (
        figures_grid(figures),
        cells_grid(figures),
        groups_grid(figures, with_empty=False),
    ):
        if grid is not None and grid.rows:
            print_grid(grid, console)
            console.print()


def _print_repairs(report: RunReport, console: Console) -> None:
    n = len(report.differences)
    say(repaired_sentence(report), console)
    if not n:
        return
    print_grid(rules_grid(report.rule_counts), console)
    for row in report.differences[:N_SHOWN]:
        say(
            f"  {row.official:.2f} -> {row.repaired:.2f}  {row.question_id} ({row.answer}, "
            f"{row.answer_format}): gold {shown(row.gold)}, given {shown(row.prediction)} "
            f"[{', '.join(row.rules)}]",
            console,
        )
    if n > N_SHOWN:
        say(f"  … and {n - N_SHOWN} more: --markdown FILE lists all", console)


def repaired_sentence(report: RunReport) -> str:
    """Say how many answers the repairs change."""
    n = len(report.differences)
    answers = counted(report.n_answers, "answer", "answers")
    if not n:
        every = "" if report.n_answers == 1 else "all "
        return f"Official and repaired scores agree on {every}{answers}."
    return f"Repaired scores differ on {n} of {answers}:"


def _print_limits(report: RunReport, console: Console) -> None:
    say(routing_sentence(report), console)
    for note in report.notes:
        _note(note, console)


def routing_sentence(report: RunReport) -> str:
    """Say whether every episode read its own question's document."""
    routing = report.summary.routing
    if routing.mismatched:
        checked = counted(routing.n_checked, "episode", "episodes")
        return f"Routing FAILED for {len(routing.mismatched)} of {checked}."
    if routing.n_checked == 1:
        return "Routing verified: the episode read its question's document."
    return f"Routing verified: all {routing.n_checked} episodes read their question's document."


def _note(text: str, console: Console) -> None:
    say(f"- {text}", console, style="red" if text.startswith("ROUTING") else "")


def say(text: str, console: Console, style: str = "") -> None:
    """Print a line, folded at words on a terminal and left whole in a file."""
    console.print(Text(_plain(text), style=style), soft_wrap=not console.is_terminal)


def _plain(text: str) -> str:
    """Replace control characters: names of questions and documents come from datasets."""
    return text.translate(_CONTROL)


def print_grid(grid: Grid, console: Console, *, show_header: bool = True) -> None:
    """Print a grid as a table; texts may fold, numbers never do."""
    table = Table(box=None, pad_edge=False, show_header=show_header)
    for number, header in enumerate(grid.headers):
        if number < grid.n_left:
            table.add_column(Text(header), overflow="fold")
        else:
            table.add_column(Text(header), justify="right", no_wrap=True)
    for row in grid.rows:
        table.add_row(*(Text(_plain(cell)) for cell in row))
    console.print(table)
