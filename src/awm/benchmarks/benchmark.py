"""What a benchmark is to AWM: examples, documents, a judge, and the faults of its files.

A loader converts at the border: pages become 1-based, answers stay as the dataset has them. A
missing or unreadable document does not stop a run: it becomes a `DataProblem`, its questions are
left out and counted, and the rest runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from awm.documents import Document
from awm.errors import DocumentError, DocumentNotFoundError
from awm.question import Question
from awm.scoring.extraction import ReplyForm
from awm.scoring.score import Judge

ProblemKind = Literal[
    "missing_document", "unreadable_document", "missing_pages", "evidence_outside_document"
]


@dataclass(frozen=True, slots=True)
class Gold:
    """What the agent never sees."""

    answer: object
    """As the dataset's JSON gives it."""
    answer_format: str
    """The benchmark's own name, e.g. "Int"; chooses the rule of the judge."""
    evidence_pages: tuple[int, ...] = ()
    """1-based pages that lie within the document; the others are dropped and reported."""
    evidence_sources: tuple[str, ...] = ()
    document_type: str | None = None
    annotated_pages: tuple[int, ...] = ()
    """The evidence pages as annotated, with those outside the document: groups count these."""
    task_tag: str | None = None
    """LongDocURL's task: "Understanding", "Reasoning" or "Locating"."""
    question_type: str | None = None
    """LongDocURL's kind of question, e.g. "extract"."""
    sub_tasks: tuple[str, ...] = ()
    """LongDocURL's sub-tasks, where the release names them."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its gold."""

    question: Question
    gold: Gold


@dataclass(frozen=True, slots=True)
class DataProblem:
    """A fault of the data that takes questions or gold pages out of a run."""

    kind: ProblemKind
    document_id: str
    message: str
    n_questions: int
    """Questions that it touches."""
    question_id: str | None = None
    """The question, where the fault is one question's own."""


@dataclass(frozen=True, slots=True)
class AppliedOverlay:
    """The corrections of annotations that a benchmark was loaded with."""

    name: str
    """The file's name."""
    digest: str
    """SHA-256 over the corrections: reformatting the file keeps it."""
    n_applied: int
    """Corrections of questions that can run."""
    n_unused: int
    """Corrections of questions that cannot, e.g. because the document is missing."""
    n_answers: int
    """Applied corrections that replace an answer or its format: with any, no score is official."""


def read_as_text(answer: str) -> object:
    """Give an extracted answer to the judge as it is."""
    return answer


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A loaded benchmark."""

    name: str
    judge: Judge
    examples: tuple[Example, ...]
    """Those whose document can be read, in the dataset's order."""
    problems: tuple[DataProblem, ...]
    dataset_hash: str
    """SHA-256 over the dataset's rows as canonical JSON: reformatting the file keeps it."""
    n_dataset: int
    """Questions of the dataset, with those that cannot run."""
    open_document: Callable[[str], Document] = field(repr=False)
    """From a document id to the opened document."""
    extraction_form: ReplyForm = "labelled"
    """How the benchmark's extractor replies."""
    read_prediction: Callable[[str], object] = field(default=read_as_text, repr=False)
    """From an extracted answer to what the judge gets. An answer that no extractor has shortened
    is judged as text."""
    left_out: tuple[Example, ...] = ()
    """Those that cannot run, in the dataset's order; each is in a problem."""
    page_counts: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Pages of each document that can be read."""
    overlay: AppliedOverlay | None = None

    @property
    def missing_documents(self) -> list[str]:
        """Ids of the documents that are not there, sorted."""
        return sorted(p.document_id for p in self.problems if p.kind == "missing_document")


def is_plain_file_name(name: str) -> bool:
    """Tell whether a name from a dataset stays within the folder that it is looked up in."""
    return Path(name).name == name and name not in ("", ".", "..") and "\0" not in name


def hash_rows(rows: Sequence[Any]) -> str:
    """Hash a dataset's rows: SHA-256 of their JSON with sorted keys."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
        digest.update(b"\n")
    return digest.hexdigest()


def stable_question_ids(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Make ids for questions that have none.

    Args:
        pairs: (document id, question text) in the dataset's order.

    Returns:
        "{document id}-{8 hex digits of the question's SHA-256}": the same in every release that
        keeps the question's wording. A question that stands twice gets "-2" behind it.
    """
    seen: Counter[str] = Counter()
    ids = []
    for document_id, text in pairs:
        name = f"{document_id}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def check_documents(
    examples: Sequence[Example],
    open_document: Callable[[str], Document],
    dataset_hash: str,
    name: str,
    judge: Judge,
    *,
    count_pages: Callable[[str], int] | None = None,
    pages_of: Callable[[str], Collection[int]] | None = None,
) -> Benchmark:
    """Look at every document once, and keep the examples that can run.

    Questions whose page window is not wholly there are left out and reported. Gold pages outside
    the document are dropped from `evidence_pages`, kept in `annotated_pages`, and reported.

    Args:
        examples: all of the dataset.
        open_document: from a document id to the opened document.
        dataset_hash: see `Benchmark`.
        name: see `Benchmark`.
        judge: see `Benchmark`.
        count_pages: gives a document's page count, or raises what opening it would; None: open it.
        pages_of: gives the pages of a document that are there; None: all up to its page count.
    """
    n_of = Counter(example.question.document_id for example in examples)
    page_counts: dict[str, int] = {}
    problems: list[DataProblem] = []
    for document_id, n_questions in n_of.items():
        try:
            if count_pages is not None:
                page_counts[document_id] = count_pages(document_id)
            else:
                with open_document(document_id) as document:
                    page_counts[document_id] = document.page_count
        except DocumentNotFoundError as error:
            problems.append(DataProblem("missing_document", document_id, str(error), n_questions))
        except DocumentError as error:
            problems.append(
                DataProblem("unreadable_document", document_id, str(error), n_questions)
            )
    readable = [e for e in examples if e.question.document_id in page_counts]
    incomplete = _find_missing_pages(readable, page_counts, pages_of)
    without_pages = {problem.question_id for problem in incomplete}
    whole = [e for e in readable if e.question.id not in without_pages]
    kept, outside = keep_pages_within(whole, page_counts)
    kept_ids = {example.question.id for example in kept}
    return Benchmark(
        name=name,
        judge=judge,
        examples=tuple(kept),
        problems=tuple(problems + incomplete + outside),
        dataset_hash=dataset_hash,
        n_dataset=len(examples),
        open_document=open_document,
        left_out=tuple(e for e in examples if e.question.id not in kept_ids),
        page_counts=page_counts,
    )


def keep_pages_within(
    examples: Iterable[Example], page_counts: Mapping[str, int]
) -> tuple[list[Example], list[DataProblem]]:
    """Make `evidence_pages` of those `annotated_pages` that the question's window holds.

    Args:
        examples: questions whose documents are in `page_counts`.
        page_counts: pages of each document.

    Returns:
        The examples, and a problem for each question that lost pages.
    """
    kept: list[Example] = []
    problems: list[DataProblem] = []
    for example in examples:
        question, gold = example.question, example.gold
        first, last = question.page_window or (1, page_counts[question.document_id])
        valid = [page for page in gold.annotated_pages if first <= page <= last]
        dropped = [page for page in gold.annotated_pages if not first <= page <= last]
        if dropped:
            problems.append(
                DataProblem(
                    "evidence_outside_document",
                    question.document_id,
                    f"question {question.id!r}: evidence pages {dropped} are outside "
                    f"{first} to {last} and are not used",
                    1,
                    question.id,
                )
            )
        pages = tuple(dict.fromkeys(valid))
        kept.append(Example(question, replace(gold, evidence_pages=pages)))
    return kept, problems


def _find_missing_pages(
    examples: Iterable[Example],
    page_counts: Mapping[str, int],
    pages_of: Callable[[str], Collection[int]] | None,
) -> list[DataProblem]:
    """Find the windows that are not wholly there.

    Without a window a question needs every page of its document.
    """
    problems: list[DataProblem] = []
    for example in examples:
        question = example.question
        page_count = page_counts[question.document_id]
        first, last = question.page_window or (1, page_count)
        there = pages_of(question.document_id) if pages_of else range(1, page_count + 1)
        missing = [page for page in range(first, last + 1) if page not in there]
        if missing:
            problems.append(
                DataProblem(
                    "missing_pages",
                    question.document_id,
                    f"question {question.id!r} is left out: of its pages {first} to {last}, "
                    f"{len(missing)} are not there ({_spans(missing)})",
                    1,
                    question.id,
                )
            )
    return problems


def _spans(pages: Sequence[int]) -> str:
    """Write ascending pages as spans: "1-3, 7"."""
    spans: list[tuple[int, int]] = []
    for page in pages:
        if spans and page == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], page)
        else:
            spans.append((page, page))
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
