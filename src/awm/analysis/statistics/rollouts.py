"""Repeated attempts at one question: pass@k, variance, self-consistency.

Scores are those of one question's rollouts; None means that a rollout was not measured, and it
is left out. A number that the measured rollouts cannot give is None.

>>> pass_at_k([1, 0, 0, 0], k=2)
0.5
>>> majority_answer(["4.7%", "4.7%", "5%"]).answer
'4.7%'
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Majority:
    """The answer that most rollouts of a question gave."""

    answer: str | None
    """None without any answer. Among equals the one that appeared first."""
    n_votes: int
    """Rollouts that gave it."""
    n: int
    """Rollouts that gave any answer."""
    tied: bool
    """Whether another answer has as many votes."""

    @property
    def consistency(self) -> float | None:
        """Share of answers that agree with the majority; None without any answer."""
        return self.n_votes / self.n if self.n else None


def pass_at_k(scores: Sequence[float | None], k: int) -> float | None:
    """Estimate without bias the chance that at least one of `k` rollouts is correct.

    With c of n correct it is 1 - C(n - c, k) / C(n, k) (arXiv 2107.03374). Plugging c / n into
    1 - (1 - p)**k would come out too low. A score counts as correct above 0, as everywhere.

    Returns:
        The chance; None with fewer than `k` measured rollouts.
    """
    if k < 1:
        raise ValueError(f"pass@k with k={k!r}: give at least 1")
    measured = _measured(scores)
    n, n_wrong = len(measured), sum(score == 0 for score in measured)
    if n < k:
        return None
    return 1 - math.comb(n_wrong, k) / math.comb(n, k)


def pass_at_k_by_question(
    scores_by_question: Sequence[Sequence[float | None]], k: int
) -> list[float | None]:
    """Return pass@k of each question, ready for `ratios.mean_ratio`, which leaves None out."""
    return [pass_at_k(scores, k) for scores in scores_by_question]


def rollout_variance(scores: Sequence[float | None]) -> float | None:
    """Return the unbiased variance (n - 1) of one question's scores; None with fewer than 2."""
    measured = _measured(scores)
    if len(measured) < 2:
        return None
    mean = math.fsum(measured) / len(measured)
    return math.fsum((score - mean) ** 2 for score in measured) / (len(measured) - 1)


def mean_rollout_variance(
    scores_by_question: Sequence[Sequence[float | None]],
) -> tuple[float | None, int]:
    """Return the mean within-question variance, and how many questions it rests on.

    It is the part of a score's variance that another sample of rollouts would change, as
    opposed to another sample of questions.
    """
    variances = [rollout_variance(scores) for scores in scores_by_question]
    known = [variance for variance in variances if variance is not None]
    return (math.fsum(known) / len(known) if known else None), len(known)


def majority_answer(answers: Sequence[str | None]) -> Majority:
    """Return the most frequent answer; None stands for a rollout that gave none.

    Answers are compared as they are: bring them into the judge's normal form first.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return Majority(None, 0, 0, tied=False)
    # Counter keeps the order of first appearance among equals.
    ranked = votes.most_common(2)
    answer, n_votes = ranked[0]
    tied = len(ranked) > 1 and ranked[1][1] == n_votes
    return Majority(answer, n_votes, votes.total(), tied)


def _measured(scores: Sequence[float | None]) -> list[float]:
    """Return the scores that are neither None nor NaN; ValueError outside [0, 1]."""
    measured = [score for score in scores if score is not None and not math.isnan(score)]
    for score in measured:
        if not 0 <= score <= 1:
            raise ValueError(f"score {score!r}: scores lie in [0, 1]")
    return measured
