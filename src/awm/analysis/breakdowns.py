"""Figures by groups of questions, and where each wrong answer went wrong.

**Evidence source.** Each question is in exactly one group. The paper (arXiv 2608.25618) lists
"mixed visual+text, multi-text, figure, chart and none, table and layout"; ours are:

| group | annotated sources |
|---|---|
| `figure`, `chart`, `table`, `layout`, `text` | that one alone |
| `mixed` | a figure or a chart, and a text, a layout or a table |
| `multi-text` | two or more of text, layout and table |
| `multi-visual` | figure and chart |
| `none` | no source: unanswerable, or without annotation |
| `other` | a source with another name |

**Failures.** A question with known gold pages and known shown pages gets a verdict. It needs both
scores; s_ans and s_mem are 1 above 0:

| gold pages shown | s_ans | s_mem | verdict |
|---|---|---|---|
| any | 1 | 1 | `supported` |
| some or all | 1 | 0 | `memory_failure`: it was seen and used, and not written down |
| none | 1 | 0 | `right_without_gold_page`: a guess, prior knowledge, or another page |
| any | 0 | 1 | `answering_failure`: the memory held it |
| none | 0 | 0 | `retrieval_failure` |
| some | 0 | 0 | `partial_retrieval`: not every gold page was found |
| all | 0 | 0 | `reading_failure`: it was in sight, and neither answered nor written down |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from awm.analysis.statistics.bootstrap import ResamplingPlan, bootstrap_weights, estimate
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import mean_ratio, p_mmc_ratio
from awm.scoring.outcome import OutcomeCounts, count_outcomes, outcome

MAX_CLUSTERS = 1_000
"""With more documents than this, whole documents are put into so many groups at random."""
MAX_GROUPS = 50
"""Groups of a breakdown that are shown; the rest, by size, becomes one."""
_VISUAL = frozenset({"figure", "chart"})
_TEXTUAL = frozenset({"text", "layout", "table"})
_SOURCES = {
    "pure-text (plain-text)": "text",
    "pure-text": "text",
    "plain-text": "text",
    "text": "text",
    "generalized-text (layout)": "layout",
    "layout": "layout",
    "table": "table",
    "chart": "chart",
    "figure": "figure",
    "image": "figure",
}
"""From the benchmarks' names, folded, to ours."""
_SOURCE_NAMES = "mixed multi-text multi-visual figure chart none table layout text other"
_SOURCE_ORDER = _SOURCE_NAMES.split()
_SHOWN_ORDER = ["all gold pages shown", "some gold pages shown", "no gold page shown"]


class Verdict(StrEnum):
    """Where a question was won or lost; the module's table decides."""

    SUPPORTED = "supported"
    MEMORY_FAILURE = "memory_failure"
    RIGHT_WITHOUT_GOLD_PAGE = "right_without_gold_page"
    ANSWERING_FAILURE = "answering_failure"
    RETRIEVAL_FAILURE = "retrieval_failure"
    PARTIAL_RETRIEVAL = "partial_retrieval"
    READING_FAILURE = "reading_failure"


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What a breakdown needs of one question."""

    id: str
    cluster: Hashable
    """Its document; a question without one is a cluster of its own."""
    final_score: float | None
    memory_score: float | None
    answer_format: str | None = None
    document_type: str | None = None
    evidence_sources: tuple[str, ...] | None = None
    """None: not known; (): known to have none."""
    evidence_pages: tuple[int, ...] | None = None
    pages_shown: tuple[int, ...] | None = None
    is_answerable: bool | None = None
    """Whether the document holds an answer; None: not known."""


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of one group of questions."""

    name: str
    n: int
    """Questions with both scores."""
    n_unmeasured: int
    final_accuracy: Estimate
    memory_accuracy: Estimate
    p_mmc: Estimate
    outcomes: OutcomeCounts

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "name": self.name,
            "n": self.n,
            "n_unmeasured": self.n_unmeasured,
            "final_accuracy": self.final_accuracy.as_json(),
            "memory_accuracy": self.memory_accuracy.as_json(),
            "p_mmc": self.p_mmc.as_json(),
            "cells": self.outcomes.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One way to group the questions."""

    by: str
    groups: tuple[Group, ...]
    n_unknown: int
    """Questions of which the group is not known."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Verdicts over the questions that can have one."""

    counts: dict[Verdict, int]
    n: int
    n_unmeasured: int
    """Questions with known pages and without both scores."""
    n_unknown: int
    """Questions without gold pages, or whose shown pages are not known."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "counts": {verdict.value: self.counts[verdict] for verdict in Verdict},
            "n": self.n,
            "n_unmeasured": self.n_unmeasured,
            "n_unknown": self.n_unknown,
        }


def source_group(sources: Iterable[str]) -> str:
    """Put a question's annotated evidence sources into one group.

    >>> source_group(["Chart", "Pure-text (Plain-text)"]), source_group([])
    ('mixed', 'none')
    """
    kinds = {_SOURCES.get(source.strip().lower(), "other") for source in sources}
    if not kinds:
        return "none"
    if "other" in kinds:
        return "other"
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= _TEXTUAL:
        return "multi-text"
    return "multi-visual" if kinds <= _VISUAL else "mixed"


def shown_group(result: QuestionResult) -> Literal["all", "some", "none"] | None:
    """Say how many gold pages were shown; None where there are none, or it is not known."""
    if not result.evidence_pages or result.pages_shown is None:
        return None
    n_shown = sum(page in result.pages_shown for page in result.evidence_pages)
    if n_shown == len(result.evidence_pages):
        return "all"
    return "some" if n_shown else "none"


def judge_failure(result: QuestionResult) -> Verdict | None:
    """Decide by the module's table; None where a score or the pages are not known."""
    shown = shown_group(result)
    if shown is None or result.final_score is None or result.memory_score is None:
        return None
    if result.memory_score > 0:
        return Verdict.SUPPORTED if result.final_score > 0 else Verdict.ANSWERING_FAILURE
    if result.final_score > 0:
        return Verdict.RIGHT_WITHOUT_GOLD_PAGE if shown == "none" else Verdict.MEMORY_FAILURE
    return {
        "none": Verdict.RETRIEVAL_FAILURE,
        "some": Verdict.PARTIAL_RETRIEVAL,
        "all": Verdict.READING_FAILURE,
    }[shown]


def count_failures(results: Sequence[QuestionResult]) -> Failures:
    """Count verdicts."""
    known = [result for result in results if shown_group(result) is not None]
    verdicts = [judge_failure(result) for result in known]
    counts = Counter(verdict for verdict in verdicts if verdict is not None)
    return Failures(
        counts={verdict: counts[verdict] for verdict in Verdict},
        n=sum(counts.values()),
        n_unmeasured=verdicts.count(None),
        n_unknown=len(results) - len(known),
    )


def plan_resampling(clusters: Sequence[Hashable], seed: int = 0) -> ResamplingPlan:
    """Plan resamples of documents; of more than `MAX_CLUSTERS`, of random groups of documents.

    Sums over a random group are independent of each other as sums over documents are, so the
    interval keeps its meaning; a thousand groups cost it about 2 % of noise in its width.
    Documents are shuffled before they are dealt out: in the order of a sorted log, groups would
    be more alike than documents are.
    """
    names = list(dict.fromkeys(clusters))
    if len(names) <= MAX_CLUSTERS:
        return bootstrap_weights(clusters, seed=seed)
    order = np.random.default_rng(seed).permutation(len(names)) % MAX_CLUSTERS
    group_of = dict(zip(names, order.tolist(), strict=True))
    return bootstrap_weights([group_of[name] for name in clusters], seed=seed)


def break_down(results: Sequence[QuestionResult], plan: ResamplingPlan) -> tuple[Breakdown, ...]:
    """Break the figures down in every way that the questions allow.

    A way by which no question has a group is left out.
    """
    by: list[tuple[str, Callable[[QuestionResult], str | None], Sequence[str]]] = [
        ("evidence source", _source_of, _SOURCE_ORDER),
        ("answer format", lambda result: result.answer_format, ()),
        ("document type", lambda result: result.document_type, ()),
        ("evidence pages", _page_count_of, ["none", "1", "2", "3", "4 or more"]),
        ("gold pages shown", _shown_of, _SHOWN_ORDER),
    ]
    ways = [
        _group(name, results, [key(r) for r in results], order, plan) for name, key, order in by
    ]
    return tuple(way for way in ways if way.groups)


def group_figures(
    name: str, results: Sequence[QuestionResult], is_member: Sequence[bool], plan: ResamplingPlan
) -> Group:
    """Give the figures of the members; `plan` covers all of `results`."""
    pairs = [
        (result.final_score, result.memory_score) if member else (None, None)
        for result, member in zip(results, is_member, strict=True)
    ]
    finals, memories = [final for final, _ in pairs], [memory for _, memory in pairs]
    outcomes = count_outcomes(outcome(final, memory) for final, memory in pairs)
    return Group(
        name=name,
        n=outcomes.n,
        n_unmeasured=sum(is_member) - outcomes.n,
        final_accuracy=estimate(mean_ratio(finals), plan),
        memory_accuracy=estimate(mean_ratio(memories), plan),
        p_mmc=estimate(p_mmc_ratio(finals, memories), plan),
        outcomes=outcomes,
    )


def _group(
    by: str,
    results: Sequence[QuestionResult],
    names: Sequence[str | None],
    order: Sequence[str],
    plan: ResamplingPlan,
) -> Breakdown:
    sizes = Counter(name for name in names if name is not None)
    kept = [name for name, _ in sizes.most_common(MAX_GROUPS)]
    rest = f"{len(sizes) - len(kept)} others"
    if len(sizes) > len(kept):
        names = [name if name is None or name in kept else rest for name in names]
        kept.append(rest)
    ranked = [name for name in order if name in kept]
    ranked += [name for name in kept if name not in order]
    groups = [
        group_figures(name, results, [each == name for each in names], plan) for name in ranked
    ]
    return Breakdown(by, tuple(groups), n_unknown=list(names).count(None))


def _source_of(result: QuestionResult) -> str | None:
    return None if result.evidence_sources is None else source_group(result.evidence_sources)


def _page_count_of(result: QuestionResult) -> str | None:
    if result.evidence_pages is None:
        return None
    n_pages = len(set(result.evidence_pages))
    return "none" if n_pages == 0 else "4 or more" if n_pages > 3 else str(n_pages)


def _shown_of(result: QuestionResult) -> str | None:
    shown = shown_group(result)
    return (
        None
        if shown is None
        else dict(zip(("all", "some", "none"), _SHOWN_ORDER, strict=True))[shown]
    )
