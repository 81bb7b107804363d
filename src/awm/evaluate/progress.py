"""Where a run stands, for whoever shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from awm.agent.episode import Episode, ErrorRecord
from awm.agent.reader import Reading
from awm.runs import (
    ScoreRecord,
)
from awm.scoring.outcome import Outcome


@dataclass(slots=True)
class Progress:
    """Where a run stands."""

    n_questions: int
    n_done: int = 0
    """Questions with a record from this session or an earlier one."""
    n_at_start: int = 0
    """Of them, those that this session found done."""
    n_unmeasured: int = 0
    cells: Counter[Outcome] = field(default_factory=Counter)
    final_sum: float = 0.0
    n_final: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    last_error: ErrorRecord | None = None

    @property
    def final_accuracy(self) -> float | None:
        """Mean final score so far; None before the first."""
        return self.final_sum / self.n_final if self.n_final else None

    @property
    def p_mmc(self) -> float | None:
        """P_mmc so far; None before the first right answer."""
        missing = self.cells[Outcome.MEMORY_MISSING_CORRECT]
        correct = missing + self.cells[Outcome.MEMORY_SUPPORTED_CORRECT]
        return missing / correct if correct else None

    def add(self, record: ScoreRecord) -> None:
        """Count a score record."""
        self.n_done += 1
        if record.final.score is not None:
            self.final_sum += record.final.score
            self.n_final += 1
        if record.outcome is not None:
            self.cells[record.outcome] += 1
        if not record.is_final:
            self.n_unmeasured += 1
            self.last_error = record.error

    def add_tokens(self, episode: Episode | None, reading: Reading | None) -> None:
        """Count the tokens that were spent."""
        calls = list(episode.calls) if episode else []
        if reading and reading.call:
            calls.append(reading.call)
        for call in calls:
            self.prompt_tokens += call.prompt_tokens or 0
            self.completion_tokens += call.completion_tokens or 0


OnProgress = Callable[[Progress], None]
