"""Terminal tables of a controlled memory comparison."""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.table import Table

from awm.analysis.interventions.figures import (
    ArmAudit,
    ArmDifference,
    CellRow,
    InterventionReport,
)
from awm.analysis.interventions.records import Arm
from awm.analysis.statistics.intervals import Estimate
from awm.counted import counted
from awm.report.cells import CELL_LEGEND, SHORT_CELL_TITLES
from awm.report.intervals import interval_notes
from awm.report.tables import format_interval, format_share

_SHORT_CELLS = {
    **{cell.value: title for cell, title in SHORT_CELL_TITLES.items()},
    "unmeasured": "unmeasured",
}
_MEASURES = {"final": "final", "memory": "memory"}


def print_intervention(report: InterventionReport, console: Console) -> None:
    """Print the rates, the differences, the breakdown, the audits and what limits them."""
    _say(console, _heading(report))
    console.print(_rates(report))
    if report.differences:
        console.print(_differences(report.differences))
    for note in _interval_notes(report):
        _say(console, note)
    console.print(_breakdown(report))
    if report.cell_transitions:
        console.print(_transitions(report))
    console.print(CELL_LEGEND, style="dim", highlight=False, soft_wrap=True)
    for line in _audit_lines(report):
        _say(console, line)
    for warning in report.warnings:
        _say(console, f"WARNING: {warning}.")
    if report.n_unmeasured:
        _say(
            console,
            f"{counted(report.n_unmeasured, 'pair of answers is', 'pairs of answers are')} "
            "unmeasured; the same command retries what failed."
            if report.title.get("run")
            else f"{counted(report.n_unmeasured, 'row is', 'rows are')} unmeasured.",
        )


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _heading(report: InterventionReport) -> str:
    title = report.title
    questions = counted(report.n_questions, "question", "questions")
    if "log" in title:
        return f"{title['log']}: {questions}, binary rates (score > 0)"
    sees = "sees the gold pages" if title["generator_sees_pages"] else "sees no page"
    left_out = sum(title["n_left_out"].values())
    reasons = "; ".join(f"{n} {reason}" for reason, n in title["n_left_out"].items())
    return (
        f"{title['benchmark']}, {questions} of {title['source']} "
        f"({title['source_setting']}), binary rates (score > 0): generator {title['generator']} "
        f"({sees}), reader {title['reader']}, improved by {title['writer'] or '-'}, judge "
        f"{title['judge']}" + (f"; {left_out} left out ({reasons})" if left_out else "")
    )


def _interval_notes(report: InterventionReport) -> list[str]:
    rates = [
        (f"{measure} of {figures.arm}", estimate)
        for figures in report.arms
        for measure, estimate in (("final", figures.final), ("memory only", figures.memory))
    ]
    differences = [
        (f"{_MEASURES[each.measure]} ({each.minuend} - {each.subtrahend})", each.difference)
        for each in report.differences
    ]
    return interval_notes(rates) + interval_notes(differences, "all documents differ alike")


def _table(*columns: str, left: int = 1) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if number < left else "right"
        table.add_column(column, justify=justify, no_wrap=True)
    return table


def _rates(report: InterventionReport) -> Table:
    table = _table("memory", "final", "95 %", "right", "mem. only", "95 %", "right", "n")
    for figures in report.arms:
        table.add_row(
            figures.arm,
            format_share(figures.final.value),
            format_interval(figures.final),
            str(figures.n_final),
            format_share(figures.memory.value),
            format_interval(figures.memory),
            str(figures.n_memory),
            str(figures.n),
        )
    return table


def _differences(differences: tuple[ArmDifference, ...]) -> Table:
    table = _table(
        "difference", "measure", "points", "95 %", "gained", "lost", "change", "p", "n", left=2
    )
    for each in differences:
        test = each.test
        table.add_row(
            f"{each.minuend} - {each.subtrahend}",
            _MEASURES[each.measure],
            _signed_points(each.difference),
            format_interval(each.difference),
            str(test.n_only_a),
            str(test.n_only_b),
            f"{each.change:+d}",
            format_p(test.p_exact),
            str(each.difference.n),
        )
    return table


def _signed_points(estimate: Estimate) -> str:
    return "-" if estimate.value is None else f"{100 * estimate.value:+.1f}"


def format_p(p: float) -> str:
    """Write a p-value: three digits, or that it is below what they show."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _breakdown(report: InterventionReport) -> Table:
    arms: list[Arm] = [figures.arm for figures in report.arms]
    columns = [f"{measure}\n{arm}" for measure in ("final", "memory") for arm in arms]
    table = _table(f"by cell of\n{report.cells_from}", "n", *columns)
    for row in report.by_cell:
        table.add_row(_SHORT_CELLS[row.cell], str(row.n), *_counts(row, arms))
    totals = [
        str(sum(row.counts[arm][measure] for row in report.by_cell))
        for measure in ("final", "memory")
        for arm in arms
    ]
    table.add_row("all", str(sum(row.n for row in report.by_cell)), *totals)
    return table


def _counts(row: CellRow, arms: list[Arm]) -> list[str]:
    return [str(row.counts[arm][measure]) for measure in ("final", "memory") for arm in arms]


def _transitions(report: InterventionReport) -> Table:
    cells = list(report.cell_transitions)
    table = _table("from original\nto improved", *(_SHORT_CELLS[cell] for cell in cells), "all")
    for cell, row in report.cell_transitions.items():
        counts = [row[other] for other in cells]
        table.add_row(_SHORT_CELLS[cell], *map(str, counts), str(sum(counts)))
    return table


def _audit_lines(report: InterventionReport) -> list[str]:
    lines = []
    if report.writing is not None:
        w = report.writing
        lines.append(
            f"writing: {counted(w['n_memories'], 'improved memory', 'improved memories')} of "
            f"{counted(w['n_findings'], 'finding', 'findings')}; "
            f"{counted(w['n_refusals'], 'refusal', 'refusals')}, "
            f"{counted(w['n_retried'], 'memory', 'memories')} written twice, {w['n_lost']} refused "
            f"for good, {w['n_empty']} left empty"
        )
    for audit in report.audits:
        if audit.arm != "empty" and audit.n_memories:
            lines += _audit_of(audit)
    return lines


def _audit_of(audit: ArmAudit) -> list[str]:
    lines = []
    if audit.n_with_pages:
        lines.append(
            f"{audit.arm}: {audit.n_cite_gold} of "
            f"{counted(audit.n_with_pages, 'memory', 'memories')} cite a gold page, "
            f"{audit.n_cite_only_gold} cite nothing else ({audit.n_empty} are empty)"
        )
    if audit.n_exact_known:
        lines.append(
            f"{audit.arm}: {audit.n_exact} of "
            f"{counted(audit.n_exact_known, 'memory', 'memories')} hold the exact gold "
            f"answer; of the {counted(audit.n_remaining, 'other', 'others')} "
            f"{format_share(audit.remaining.value)} "
            f"({audit.n_remaining_positive}; 95 %: {format_interval(audit.remaining)}) are "
            "memory-answerable, on another subset"
        )
    return lines
