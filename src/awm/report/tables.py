"""Tables for a terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from awm.analysis.statistics.intervals import Estimate
from awm.analysis.summary import RunSummary
from awm.counted import counted
from awm.memory import visible_line
from awm.report.cells import CELL_TITLES

_PROBLEMS = {
    "unreadable_document": "Documents that cannot be read",
    "missing_pages": "Questions whose page images are not all there",
    "evidence_outside_document": "Questions with gold pages outside their document",
}


def format_share(value: float | None) -> str:
    """Write a share as a percentage; a dash where it is not measured."""
    return "-" if value is None else f"{100 * value:.1f} %"


def format_interval(estimate: Estimate) -> str:
    """Write an interval as percentages; a dash where there is none."""
    if estimate.interval is None:
        return "-"
    return f"{100 * estimate.interval.low:.1f} to {100 * estimate.interval.high:.1f}"


def print_summary(summary: RunSummary, console: Console) -> None:
    """Print a run's figures, the four cells, and what limits them."""
    settings, dataset = summary.manifest.settings, summary.manifest.dataset
    reader = settings["reader"]["spec"] if settings["reader"] else "none"
    console.print(
        f"[bold]{escape(dataset.benchmark)}[/bold], setting {settings['setting']}: "
        f"{summary.n} of {counted(summary.n_questions, 'question', 'questions')} measured, "
        f"model {escape(settings['model']['spec'])}, reader {escape(reader)}, "
        f"judge {summary.manifest.judge}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_figures(summary))
    if summary.outcomes is not None:
        console.print(_cells(summary))
    console.print(
        f"dataset: {counted(dataset.n_dataset, 'question', 'questions')}, "
        f"{dataset.n_runnable} of them can run; hash {dataset.dataset_hash}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    for note in _notes(summary):
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    console.print(f"run: {summary.path}", markup=False, highlight=False, soft_wrap=True)


def _figures(summary: RunSummary) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "value", "95 % interval", "n"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for name, estimate in (
        ("final-answer accuracy", summary.final_accuracy),
        ("memory-only accuracy", summary.memory_accuracy),
        ("P_mmc", summary.p_mmc),
    ):
        interval, n = format_interval(estimate), str(estimate.n)
        table.add_row(name, f"[bold]{format_share(estimate.value)}[/bold]", interval, n)
    return table


def _cells(summary: RunSummary) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("outcome cell", "answer", "memory", "count", "share"):
        right = column in ("count", "share")
        table.add_column(column, justify="right" if right else "left")
    assert summary.outcomes is not None
    counts = summary.outcomes.as_dict()
    verdicts = (("right", "right"), ("right", "wrong"), ("wrong", "right"), ("wrong", "wrong"))
    for (cell, title), (answer, memory) in zip(CELL_TITLES.items(), verdicts, strict=True):
        share = counts[cell] / summary.outcomes.n if summary.outcomes.n else None
        table.add_row(title, answer, memory, str(counts[cell]), format_share(share))
    return table


def _notes(summary: RunSummary) -> list[str]:
    dataset = summary.manifest.dataset
    notes = []
    if summary.n_unmeasured:
        kinds = ", ".join(f"{kind} x{n}" for kind, n in summary.errors.items()) or "not run yet"
        unmeasured = counted(summary.n_unmeasured, "question is", "questions are")
        notes.append(f"{unmeasured} unmeasured ({kinds}); the same command retries what failed.")
        if summary.error_sample:
            notes.append(f"One of the failures: {visible_line(summary.error_sample)[:400]}")
    if summary.n_without_pages and 2 * summary.n_without_pages >= summary.n_questions:
        notes.append(
            f"{summary.n_without_pages} of {counted(summary.n_questions, 'episode', 'episodes')} "
            "looked at no page at all: does the server parse tool calls? See tool_format in "
            "docs/models.md."
        )
    if dataset.missing_documents:
        notes.append(
            f"{counted(len(dataset.missing_documents), 'document is', 'documents are')} missing: "
            + ", ".join(dataset.missing_documents[:5])
            + (", … (all in manifest.json)" if len(dataset.missing_documents) > 5 else "")
        )
    others = Counter(problem.partition(":")[0] for problem in dataset.problems)
    for kind, name in _PROBLEMS.items():
        if others[kind]:
            notes.append(f"{name}: {others[kind]} (named in manifest.json).")
    if dataset.subset is not None:
        notes.append(
            f"Subset {dataset.subset.name}: {dataset.subset.n_runnable} of {dataset.subset.n} "
            "questions can run"
            + (
                f"; {len(dataset.subset.missing)} are missing (named in manifest.json)."
                if dataset.subset.missing
                else "."
            )
        )
    if dataset.n_excluded:
        notes.append(
            f"{counted(dataset.n_excluded, 'question', 'questions')} without a gold page cannot be "
            "asked in this setting."
        )
    limit_hit = summary.stop_reasons.get("step_limit", 0)
    if limit_hit:
        notes.append(
            f"{counted(limit_hit, 'episode', 'episodes')} ended without an answer (turn limit or "
            "empty turn)."
        )
    if summary.pages_without_text:
        n_pages = sum(len(pages) for pages in summary.pages_without_text.values())
        worst = max(summary.pages_without_text.items(), key=lambda item: len(item[1]))
        documents = counted(len(summary.pages_without_text), "document", "documents")
        notes.append(
            f"No text layer: {counted(n_pages, 'page', 'pages')} in {documents} (most: {worst[0]}, "
            f"{len(worst[1])}). A lexical search cannot find them; an OCR tool that writes a text "
            "layer, e.g. ocrmypdf, mends that."
        )
    if summary.routing.mismatched:
        notes.append(
            f"ROUTING: {counted(len(summary.routing.mismatched), 'episode', 'episodes')} read "
            f"another document than their question's, first {summary.routing.mismatched[0]}: do "
            "not use these figures."
        )
    return notes
