"""A controlled memory comparison that someone else ran, as a log: one question and memory a row.

- `question_id`: text, required.
- `arm`: "empty", "original" or "improved", required; a question has each at most once.
- `final_score`, `memory_score`: number in [0, 1], true or false, or null (unmeasured), required.
- `document_id`: text; intervals resample documents, and without it each question is its own.
- `memory`: text, or a list of findings with `text` and `page`.
- `cited_pages`: list of numbers, for a memory that is text.
- `evidence_pages`: list of numbers: the gold pages.
- `gold`: text, number or list: the gold answer, for the exact-answer filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from awm.analysis.interventions.figures import ArmRow
from awm.analysis.interventions.records import Arm
from awm.errors import DataError
from awm.faults import reason
from awm.memory import EMPTY_MEMORY


class LogFinding(BaseModel):
    """One finding of a memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    page: int = Field(ge=1)


class LogRow(BaseModel):
    """One line of the log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question_id: str = Field(min_length=1)
    arm: Arm
    final_score: float | None = Field(ge=0, le=1)
    memory_score: float | None = Field(ge=0, le=1)
    document_id: str | None = None
    memory: str | tuple[LogFinding, ...] | None = None
    cited_pages: tuple[int, ...] | None = None
    evidence_pages: tuple[int, ...] | None = None
    gold: str | int | float | tuple[str | int | float, ...] | None = None

    def as_arm_row(self) -> ArmRow:
        """Give what the report takes."""
        memory, cited = self.memory, self.cited_pages
        if isinstance(memory, tuple):
            cited = tuple(finding.page for finding in memory) if cited is None else cited
            lines = [f"[p. {finding.page}] {finding.text}" for finding in memory]
            memory = "\n".join(lines) or EMPTY_MEMORY
        elif memory is not None and not memory.strip() and cited is None:
            cited = ()
        return ArmRow(
            question_id=self.question_id,
            document_id=self.question_id if self.document_id is None else self.document_id,
            arm=self.arm,
            final_score=self.final_score,
            memory_score=self.memory_score,
            memory=memory,
            cited_pages=cited,
            gold_pages=self.evidence_pages,
            gold=list(self.gold) if isinstance(self.gold, tuple) else self.gold,
        )


def read_intervention_log(path: Path) -> list[ArmRow]:
    """Read a log.

    Raises:
        DataError: it cannot be read, or a row is not of the documented form; the message names
            line and field.
    """
    rows: dict[tuple[str, str], ArmRow] = {}
    documents: dict[str, str] = {}
    for number, row in _read_rows(path):
        key = (row.question_id, row.arm)
        if key in rows:
            raise DataError(
                f"{path}, line {number}: question {row.question_id!r} has the memory {row.arm!r} "
                "twice"
            )
        rows[key] = row.as_arm_row()
        document = rows[key].document_id
        if documents.setdefault(row.question_id, document) != document:
            raise DataError(
                f"{path}, line {number}, document_id: {document!r}, and another row of question "
                f"{row.question_id!r} has {documents[row.question_id]!r}"
            )
    if not rows:
        raise DataError(f"{path} holds no row")
    return list(rows.values())


def _read_rows(path: Path) -> Iterator[tuple[int, LogRow]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, LogRow.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the line"
            raise DataError(f"{path}, line {number}, {where}: {first['msg']}") from error
