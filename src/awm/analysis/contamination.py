"""Reads a training set for the comparison with a benchmark: from a run, or from a JSONL file.

A run gives its questions and the digests of the documents that it opened. In a JSONL file each line
is an object with

- `question`: text, required;
- `id` or `question_id`: text; default: "line N";
- `document`, `doc_id`, `doc_no` or `document_id`: the document's name, or its path relative to the
  file's folder or to `documents/` in it; where it can be opened its bytes are compared;
- `document_digest`: 64 hex digits as in a run's documents.jsonl; saves opening the document.

Other fields are ignored, so the rows of the benchmarks, of your own questions and of most training
sets can be read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from awm.benchmarks.contamination import OverlapItem
from awm.documents import open_document
from awm.errors import DataError, DocumentError
from awm.faults import reason
from awm.runs import open_run

_DOCUMENT_FIELDS = ("document", "document_id", "doc_id", "doc_no")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read_training_items(path: Path) -> list[OverlapItem]:
    """Read the questions of a run folder, of a JSONL file, or of `questions.jsonl` in a folder.

    Raises:
        DataError: it cannot be read, or a line has no question; the message names the line.
    """
    if (path / "manifest.json").exists():
        return _from_run(path)
    file = path / "questions.jsonl" if path.is_dir() else path
    items = list(_from_jsonl(file))
    if not items:
        raise DataError(f"{file} holds no question")
    return items


def _from_run(path: Path) -> list[OverlapItem]:
    store = open_run(path)
    digest_of = {record.document_id: record.digest for record in store.documents.read()}
    return [
        OverlapItem(
            example.question_id,
            example.question,
            example.document_id,
            digest_of.get(example.document_id),
        )
        for example in store.examples.read()
    ]


def _from_jsonl(file: Path) -> Iterator[OverlapItem]:
    try:
        lines = file.open("rb")
    except OSError as error:
        raise DataError(
            f"{file} cannot be read ({reason(error)}); name a run folder, or a JSONL file whose "
            "lines have a field question"
        ) from error
    digest_of: dict[str, str | None] = {}
    with lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _item(file, number, line, digest_of)


def _item(file: Path, number: int, line: bytes, digest_of: dict[str, str | None]) -> OverlapItem:
    try:
        row: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{file}, line {number}: not JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        raise DataError(f"{file}, line {number}: no text in the field question")
    document = next((row[key] for key in _DOCUMENT_FIELDS if isinstance(row.get(key), str)), None)
    digest = row.get("document_digest")
    if digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise DataError(
            f"{file}, line {number}: document_digest {digest!r} must be 64 hex digits in lower case"
        )
    if digest is None and document:
        if document not in digest_of:
            digest_of[document] = _digest_beside(file.parent, document)
        digest = digest_of[document]
    id_ = row.get("id") or row.get("question_id") or f"line {number}"
    return OverlapItem(str(id_), row["question"], document, digest)


def _digest_beside(folder: Path, document: str) -> str | None:
    """Digest a document beside the file; None where it cannot be opened: the report counts it."""
    for path in (folder / document, folder / "documents" / document):
        try:
            with open_document(path) as opened:
                return opened.digest
        except (DocumentError, ValueError):  # ValueError: a name that no file can have
            continue
    return None
