"""The benchmarks' own summary numbers, from scored rows.

MMLongBench-Doc: accuracy, F1 and groups as in its `eval/eval_score.py`. LongDocURL:
"generalized" and "rectified" accuracy and the fine-grained groups as in its
`utils/calculate_metrics*.py`, whose groups divide by counts of the full set; beside each stands
the mean over the rows that are there.

Groups overlap, and a question counts once for each evidence source it names. Unmeasured rows
(score None) are counted and left out. A group without a measured row has accuracy None.

Deviation: a LongDocURL question without evidence pages is in no page group. The original
crashes where it comes first, and otherwise adds it to the previous question's group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

NOT_ANSWERABLE = "Not answerable"
"""Gold answer of an unanswerable question, and the only prediction that counts as abstaining."""

MMLONGBENCH_DOC_SOURCES = (
    "Pure-text (Plain-text)",
    "Generalized-text (Layout)",
    "Table",
    "Chart",
    "Figure",
)
MMLONGBENCH_DOC_DOCUMENT_TYPES = (
    "Research report / Introduction",
    "Academic paper",
    "Guidebook",
    "Tutorial/Workshop",
    "Financial report",
    "Brochure",
    "Administration/Industry file",
)

LONGDOCURL_N_QUESTIONS = 2325
LONGDOCURL_SOURCES = ("Text", "Layout", "Figure", "Table")
LONGDOCURL_COUNTS: dict[str, int] = {
    "Understanding": 1243,
    "Reasoning": 387,
    "Locating": 695,
    "Text": 994,
    "Layout": 779,
    "Figure": 556,
    "Table": 871,
    "single-page": 1093,
    "multi-page": 1230,
    "cross-element": 862,
    "Understanding/single-page/Text": 259,
    "Understanding/single-page/Layout": 91,
    "Understanding/single-page/Figure": 94,
    "Understanding/single-page/Table": 263,
    "Understanding/multi-page/Text": 443,
    "Understanding/multi-page/Layout": 172,
    "Understanding/multi-page/Figure": 174,
    "Understanding/multi-page/Table": 115,
    "Reasoning/single-page/Text": 40,
    "Reasoning/single-page/Layout": 12,
    "Reasoning/single-page/Figure": 28,
    "Reasoning/single-page/Table": 98,
    "Reasoning/multi-page/Text": 115,
    "Reasoning/multi-page/Layout": 40,
    "Reasoning/multi-page/Figure": 85,
    "Reasoning/multi-page/Table": 69,
    "Locating/cross-title": 201,
    "Locating/cross-table": 126,
    "Locating/para-title": 137,
    "Locating/figure-table": 231,
}
"""Rows of each group in the full set, by which the official script divides."""
_LOCATING_GROUPS = {
    "topic2title": "Locating/cross-title",
    "summary2tab": "Locating/cross-table",
    "summary2title": "Locating/para-title",
    "extract_fig2tab": "Locating/figure-table",
}


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """One question's score, with what the groups are made from."""

    score: float | None
    """In [0, 1]; None: not measured."""
    prediction: object
    """The short answer that was scored; None where there is none."""
    gold_answer: object
    answer_format: str = "None"
    evidence_pages: tuple[int, ...] = ()
    evidence_sources: tuple[str, ...] = ()
    document_type: str | None = None
    """MMLongBench-Doc only."""
    task_tag: str | None = None
    """LongDocURL only: Understanding, Reasoning or Locating."""
    question_type: str | None = None
    """LongDocURL only, e.g. "summary2title"."""

    @property
    def is_answerable(self) -> bool:
        """Whether the gold is an answer, by the benchmark's exact wording."""
        return self.gold_answer != NOT_ANSWERABLE


class GroupAccuracy(BaseModel):
    """The accuracy of one group of questions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    accuracy: float | None
    """Mean score over the measured rows; None where there are none."""
    n: int
    """Measured rows."""
    n_unmeasured: int
    """Rows of the group that were left out."""
    official_accuracy: float | None = None
    """Sum of scores / `official_n`; None where the benchmark fixes no count."""
    official_n: int | None = None
    """Rows of the group in the full set, as the official script has it."""


class MMLongBenchDocMetrics(BaseModel):
    """The summary of a run on MMLongBench-Doc."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accuracy: float | None
    """Mean score; None where nothing was measured."""
    f1: float | None
    """Harmonic mean of recall and precision, 0 where either is undefined, as in the original."""
    recall: float | None
    """Score sum over answerable golds / their number; None where there are none."""
    precision: float | None
    """The same sum / predictions other than "Not answerable"; None where there are none."""
    n: int
    n_unmeasured: int
    groups: tuple[GroupAccuracy, ...]


class LongDocURLMetrics(BaseModel):
    """The summary of a run on LongDocURL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generalized_accuracy: float | None
    """Mean score over the measured rows; None where there are none."""
    rectified_accuracy: float | None
    """Score sum / 2,325: what was not measured counts as wrong."""
    n: int
    n_unmeasured: int
    groups: tuple[GroupAccuracy, ...]


def mmlongbench_doc_metrics(rows: Iterable[ScoredRow]) -> MMLongBenchDocMetrics:
    """Summarise a run on MMLongBench-Doc.

    The groups hold the documented sources and document types, then any others in the rows.
    """
    all_rows = list(rows)
    measured = [row for row in all_rows if row.score is not None]
    answerable_sum = _sum_scores(row for row in measured if row.is_answerable)
    recall = _divide(answerable_sum, sum(row.is_answerable for row in measured))
    precision = _divide(answerable_sum, sum(row.prediction != NOT_ANSWERABLE for row in measured))
    f1: float | None = None
    if measured:
        f1 = 0.0
        if recall is not None and precision is not None and recall + precision > 0:
            f1 = 2 * recall * precision / (recall + precision)
    return MMLongBenchDocMetrics(
        accuracy=_divide(_sum_scores(measured), len(measured)),
        f1=f1,
        recall=recall,
        precision=precision,
        n=len(measured),
        n_unmeasured=len(all_rows) - len(measured),
        groups=_group(all_rows, _mmlongbench_doc_groups, _mmlongbench_doc_group_names(all_rows)),
    )


def longdocurl_metrics(rows: Iterable[ScoredRow]) -> LongDocURLMetrics:
    """Summarise a run on LongDocURL."""
    all_rows = list(rows)
    measured = [row for row in all_rows if row.score is not None]
    total = _sum_scores(measured)
    return LongDocURLMetrics(
        generalized_accuracy=_divide(total, len(measured)),
        rectified_accuracy=_divide(total, LONGDOCURL_N_QUESTIONS) if measured else None,
        n=len(measured),
        n_unmeasured=len(all_rows) - len(measured),
        groups=_group(all_rows, _longdocurl_groups, list(LONGDOCURL_COUNTS), LONGDOCURL_COUNTS),
    )


def _mmlongbench_doc_groups(row: ScoredRow) -> list[str]:
    names = []
    if len(row.evidence_pages) == 1:
        names.append("single-page")
    elif row.is_answerable:
        names.append("cross-page")  # the 12 answerable questions without a page included
    if not row.is_answerable:
        names.append("unanswerable")
    names.extend(f"source: {source}" for source in row.evidence_sources)
    if row.document_type is not None:
        names.append(f"document: {row.document_type}")
    return names


def _mmlongbench_doc_group_names(rows: Sequence[ScoredRow]) -> list[str]:
    names = ["single-page", "cross-page", "unanswerable"]
    names.extend(f"source: {source}" for source in MMLONGBENCH_DOC_SOURCES)
    names.extend(f"document: {kind}" for kind in MMLONGBENCH_DOC_DOCUMENT_TYPES)
    present = {name: None for row in rows for name in _mmlongbench_doc_groups(row)}
    return list(dict.fromkeys([*names, *present]))


def _longdocurl_groups(row: ScoredRow) -> list[str]:
    n_pages = len(row.evidence_pages)
    pages = None if n_pages == 0 else "single-page" if n_pages == 1 else "multi-page"
    sources = [source for source in row.evidence_sources if source in LONGDOCURL_SOURCES]
    names = [*sources]
    if row.task_tag is not None:
        names.append(row.task_tag)
    if pages is not None:
        names.append(pages)
    if len(row.evidence_sources) > 1:
        names.append("cross-element")
    if row.task_tag in ("Understanding", "Reasoning") and pages is not None:
        names.extend(f"{row.task_tag}/{pages}/{source}" for source in sources)
    if row.task_tag == "Locating" and row.question_type in _LOCATING_GROUPS:
        names.append(_LOCATING_GROUPS[row.question_type])
    return names


def _group(
    rows: Sequence[ScoredRow],
    group_names_of: Callable[[ScoredRow], list[str]],
    order: Sequence[str],
    official_counts: dict[str, int] | None = None,
) -> tuple[GroupAccuracy, ...]:
    """Put every row into its groups; the groups come in `order`, empty ones included."""
    members: dict[str, list[ScoredRow]] = {name: [] for name in order}
    for row in rows:
        for name in group_names_of(row):
            members.setdefault(name, []).append(row)
    groups = []
    for name, group_rows in members.items():
        measured = [row for row in group_rows if row.score is not None]
        total = _sum_scores(measured)
        official_n = (official_counts or {}).get(name)
        groups.append(
            GroupAccuracy(
                name=name,
                accuracy=_divide(total, len(measured)),
                n=len(measured),
                n_unmeasured=len(group_rows) - len(measured),
                official_accuracy=_divide(total, official_n) if official_n and measured else None,
                official_n=official_n,
            )
        )
    return tuple(groups)


def _sum_scores(rows: Iterable[ScoredRow]) -> float:
    return sum(row.score for row in rows if row.score is not None)


def _divide(total: float, count: int) -> float | None:
    return total / count if count else None
