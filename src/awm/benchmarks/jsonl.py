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

Answers are judged by the rules of MMLongBench-Doc.
"""

from __future__ import annotations

import math
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
from awm.question import Question
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge

NAME = "jsonl"


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
        BenchmarkError: the file is not there, or a line is not of the documented form; the message
            names line and field.
    """
    path = data / "questions.jsonl" if data.is_dir() else data
    try:
        # Not splitlines(): a JSON text may hold U+2028 and its like unescaped.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(
            f"{path} cannot be read ({error}); --data must name a JSONL file of questions, or a "
            "folder that holds questions.jsonl"
        ) from error
    rows = [_row(path, n, line) for n, line in enumerate(lines, start=1) if line.strip()]
    if not rows:
        raise BenchmarkError(f"{path} holds no question")
    made = stable_question_ids((row.document, row.question) for row in rows)
    ids = [row.id or made_id for row, made_id in zip(rows, made, strict=True)]
    twice = sorted({id_ for id_ in ids if ids.count(id_) > 1}) if len(set(ids)) < len(ids) else []
    if twice:
        raise BenchmarkError(f"{path}: the id {twice[0]!r} stands more than once")
    examples = [_example(row, id_) for row, id_ in zip(rows, ids, strict=True)]
    folder = path.parent

    def open_by_id(document_id: str) -> Document:
        beside = folder / document_id
        file = beside if beside.exists() else folder / "documents" / document_id
        return open_document(file, document_id=document_id)

    digest = hash_rows([row.model_dump(mode="json") for row in rows])
    return check_documents(examples, open_by_id, digest, name, MMLongBenchDocJudge())


def load_demo() -> Benchmark:
    """Load the demo corpus that ships with AWM."""
    return load_jsonl(Path(str(resources.files("awm.benchmarks"))) / "demo_corpus", name="demo")


def _is_text_or_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return value.bit_length() < 64
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _row(path: Path, number: int, line: str) -> QuestionRow:
    try:
        return QuestionRow.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        raise BenchmarkError(f"{path}, line {number}, {where}: {first['msg']}") from error


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
