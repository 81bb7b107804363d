"""The figures of claim-level grounding: verdicts of findings, memories, and the cross table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from awm.analysis.breakdowns import plan_resampling
from awm.analysis.grounding.run import FindingVerdict, read_verdicts
from awm.analysis.grounding.text_verifier import Verdict
from awm.analysis.statistics.bootstrap import estimate
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import Ratio
from awm.scoring.outcome import Outcome


class Support(StrEnum):
    """How the pages support a memory; see `awm.analysis.grounding.run`."""

    GROUNDED = "grounded"
    PARTLY = "partly"
    UNGROUNDED = "ungrounded"
    EMPTY = "empty"
    UNCHECKED = "unchecked"


ANSWERS = ("answerable", "not_answerable", "unmeasured")
_REFUTED = (Verdict.CONTRADICTED, Verdict.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One memory with the verdicts on its findings."""

    question_id: str
    document_id: str
    verdicts: tuple[Verdict | None, ...]
    memory_score: float | None
    outcome: Outcome | None

    @property
    def support(self) -> Support:
        """How the pages support it."""
        if not self.verdicts:
            return Support.EMPTY
        n_supported = self.verdicts.count(Verdict.SUPPORTED)
        n_refuted = sum(verdict in _REFUTED for verdict in self.verdicts)
        if n_refuted:
            return Support.PARTLY if n_supported else Support.UNGROUNDED
        return Support.GROUNDED if n_supported == len(self.verdicts) else Support.UNCHECKED

    @property
    def answer(self) -> str:
        """Whether the reader answers from it: one of `ANSWERS`."""
        if self.memory_score is None:
            return "unmeasured"
        return "answerable" if self.memory_score > 0 else "not_answerable"


@dataclass(frozen=True, slots=True)
class GroundingReport:
    """What `awm ground` prints."""

    title: dict[str, Any]
    n_memories: int
    n_findings: int
    verdicts: dict[str, int]
    """Findings by verdict."""
    n_unmeasured: int
    """Findings without a verdict."""
    supported: Estimate
    """Share of the checked findings (supported, contradicted, not found) that are supported."""
    contradicted: Estimate
    grounded: Estimate
    """Share of the checked memories that are grounded; the empty ones are in the denominator."""
    unsupported_guesses: Estimate
    """Of the answerable, checked memories: the share that is ungrounded or empty."""
    omissions: Estimate
    """Of the grounded memories: the share that is not answerable."""
    cross: dict[str, dict[str, int]]
    """Support by answerability."""
    by_cell: dict[str, dict[str, int]]
    """Outcome cell by support."""
    guesses: tuple[str, ...]
    """Ids of the unsupported guesses."""
    omitting: tuple[str, ...]
    """Ids of the grounded memories that are not answerable."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            **self.title,
            "n_memories": self.n_memories,
            "n_findings": self.n_findings,
            "verdicts": self.verdicts,
            "n_unmeasured": self.n_unmeasured,
            "supported": self.supported.as_json(),
            "contradicted": self.contradicted.as_json(),
            "grounded": self.grounded.as_json(),
            "unsupported_guesses": self.unsupported_guesses.as_json(),
            "omissions": self.omissions.as_json(),
            "cross": self.cross,
            "by_cell": self.by_cell,
            "guesses": list(self.guesses),
            "omitting": list(self.omitting),
        }


def report_grounding(path: Path) -> GroundingReport:
    """Read a folder of verdicts, finished or not.

    Raises:
        RunStoreError: it is none, or is damaged.
    """
    run, found = read_verdicts(path)
    manifest = run.manifest
    rows = [
        MemoryRow(
            question_id=item.example.question_id,
            document_id=item.example.document_id,
            verdicts=tuple(_verdict(each) for each in verdicts),
            memory_score=item.memory_score,
            outcome=item.outcome,
        )
        for item, verdicts in found
    ]
    errors = [
        each.error
        for _, verdicts in found
        for each in verdicts
        if each is not None and each.error is not None
    ]
    title = {
        "run": str(path),
        "source": manifest.source.path,
        "source_setting": manifest.source.setting,
        "benchmark": manifest.dataset.benchmark,
        "verifier": manifest.settings["verifier"]["spec"],
        "n_left_out": manifest.n_left_out,
        "errors": dict(Counter(error.type for error in errors)),
        "error_sample": errors[0].message if errors else None,
    }
    return make_grounding_report(rows, title)


def _verdict(found: FindingVerdict | None) -> Verdict | None:
    return found.verdict if found is not None else None


def make_grounding_report(rows: Sequence[MemoryRow], title: dict[str, Any]) -> GroundingReport:
    """Compute the figures from the verdicts of each memory."""
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    counts = Counter(verdicts)
    plan = plan_resampling([row.document_id for row in rows])
    checked = [row.support is not Support.UNCHECKED for row in rows]
    grounded = [row.support is Support.GROUNDED for row in rows]
    answerable = [row.answer == "answerable" for row in rows]
    unsupported = [row.support in (Support.UNGROUNDED, Support.EMPTY) for row in rows]
    wrong = [row.answer == "not_answerable" for row in rows]
    n_checked = [
        sum(v is not None and v is not Verdict.UNREADABLE for v in row.verdicts) for row in rows
    ]
    guesses = [a and u for a, u in zip(answerable, unsupported, strict=True)]
    omitting = [g and w for g, w in zip(grounded, wrong, strict=True)]
    return GroundingReport(
        title=title,
        n_memories=len(rows),
        n_findings=len(verdicts),
        verdicts={verdict.value: counts[verdict] for verdict in Verdict},
        n_unmeasured=counts[None],
        supported=estimate(
            _ratio([row.verdicts.count(Verdict.SUPPORTED) for row in rows], n_checked), plan
        ),
        contradicted=estimate(
            _ratio([row.verdicts.count(Verdict.CONTRADICTED) for row in rows], n_checked), plan
        ),
        grounded=estimate(_ratio(grounded, checked), plan),
        unsupported_guesses=estimate(
            _ratio(guesses, [a and c for a, c in zip(answerable, checked, strict=True)]), plan
        ),
        omissions=estimate(
            _ratio(
                omitting,
                [g and row.answer != "unmeasured" for g, row in zip(grounded, rows, strict=True)],
            ),
            plan,
        ),
        cross=_cross(rows),
        by_cell=_by_cell(rows),
        guesses=tuple(r.question_id for r, is_one in zip(rows, guesses, strict=True) if is_one),
        omitting=tuple(r.question_id for r, is_one in zip(rows, omitting, strict=True) if is_one),
    )


def _ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    return Ratio(
        np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    )


def _cross(rows: Sequence[MemoryRow]) -> dict[str, dict[str, int]]:
    counts = Counter((row.support, row.answer) for row in rows)
    return {s.value: {answer: counts[s, answer] for answer in ANSWERS} for s in Support}


def _by_cell(rows: Sequence[MemoryRow]) -> dict[str, dict[str, int]]:
    counts = Counter((row.outcome, row.support) for row in rows)
    return {cell.value: {s.value: counts[cell, s] for s in Support} for cell in Outcome}
