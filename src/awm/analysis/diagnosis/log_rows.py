"""One row of a log: what it may hold, and the check of every field.

The fields are documented in `logs`. Rows are checked by hand, not by pydantic: a log may have
100,000 of them, and a message should name every faulty row and field at once.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from awm.faults import did_you_mean, kind_of, shown
from awm.memory import EMPTY_MEMORY

FORMATS = {
    "mmlongbench-doc": ("Int", "Float", "Str", "List", "None"),
    "longdocurl": ("Integer", "Float", "String", "List", "None"),
}
"""Answer formats by judge."""
_FIELD_NAMES = """question answer gold format answer_format memory id document evidence_pages
    pages_shown evidence_sources document_type page_count refused_writes error final_score
    memory_score memory_answer memory_answers memory_scores question_only_answer
    question_only_score shuffled_answer shuffled_score"""
FIELDS = frozenset(_FIELD_NAMES.split())


@dataclass(frozen=True, slots=True)
class Note:
    """One finding of a foreign memory: its page may not be known."""

    text: str
    page: int | None = None
    """Source page, 1-based."""

    def render(self) -> str:
        """Give the line that a reader sees."""
        return self.text if self.page is None else f"[p. {self.page}] {self.text}"


Memory = tuple[Note, ...] | str


def render_memory(memory: Memory) -> str:
    """Give the text that a reader sees."""
    text = memory if isinstance(memory, str) else "\n".join(note.render() for note in memory)
    return text if text.strip() else EMPTY_MEMORY


@dataclass(frozen=True, slots=True)
class Given:
    """What a row says about one answer: the answer, or already its score."""

    answer: Any = None
    """Text, number or list; None: unmeasured."""
    score: float | None = None
    """In [0, 1]; None: unmeasured, or not judged yet."""
    is_scored: bool = False
    """Whether `score` is the row's own."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """One checked row."""

    line: int
    """1-based line of the file."""
    offset: int
    """Byte at which the line begins."""
    id: str
    question: str | None
    document: str | None
    gold: Any
    answer_format: str | None
    memory: Memory | None
    """None: not recorded."""
    final: Given
    readers: dict[str | None, tuple[Given, ...]]
    """By reader: its rollouts. None is the unnamed one of `memory_answer` or `memory_score`."""
    question_only: Given | None
    shuffled: Given | None
    evidence_pages: tuple[int, ...] | None
    pages_shown: tuple[int, ...] | None
    evidence_sources: tuple[str, ...] | None
    document_type: str | None
    page_count: int | None
    refused_writes: int | None
    error: str | None


class RowReader:
    """The fields of one row: each is taken once, and every fault is noted."""

    def __init__(self, raw: dict[str, Any], start: str) -> None:
        self._raw = raw
        self._start = start
        self.problems: list[str] = []

    def row(self, number: int, offset: int, formats: tuple[str, ...], judge: str) -> LogRow:
        """Take every field."""
        error = self._text("error")
        row = LogRow(
            line=number,
            offset=offset,
            id=self._text("id") or f"line-{number}",
            question=self._text("question"),
            document=self._shared_text("document"),
            gold=self._answer("gold"),
            answer_format=self._format(formats, judge),
            memory=self._memory(),
            final=self._final(error),
            readers=self._readers(),
            question_only=self._given("question_only"),
            shuffled=self._given("shuffled"),
            evidence_pages=self._pages("evidence_pages"),
            pages_shown=self._pages("pages_shown"),
            evidence_sources=self._texts("evidence_sources"),
            document_type=self._shared_text("document_type"),
            page_count=self._count("page_count", 1),
            refused_writes=self._count("refused_writes", 0),
            error=error,
        )
        self._check_complete(row)
        return row

    def _check_complete(self, row: LogRow) -> None:
        """Name what judging needs and the row does not have."""
        given = [row.final, row.question_only, row.shuffled]
        given += [each for rollouts in row.readers.values() for each in rollouts]
        to_judge = [g for g in given if g is not None and not g.is_scored and g.answer is not None]
        if self.problems or not to_judge:
            return
        if row.gold is None:
            self._fault("gold", "is missing, and there are answers to judge")
        if row.answer_format is None:
            self._fault("format", "is missing, and there are answers to judge")

    def _fault(self, name: str, what: str) -> None:
        self.problems.append(f"{self._start}, {name}: {what}")

    def _wrong(self, name: str, value: object, wanted: str) -> None:
        self._fault(name, f"{shown(value)} is {kind_of(value)}, not {wanted}")

    def _text(self, name: str) -> str | None:
        value = self._raw.get(name)
        if value is None or isinstance(value, str):
            return value or None
        if name in ("id", "document") and isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        self._wrong(name, value, "text")
        return None

    def _shared_text(self, name: str) -> str | None:
        """Take a text that many rows have in common: kept once in memory."""
        text = self._text(name)
        return sys.intern(text) if text else None

    def _format(self, formats: tuple[str, ...], judge: str) -> str | None:
        name = "format" if "format" in self._raw else "answer_format"
        text = self._shared_text(name)
        if text is not None and text not in formats:
            known = f"{', '.join(formats)} (judge {judge})"
            self._fault(name, f"{text!r} is none of {known}{did_you_mean(text, formats)}")
        return text

    def _answer(self, name: str, value: Any = None) -> Any:
        value = self._raw.get(name) if value is None else value
        if value is None or isinstance(value, str):
            return value
        items = value if isinstance(value, list) else [value]
        if not all(_is_text_or_number(item) for item in items):
            self._wrong(name, value, "text, a number, or a list of these")
            return None
        return value

    def _score(self, name: str, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool | int | float) and 0 <= value <= 1:
            return float(value)
        if isinstance(value, int | float):
            self._fault(name, f"{value!r} is outside [0, 1]; null stands for unmeasured")
        else:
            self._wrong(name, value, "a number in [0, 1]")
        return None

    def _final(self, error: str | None) -> Given:
        if "final_score" in self._raw:
            score = self._score("final_score", self._raw["final_score"])
            return Given(score=None if error else score, is_scored=True)
        if error is not None:
            return Given()
        if "answer" not in self._raw:
            self._fault("answer", "is missing; give answer, final_score, or error")
        answer = self._answer("answer")
        return Given(answer="" if answer is None else answer)

    def _given(self, name: str) -> Given | None:
        if f"{name}_score" in self._raw:
            score = self._score(f"{name}_score", self._raw[f"{name}_score"])
            return Given(score=score, is_scored=True)
        if f"{name}_answer" in self._raw:
            return Given(answer=self._answer(f"{name}_answer"))
        return None

    def _readers(self) -> dict[str | None, tuple[Given, ...]]:
        readers: dict[str | None, tuple[Given, ...]] = {}
        unnamed = self._given("memory")
        if unnamed is not None:
            readers[None] = (unnamed,)
        for name, is_scored in (("memory_scores", True), ("memory_answers", False)):
            values = self._raw.get(name)
            if values is None:
                continue
            if not isinstance(values, dict):
                self._wrong(name, values, 'an object {"reader": value}')
                continue
            for reader, value in values.items():
                rollouts = value if isinstance(value, list) else [value]
                where = f"{name}.{reader}"
                readers.setdefault(
                    sys.intern(reader),
                    tuple(
                        Given(score=self._score(where, each), is_scored=True)
                        if is_scored
                        else Given(answer=None if each is None else self._answer(where, each))
                        for each in rollouts
                    ),
                )
        return readers

    def _memory(self) -> Memory | None:
        value = self._raw.get("memory")
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, list):
            self._wrong("memory", value, "text or a list of findings")
            return None
        return tuple(self._note(index, each) for index, each in enumerate(value))

    def _note(self, index: int, value: Any) -> Note:
        where = f"memory[{index}]"
        if isinstance(value, str):
            return Note(value)
        if not isinstance(value, dict) or not isinstance(value.get("text"), str):
            self._wrong(where, value, 'text or {"text": …, "page": …}')
            return Note("")
        page = value.get("page")
        if page is not None and not _is_page(page):
            self._fault(f"{where}.page", f"{page!r} is not a page number (1-based)")
            page = None
        return Note(value["text"], page)

    def _pages(self, name: str) -> tuple[int, ...] | None:
        value = self._raw.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            self._wrong(name, value, "a list of page numbers")
            return None
        wrong = [page for page in value if not _is_page(page)]
        if wrong:
            self._fault(name, f"{wrong[0]!r} is not a page number (1-based)")
            return None
        return tuple(value)

    def _texts(self, name: str) -> tuple[str, ...] | None:
        value = self._raw.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self._wrong(name, value, "a list of texts")
            return None
        return tuple(sys.intern(each) for each in value)

    def _count(self, name: str, least: int) -> int | None:
        value = self._raw.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._wrong(name, value, f"a whole number of at least {least}")
            return None
        return value


def _is_page(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_text_or_number(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    )
