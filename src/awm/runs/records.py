"""The records of a run's journals, one line each."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from awm.agent.episode import ErrorRecord
from awm.agent.reader import Reading
from awm.scoring.extraction import Extraction
from awm.scoring.outcome import Outcome

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class ExampleRecord(BaseModel):
    """A question of the run with its gold, for analysis and display."""

    model_config = _FROZEN

    question_id: str
    question: str
    document_id: str
    page_window: tuple[int, int] | None = None
    answer: Any
    answer_format: str
    evidence_pages: tuple[int, ...] = ()
    annotated_pages: tuple[int, ...] = ()
    evidence_sources: tuple[str, ...] = ()
    document_type: str | None = None
    task_tag: str | None = None
    question_type: str | None = None
    sub_tasks: tuple[str, ...] = ()


class DocumentRecord(BaseModel):
    """A document that the run has opened."""

    model_config = _FROZEN

    document_id: str
    digest: str
    """SHA-256 of its bytes; every episode's must be the one of its question's document."""
    page_count: int
    pages_without_text: tuple[int, ...] | None
    """Pages that a lexical search cannot find; None where the setting does not search."""


class AnswerScore(BaseModel):
    """One answer, judged."""

    model_config = _FROZEN

    prediction: str | None
    """The short answer that was judged; None where there was no answer or no measure."""
    score: float | None
    """In [0, 1]; None: unmeasured."""
    flags: tuple[str, ...] = ()
    extraction: Extraction | None = None
    error: ErrorRecord | None = None
    """Set exactly where `score` is None."""


class ScoreRecord(BaseModel):
    """Both answers to a question."""

    model_config = _FROZEN

    question_id: str
    document_id: str
    final: AnswerScore
    memory: AnswerScore | None
    """None where the setting keeps no memory, or no reader was asked for."""
    outcome: Outcome | None
    """None where either score is not measured."""

    @property
    def error(self) -> ErrorRecord | None:
        """Why something is unmeasured; None where everything is measured."""
        return self.final.error or (self.memory.error if self.memory else None)

    @property
    def is_final(self) -> bool:
        """True where everything that was asked for is measured."""
        return self.final.score is not None and (
            self.memory is None or self.memory.score is not None
        )


class RereadingRecord(BaseModel):
    """A further reading of a memory: by another reader, or another sample of the first."""

    model_config = _FROZEN

    question_id: str
    reader: str
    """The reader's name: its spec, numbered where two share one."""
    sample: int
    """0 is a reader's first reading. The first of the first reader stands in readings.jsonl."""
    reading: Reading
    score: AnswerScore


class SessionRecord(BaseModel):
    """A start or a resumption of the run."""

    model_config = _FROZEN

    started_at: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    git_revision: str | None
    settings: dict[str, Any] = {}
    """Those that may differ from session to session, e.g. `concurrency`."""
