"""Your own questions: a JSONL file, one question a line, beside your documents.

- `question`: text, required.
- `document`: text, required: a PDF, an image or a folder of page images, relative to the file's
  folder or to `documents/` in it.
- `answer`: text, number or list, required: the gold answer.
- `answer_format`: "Str" (default), "Int", "Float", "List" or "None"; chooses the judge's rule.
  "None" is for questions that the document does not answer.
- `id`: text; default: made of the document and the question.
- `evidence_pages`: list of numbers, 1-based; needed by `--setting ep-given`.
- `evidence_sources`: list of texts, e.g. ["Table"].
- `document_type`: text, for breakdowns.

Answers are judged by the rules of MMLongBench-Doc. A gold answer to which these rules could give
no answer a point, not even itself, is refused: "twelve" or "21%" as an Int, "1,200" as a Float.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from awm.benchmarks.benchmark import (
    Benchmark,
    Example,
    Gold,
    check_documents,
    hash_rows,
    stable_question_ids,
)
from awm.documents import Document, open_document
from awm.errors import BenchmarkError
from awm.faults import MAX_FAULTS, faulty_rows, find_faults, reason, row_hint, shown
from awm.question import Question
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge

NAME = "jsonl"
_JUDGE = MMLongBenchDocJudge()
_HOW_TO_WRITE = {
    "Int": 'write a bare whole number such as 12, or give answer_format "Str"',
    "Float": 'write a bare number such as 12.5 without separators, or give answer_format "Str"',
    "List": "write a JSON list of texts or numbers that is not empty",
}


class QuestionRow(BaseModel):
    """One line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    question: str = Field(min_length=1)
    document: str = Field(min_length=1)
    answer: str | int | float | list[str | int | float]
    answer_format: Literal["Str", "Int", "Float", "List", "None"] = "Str"
    id: str | None = Field(default=None, min_length=1)
    evidence_pages: tuple[int, ...] = ()
    evidence_sources: tuple[str, ...] = ()
    document_type: str | None = None

    @field_validator("document")
    @classmethod
    def _can_be_a_path(cls, document: str) -> str:
        if "\0" in document:
            raise PydanticCustomError("path", "a path cannot hold a NUL character")
        return document

    @field_validator("answer", mode="before")
    @classmethod
    def _can_be_scored(cls, answer: object) -> object:
        values = answer if isinstance(answer, list) else [answer]
        if not all(_is_text_or_number(value) for value in values):
            raise PydanticCustomError(
                "answer", "must be text, a finite number of up to 64 bits, or a list of these"
            )
        return answer


def load_jsonl(data: Path, *, name: str = NAME) -> Benchmark:
    """Load questions from a JSONL file, or from `questions.jsonl` in a folder.

    Raises:
        BenchmarkError: the file is not there, or lines are not of the documented form; the message
            names line and field of up to `MAX_FAULTS` faults.
    """
    path = data / "questions.jsonl" if data.is_dir() else data
    try:
        # Not splitlines(): a JSON text may hold U+2028 and its like unescaped.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(
            f"{path} cannot be read ({reason(error)}); --data must name a JSONL file of questions, "
            "or a folder that holds questions.jsonl"
        ) from error
    numbered = _read_rows(path, lines)
    rows = list(numbered.values())
    made = stable_question_ids((row.document, row.question) for row in rows)
    ids = [row.id or made_id for row, made_id in zip(rows, made, strict=True)]
    _check_made_ids(path, zip(numbered, ids, strict=True))
    examples = [_example(row, id_) for row, id_ in zip(rows, ids, strict=True)]
    folder = path.parent

    def open_by_id(document_id: str) -> Document:
        beside = folder / document_id
        file = beside if beside.exists() else folder / "documents" / document_id
        return open_document(file, document_id=document_id)

    digest = hash_rows([row.model_dump(mode="json") for row in rows])
    return check_documents(examples, open_by_id, digest, name, _JUDGE)


def load_demo() -> Benchmark:
    """Load the demo corpus that ships with AWM."""
    return load_jsonl(Path(str(resources.files("awm.benchmarks"))) / "demo_corpus", name="demo")


def _is_text_or_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return value.bit_length() < 64
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _read_rows(path: Path, lines: Iterable[str]) -> dict[int, QuestionRow]:
    """Check every line; give the rows by the numbers of their lines."""
    rows: dict[int, QuestionRow] = {}
    faults: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _read_row(number, line, faults)
        if row is not None:
            rows[number] = row
            if row.id is not None and seen.setdefault(row.id, number) != number:
                faults.append(_twice(number, row.id, seen[row.id]))
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        raise BenchmarkError(faulty_rows(path, faults))
    if not rows:
        raise BenchmarkError(f"{path} holds no question")
    return rows


def _read_row(number: int, line: str, faults: list[str]) -> QuestionRow | None:
    try:
        row = QuestionRow.model_validate_json(line)
    except ValidationError as error:
        for fault in find_faults(error, QuestionRow, noun="field"):
            if fault.place:
                faults.append(f"line {number}, {fault.place}: {fault.text}")
            else:
                faults.append(f"line {number}: {fault.text}{row_hint(line.encode())}")
        return None
    if _JUDGE.score(row.answer, row.answer, row.answer_format).value == 0:
        faults.append(
            f"line {number}, answer: {shown(row.answer)} cannot be "
            f"{'an' if row.answer_format == 'Int' else 'a'} {row.answer_format}: the judge would "
            f"count every answer wrong; {_HOW_TO_WRITE.get(row.answer_format, 'shorten it')}"
        )
    return row


def _check_made_ids(path: Path, ids: Iterable[tuple[int, str]]) -> None:
    """Refuse an id that equals the one made for another line."""
    seen: dict[str, int] = {}
    faults = [
        _twice(number, id_, seen[id_])
        for number, id_ in ids
        if seen.setdefault(id_, number) != number
    ]
    if faults:
        raise BenchmarkError(faulty_rows(path, faults[:MAX_FAULTS]))


def _twice(number: int, id_: str, first: int) -> str:
    return f"line {number}, id: {id_!r} stands in line {first} too"


def _example(row: QuestionRow, id_: str) -> Example:
    return Example(
        Question(id=id_, text=row.question, document_id=row.document),
        Gold(
            answer=row.answer,
            answer_format=row.answer_format,
            annotated_pages=row.evidence_pages,
            evidence_sources=row.evidence_sources,
            document_type=row.document_type,
        ),
    )
