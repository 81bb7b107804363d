"""The four outcome cells of an answer and its memory, and P_mmc (arXiv 2608.25618).

>>> outcome(final_score=1.0, memory_score=0.0)
<Outcome.MEMORY_MISSING_CORRECT: 'memory_missing_correct'>
>>> cells = count_outcomes([outcome(1.0, 1.0), outcome(0.8, 0.0), outcome(0.0, 1.0), None])
>>> cells.p_mmc, cells.n
(0.5, 3)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """(s_ans, s_mem), each 1 where the official score is above 0."""

    MEMORY_SUPPORTED_CORRECT = "memory_supported_correct"
    """(1, 1)"""
    MEMORY_MISSING_CORRECT = "memory_missing_correct"
    """(1, 0): the answer is right and the memory cannot carry it."""
    ANSWERING_ERROR = "answering_error"
    """(0, 1): the memory held it, and the final answer is wrong."""
    UNRESOLVED_ERROR = "unresolved_error"
    """(0, 0)"""


def outcome(final_score: float | None, memory_score: float | None) -> Outcome | None:
    """Give the cell of two official scores; None where either is unmeasured."""
    if final_score is None or memory_score is None:
        return None
    if final_score > 0:
        return (
            Outcome.MEMORY_SUPPORTED_CORRECT if memory_score > 0 else Outcome.MEMORY_MISSING_CORRECT
        )
    return Outcome.ANSWERING_ERROR if memory_score > 0 else Outcome.UNRESOLVED_ERROR


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many answers fall into each cell."""

    memory_supported_correct: int = 0
    memory_missing_correct: int = 0
    answering_error: int = 0
    unresolved_error: int = 0
    n_unmeasured: int = 0

    @property
    def n(self) -> int:
        """Answers with a cell."""
        return (
            self.memory_supported_correct
            + self.memory_missing_correct
            + self.answering_error
            + self.unresolved_error
        )

    @property
    def n_correct(self) -> int:
        """Answers with s_ans = 1: the denominator of P_mmc."""
        return self.memory_supported_correct + self.memory_missing_correct

    @property
    def p_mmc(self) -> float | None:
        """count(1, 0) / count(s_ans = 1); None where no answer is right."""
        return self.memory_missing_correct / self.n_correct if self.n_correct else None

    def as_dict(self) -> dict[str, int]:
        """Give the counts under the cells' names."""
        return {cell.value: getattr(self, cell.value) for cell in Outcome}


def count_outcomes(outcomes: Iterable[Outcome | None]) -> OutcomeCounts:
    """Count cells; None counts as unmeasured."""
    counts = Counter(outcomes)
    return OutcomeCounts(
        **{cell.value: counts[cell] for cell in Outcome}, n_unmeasured=counts[None]
    )
