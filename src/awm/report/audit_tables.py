"""The terminal tables of a manual audit."""

from __future__ import annotations

from rich.console import Console

from awm.analysis.manual_audit.verdicts import AspectAgreement, AuditResult
from awm.analysis.statistics.intervals import Interval
from awm.counted import counted
from awm.report.cells import CELL_TITLES
from awm.report.report_tables import Grid, print_grid, say
from awm.report.tables import format_share
from awm.scoring.outcome import Outcome

_TITLES = {
    "final_correct": "final answer",
    "memory_correct": "memory-only answer",
    "memory_supports": "memory supports it",
}


def print_audit(result: AuditResult, console: Console) -> None:
    """Print the agreement of person and scores, and what they disagree about."""
    judged = result.n_rows - result.n_untouched
    rows = counted(result.n_rows, "row has", "rows have")
    say(f"{judged} of {rows} a verdict, {result.n_untouched} have none", console)
    console.print()
    print_grid(_sample_grid(result), console)
    console.print()
    print_grid(_weighted_grid(result), console)
    console.print()
    print_grid(_sides_grid(result), console)
    if result.cells_without_verdict:
        cells = ", ".join(cell_title(cell) for cell in result.cells_without_verdict)
        say(f"No final answer judged in: {cells}. Weighted figures leave them out.", console)
    console.print()
    if result.kinds:
        kinds = tuple((kind, str(n)) for kind, n in result.kinds.items())
        print_grid(Grid(("disagreement", "rows"), kinds), console)
    else:
        say("No disagreement about an answer.", console)


def _sample_grid(result: AuditResult) -> Grid:
    rows = tuple(
        (
            _TITLES[name],
            str(found.n),
            str(found.n_unfilled),
            str(found.n_unclear),
            format_share(found.agreement),
            _interval(found.agreement_interval),
            _kappa(found.kappa.kappa),
            _kappa(found.kappa_repaired.kappa),
        )
        for name, found in result.aspects.items()
    )
    headers = ("in the sample", "n", "empty", "unclear", "agree", "95 %", "kappa", "repaired")
    return Grid(headers, rows)


def _weighted_grid(result: AuditResult) -> Grid:
    rows = tuple(
        (
            _TITLES[name],
            format_share(found.weighted_agreement),
            _interval(found.weighted_interval),
            _kappa(found.weighted_kappa),
            format_share(found.weighted_right_officially),
            format_share(found.weighted_right_by_person),
        )
        for name, found in result.aspects.items()
    )
    headers = ("weighted to the run", "agree", "95 %", "kappa", "right: score", "person")
    return Grid(headers, rows)


def _sides_grid(result: AuditResult) -> Grid:
    rows = tuple(
        (_TITLES[name], str(found.n_too_generous), str(found.n_too_strict), _p(found))
        for name, found in result.aspects.items()
    )
    return Grid(("score against person", "too generous", "too strict", "sign test p"), rows)


def cell_title(stratum: str) -> str:
    """Name a stratum of a sample: an outcome cell, or what stands in for one."""
    return CELL_TITLES[Outcome(stratum)] if stratum in set(Outcome) else stratum.replace("_", " ")


def _interval(interval: Interval | None) -> str:
    return "-" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def _kappa(kappa: float | None) -> str:
    return "-" if kappa is None else f"{kappa:.2f}"


def _p(found: AspectAgreement) -> str:
    return "< 0.0001" if found.p_one_sided < 0.0001 else f"{found.p_one_sided:.4f}"
