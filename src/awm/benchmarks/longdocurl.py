"""LongDocURL (arXiv 2412.18424): `LongDocURL.jsonl` beside page images or PDFs.

```
data/
  LongDocURL.jsonl
  pdf_pngs/4000-4999/4055/4055915_53.png    page 54: files count from 0
  pdfs/… or documents/…/4055915.pdf         used for a document that has no images
```

The sub-folders may be any. Pages in the file are 1-based, those in the images' names 0-based; ours
are 1-based. `start_end_idx` is each question's window: the agent sees and searches only its pages,
which keep the numbers and the page count of the whole document. Where rows disagree on
`total_pages`, the largest holds.

The official pipeline passes the extractor's concise answer through `eval` before it is scored;
`evaluate_concise_answer` stands in for that. An answer that no extractor has shortened is judged as
text: there is no official rule for it, and "2019-2020" should not become -1 without need.

Page images have no text layer, so a lexical search gives such pages in their order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from awm.benchmarks.benchmark import Benchmark, Example, Gold, check_documents, hash_rows
from awm.documents import Document, document_from_images, open_document
from awm.errors import BenchmarkError, DocumentError, DocumentNotFoundError
from awm.faults import reason
from awm.question import Question
from awm.scoring.literals import evaluate_concise_answer
from awm.scoring.longdocurl import LongDocURLJudge

NAME = "longdocurl"
_ROWS_FILE = "LongDocURL.jsonl"
_IMAGE_FOLDER = "pdf_pngs"
_PDF_FOLDERS = ("pdfs", "documents")
_IMAGE_NAME = re.compile(r"(?P<document>.+)_(?P<index>\d{1,6})\.(?:png|jpe?g|webp)", re.IGNORECASE)
_MAX_WINDOW_PAGES = 10_000


class _Row(BaseModel):
    """The fields that we read; releases add others, e.g. the authors' own paths."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    question_id: str
    doc_no: str
    total_pages: int
    start_end_idx: list[int]
    question: str
    answer: Any
    answer_format: str
    evidence_pages: list[int] | None = None
    evidence_sources: list[str] | None = None
    task_tag: str | None = None
    question_type: str | None = None
    subTask: list[str] | None = None  # noqa: N815 - the dataset's spelling


def load_longdocurl(data: Path) -> Benchmark:
    """Load the benchmark from its folder, or from its JSONL file under any name.

    Raises:
        BenchmarkError: the file is not there, or a line is not of the documented form; the message
            names line and field.
    """
    path = data / _ROWS_FILE if data.is_dir() else data
    raw_rows = list(_read_rows(path))
    if not raw_rows:
        raise BenchmarkError(f"{path} holds no question")
    rows = [_parse_row(path, number, row) for number, row in raw_rows]
    ids = [row.question_id for row in rows]
    if len(set(ids)) < len(ids):
        twice = next(id_ for n, id_ in enumerate(ids) if id_ in ids[:n])
        raise BenchmarkError(f"{path}: the question_id {twice!r} stands more than once")
    files = _DocumentFiles(path.parent, rows)
    benchmark = check_documents(
        [_example(row) for row in rows],
        files.open,
        hash_rows([row for _, row in raw_rows]),
        NAME,
        LongDocURLJudge(),
        count_pages=files.count_pages,
        pages_of=files.pages_of,
    )
    return replace(benchmark, extraction_form="tagged", read_prediction=evaluate_concise_answer)


class _DocumentFiles:
    """Where the documents of the benchmark are: page images first, else a PDF."""

    def __init__(self, folder: Path, rows: Sequence[_Row]) -> None:
        self._folder = folder
        self._total_pages: dict[str, int] = {}
        for row in rows:
            pages = max(row.total_pages, self._total_pages.get(row.doc_no, 0))
            self._total_pages[row.doc_no] = pages
        self._images = _index_images(folder / _IMAGE_FOLDER, self._total_pages.keys())
        self._pdfs = _index_pdfs(folder, self._total_pages.keys())
        self._pdf_pages: dict[str, int] = {}

    def open(self, document_id: str) -> Document:
        """Open a document with all of its pages; those without a file cannot be drawn."""
        images = self._images.get(document_id)
        if images:
            return document_from_images(
                images, document_id=document_id, page_count=self._total_pages[document_id]
            )
        pdf = self._pdfs.get(document_id)
        if pdf is None:
            raise DocumentNotFoundError(
                f"Document {document_id!r} has neither page images "
                f"({_IMAGE_FOLDER}/…/{document_id}_0.png and on) nor a PDF "
                f"({' or '.join(_PDF_FOLDERS)}/…/{document_id}.pdf) in {str(self._folder)!r}. "
                "Download one of them."
            )
        return open_document(pdf, document_id=document_id)

    def count_pages(self, document_id: str) -> int:
        """Count a document's pages; image files are not read: there are 33,000."""
        images = self._images.get(document_id)
        if not images:
            with self.open(document_id) as document:
                self._pdf_pages[document_id] = document.page_count
                return document.page_count
        total = self._total_pages[document_id]
        if max(images) > total:
            raise DocumentError(
                f"{images[max(images)].name!r} is page {max(images)} of a document of {total} "
                f"pages: files count from 0, so the last is {document_id}_{total - 1}. Rename the "
                "images or remove those that are too many."
            )
        return total

    def pages_of(self, document_id: str) -> Collection[int]:
        """Give the pages that have a file."""
        return self._images.get(document_id) or range(1, self._pdf_pages[document_id] + 1)


def _index_images(folder: Path, document_ids: Collection[str]) -> dict[str, dict[int, Path]]:
    """Find the page images: document id to page number (1-based) to file."""
    found: dict[str, dict[int, Path]] = {}
    for path in _walk(folder):
        name = _IMAGE_NAME.fullmatch(path.name)
        if name and name["document"] in document_ids:
            page = int(name["index"]) + 1
            found.setdefault(name["document"], {}).setdefault(page, path)
    return found


def _index_pdfs(folder: Path, document_ids: Collection[str]) -> Mapping[str, Path]:
    found: dict[str, Path] = {}
    for name in _PDF_FOLDERS:
        for path in _walk(folder / name):
            if path.suffix.lower() == ".pdf" and path.stem in document_ids:
                found.setdefault(path.stem, path)
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Give the files below a folder, in an order that is the same on every machine."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield Path(parent, name)


def _read_rows(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BenchmarkError(
            f"{path} cannot be read ({reason(error)}); --data must name the folder that holds "
            f"{_ROWS_FILE} and {_IMAGE_FOLDER}/ (huggingface.co/datasets/dengchao/LongDocURL), "
            "or the JSONL file"
        ) from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise BenchmarkError(f"{path}, line {number}: not JSON: {error}") from error


def _parse_row(path: Path, number: int, row: Any) -> _Row:
    try:
        parsed = _Row.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the line"
        raise BenchmarkError(f"{path}, line {number}, {where}: {first['msg']}") from error
    if parsed.total_pages < 1:
        raise BenchmarkError(
            f"{path}, line {number}: total_pages {parsed.total_pages} must be 1 or more"
        )
    window = parsed.start_end_idx
    if len(window) != 2 or not 1 <= window[0] <= window[1] < window[0] + _MAX_WINDOW_PAGES:
        raise BenchmarkError(
            f"{path}, line {number}: start_end_idx {window} must be the first and the last page of "
            f"the question's window, 1-based, of at most {_MAX_WINDOW_PAGES} pages"
        )
    return parsed


def _example(row: _Row) -> Example:
    first, last = row.start_end_idx
    return Example(
        Question(
            id=row.question_id,
            text=row.question,
            document_id=row.doc_no,
            page_window=(first, last),
        ),
        Gold(
            answer=row.answer,
            answer_format=row.answer_format,
            annotated_pages=tuple(row.evidence_pages or ()),
            evidence_sources=tuple(row.evidence_sources or ()),
            task_tag=row.task_tag,
            question_type=row.question_type,
            sub_tasks=tuple(row.subTask or ()),
        ),
    )
