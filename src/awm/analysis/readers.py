"""How far the figures depend on the reader: several readers, or several rollouts of one.

All readers read the same memories. Their final answers are shared, so their cells differ only in
s_mem: a question moves between memory-supported and memory-missing, or between answering and
unresolved error. Kappas are over s_mem. A question that a reader did not measure is left out of
what needs that reader, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from awm.analysis.statistics.agreement import Agreement, cohen_kappa, fleiss_kappa
from awm.analysis.statistics.bootstrap import ResamplingPlan, estimate
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import Ratio, mean_ratio, p_mmc_ratio
from awm.analysis.statistics.rollouts import (
    majority_answer,
    mean_rollout_variance,
    pass_at_k_by_question,
)
from awm.scoring.outcome import Outcome, OutcomeCounts, count_outcomes, outcome

Scores = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ReaderFigures:
    """What one reader makes of the memories."""

    name: str
    memory_accuracy: Estimate
    p_mmc: Estimate
    outcomes: OutcomeCounts


@dataclass(frozen=True, slots=True)
class Migration:
    """Where questions go when one reader takes the place of another."""

    from_reader: str
    to_reader: str
    counts: dict[Outcome, dict[Outcome, int]]
    """By the cell under the first reader, then under the second."""
    kappa: Agreement
    """Cohen's, over s_mem."""

    @property
    def n_moved(self) -> int:
        """Questions in another cell."""
        return sum(
            count
            for before, row in self.counts.items()
            for after, count in row.items()
            if before != after
        )


@dataclass(frozen=True, slots=True)
class ReaderComparison:
    """Several readers of the same memories."""

    readers: tuple[ReaderFigures, ...]
    migrations: tuple[Migration, ...]
    """Each pair of readers once, in their order."""
    kappa: Agreement | None
    """Fleiss', over s_mem of all readers; None with fewer than 2."""
    missing_for_every: Estimate
    """Among right answers that every reader measured: those memory-missing for all readers."""
    missing_for_any: Estimate
    """The same for at least one reader."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "readers": [
                {
                    "name": reader.name,
                    "memory_accuracy": reader.memory_accuracy.as_json(),
                    "p_mmc": reader.p_mmc.as_json(),
                    "cells": reader.outcomes.as_dict(),
                    "n_unmeasured": reader.outcomes.n_unmeasured,
                }
                for reader in self.readers
            ],
            "migrations": [
                {
                    "from": each.from_reader,
                    "to": each.to_reader,
                    "counts": {
                        before.value: {after.value: n for after, n in row.items()}
                        for before, row in each.counts.items()
                    },
                    "n_moved": each.n_moved,
                    "cohen_kappa": _agreement_json(each.kappa),
                }
                for each in self.migrations
            ],
            "fleiss_kappa": _agreement_json(self.kappa) if self.kappa else None,
            "missing_for_every_reader": self.missing_for_every.as_json(),
            "missing_for_any_reader": self.missing_for_any.as_json(),
        }


@dataclass(frozen=True, slots=True)
class RolloutFigures:
    """K readings of each memory by one reader."""

    name: str
    n_rollouts: int
    """The largest K; a question with fewer measured ones is left out of the higher pass@k."""
    mean_accuracy: Estimate
    """Mean over questions of the mean over rollouts."""
    mean_variance: float | None
    """Mean unbiased variance of a question's scores over its rollouts."""
    n_variance: int
    """Questions with at least 2 measured rollouts."""
    self_consistency: Estimate
    """Mean share of a question's rollouts that give its most frequent answer."""
    n_tied: int
    """Questions without a single most frequent answer."""
    pass_at: dict[int, Estimate]

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "name": self.name,
            "n_rollouts": self.n_rollouts,
            "mean_accuracy": self.mean_accuracy.as_json(),
            "mean_variance": self.mean_variance,
            "n_variance": self.n_variance,
            "self_consistency": self.self_consistency.as_json(),
            "n_tied": self.n_tied,
            "pass_at": {str(k): each.as_json() for k, each in self.pass_at.items()},
        }


def compare_readers(
    final_scores_N: Scores, memory_scores: Mapping[str, Scores], plan: ResamplingPlan
) -> ReaderComparison:
    """Compare readers of the same memories.

    Args:
        final_scores_N: one final score a question; None: not measured.
        memory_scores: by reader, one memory-only score a question.
        plan: of the same questions.
    """
    cells = {
        name: [outcome(f, m) for f, m in zip(final_scores_N, scores, strict=True)]
        for name, scores in memory_scores.items()
    }
    readers = tuple(
        ReaderFigures(
            name=name,
            memory_accuracy=estimate(mean_ratio(scores), plan),
            p_mmc=estimate(p_mmc_ratio(final_scores_N, scores), plan),
            outcomes=count_outcomes(cells[name]),
        )
        for name, scores in memory_scores.items()
    )
    labels = {name: [_label(s) for s in scores] for name, scores in memory_scores.items()}
    by_question = list(zip(*labels.values(), strict=True))
    return ReaderComparison(
        readers=readers,
        migrations=tuple(
            Migration(a, b, count_migration(cells[a], cells[b]), cohen_kappa(labels[a], labels[b]))
            for a, b in combinations(memory_scores, 2)
        ),
        kappa=fleiss_kappa(by_question) if len(labels) > 1 else None,
        missing_for_every=estimate(_missing_ratio(final_scores_N, by_question, all), plan),
        missing_for_any=estimate(_missing_ratio(final_scores_N, by_question, any), plan),
    )


def count_migration(
    before_N: Sequence[Outcome | None], after_N: Sequence[Outcome | None]
) -> dict[Outcome, dict[Outcome, int]]:
    """Count the questions by their cell before and after; unmeasured ones are left out."""
    counts = {before: dict.fromkeys(Outcome, 0) for before in Outcome}
    for before, after in zip(before_N, after_N, strict=True):
        if before is not None and after is not None:
            counts[before][after] += 1
    return counts


def summarize_rollouts(
    name: str,
    scores_by_question: Sequence[Scores],
    answers_by_question: Sequence[Sequence[str | None]],
    plan: ResamplingPlan,
) -> RolloutFigures:
    """Summarise K readings of each memory.

    Args:
        name: the reader.
        scores_by_question: for each question the scores of its rollouts, of any number.
        answers_by_question: the answers, brought into one form (case and spaces fold here).
        plan: of the same questions.
    """
    n_rollouts = max(map(len, scores_by_question), default=0)
    measured = [[s for s in scores if s is not None] for scores in scores_by_question]
    means = [sum(scores) / len(scores) if scores else None for scores in measured]
    variance, n_variance = mean_rollout_variance(scores_by_question)
    majorities = [
        majority_answer([None if a is None else " ".join(a.casefold().split()) for a in answers])
        for answers in answers_by_question
    ]
    return RolloutFigures(
        name=name,
        n_rollouts=n_rollouts,
        mean_accuracy=estimate(mean_ratio(means), plan),
        mean_variance=variance,
        n_variance=n_variance,
        self_consistency=estimate(mean_ratio([m.consistency for m in majorities]), plan),
        n_tied=sum(majority.tied for majority in majorities),
        pass_at={
            k: estimate(mean_ratio(pass_at_k_by_question(scores_by_question, k)), plan)
            for k in _ks(n_rollouts)
        },
    )


def _ks(n_rollouts: int) -> list[int]:
    """Give 1, 2, 4, … and the number of rollouts itself."""
    powers = [1 << i for i in range(n_rollouts.bit_length()) if 1 << i < n_rollouts]
    return [*powers, n_rollouts] if n_rollouts else []


def _label(score: float | None) -> bool | None:
    return None if score is None else score > 0


def _missing_ratio(
    finals: Scores, by_question: Sequence[tuple[bool | None, ...]], which: Any
) -> Ratio:
    enters = [
        final is not None and final > 0 and bool(labels) and None not in labels
        for final, labels in zip(finals, by_question, strict=True)
    ]
    missing = [
        enter and which(not label for label in labels)
        for enter, labels in zip(enters, by_question, strict=True)
    ]
    return Ratio(np.array(missing, dtype=np.float64), np.array(enters, dtype=np.float64))


def _agreement_json(agreement: Agreement) -> dict[str, Any]:
    return {
        "kappa": agreement.kappa,
        "observed": agreement.observed,
        "expected": agreement.expected,
        "n": agreement.n,
        "n_left_out": agreement.n_left_out,
    }
