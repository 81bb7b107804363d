"""Corrections of a benchmark's annotations, in a file of the user's own beside the dataset.

Both benchmarks have wrong evidence pages. An overlay replaces them without touching the dataset:
its hash stands in every run beside the dataset's, and a run cannot be resumed with another one.

JSONL, one correction a line, or TOML, one `[[correction]]` table each:

- `id`: the question's id; or `document` and `question`: document id and wording.
- `evidence_pages`: list of numbers, 1-based; [] says that no page holds evidence.
- `answer`, `answer_format`: only with `allow_answer = true`. Scores against another gold are not
  the benchmark's official ones, so a correction has to say that this is meant, and the run says
  how many did.
- `note`: why; not part of the hash.

A question that is not in the dataset is an error: a correction that silently hits nothing is worse
than none. A question whose document is missing here is counted as unused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from awm.benchmarks.benchmark import (
    AppliedOverlay,
    Benchmark,
    Example,
    Gold,
    hash_rows,
    keep_pages_within,
)
from awm.errors import BenchmarkError
from awm.faults import reason

_SHOWN = 5
"""Most faults that a message names."""


class Correction(BaseModel):
    """One question's corrected annotation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = None
    document: str | None = None
    question: str | None = None
    evidence_pages: tuple[int, ...] | None = None
    """1-based; None: as in the dataset."""
    answer: str | int | float | list[str | int | float] | None = None
    """None: as in the dataset."""
    answer_format: str | None = None
    """None: as in the dataset."""
    allow_answer: bool = False
    """Says that replacing the gold answer or its format is meant."""
    note: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        by_wording = self.document is not None and self.question is not None
        half = (self.document is None) != (self.question is None)
        if half or (self.id is not None) == by_wording:
            raise ValueError("name the question by id, or by document and question")
        if self.changes_answer and not self.allow_answer:
            raise ValueError(
                "answer and answer_format change what is measured; if that is meant, set "
                "allow_answer = true"
            )
        if self.evidence_pages is None and not self.changes_answer:
            raise ValueError("it corrects nothing: give evidence_pages")
        return self

    @property
    def changes_answer(self) -> bool:
        """Whether the gold answer or its format is replaced."""
        return self.answer is not None or self.answer_format is not None

    @property
    def target(self) -> str:
        """The question, for messages."""
        return repr(self.id) if self.id else f"{self.question!r} in {self.document!r}"


class Overlay(BaseModel):
    """A file of corrections."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The file's name."""
    corrections: tuple[Correction, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the corrections in their order, without notes."""
        rows = [c.model_dump(mode="json", exclude={"note"}) for c in self.corrections]
        return hash_rows(rows)


def read_overlay(path: Path) -> Overlay:
    """Read corrections from a `.toml` or `.jsonl` file.

    Raises:
        BenchmarkError: it cannot be read, or a correction is not of the documented form.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchmarkError(f"overlay {path} cannot be read: {reason(error)}") from error
    if path.suffix == ".toml":
        rows = _toml_rows(path, text)
    elif path.suffix in (".jsonl", ".ndjson"):
        rows = _jsonl_rows(path, text)
    else:
        raise BenchmarkError(f"overlay {path} must be a .toml or a .jsonl file")
    corrections = tuple(_correction(path, where, row) for where, row in rows)
    if not corrections:
        raise BenchmarkError(f"overlay {path} holds no correction")
    return Overlay(name=path.name, corrections=corrections)


def apply_overlay(benchmark: Benchmark, overlay: Overlay) -> Benchmark:
    """Correct a benchmark's annotations.

    Questions that cannot run keep theirs; their corrections count as unused.

    Raises:
        BenchmarkError: a correction names no question of the dataset, or several; two correct the
            same one; or a corrected page is outside the question's window or document.
    """
    if benchmark.overlay is not None:
        raise BenchmarkError(
            f"the corrections of {benchmark.overlay.name!r} are in place already; put those of "
            f"{overlay.name!r} into the same file"
        )
    correction_of = _match(benchmark, overlay)
    corrected = [
        _correct(e, correction_of[e.question.id])
        for e in benchmark.examples
        if e.question.id in correction_of
    ]
    kept, outside = keep_pages_within(corrected, benchmark.page_counts)
    _refuse_pages_outside(overlay, correction_of, outside_ids={p.question_id for p in outside})
    new = {example.question.id: example for example in kept}
    problems = [
        problem
        for problem in benchmark.problems
        if problem.kind != "evidence_outside_document" or problem.question_id not in new
    ]
    return replace(
        benchmark,
        examples=tuple(new.get(e.question.id, e) for e in benchmark.examples),
        problems=(*problems, *outside),
        overlay=AppliedOverlay(
            name=overlay.name,
            digest=overlay.digest,
            n_applied=len(new),
            n_unused=len(correction_of) - len(new),
            n_answers=sum(correction_of[id_].changes_answer for id_ in new),
        ),
    )


def _correct(example: Example, correction: Correction) -> Example:
    gold: Gold = example.gold
    if correction.evidence_pages is not None:
        gold = replace(gold, annotated_pages=correction.evidence_pages)
    if correction.answer is not None:
        gold = replace(gold, answer=correction.answer)
    if correction.answer_format is not None:
        gold = replace(gold, answer_format=correction.answer_format)
    return replace(example, gold=gold)


def _match(benchmark: Benchmark, overlay: Overlay) -> dict[str, Correction]:
    """Find each correction's question: question id to correction."""
    questions = [example.question for example in (*benchmark.examples, *benchmark.left_out)]
    ids = {question.id for question in questions}
    ids_worded: dict[tuple[str, str], list[str]] = {}
    for question in questions:
        ids_worded.setdefault((question.document_id, question.text), []).append(question.id)
    matched: dict[str, Correction] = {}
    unknown: list[str] = []
    for correction in overlay.corrections:
        if correction.id is not None:
            found = [correction.id] if correction.id in ids else []
        else:
            found = ids_worded.get((correction.document or "", correction.question or ""), [])
        if not found:
            unknown.append(correction.target)
        elif len(found) > 1:
            raise BenchmarkError(
                f"overlay {overlay.name!r}: {correction.target} stands {len(found)} times in "
                f"{benchmark.name}; name one by id: {', '.join(found)}"
            )
        elif found[0] in matched:
            raise BenchmarkError(f"overlay {overlay.name!r}: {found[0]!r} is corrected twice")
        else:
            matched[found[0]] = correction
    if unknown:
        raise BenchmarkError(
            f"overlay {overlay.name!r}: {len(unknown)} corrections name no question of "
            f"{benchmark.name}: {_some(unknown)}"
        )
    return matched


def _refuse_pages_outside(
    overlay: Overlay, correction_of: dict[str, Correction], outside_ids: set[str | None]
) -> None:
    faulty = [
        f"{id_!r} {list(correction.evidence_pages)}"
        for id_, correction in correction_of.items()
        if correction.evidence_pages is not None and id_ in outside_ids
    ]
    if faulty:
        raise BenchmarkError(
            f"overlay {overlay.name!r}: corrected pages lie outside the pages of their questions: "
            f"{_some(faulty)}"
        )


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _correction(path: Path, where: str, row: Any) -> Correction:
    try:
        return Correction.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        place = f"{where}, {field}" if field else where
        raise BenchmarkError(f"overlay {path}, {place}: {first['msg']}") from error


def _toml_rows(path: Path, text: str) -> Iterable[tuple[str, Any]]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BenchmarkError(f"overlay {path} is not TOML: {error}") from error
    rows = tables.pop("correction", [])
    if tables or not isinstance(rows, list):
        raise BenchmarkError(
            f"overlay {path} must hold [[correction]] tables only; it has "
            f"{', '.join(map(repr, tables)) or 'one [correction]'}"
        )
    return [(f"correction {number}", row) for number, row in enumerate(rows, start=1)]


def _jsonl_rows(path: Path, text: str) -> Iterable[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise BenchmarkError(f"overlay {path}, line {number}: not JSON: {error}") from error
