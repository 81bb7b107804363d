"""Answer a question from plain text by counting words: the wits of the `lexical` model.

A text is cut into units (sentences, and windows of lines, since tables and slides have no
sentences). A unit's score is the weight of the question's words that it holds, rarer words
weighing more; the answer is a value of the kind that the question asks for, as close as can be to
those words.

>>> answer_question("How many trams run at night?", [Passage("9 trams run at night.", 1)])
'9'
>>> answer_question("Who founded the archive?", [Passage("The pool opens at noon.", 1)])
'Not answerable'
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

NOT_ANSWERABLE = "Not answerable"
_TOO_LITTLE = 0.45
"""Below this share of the question's weight, a text is taken not to hold the answer."""
_UNIT_WORDS = 60
_DIGITS_WEIGHT = 1.5
"""A year or a number in the question tells like sentences apart better than a word does."""
_MOST_ANSWER_WORDS = 12

_WORD = re.compile(r"\w+(?:[.,]\d+)*", re.UNICODE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z0-9])")
_NUMBER = re.compile(
    r"(?<![\w.,/-])(?<!Figure )(?<!Table )(?<!Page )(?<!page )(?<!Section )(?<!Chapter )(?<!No\. )"
    r"(?!(?:19|20)\d\d(?![\d.,]))[$€£]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|[.,]\d)"
)
"""No years, and no numbers of figures, tables and pages: those are seldom what is counted."""
_PERCENT = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:\s?%|(?= per ?cent\b))")
_YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
_DATE = re.compile(
    r"\b(?:\d{1,2}\s+)?(?:January|February|March|April|May|June|July|August|September|October|"
    r"November|December)(?:\s+\d{1,2}(?:st|nd|rd|th)?)?(?:,?\s+\d{4})?\b|\b\d{4}-\d{2}(?:-\d{2})?\b"
)
_NAME = re.compile(r"\b[A-Z][\w'&.-]*(?:\s+(?:of|the|and|de|for|&)?\s?[A-Z][\w'&.-]*)*")
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "each",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "many",
        "more",
        "most",
        "much",
        "of",
        "on",
        "or",
        "per",
        "that",
        "the",
        "their",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "will",
        "with",
        "within",
        "would",
        "you",
        "your",
        "about",
        "according",
        "answer",
        "document",
        "report",
        "page",
        "pages",
        "please",
        "list",
        "give",
        "format",
        "write",
        "many",
        "number",
        "shown",
        "total",
    ]
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text with its page."""

    text: str
    page: int


@dataclass(frozen=True, slots=True)
class Found:
    """The unit of a text that carries a question best."""

    text: str
    page: int
    coverage: float
    """Share of the question's word weight that the unit holds, in [0, 1]."""
    score: float


def best_passage(question: str, passages: Sequence[Passage]) -> Found | None:
    """Find the unit that carries the question best; None where no unit shares a word with it."""
    ranked = _rank(question, passages)
    return ranked[0] if ranked else None


def best_passages(question: str, passages: Sequence[Passage], most: int) -> list[Found]:
    """Find the units that carry the question best, none within another one of the same page."""
    chosen: list[Found] = []
    for found in _rank(question, passages):
        if len(chosen) == most:
            break
        near = [other.text for other in chosen if other.page == found.page]
        if not any(found.text in text or text in found.text for text in near):
            chosen.append(found)
    return chosen


def answer_question(question: str, passages: Sequence[Passage]) -> str:
    """Answer from `passages` by a value of the kind that the question asks for."""
    ranked = _rank(question, passages)
    if not ranked or ranked[0].coverage < _TOO_LITTLE:
        return NOT_ANSWERABLE
    find_values, as_list = _expected_kind(question)
    asked = frozenset(_terms(question))
    for unit in ranked[:5]:
        values = [
            (value, start)
            for value, start in find_values(unit.text)
            if not frozenset(_terms(value)) <= asked  # a value that the question names itself
        ]
        if not values:
            continue
        if as_list:
            distinct = list(dict.fromkeys(value for value, _ in values))
            return str(distinct[:8])
        return _closest(values, unit.text, asked)
    return _shorten(ranked[0].text, asked)


def _rank(question: str, passages: Sequence[Passage]) -> list[Found]:
    asked = sorted(set(_terms(question)))
    units = [(unit, p.page) for p in passages for unit in _units(p.text)]
    if not asked or not units:
        return []
    terms_of = [frozenset(_terms(unit)) for unit, _ in units]
    weights = {
        term: (_DIGITS_WEIGHT if term[0].isdigit() else 1.0)
        * math.log(1 + len(units) / (1 + sum(term in terms for terms in terms_of)))
        for term in asked
    }
    total = sum(weights.values()) or 1.0
    found = []
    for order, ((unit, page), terms) in enumerate(zip(units, terms_of, strict=True)):
        coverage = sum(weights[term] for term in asked if term in terms) / total
        if coverage > 0:
            length = len(unit.split())
            score = coverage - 0.001 * max(0, length - 12)
            found.append((-score, order, Found(unit, page, coverage, score)))
    found.sort(key=lambda item: item[:2])
    return [item[2] for item in found]


@lru_cache(maxsize=512)
def _units(text: str) -> tuple[str, ...]:
    lines = [line.strip(" \t•·▪●") for line in text.splitlines()]
    lines = [line for line in lines if line]
    units: dict[str, None] = {}
    for sentence in _SENTENCE_END.split(" ".join(lines)):
        words = sentence.split()
        for start in range(0, len(words), _UNIT_WORDS):
            units.setdefault(" ".join(words[start : start + _UNIT_WORDS]))
    for width in (1, 2):
        for start in range(len(lines) - width + 1):
            window = " ".join(lines[start : start + width])
            units.setdefault(" ".join(window.split()[:_UNIT_WORDS]))
    return tuple(units)


@lru_cache(maxsize=8192)
def _terms(text: str) -> tuple[str, ...]:
    words = (match.group().casefold() for match in _WORD.finditer(text))
    return tuple(_stem(word) for word in words if word not in _STOP_WORDS)


def _stem(word: str) -> str:
    if word.isalpha() and len(word) > 4:
        for ending in ("ies", "ing", "ed", "es", "s"):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)]
    return word


_Finder = Callable[[str], Iterator[tuple[str, int]]]


def _finder(pattern: re.Pattern[str]) -> _Finder:
    def find(text: str) -> Iterator[tuple[str, int]]:
        for match in pattern.finditer(text):
            yield match.group().strip(" .,"), match.start()

    return find


_KINDS: tuple[tuple[re.Pattern[str], _Finder], ...] = tuple(
    (re.compile(question, re.IGNORECASE), _finder(value))
    for question, value in (
        (r"\bpercent|\bshare of\b|\bproportion\b|%", _PERCENT),
        (
            r"\b(which|what|the) year (was|were|is|did|does|do|had|has)\b|in (which|what) year",
            _YEAR,
        ),
        (r"^when\b|\b(what|which) (date|day|month)\b", _DATE),
        (
            r"\bhow (many|much|long|far|old|high|large|big)\b|\bwhat (was|is|were) the (total|"
            r"number|amount|value|price|average|ratio|population|cost|revenue|capacity)\b|"
            r"\bdifference\b|\bratio\b|\bnumber of\b",
            _NUMBER,
        ),
        (r"\bwho\b|\bwhich\b|\bname\b|\bwhere\b|\blist\b|\bwhat are\b", _NAME),
    )
)


def _expected_kind(question: str) -> tuple[_Finder, bool]:
    as_list = bool(re.search(r"\blist\b|\bwhich (two|three|four)\b|\bwhat are\b", question, re.I))
    for pattern, finder in _KINDS:
        if pattern.search(question):
            return finder, as_list
    return _finder(_NAME), as_list


def _closest(values: Sequence[tuple[str, int]], text: str, asked: frozenset[str]) -> str:
    anchors = [m.start() for m in _WORD.finditer(text) if set(_terms(m.group())) & asked]
    if not anchors:
        return values[0][0]

    def distance(value: tuple[str, int]) -> tuple[float, int]:
        gaps = sorted(abs(value[1] - anchor) for anchor in anchors)
        return sum(gaps[:3]) / len(gaps[:3]), value[1]

    return min(values, key=distance)[0]


def _shorten(text: str, asked: frozenset[str]) -> str:
    words = [word for word in text.split() if not set(_terms(word)) & asked]
    return " ".join(words[:_MOST_ANSWER_WORDS]).strip(" .,;:") or NOT_ANSWERABLE
