"""What a controlled memory comparison is told, and what it writes down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from awm.agent.episode import ErrorRecord
from awm.agent.reader import Reading
from awm.analysis.derived_runs import DerivedRun, open_derived
from awm.analysis.source_runs import Attempt
from awm.documents import RenderSettings
from awm.memory import Finding
from awm.models.chat import ModelSettings
from awm.runs import AnswerScore, ExampleRecord
from awm.scoring.outcome import Outcome, outcome

Arm = Literal["empty", "original", "improved"]
ARMS: tuple[Arm, ...] = ("empty", "original", "improved")


_FROZEN = ConfigDict(frozen=True, extra="forbid")


class InterventionSettings(BaseModel):
    """All that `awm intervene` can be told."""

    model_config = _FROZEN

    source: Path
    """The run whose memories are replaced."""
    run: Path
    """The folder of the comparison."""
    data: Path | None = None
    """Where the benchmark is now; None: where the source run read it."""
    arms: tuple[Arm, ...] = ARMS
    writer: ModelSettings | None = None
    """Writes the improved memories."""
    improved: Path | None = None
    """Or a file that holds them."""
    generator: ModelSettings
    """Gives the final answers."""
    generator_sees_pages: bool = False
    reader: ModelSettings
    extractor: ModelSettings | None = None
    extraction_prompt: Path | None = None
    render: RenderSettings = RenderSettings()
    concurrency: int = Field(default=8, ge=1)
    cache_dir: Path | None = None
    max_failures_in_a_row: int = Field(default=25, ge=1)

    @model_validator(mode="after")
    def _has_what_its_arms_need(self) -> InterventionSettings:
        if not self.arms or len(set(self.arms)) != len(self.arms):
            raise ValueError("name each memory once, at least one")
        if ("improved" in self.arms) != ((self.writer is None) != (self.improved is None)):
            raise ValueError(
                "improved memories need exactly one of a writer (--writer SPEC) and a file "
                "(--improved FILE), and the other memories neither"
            )
        return self


class InterventionItem(BaseModel):
    """One question, as taken from the source run."""

    model_config = _FROZEN

    example: ExampleRecord
    original: tuple[Finding, ...]
    document_digest: str | None
    outcome: Outcome | None
    """Its cell in the source run."""
    final: AnswerScore | None
    memory: AnswerScore | None
    """The source reader's answer, judged."""


class ArmReading(BaseModel):
    """The reader's answer from a substituted memory."""

    model_config = _FROZEN

    question_id: str
    arm: Arm
    reading: Reading


class ArmScore(BaseModel):
    """Both answers from one memory, judged."""

    model_config = _FROZEN

    question_id: str
    document_id: str
    arm: Arm
    findings: tuple[Finding, ...] | None
    """The memory; None where it could not be written."""
    final: AnswerScore
    memory: AnswerScore
    memory_from_source: bool = False
    """Whether the memory-only score is the source run's own."""

    @property
    def error(self) -> ErrorRecord | None:
        """Why something is unmeasured."""
        return self.final.error or self.memory.error

    @property
    def outcome(self) -> Outcome | None:
        """The cell of both answers."""
        return outcome(self.final.score, self.memory.score)


def take_items(attempts: Iterable[Attempt]) -> tuple[list[InterventionItem], dict[str, int]]:
    """Take the questions that can be compared, and count the others by reason."""
    items = []
    left_out: Counter[str] = Counter()
    for attempt in attempts:
        if not attempt.example.evidence_pages:
            left_out["no gold page within the document"] += 1
        elif attempt.memory is None:
            left_out["no finished episode with a memory"] += 1
        else:
            items.append(
                InterventionItem(
                    example=attempt.example,
                    original=attempt.memory,
                    document_digest=attempt.document_digest,
                    outcome=attempt.outcome,
                    final=attempt.score.final if attempt.score else None,
                    memory=attempt.score.memory if attempt.score else None,
                )
            )
    return items, dict(left_out)


def open_intervention(path: Path) -> DerivedRun[InterventionItem]:
    """Open a comparison's folder for reading.

    Raises:
        RunStoreError: it is none.
    """
    return open_derived(path, "intervention", InterventionItem)
