r"""A page's text layer cut into passages that speak of one thing each, for checking claims.

A text layer is lines, and what belongs together on the page is three kinds of passages: sentences
(lines joined where they flow), table rows (with the caption and header above them), and the loose
numbers of a chart (with the caption below or above them). A row knows its label and the column of
each value where the header names columns by years.

>>> page = read_page("Table 1. Use, GWh\nSector 2019 2020\nMines 12 14\nFarms 3 4\n")
>>> for row in page.passages:
...     if row.label:
...         print(row.label, {year: int(cell) for year, cell in row.columns.items()})
mines {'2019': 12, '2020': 14}
farms {'2019': 3, '2020': 4}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from awm.analysis.grounding.text_numbers import Quantity, find_quantities

_ROW_WORDS = 14
"""Most words of a line that may be a table's row."""
_CONTEXT_LINES = 4
"""Lines above a table's first row, or around a chart's numbers, that may be header or caption."""
_CAPTION = re.compile(r"^(?:table|figure|fig\.|chart|exhibit|map|plate)\b", re.IGNORECASE)
_BULLET = re.compile(r"^[•·▪●◦‣*–-]\s+")  # noqa: RUF001 (an en dash may be a bullet)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]?\s+(?=[\"'(]?[A-Z0-9•])")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")  # noqa: RUF001 (typographic apostrophe)
_TOKEN = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_STOP_WORD = re.compile(
    "a|about|after|all|also|am|an|and|any|are|as|at|be|been|before|being|between|both|but|by|can|"
    "could|did|do|does|during|each|for|from|had|has|have|he|her|his|how|if|in|into|is|it|its|just|"
    "less|many|may|more|most|much|must|no|not|of|off|on|only|or|other|our|out|over|own|per|"
    "percent|cent|same|she|should|since|so|some|such|than|that|the|their|them|then|there|these|"
    "they|this|those|through|to|too|under|until|up|very|was|we|were|what|when|where|which|while|"
    "who|whose|will|with|within|without|would|you|your|according|page|pages|shows|shown|states|"
    "stated|says|said|document|report|one"
)
_ENDINGS = ("ations", "ation", "ments", "ment", "ings", "ing", "ies", "ied", "ers", "ed", "es")
_MIN_STEM = 3
_SHARED_PREFIX = 5


@dataclass(frozen=True, slots=True)
class Passage:
    """Text that speaks of one thing."""

    text: str
    terms: frozenset[str]
    """Stems of its content words and of its context's."""
    quantities: tuple[Quantity, ...]
    """The numbers in `text`, without those of its context."""
    label: str | None = None
    """Of a table's row: its label, lower case."""
    label_quantities: tuple[Quantity, ...] = ()
    """Of a table's row: numbers of its label, e.g. in "Line 4"."""
    columns: Mapping[str, Decimal] = field(default_factory=dict)
    """Of a table's row: its value under each year that the header names."""

    def holds(self, quantity: Quantity) -> bool:
        """Tell whether one of its numbers has the quantity's value."""
        return any(quantity.equals(other) for other in self.quantities)


@dataclass(frozen=True, slots=True)
class PageText:
    """A page's passages and what the whole page holds."""

    passages: tuple[Passage, ...]
    terms: frozenset[str]
    quantities: tuple[Quantity, ...]
    folded: str
    """The whole text on one line, lower case."""
    words: str
    """Its words and numbers alone, lower case, each between single spaces."""
    frequency: Mapping[str, int]
    """In how many passages a term stands."""

    @property
    def is_readable(self) -> bool:
        """Tell whether there is any word to check against."""
        return bool(self.terms)

    def holds(self, quantity: Quantity) -> bool:
        """Tell whether a number of the page has the quantity's value."""
        return any(quantity.equals(other) for other in self.quantities)

    def knows(self, term: str) -> bool:
        """Tell whether the page holds a word of this stem."""
        return has_term(term, self.terms)


def spaced_words(text: str) -> str:
    """Give the words and numbers of a text, lower case, each between single spaces."""
    return " ".join(["", *_TOKEN.findall(text.casefold()), ""])


def content_terms(text: str) -> frozenset[str]:
    """Give the stems of the words of a text that carry meaning."""
    return frozenset(_terms(text))


def has_term(term: str, terms: frozenset[str]) -> bool:
    """Tell whether `terms` hold a stem, or one that grew from the same root."""
    if term in terms:
        return True
    if len(term) < _SHARED_PREFIX:
        return False
    return any(
        len(other) >= _SHARED_PREFIX and (other.startswith(term) or term.startswith(other))
        for other in terms
    )


@lru_cache(maxsize=256)
def read_page(text: str) -> PageText:
    """Cut a page's text layer into passages."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if line]
    runs = _table_runs(lines)
    passages = (*_sentences(lines, runs), *_tables(lines, runs), *_charts(lines))
    frequency: Counter[str] = Counter()
    for passage in passages:
        frequency.update(passage.terms)
    whole = " ".join(lines)
    return PageText(
        passages=passages,
        terms=content_terms(whole),
        quantities=tuple(q for line in lines for q in find_quantities(line))
        + find_quantities(whole),
        folded=whole.casefold(),
        words=spaced_words(whole),
        frequency=frequency,
    )


def _terms(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text.replace("€", " euro ").replace("$", " dollar ")):
        word = match.group().casefold().replace("’", "'")  # noqa: RUF001
        word = word.removesuffix("'s").replace("'", "")
        word = {"eur": "euro", "euros": "euro", "usd": "dollar", "dollars": "dollar"}.get(
            word, word
        )
        if len(word) > 1 and not _STOP_WORD.fullmatch(word):
            yield _stem(word)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM:
            return word[: -len(ending)]
    if word.endswith("s") and not word.endswith("ss") and len(word) > _MIN_STEM:
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > _MIN_STEM + 1 else word


def _is_row(line: str, following: str | None) -> bool:
    """Tell whether a line can be a table's row: short, with a number or code, no sentence."""
    words = line.split()
    if not 2 <= len(words) <= _ROW_WORDS or not re.search(r"\d", line) or _CAPTION.match(line):
        return False
    if not _LETTERS.search(line) or line[-1] in ".,;:" or _BULLET.match(line):
        return False
    goes_on = following is not None and following[0].islower()
    return not goes_on and line[0] not in "(" and not line[0].islower()


def _table_runs(lines: Sequence[str]) -> list[range]:
    """Find the runs of at least two rows."""
    runs: list[range] = []
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and _is_row(
            lines[end], lines[end + 1] if end + 1 < len(lines) else None
        ):
            end += 1
        if end - start >= 2:
            runs.append(range(start, end))
        start = max(end, start + 1)
    return runs


def _sentences(lines: Sequence[str], runs: Sequence[range]) -> Iterator[Passage]:
    """Give the sentences of the page; tables, bullets and captions end one."""
    rows = {position for run in runs for position in run}
    flow: list[str] = []

    def flush() -> Iterator[Passage]:
        for sentence in _SENTENCE_END.split(" ".join(flow)):
            if sentence.strip():
                yield _passage(sentence.strip())
        flow.clear()

    for position, line in enumerate(lines):
        if position in rows or _BULLET.match(line) or _CAPTION.match(line):
            yield from flush()
        if position not in rows:
            flow.append(_BULLET.sub("", line))
    yield from flush()


def _tables(lines: Sequence[str], runs: Sequence[range]) -> Iterator[Passage]:
    """Give every row of every table, with what stands above it and a caption below."""
    for run in runs:
        above = lines[max(0, run.start - _CONTEXT_LINES) : run.start]
        below = [line for line in lines[run.stop : run.stop + 1] if _CAPTION.match(line)]
        yield from _rows(above, below, lines[run.start : run.stop])


def _rows(above: Sequence[str], below: Sequence[str], rows: Sequence[str]) -> Iterator[Passage]:
    caption = max((i for i, line in enumerate(above) if _CAPTION.match(line)), default=None)
    context = list(above[caption:]) if caption is not None else list(above[-2:])
    years = _year_columns(rows[0]) or next(
        (found for line in reversed(context) if (found := _year_columns(line))), ()
    )
    if _year_columns(rows[0]):
        context, rows = [*context, rows[0]], rows[1:]
    context += below
    words = Counter(_label_words(row) for row in rows)
    for row in rows:
        label = _label_words(row)
        quantities = find_quantities(row)
        # Rows that share their words ("Line 1", "Line 2") are told apart by their first number.
        n_label = 1 if words[label] > 1 and quantities else 0
        values = quantities[n_label:]
        name = " ".join([label, *(str(q.value) for q in quantities[:n_label])])
        columns = {}
        if years and len(values) == len(years):
            columns = {year: q.value for year, q in zip(years, values, strict=True)}
        yield _passage(
            row,
            context=" ".join(context),
            label=name,
            label_quantities=quantities[:n_label],
            columns=columns,
        )


def _year_columns(line: str) -> tuple[str, ...]:
    """Give the years that a header line ends with; empty where it is no such header."""
    words = line.split()
    years: list[str] = []
    while words and re.fullmatch(r"(?:1[5-9]|20)\d\d", words[-1]):
        years.insert(0, words.pop())
    is_header = len(years) >= 2 and len(words) <= 3 and not re.search(r"\d", " ".join(words))
    return tuple(years) if is_header and len(set(years)) == len(years) else ()


def _label_words(row: str) -> str:
    """Give the words before a row's first number, lower case."""
    label = re.split(r"(?<![^\s(])[€$£]?[-]?\d", row, maxsplit=1)[0]
    return " ".join(label.casefold().split())


def _charts(lines: Sequence[str]) -> Iterator[Passage]:
    """Give every run of lines that hold numbers alone, with the lines around it as context."""
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and re.search(r"\d", lines[end]) and not _LETTERS.search(lines[end]):
            end += 1
        if end > start:
            around = [
                *lines[max(0, start - _CONTEXT_LINES) : start],
                *lines[end : end + _CONTEXT_LINES],
            ]
            yield _passage(" ".join(lines[start:end]), context=" ".join(around))
        start = max(end, start + 1)


def _passage(
    text: str,
    context: str = "",
    label: str | None = None,
    label_quantities: tuple[Quantity, ...] = (),
    columns: Mapping[str, Decimal] | None = None,
) -> Passage:
    return Passage(
        text=text,
        terms=content_terms(f"{text} {context}"),
        quantities=find_quantities(text),
        label=label,
        label_quantities=label_quantities,
        columns=columns or {},
    )
