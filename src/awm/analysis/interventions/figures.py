"""The figures of a controlled memory comparison: its rows, rates, differences and audits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from awm.analysis.interventions.records import Arm
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.paired import McNemar
from awm.scoring.outcome import Outcome, OutcomeCounts, outcome

MEASURES = ("final", "memory")
UNMEASURED_CELL = "unmeasured"


@dataclass(frozen=True, slots=True)
class ArmRow:
    """One question under one memory."""

    question_id: str
    document_id: str
    arm: Arm
    final_score: float | None
    """In [0, 1]; None: unmeasured."""
    memory_score: float | None
    memory: str | None = None
    """The rendered memory; None where it is not known."""
    cited_pages: tuple[int, ...] | None = None
    """A page for each finding; None where they are not known."""
    gold_pages: tuple[int, ...] | None = None
    gold: object = None
    """The gold answer; None where it is not known."""
    source_outcome: Outcome | None = None
    """The cell in the source run; None where it is not known."""

    @property
    def final(self) -> bool | None:
        """Whether the final answer is right; None: unmeasured."""
        return None if self.final_score is None else self.final_score > 0

    @property
    def from_memory(self) -> bool | None:
        """Whether the memory-only answer is right; None: unmeasured."""
        return None if self.memory_score is None else self.memory_score > 0

    @property
    def outcome(self) -> Outcome | None:
        """The cell of both answers."""
        return outcome(self.final_score, self.memory_score)

    def measure(self, name: str) -> bool | None:
        """Give `final` or `memory`."""
        return self.final if name == "final" else self.from_memory


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """The rates under one memory."""

    arm: Arm
    n: int
    """Questions."""
    n_unmeasured: int
    """Of them, those with an answer that is not measured."""
    final: Estimate
    memory: Estimate
    n_final: int
    """Right final answers."""
    n_memory: int
    """Memory-answerable questions."""
    p_mmc: Estimate
    cells: OutcomeCounts


@dataclass(frozen=True, slots=True)
class ArmDifference:
    """One memory minus another, over the questions that both measured."""

    measure: str
    """"final" or "memory"."""
    minuend: Arm
    subtrahend: Arm
    difference: Estimate
    test: McNemar
    """`n_only_a`: right with the minuend alone, so gained; `n_only_b`: lost."""

    @property
    def change(self) -> int:
        """Questions gained minus questions lost."""
        return self.test.n_only_a - self.test.n_only_b


@dataclass(frozen=True, slots=True)
class CellRow:
    """The questions of one cell of the original memory, under every memory."""

    cell: str
    """A cell's name, or "unmeasured"."""
    n: int
    counts: dict[Arm, dict[str, int]]
    """By memory: right final answers ("final") and memory-answerable questions ("memory")."""


@dataclass(frozen=True, slots=True)
class ArmAudit:
    """What the memories of one arm are like."""

    arm: Arm
    n_memories: int
    """Memories whose text is known."""
    n_empty: int
    n_with_pages: int
    """Memories with findings whose pages, and the gold pages, are known."""
    n_cite_gold: int
    """Of them, those that cite a gold page."""
    n_cite_only_gold: int
    """Of them, those that cite nothing else."""
    n_exact_known: int
    """Memories whose gold answer is known and can be looked for."""
    n_exact: int
    """Of them, those that hold the exact gold answer."""
    n_remaining: int
    """Memories without it, the empty ones and those that were not searched left in."""
    n_remaining_positive: int
    remaining: Estimate
    """Memory-only rate of the remaining: another subset, see `OTHER_SUBSET`."""


@dataclass(frozen=True, slots=True)
class InterventionReport:
    """What `awm intervene` prints."""

    title: dict[str, Any]
    """Where the rows are from and what made them; the first keys of `as_json`."""
    n_questions: int
    arms: tuple[ArmFigures, ...]
    differences: tuple[ArmDifference, ...]
    by_cell: tuple[CellRow, ...]
    cells_from: str
    """Whose cells `by_cell` groups by."""
    cell_transitions: dict[str, dict[str, int]]
    """From the cell under the original memory to that under the improved one."""
    audits: tuple[ArmAudit, ...]
    writing: dict[str, int] | None
    """What writing the improved memories took; None for a log."""
    warnings: tuple[str, ...]

    @property
    def n_unmeasured(self) -> int:
        """Rows with an answer that is not measured."""
        return sum(figures.n_unmeasured for figures in self.arms)

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            **self.title,
            "n_questions": self.n_questions,
            "n_unmeasured": self.n_unmeasured,
            "arms": {f.arm: _figures_json(f) for f in self.arms},
            "differences": [_difference_json(d) for d in self.differences],
            "cells_from": self.cells_from,
            "by_cell": {r.cell: {"n": r.n, "arms": r.counts} for r in self.by_cell},
            "cell_transitions": self.cell_transitions,
            "audits": {audit.arm: _audit_json(audit) for audit in self.audits},
            "writing": self.writing,
            "warnings": list(self.warnings),
        }


def _figures_json(figures: ArmFigures) -> dict[str, Any]:
    return {
        "n": figures.n,
        "n_unmeasured": figures.n_unmeasured,
        "final": figures.final.as_json(),
        "memory": figures.memory.as_json(),
        "n_final": figures.n_final,
        "n_memory": figures.n_memory,
        "p_mmc": figures.p_mmc.as_json(),
        "cells": figures.cells.as_dict(),
    }


def _difference_json(difference: ArmDifference) -> dict[str, Any]:
    test = difference.test
    return {
        "measure": difference.measure,
        "minuend": difference.minuend,
        "subtrahend": difference.subtrahend,
        "difference": difference.difference.as_json(),
        "change": difference.change,
        "n_both": test.n_both,
        "n_gained": test.n_only_a,
        "n_lost": test.n_only_b,
        "n_neither": test.n_neither,
        "n_unmeasured": test.n_left_out,
        "p_exact": test.p_exact,
        "p_mid": test.p_mid,
    }


def _audit_json(audit: ArmAudit) -> dict[str, Any]:
    return {
        "n_memories": audit.n_memories,
        "n_empty": audit.n_empty,
        "n_with_pages": audit.n_with_pages,
        "n_cite_gold": audit.n_cite_gold,
        "n_cite_only_gold": audit.n_cite_only_gold,
        "n_exact_known": audit.n_exact_known,
        "n_exact": audit.n_exact,
        "n_remaining": audit.n_remaining,
        "n_remaining_positive": audit.n_remaining_positive,
        "remaining": audit.remaining.as_json(),
    }
