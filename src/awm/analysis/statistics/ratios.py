"""The figures of a run, each as a ratio of two sums over its questions.

A mean score is (scores / 1), P_mmc (memory-missing correct / correct), F1 (twice the score sum /
answerable + answered). Written so, numerator and denominator can be resampled together by
`bootstrap`. A score of NaN or None was not measured: its question adds 0 to both sums, so it is
left out of the figure and of the figure's `n`.

>>> mean_ratio([1.0, None, 0.5]).value
0.75
>>> p_mmc_ratio([1.0, 1.0, 0.0], [0.0, 0.4, 1.0]).value
0.5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = Sequence[float | None] | NDArray[Any]
"""One score in [0, 1] per question; None and NaN: not measured."""
Flags: TypeAlias = Sequence[bool] | NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """A figure that is a sum over questions divided by another sum over the same questions."""

    numerators_N: Floats
    denominators_N: Floats
    """At least 0; 0 where the question does not enter the figure."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest value that the figure can take."""

    def __post_init__(self) -> None:
        if self.numerators_N.ndim != 1 or self.numerators_N.shape != self.denominators_N.shape:
            raise ValueError(
                f"numerators of shape {self.numerators_N.shape} and denominators of shape "
                f"{self.denominators_N.shape}: give one of each per question"
            )
        finite = np.isfinite(self.numerators_N) & np.isfinite(self.denominators_N)
        if not finite.all():
            raise ValueError(
                f"question {int(np.argmin(finite))} has a numerator or denominator that is not "
                "finite; give 0 and 0 for a question that was not measured"
            )
        if (self.denominators_N < 0).any():
            raise ValueError("a denominator is negative; give counts or weights of at least 0")

    @property
    def value(self) -> float | None:
        """The figure; None where no question enters it."""
        denominator = float(self.denominators_N.sum())
        return float(self.numerators_N.sum()) / denominator if denominator else None


def measured_scores(scores_N: Scores) -> Floats:
    """Return scores as floats, shape (N,); None becomes NaN, both mean not measured."""
    scores = np.asarray(scores_N, dtype=np.float64)
    if scores.ndim != 1:
        raise ValueError(f"scores of shape {scores.shape}: give one score per question")
    wrong = (scores < 0) | (scores > 1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"score {float(scores[i])!r} of question {i}: scores lie in [0, 1]")
    return scores


def mean_ratio(scores_N: Scores) -> Ratio:
    """Return the mean score over the measured questions, as a ratio."""
    scores = measured_scores(scores_N)
    known = ~np.isnan(scores)
    return Ratio(np.where(known, scores, 0.0), known.astype(np.float64))


def p_mmc_ratio(answer_scores_N: Scores, memory_scores_N: Scores) -> Ratio:
    """Return P_mmc = count(s_ans = 1, s_mem = 0) / count(s_ans = 1), as a ratio.

    Graded scores are binarised at > 0 (arXiv 2608.25618). A correct answer whose memory-only
    answer was not measured is in neither count.
    """
    answer, memory = measured_scores(answer_scores_N), measured_scores(memory_scores_N)
    _check_lengths(answer, memory)
    correct = (answer > 0) & ~np.isnan(memory)
    return Ratio((correct & (memory == 0)).astype(np.float64), correct.astype(np.float64))


def f1_ratio(scores_N: Scores, answerable_N: Flags, answered_N: Flags) -> Ratio:
    """Return MMLongBench-Doc's F1 as a ratio.

    Its recall S / A and precision S / P share the numerator S, the score sum over answerable
    questions, so their harmonic mean is 2 S / (A + P).

    Args:
        scores_N: scores, NaN or None where not measured.
        answerable_N: whether the gold answer is other than "Not answerable" (A counts these).
        answered_N: whether the prediction is other than "Not answerable" (P counts these).
    """
    scores = measured_scores(scores_N)
    answerable = np.asarray(answerable_N, dtype=np.bool_)
    answered = np.asarray(answered_N, dtype=np.bool_)
    _check_lengths(scores, answerable, answered)
    known = ~np.isnan(scores)
    return Ratio(
        np.where(known & answerable, 2 * scores, 0.0),
        known * (answerable.astype(np.float64) + answered.astype(np.float64)),
    )


def _check_lengths(*columns: NDArray[np.generic]) -> None:
    """Raise ValueError unless all columns have one entry per question."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"columns of lengths {lengths}: give one entry per question in each")
