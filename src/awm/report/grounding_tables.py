"""Terminal tables of claim-level grounding."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from awm.analysis.grounding.report import ANSWERS, GroundingReport, Support
from awm.counted import counted
from awm.memory import visible_line
from awm.report.tables import format_interval, format_share

_SAYS = {
    Support.GROUNDED: "grounded: every finding supported",
    Support.PARTLY: "partly: some supported",
    Support.UNGROUNDED: "ungrounded: none supported",
    Support.EMPTY: "empty: no finding",
    Support.UNCHECKED: "unchecked: unreadable, unmeasured",
}


def print_grounding(report: GroundingReport, console: Console) -> None:
    """Print the verdicts, the rates and the cross table."""
    title = report.title
    left_out = "; ".join(f"{n} {reason}" for reason, n in title.get("n_left_out", {}).items())
    _say(
        console,
        f"{title['benchmark']}, {counted(report.n_memories, 'memory', 'memories')} of "
        f"{title['source']} "
        f"({title['source_setting']}): {counted(report.n_findings, 'finding', 'findings')} "
        "against the pages they cite, "
        f"verifier {title['verifier']}" + (f"; left out: {left_out}" if left_out else ""),
    )
    console.print(_verdicts(report))
    console.print(_rates(report))
    _say(
        console,
        "Checked findings are supported, contradicted or not found: unreadable and unmeasured ones "
        "are left out. The last column counts the memories that a figure rests on.",
    )
    console.print(_cross(report))
    for name, ids in (
        ("Unsupported guesses", report.guesses),
        ("Grounded, and not answerable", report.omitting),
    ):
        if ids:
            more = ", … (all with --json)" if len(ids) > 5 else ""
            _say(console, f"{name}: {', '.join(ids[:5])}{more}")
    if report.n_unmeasured:
        kinds = ", ".join(f"{kind} x{n}" for kind, n in title["errors"].items()) or "not run yet"
        _say(
            console,
            f"{counted(report.n_unmeasured, 'finding is', 'findings are')} unmeasured ({kinds}); "
            "the same command retries what failed.",
        )
        if title["error_sample"]:
            _say(console, f"One of the failures: {visible_line(title['error_sample'])[:400]}")
    _say(console, f"run: {title['run']}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _verdicts(report: GroundingReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("verdict", "findings", "of all findings"):
        table.add_column(column, justify="left" if column == "verdict" else "right")
    rows = {**report.verdicts, "unmeasured": report.n_unmeasured}
    for name, n in rows.items():
        share = n / report.n_findings if report.n_findings else None
        table.add_row(name.replace("_", " "), str(n), format_share(share))
    return table


def _rates(report: GroundingReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "value", "95 % interval", "memories"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name, estimate in (
        ("supported, of the checked findings", report.supported),
        ("contradicted, of the checked findings", report.contradicted),
        ("grounded, of the checked memories", report.grounded),
        ("without support, of the answerable memories", report.unsupported_guesses),
        ("not answerable, of the grounded memories", report.omissions),
    ):
        table.add_row(
            name, format_share(estimate.value), format_interval(estimate), str(estimate.n)
        )
    return table


def _cross(report: GroundingReport) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("memory", justify="left")
    for answer in ANSWERS:
        table.add_column(answer.replace("_", " "), justify="right")
    table.add_column("all", justify="right")
    for support in Support:
        counts = [report.cross[support][answer] for answer in ANSWERS]
        table.add_row(_SAYS[support], *map(str, counts), str(sum(counts)))
    return table
