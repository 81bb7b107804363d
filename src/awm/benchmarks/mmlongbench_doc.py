"""MMLongBench-Doc (arXiv 2407.01523): `samples.json` beside a folder `documents/` of PDFs.

The file's lists (`evidence_pages`, `evidence_sources`) are strings of Python lists; they are
parsed as literals and never executed. Pages are 1-based already. Questions have no id in the file;
ours is made of the document and the wording (`stable_question_ids`).
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import orjson

from awm.benchmarks.benchmark import (
    Benchmark,
    Example,
    Gold,
    check_documents,
    hash_rows,
    is_plain_file_name,
    stable_question_ids,
)
from awm.documents import Document, open_document
from awm.errors import BenchmarkError
from awm.faults import reason
from awm.question import Question
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge

NAME = "mmlongbench-doc"
_MAX_LIST_CHARS = 20_000
"""Longest text that is parsed as a list; the file's own stay under 200."""
_SHOWN_CHARS = 80
_FIELDS = ("doc_id", "question", "answer", "answer_format")


def load_mmlongbench_doc(data: Path) -> Benchmark:
    """Load the benchmark from a folder with `samples.json` and `documents/`.

    Raises:
        BenchmarkError: the folder or the file is not there, or not of the documented form.
    """
    path = data / "samples.json"
    try:
        rows = orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise BenchmarkError(
            f"{path} is not there; --data must name the folder that holds samples.json and "
            "documents/ (github.com/mayubo2333/MMLongBench-Doc, folder data)"
        ) from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise BenchmarkError(f"{path} cannot be read as JSON: {reason(error)}") from error
    if not isinstance(rows, list) or not rows:
        raise BenchmarkError(f"{path} must hold a list of questions that is not empty")
    for number, row in enumerate(rows):
        _check_row(path, number, row)
    ids = stable_question_ids((row["doc_id"], row["question"]) for row in rows)
    examples = [
        _example(path, number, row, id_)
        for number, (row, id_) in enumerate(zip(rows, ids, strict=True))
    ]

    def open_by_id(document_id: str) -> Document:
        return open_document(data / "documents" / document_id, document_id=document_id)

    return check_documents(examples, open_by_id, hash_rows(rows), NAME, MMLongBenchDocJudge())


def _check_row(path: Path, number: int, row: Any) -> None:
    missing = [key for key in _FIELDS if not isinstance(row, dict) or key not in row]
    if missing:
        raise BenchmarkError(f"{path}, question {number}: no field {', '.join(missing)}")
    if not isinstance(row.get("doc_type"), str | None):
        raise BenchmarkError(f"{path}, question {number}: doc_type must be text")
    for key in ("doc_id", "question", "answer_format"):
        if not isinstance(row[key], str):
            raise BenchmarkError(f"{path}, question {number}: {key} must be text")
    if not is_plain_file_name(row["doc_id"]):
        raise BenchmarkError(
            f"{path}, question {number}: doc_id {row['doc_id']!r} must be a plain file name"
        )


def _example(path: Path, number: int, row: dict[str, Any], id_: str) -> Example:
    pages = _list_field(path, number, row, "evidence_pages")
    sources = _list_field(path, number, row, "evidence_sources")
    if not all(isinstance(page, int) and not isinstance(page, bool) for page in pages):
        shown = repr(pages)[:_SHOWN_CHARS]
        raise BenchmarkError(f"{path}, question {number}: evidence_pages {shown} must be numbers")
    return Example(
        Question(id=id_, text=row["question"], document_id=row["doc_id"]),
        Gold(
            answer=row["answer"],
            answer_format=row["answer_format"],
            annotated_pages=tuple(pages),
            evidence_sources=tuple(str(source) for source in sources),
            document_type=row.get("doc_type"),
        ),
    )


def _list_field(path: Path, number: int, row: dict[str, Any], key: str) -> list[Any]:
    value = row.get(key, [])
    if isinstance(value, str):
        try:
            value = _parse_literal(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
            raise BenchmarkError(
                f"{path}, question {number}: {key} {row[key][:_SHOWN_CHARS]!r} is not a list"
            ) from error
    if not isinstance(value, list):
        shown = repr(value)[:_SHOWN_CHARS]
        raise BenchmarkError(f"{path}, question {number}: {key} {shown} is not a list")
    return value


def _parse_literal(text: str) -> object:
    if len(text) > _MAX_LIST_CHARS:
        raise ValueError(f"{len(text)} characters; the limit is {_MAX_LIST_CHARS}")
    with warnings.catch_warnings():
        # A stray backslash warns, which a strict caller's filter turns into an error.
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)
