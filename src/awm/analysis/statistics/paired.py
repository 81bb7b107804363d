"""Two runs on the same questions: matched by id, compared question by question.

Pairing removes the questions' difficulty from the comparison. Two answers are given: the size of
a difference with an interval from a bootstrap over documents, and McNemar's exact test of binary
outcomes. McNemar takes questions as independent; where questions of a document agree it claims
too much, so the interval is the one to quote (docs/statistics.md).

>>> mcnemar([True] * 8 + [False] * 2, [False] * 8 + [True] * 2).p_exact
0.109375
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from awm.analysis.statistics.bootstrap import (
    DEFAULT_RESAMPLES,
    bootstrap_weights,
    estimate_difference,
)
from awm.analysis.statistics.intervals import Estimate, half_binomial_tail, sign_test
from awm.analysis.statistics.ratios import mean_ratio, p_mmc_ratio


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """The two scores of one question in one run."""

    id: str
    document_id: str
    answer_score: float | None
    """Score of the final answer in [0, 1]; None: not measured."""
    memory_score: float | None
    """Score of the memory-only answer in [0, 1]; None: not measured."""

    def __post_init__(self) -> None:
        for score in (self.answer_score, self.memory_score):
            if score is not None and not 0 <= score <= 1:
                raise ValueError(
                    f"score {score!r} of question {self.id!r}: scores lie in [0, 1], and None "
                    "stands for one that was not measured"
                )


@dataclass(frozen=True, slots=True)
class Matching:
    """The questions that two runs share, and those they do not."""

    pairs: tuple[tuple[ScoredQuestion, ScoredQuestion], ...]
    """Sorted by id."""
    only_in_a: tuple[str, ...]
    """Ids without a partner, sorted."""
    only_in_b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact test of whether two paired binary outcomes are equally frequent."""

    n_both: int
    n_only_a: int
    n_only_b: int
    n_neither: int
    n_left_out: int
    """Pairs in which at least one outcome was not measured."""
    p_exact: float
    """Two-sided; 1.0 without discordant pairs. Conservative: under the null it falls below any
    level at most that often."""
    p_mid: float
    """Two-sided mid-p, which counts the observed outcome half: less conservative, and not
    guaranteed. 1.0 without discordant pairs."""


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Run A minus run B over the questions that both measured."""

    n_pairs: int
    """Questions in both runs."""
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    n_answer_unmeasured: int
    """Pairs left out of `answer_difference`: a final answer lacks its score in A or in B."""
    n_memory_unmeasured: int
    """The same for memory-only scores and `memory_difference`."""
    answer_difference: Estimate
    """Difference of the mean final-answer scores."""
    memory_difference: Estimate
    """Difference of the mean memory-only scores."""
    p_mmc_difference: Estimate
    """Difference of P_mmc. Each run conditions on its own correct answers, among the questions
    that both runs measured."""
    answer_mcnemar: McNemar
    """On scores > 0."""
    memory_mcnemar: McNemar


def match_by_id(a: Sequence[ScoredQuestion], b: Sequence[ScoredQuestion]) -> Matching:
    """Pair the questions of two runs by id.

    Raises:
        ValueError: an id stands twice in a run, or names different documents in the two.
    """
    by_id_a, by_id_b = _index(a, "first"), _index(b, "second")
    shared = sorted(by_id_a.keys() & by_id_b.keys())
    pairs = tuple((by_id_a[i], by_id_b[i]) for i in shared)
    for left, right in pairs:
        if left.document_id != right.document_id:
            raise ValueError(
                f"question {left.id!r} is about {left.document_id!r} in the first run and about "
                f"{right.document_id!r} in the second: compare runs on the same benchmark"
            )
    return Matching(
        pairs,
        tuple(sorted(by_id_a.keys() - by_id_b.keys())),
        tuple(sorted(by_id_b.keys() - by_id_a.keys())),
    )


def compare_runs(
    a: Sequence[ScoredQuestion],
    b: Sequence[ScoredQuestion],
    *,
    level: float = 0.95,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> PairedComparison:
    """Compare two runs over the questions they share; every difference is A minus B."""
    matching = match_by_id(a, b)
    answers_a, answers_b = _both_or_neither(
        [left.answer_score for left, _ in matching.pairs],
        [right.answer_score for _, right in matching.pairs],
    )
    memories_a, memories_b = _both_or_neither(
        [left.memory_score for left, _ in matching.pairs],
        [right.memory_score for _, right in matching.pairs],
    )
    plan = bootstrap_weights([left.document_id for left, _ in matching.pairs], n_resamples, seed)
    return PairedComparison(
        n_pairs=len(matching.pairs),
        only_in_a=matching.only_in_a,
        only_in_b=matching.only_in_b,
        n_answer_unmeasured=answers_a.count(None),
        n_memory_unmeasured=memories_a.count(None),
        answer_difference=estimate_difference(
            mean_ratio(answers_a), mean_ratio(answers_b), plan, level
        ),
        memory_difference=estimate_difference(
            mean_ratio(memories_a), mean_ratio(memories_b), plan, level
        ),
        p_mmc_difference=estimate_difference(
            p_mmc_ratio(answers_a, memories_a), p_mmc_ratio(answers_b, memories_b), plan, level
        ),
        answer_mcnemar=mcnemar(_positive(answers_a), _positive(answers_b)),
        memory_mcnemar=mcnemar(_positive(memories_a), _positive(memories_b)),
    )


def mcnemar(outcomes_a: Sequence[bool | None], outcomes_b: Sequence[bool | None]) -> McNemar:
    """Test paired binary outcomes exactly (McNemar 1947; mid-p: Fagerland et al. 2013).

    Given the number of discordant pairs, those in favour of A are Binomial(n, 1/2) under the
    null. None: not measured; such pairs are counted and left out.
    """
    if len(outcomes_a) != len(outcomes_b):
        raise ValueError(
            f"{len(outcomes_a)} outcomes against {len(outcomes_b)}: give one per question each"
        )
    pairs = [
        (a, b)
        for a, b in zip(outcomes_a, outcomes_b, strict=True)
        if a is not None and b is not None
    ]
    n_only_a, n_only_b = pairs.count((True, False)), pairs.count((False, True))
    return McNemar(
        n_both=pairs.count((True, True)),
        n_only_a=n_only_a,
        n_only_b=n_only_b,
        n_neither=pairs.count((False, False)),
        n_left_out=len(outcomes_a) - len(pairs),
        p_exact=sign_test(n_only_a, n_only_b),
        p_mid=_mid_p(n_only_a, n_only_b),
    )


def mcnemar_by_label(
    labels_a: Sequence[Hashable], labels_b: Sequence[Hashable]
) -> dict[Hashable, McNemar]:
    """Test for each label, e.g. each outcome cell, whether both runs give it equally often.

    One test per label and no correction for their number: with the 4 cells, compare p with
    level / 4 (Bonferroni) before calling one of them out. None: not measured.

    Returns:
        A test for every label seen, in order of first appearance in A, then in B.
    """
    labels = [label for label in dict.fromkeys([*labels_a, *labels_b]) if label is not None]
    return {
        label: mcnemar(
            [None if a is None else a == label for a in labels_a],
            [None if b is None else b == label for b in labels_b],
        )
        for label in labels
    }


def _mid_p(n_only_a: int, n_only_b: int) -> float:
    """Return the chance of a less likely split than the observed, plus half that of an equal."""
    n, smaller = n_only_a + n_only_b, min(n_only_a, n_only_b)
    if n == 0:
        return 1.0
    tail = half_binomial_tail(smaller, n)
    below = half_binomial_tail(smaller - 1, n) if smaller else 0.0
    if n_only_a == n_only_b:
        return 1 - (tail - below) / 2
    return tail + below


def _index(questions: Sequence[ScoredQuestion], which: str) -> dict[str, ScoredQuestion]:
    """Return the questions by id; ValueError where an id stands twice."""
    by_id: dict[str, ScoredQuestion] = {}
    for question in questions:
        if question.id in by_id:
            raise ValueError(
                f"question {question.id!r} stands twice in the {which} run: pass one result per "
                "question, and pool repeated runs with bootstrap.estimate_pooled"
            )
        by_id[question.id] = question
    return by_id


def _both_or_neither(
    scores_a: Sequence[float | None], scores_b: Sequence[float | None]
) -> tuple[list[float | None], list[float | None]]:
    """Return the scores with None in both runs wherever either is None.

    Else a question could enter a figure of one run only, and the difference would not be paired.
    """
    pairs = [
        (None, None) if a is None or b is None else (a, b)
        for a, b in zip(scores_a, scores_b, strict=True)
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _positive(scores: Sequence[float | None]) -> list[bool | None]:
    """Binarise at > 0, as the paper does."""
    return [None if score is None else score > 0 for score in scores]
