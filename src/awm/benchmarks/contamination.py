"""What a training set shares with a benchmark: documents, questions, and nearly equal questions.

A model that was trained on the questions or the pages of a benchmark is not measured by it. Four
signs, from certain to likely:

- the same document, by the digest of its bytes;
- the same question, compared in letters and digits only (case, diacritics, punctuation and spacing
  do not count);
- a nearly equal question: the Jaccard similarity of the character 5-grams is at or above a
  threshold. It does not depend on the order of the words much, and unlike a token subset ratio it
  does not call "What is the total?" equal to every longer question that holds these words;
- a document of the same name, where the bytes could not be compared.

Each pair of questions says whether the documents are the same: "How many figures are there?" over
two documents is a template, over one it is a leak. The search is exact: an inverted index from
5-grams to questions counts what each pair shares.

    >>> normalise("  What's the  CAFÉ's No. 5?")
    'what s the cafe s no 5'
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from awm.benchmarks.benchmark import Benchmark
from awm.errors import ConfigError, DocumentError

GRAM = 5
"""Characters of a gram."""
NEAR_THRESHOLD = 0.7
"""Default similarity from which two questions are called nearly equal."""


@dataclass(frozen=True, slots=True)
class OverlapItem:
    """A question of a training set or of a benchmark, with its document."""

    id: str
    question: str
    document_id: str | None = None
    """The document's name; None: not known."""
    document_digest: str | None = None
    """`Document.digest`; None: not known, and its bytes are not compared."""


class SharedDocument(BaseModel):
    """A document on both sides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document: str
    """Its name in the benchmark."""
    digest: str | None
    """The digest that both sides have; None: only the names are the same."""
    train_ids: tuple[str, ...]
    benchmark_ids: tuple[str, ...]


class SharedQuestion(BaseModel):
    """A question of the benchmark that the training set has, or nearly has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train_question: str
    benchmark_question: str
    train_ids: tuple[str, ...]
    """Every training item with this question."""
    benchmark_ids: tuple[str, ...]
    similarity: float
    """1 where letters and digits are the same."""
    same_document: bool | None
    """Whether any of its documents is on both sides, by digest; None: cannot be told."""


class OverlapReport(BaseModel):
    """What a training set shares with a benchmark."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_train: int
    n_benchmark: int
    threshold: float = Field(gt=0, le=1)
    shared_documents: tuple[SharedDocument, ...] | None
    """Documents with the same bytes; None: one side has no digest at all, nothing was compared."""
    same_names: tuple[SharedDocument, ...]
    """Documents with the same name whose bytes could not be compared."""
    same_questions: tuple[SharedQuestion, ...]
    near_questions: tuple[SharedQuestion, ...]
    """The most similar first."""
    n_train_without_digest: int
    n_benchmark_without_digest: int

    @property
    def touched_ids(self) -> frozenset[str]:
        """Benchmark questions with any sign of overlap."""
        signs: list[SharedDocument | SharedQuestion] = [
            *(self.shared_documents or ()),
            *self.same_names,
            *self.same_questions,
            *self.near_questions,
        ]
        return frozenset(id_ for sign in signs for id_ in sign.benchmark_ids)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found; documents that were not compared are not found."""
        return not self.touched_ids


def normalise(text: str) -> str:
    """Keep letters and digits of any script, single spaces between runs of them."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(c for c in decomposed if not unicodedata.combining(c)).casefold()
    return " ".join("".join(c if c.isalnum() else " " for c in letters).split())


def benchmark_items(benchmark: Benchmark) -> list[OverlapItem]:
    """List every question of a benchmark, also those that cannot run, with its document's digest.

    Reads the bytes of every document once.
    """
    digests: dict[str, str | None] = {}
    items = []
    for example in (*benchmark.examples, *benchmark.left_out):
        document_id = example.question.document_id
        if document_id not in digests:
            try:
                with benchmark.open_document(document_id) as document:
                    digests[document_id] = document.digest
            except DocumentError:
                digests[document_id] = None  # the benchmark's problems name it
        items.append(
            OverlapItem(
                example.question.id, example.question.text, document_id, digests[document_id]
            )
        )
    return items


def find_overlap(
    train: Iterable[OverlapItem],
    benchmark: Iterable[OverlapItem],
    threshold: float = NEAR_THRESHOLD,
) -> OverlapReport:
    """Compare a training set with a benchmark.

    Args:
        train: its questions; an empty question is compared by its document only.
        benchmark: its questions, see `benchmark_items`.
        threshold: Jaccard similarity, in (0, 1], from which questions are nearly equal.

    Raises:
        ConfigError: the threshold is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ConfigError(f"the similarity threshold is {threshold}; it must be above 0, at most 1")
    train, benchmark = list(train), list(benchmark)
    ours, theirs = _group(train), _group(benchmark)
    same = [_pair(ours[text], theirs[text], 1.0) for text in theirs if text in ours]
    near = [
        _pair(ours[a], theirs[b], similarity)
        for a, b, similarity in _near_pairs(list(ours), list(theirs), threshold)
    ]
    near.sort(key=lambda pair: (-pair.similarity, pair.benchmark_ids, pair.train_ids))
    return OverlapReport(
        n_train=len(train),
        n_benchmark=len(benchmark),
        threshold=threshold,
        shared_documents=_shared_documents(train, benchmark),
        same_names=_same_names(train, benchmark),
        same_questions=tuple(same),
        near_questions=tuple(near),
        n_train_without_digest=sum(item.document_digest is None for item in train),
        n_benchmark_without_digest=sum(item.document_digest is None for item in benchmark),
    )


@dataclass(slots=True)
class _Group:
    """Items that share a key."""

    items: list[OverlapItem] = field(default_factory=list)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.id for item in self.items))

    @property
    def digests(self) -> set[str | None]:
        return {item.document_digest for item in self.items}


def _group(items: Iterable[OverlapItem]) -> dict[str, _Group]:
    """Group by the normalised question; what has no letter or digit has no group."""
    groups: dict[str, _Group] = {}
    for item in items:
        text = normalise(item.question)
        if text:
            groups.setdefault(text, _Group()).items.append(item)
    return groups


def _pair(train: _Group, benchmark: _Group, similarity: float) -> SharedQuestion:
    same_document: bool | None = bool((train.digests & benchmark.digests) - {None})
    if not same_document and None in train.digests | benchmark.digests:
        same_document = None
    return SharedQuestion(
        train_question=train.items[0].question,
        benchmark_question=benchmark.items[0].question,
        train_ids=train.ids,
        benchmark_ids=benchmark.ids,
        similarity=similarity,
        same_document=same_document,
    )


def _shared_documents(
    train: Sequence[OverlapItem], benchmark: Sequence[OverlapItem]
) -> tuple[SharedDocument, ...] | None:
    ours, theirs = _by_digest(train), _by_digest(benchmark)
    if not ours or not theirs:
        return None
    return tuple(
        SharedDocument(
            document=group.items[0].document_id or digest,
            digest=digest,
            train_ids=ours[digest].ids,
            benchmark_ids=group.ids,
        )
        for digest, group in theirs.items()
        if digest in ours
    )


def _by_digest(items: Iterable[OverlapItem]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for item in items:
        if item.document_digest is not None:
            groups.setdefault(item.document_digest, _Group()).items.append(item)
    return groups


def _same_names(
    train: Sequence[OverlapItem], benchmark: Sequence[OverlapItem]
) -> tuple[SharedDocument, ...]:
    ours, theirs = _by_name(train), _by_name(benchmark)
    return tuple(
        SharedDocument(
            document=group.items[0].document_id or name,
            digest=None,
            train_ids=ours[name].ids,
            benchmark_ids=group.ids,
        )
        for name, group in theirs.items()
        if name in ours and None in ours[name].digests | group.digests
    )


def _by_name(items: Iterable[OverlapItem]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for item in items:
        if item.document_id is not None:
            name = PurePosixPath(item.document_id).name.casefold().removesuffix(".pdf")
            groups.setdefault(name, _Group()).items.append(item)
    return groups


def _grams(text: str) -> set[str]:
    return {text[i : i + GRAM] for i in range(max(1, len(text) - GRAM + 1))}


def _near_pairs(
    train: Sequence[str], benchmark: Sequence[str], threshold: float
) -> Iterable[tuple[str, str, float]]:
    """Give the pairs of different texts whose Jaccard similarity reaches the threshold."""
    postings, n_grams_B = _index(benchmark)
    for text in train:
        grams = _grams(text)
        found = [postings[gram] for gram in grams if gram in postings]
        if not found:
            continue
        shared_B = np.bincount(np.concatenate(found), minlength=len(benchmark))
        similarity_B = shared_B / (len(grams) + n_grams_B - shared_B)
        for index in np.flatnonzero(similarity_B >= threshold).tolist():
            if benchmark[index] != text:
                yield text, benchmark[index], float(similarity_B[index])


def _index(texts: Sequence[str]) -> tuple[Mapping[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Map each gram to the texts that hold it, and count each text's grams."""
    holders: dict[str, list[int]] = {}
    counts = []
    for index, text in enumerate(texts):
        grams = _grams(text)
        counts.append(len(grams))
        for gram in grams:
            holders.setdefault(gram, []).append(index)
    postings = {gram: np.array(indices, dtype=np.int64) for gram, indices in holders.items()}
    return postings, np.array(counts, dtype=np.int64)
