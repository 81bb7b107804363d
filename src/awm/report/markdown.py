"""A report as Markdown (GitHub's tables): what the terminal shows, and every repaired answer."""

from __future__ import annotations

from collections.abc import Sequence

from awm.analysis.benchmark_report import Figures, PooledReport, RunReport
from awm.counted import counted
from awm.report.report_tables import (
    Grid,
    cells_grid,
    figures_grid,
    groups_grid,
    name_grid,
    overview_grid,
    repaired_grid,
    repaired_sentence,
    routing_sentence,
    rules_grid,
)

_SPECIAL = "\\`*_[]<>|~#&$"
"""Characters that Markdown, or a renderer's extension, would read as more than themselves."""


def render_markdown(reports: Sequence[RunReport], pool: PooledReport | None = None) -> str:
    """Write runs, and their pool if there is one, as one Markdown document."""
    parts = ["# Report"]
    if len(reports) > 1:
        parts.append(_table(overview_grid(reports, pool)))
    if pool is not None:
        parts += [f"## {len(reports)} runs pooled", _table(name_grid(pool.name))]
        parts += _figures(pool.figures)
        parts += _bullets(pool.notes)
    for report in reports:
        parts += _report(report)
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    r"""Make text literal in Markdown.

    >>> print(escape("a|b <script>"))
    a\|b \<script\>
    """
    return "".join("\\" + letter if letter in _SPECIAL else letter for letter in text)


def _report(report: RunReport) -> list[str]:
    summary, dataset = report.summary, report.summary.manifest.dataset
    parts = [
        f"## Run {escape(str(summary.path))}",
        _table(name_grid(report.name)),
        f"{summary.n} of {counted(summary.n_questions, 'question', 'questions')} measured, "
        f"{summary.n_unmeasured} unmeasured. Dataset hash `{dataset.dataset_hash}`. The official "
        "score is the headline; intervals are 95 %, from a bootstrap over documents.",
    ]
    parts += _figures(report.figures)
    parts += ["### Official and repaired scores", escape(repaired_sentence(report))]
    if report.differences:
        parts += [_table(rules_grid(report.rule_counts)), _table(repaired_grid(report.differences))]
    parts += ["### What limits these figures", escape(routing_sentence(report))]
    parts += _bullets(report.notes)
    if dataset.missing_documents:
        parts.append("Missing documents: " + escape(", ".join(dataset.missing_documents)))
    others = [p for p in dataset.problems if not p.startswith("missing_document:")]
    if others:
        parts += ["Problems of the data:", *_bullets(others)]
    return parts


def _figures(figures: Figures) -> list[str]:
    cells = cells_grid(figures)
    return [
        "### Figures",
        _table(figures_grid(figures)),
        *(["### Outcome cells", _table(cells)] if cells else []),
        "### Groups",
        _table(groups_grid(figures, with_empty=True)),
    ]


def _bullets(lines: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escape(' '.join(line.split()))}" for line in lines)] if lines else []


def _table(grid: Grid) -> str:
    rule = ["---" if number < grid.n_left else "---:" for number in range(len(grid.headers))]
    rows = [list(map(escape, row)) for row in (grid.headers, *grid.rows)]
    rows.insert(1, rule)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
