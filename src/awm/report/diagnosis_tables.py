"""Terminal tables of a diagnosis, of audits and of controls."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from awm.analysis.audits import RATES, AuditSummary, Length
from awm.analysis.breakdowns import Breakdown, Failures
from awm.analysis.controls import Lift
from awm.analysis.diagnosis.run import Diagnosis
from awm.analysis.readers import ReaderComparison, RolloutFigures
from awm.analysis.statistics.intervals import Estimate
from awm.counted import counted
from awm.report.cells import CELL_TITLES, SHORT_CELL_TITLES
from awm.report.intervals import interval_notes
from awm.report.tables import format_interval, format_share
from awm.scoring.outcome import Outcome, OutcomeCounts

_VERDICTS = {
    "supported": "right, and the memory holds it",
    "memory_failure": "seen and right, not written down",
    "right_without_gold_page": "right, though no gold page was shown",
    "answering_failure": "the memory holds it, answered wrong",
    "retrieval_failure": "no gold page was shown",
    "partial_retrieval": "only some gold pages were shown",
    "reading_failure": "every gold page was shown, neither answered nor written down",
}


def print_diagnosis(found: Diagnosis, console: Console) -> None:
    """Print everything that was computed, the main figures first."""
    reader = f", reader {found.reader}" if found.reader else ""
    _say(
        console,
        f"{found.log.name}: {found.n} of {counted(found.n_questions, 'row', 'rows')} measured over "
        f"{counted(found.n_documents, 'document', 'documents')}, judge {found.judge}{reader}",
    )
    _print_figures(
        [
            ("final-answer accuracy", found.final_accuracy),
            ("memory-only accuracy", found.memory_accuracy),
            ("P_mmc", found.p_mmc),
        ],
        console,
    )
    console.print(_cells(found.outcomes))
    print_lifts(found.lifts, console)
    print_breakdowns(found.breakdowns, console)
    if found.failures is not None:
        print_failures(found.failures, console)
    if found.audits is not None:
        print_audits(found.audits, console)
    if found.readers is not None:
        print_readers(found.readers, console)
    for rollouts in found.rollouts:
        print_rollouts(rollouts, console)
    if found.n_unmeasured:
        _say(console, _unmeasured(found))
    for warning in found.warnings:
        _say(console, f"note: {warning}.")
    if found.run is not None:
        _say(console, f"run: {found.run}")


def _unmeasured(found: Diagnosis) -> str:
    """Say how many rows lack a score, why, and what becomes of them."""
    n_failed = {kind: n for kind, n in found.errors.items() if kind != "log"}
    reasons = [f"{counted(n, 'reading', 'readings')} failed: {k}" for k, n in n_failed.items()]
    if found.errors.get("log"):
        reasons.insert(0, f"{found.errors['log']} with an `error` in the log")
    n_rest = found.n_unmeasured - sum(found.errors.values())
    if n_rest > 0:
        reasons.append(f"{n_rest} without a memory or a score")
    return (
        f"{counted(found.n_unmeasured, 'row is', 'rows are')} unmeasured ({'; '.join(reasons)}): "
        "left out of what they lack, never counted as wrong."
    )


def print_lifts(lifts: Sequence[Lift], console: Console) -> None:
    """Print memory-only accuracy against the controls."""
    for lift in lifts:
        name = "empty memory" if lift.control == "question-only" else "another question's memory"
        figures = [
            ("memory-only accuracy", lift.memory_accuracy),
            (f"with {name}", lift.control_accuracy),
            ("memory lift", lift.lift),
            ("memory lift, answerable questions", lift.answerable_lift),
        ]
        _print_figures(figures, console, title=f"control: {lift.control}")
        if lift.n_left_out:
            one, many = "question without this control is", "questions without this control are"
            _say(console, f"{counted(lift.n_left_out, one, many)} left out.")


def print_breakdowns(breakdowns: Sequence[Breakdown], console: Console) -> None:
    """Print every breakdown as a table of groups, and what their columns hold."""
    for breakdown in breakdowns:
        columns = ("final", "n", "memory", "n", "P_mmc", "n", "95 %", _CELLS_TITLE)
        table = _table(f"by {breakdown.by}", *columns, gap=1)
        for group in breakdown.groups:
            counts = group.outcomes.as_dict()
            table.add_row(
                _name(group.name),
                format_share(group.final_accuracy.value),
                str(group.final_accuracy.n),
                format_share(group.memory_accuracy.value),
                str(group.memory_accuracy.n),
                format_share(group.p_mmc.value),
                str(group.p_mmc.n),
                format_interval(group.p_mmc),
                "/".join(str(counts[cell.value]) for cell in Outcome),
            )
        console.print(table)
        figures = [(f"P_mmc of {group.name!r}", group.p_mmc) for group in breakdown.groups]
        for note in interval_notes(figures):
            _say(console, note)
        if breakdown.n_unknown:
            unknown = counted(breakdown.n_unknown, "question is", "questions are")
            _say(console, f"{unknown} in no group: no gold page, or not known.")
    if breakdowns:
        _say(console, f"{_CELLS_TITLE}: {_CELLS_LEGEND}.")


def print_failures(failures: Failures, console: Console) -> None:
    """Print where questions were won and lost."""
    table = _table("verdict", "count", "share")
    for verdict, count in failures.counts.items():
        share = count / failures.n if failures.n else None
        table.add_row(
            f"{verdict.value.replace('_', ' ')}: {_VERDICTS[verdict.value]}",
            str(count),
            format_share(share),
        )
    console.print(table)
    left = failures.n_unknown + failures.n_unmeasured
    if left:
        without = counted(left, "question has", "questions have")
        _say(console, f"{without} no verdict: no gold page, pages not known, or not measured.")


def print_audits(audits: AuditSummary, console: Console) -> None:
    """Print the audits that apply."""
    table = _table("audit", "count", "of", "share", "95 % interval")
    for name, meaning in RATES.items():
        rate = audits.rates[name]
        count, of = audits.counts[name]
        if rate.value is not None:
            shown = f"{count:.0f}" if name != "echo_share" else ""
            table.add_row(
                meaning, shown, f"{of:.0f}", format_share(rate.value), format_interval(rate)
            )
    console.print(table)
    for note in interval_notes((RATES[name], audits.rates[name]) for name in RATES):
        _say(console, note)
    rest = audits.memory_accuracy_without_echo
    if rest.value is not None:
        _say(
            console,
            f"Memory-only accuracy of the {counted(rest.n, 'memory', 'memories')} without the "
            f"exact answer: {format_share(rest.value)} ({format_interval(rest)}). Those are other "
            "questions: do not compare it with the whole.",
        )
    _say(console, f"Words a memory: {_length(audits.words)}.")
    _say(console, f"Findings a memory: {_length(audits.findings)}.")
    if audits.n_without_memory:
        _say(
            console,
            f"{counted(audits.n_without_memory, 'question is', 'questions are')} left out of the "
            "audits: failed, or no memory recorded.",
        )


def print_readers(comparison: ReaderComparison, console: Console) -> None:
    """Print the figures of several readers, their agreement and the migration of cells."""
    table = _table("reader", "memory-only", "95 % interval", "P_mmc", "95 % interval", "n")
    for reader in comparison.readers:
        table.add_row(
            _name(reader.name),
            format_share(reader.memory_accuracy.value),
            format_interval(reader.memory_accuracy),
            format_share(reader.p_mmc.value),
            format_interval(reader.p_mmc),
            str(reader.outcomes.n),
        )
    console.print(table)
    _print_figures(
        [
            ("memory-missing for every reader", comparison.missing_for_every),
            ("memory-missing for some reader", comparison.missing_for_any),
        ],
        console,
        title="of right answers",
    )
    if comparison.kappa is not None:
        _say(console, f"Fleiss' kappa of all readers: {_kappa(comparison.kappa.kappa)}.")
    for each in comparison.migrations:
        title = _name(f"{each.from_reader} (rows) to {each.to_reader}")
        matrix = _table(title, *_CELLS)
        for before, row in each.counts.items():
            matrix.add_row(SHORT_CELL_TITLES[before], *(str(row[after]) for after in Outcome))
        console.print(matrix)
        _say(console, f"{each.n_moved} moved; Cohen's kappa {_kappa(each.kappa.kappa)}.")


def print_rollouts(rollouts: RolloutFigures, console: Console) -> None:
    """Print what repeated readings say."""
    figures = [
        ("mean accuracy", rollouts.mean_accuracy),
        ("self-consistency", rollouts.self_consistency),
        *((f"pass@{k}", each) for k, each in rollouts.pass_at.items()),
    ]
    title = _name(f"{rollouts.name}, {rollouts.n_rollouts} rollouts")
    _print_figures(figures, console, title=title)
    if rollouts.mean_variance is not None:
        _say(
            console,
            f"Variance within a question {rollouts.mean_variance:.4f} "
            f"({counted(rollouts.n_variance, 'question', 'questions')}); {rollouts.n_tied} without "
            "a single most frequent answer.",
        )


_CELLS = tuple(SHORT_CELL_TITLES.values())
_CELLS_TITLE = "11/10/01/00"
"""(s_ans, s_mem): supported, missing, answering error, unresolved."""
_CELLS_LEGEND = f"questions by answer, then memory (1 right, 0 wrong): {' / '.join(_CELLS)}"


def _print_figures(
    figures: Sequence[tuple[str, Estimate]], console: Console, title: str = "figure"
) -> None:
    table = _table(title, "value", "95 % interval", "n")
    for name, estimate in figures:
        table.add_row(
            name, format_share(estimate.value), format_interval(estimate), str(estimate.n)
        )
    console.print(table)
    for note in interval_notes(figures):
        _say(console, note)


def _cells(outcomes: OutcomeCounts) -> Table:
    table = _table("outcome cell", "count", "share")
    counts = outcomes.as_dict()
    for cell, title in CELL_TITLES.items():
        count = counts[cell.value]
        share = count / outcomes.n if outcomes.n else None
        table.add_row(title, str(count), format_share(share))
    return table


def _table(first: str, *columns: str, gap: int = 2) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    table.add_column(first, min_width=10)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _length(length: Length) -> str:
    if length.mean is None:
        return "-"
    return (
        f"mean {length.mean:.1f}, median {length.median:.0f}, 95 % at most {length.p95:.0f}, "
        f"longest {length.largest}"
    )


def _kappa(kappa: float | None) -> str:
    return "-" if kappa is None else f"{kappa:.2f}"


def _name(text: str) -> str:
    """Make a name from a file fit for a terminal: no markup, no control characters."""
    return escape(_plain(text))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _say(console: Console, text: str) -> None:
    console.print(_plain(text), markup=False, highlight=False, soft_wrap=True)
