r"""The embedded verifier: check a finding against its page's text layer, without a model.

A finding is taken apart into what can be checked: numbers, names and codes, quoted strings, and
the words around them. Each number must stand on the page, and beside words of the finding: a
number that stands there beside other words supports nothing. In a table the row that the finding
names must hold it, and where the header names years, under the year that the finding names.

It is a check of words. A chart's bars, a layout, a negation, a unit and arithmetic mean nothing to
it, and a finding in other words than the page's may be called not found. docs/experiments.md has
its measured errors.

>>> page = "Sales rose to 4,700 units in 2020.\nThe shop in Averly has 12 clerks."
>>> check_text("In 2020 sales were 4700 units.", page).verdict.value
'supported'
>>> check_text("In 2020 sales were 4900 units.", page).verdict.value
'contradicted'
>>> check_text("The harbour has nine cranes.", page).verdict.value
'not_found'
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from awm.analysis.grounding.page_text import (
    PageText,
    Passage,
    content_terms,
    has_term,
    read_page,
    spaced_words,
)
from awm.analysis.grounding.text_numbers import Quantity, find_codes, find_quantities

MAX_EVIDENCE_CHARACTERS = 300
_BESIDE = 0.34
"""Share of the finding's word weight on the page that must stand in the passage of a number."""
_ON_PAGE = 0.4
"""Share of the finding's words that the page must know at all."""
_WORDS_ALONE = 0.6
"""Share of its words that one passage must hold to support a finding without numbers."""
_SAME_STATEMENT = 0.5
"""Share of its word weight that makes a passage with another number a contradiction."""
_VERBATIM_TERMS = 3
"""Content words that make a copy of the page's own words a statement."""
_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]{3,200})[\"“”«»]")
_NAME = re.compile(
    r"[^\W\d_a-z][\w'’&.-]*(?:\s+(?:of|the|and|de|for|&)(?=\s+[A-Z]))*"  # noqa: RUF001
    r"(?:\s+[A-Z][\w'’&-]*(?:\s+(?:of|the|and|de|for|&)(?=\s+[A-Z]))*)*"  # noqa: RUF001
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;]\s+[\"'(]?)$")
_UNIT = re.compile(
    "eur|usd|gbp|nok|sek|chf|gwh|mwh|kwh|twh|wh|kw|mw|gw|hz|khz|mhz|ghz|mb|gb|tb|kb|mah|ah|km|cm|"
    "mm|kg|mg|ml|pm|am|celsius|fahrenheit|euros?|dollars?|i"
)
_LABEL_BEFORE = re.compile(
    r"(?:line|lines|table|(?-i:Figure|Chart)|fig\.?|page|code|chapter|section|year|years|class|no\.?|"
    r"number|step|phase|part|level|grade|item|group|type|model|version|edition|zone|route)\s*$",
    re.IGNORECASE,
)
_ABSENCE = re.compile(
    r"\b(?:does|do|did) not (?:contain|mention|state|show|say|give|include|list|provide|specify)\b|"
    r"\bno (?:text|mention|information|data|figure|details?) (?:about|of|on|for)\b|"
    r"\bnot (?:mentioned|stated|shown|given|found|listed|specified)\b",
    re.IGNORECASE,
)


class Verdict(StrEnum):
    """What a page says about a finding that cites it."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    """The page says something else about the same matter."""
    NOT_FOUND = "not_found"
    UNREADABLE = "unreadable"
    """Nothing on the page can be read: no text layer, or an image that shows nothing."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with what it rests on."""

    verdict: Verdict
    evidence: str | None
    """The words of the page that decide it; None where none do."""
    reason: str
    """What was checked and failed, or "" where all of it held."""


def check_text(finding: str, page_text: str) -> Judgement:
    """Check a finding against the text layer of the page that it cites."""
    page = read_page(page_text)
    if not page.is_readable:
        return Judgement(Verdict.UNREADABLE, None, "the page has no text layer")
    claim = _read_claim(finding)
    if claim.is_absence:
        return _check_absence(claim, page)
    if len(claim.terms) >= _VERBATIM_TERMS and spaced_words(finding) in page.words:
        return Judgement(Verdict.SUPPORTED, _cut(finding), "")
    missing = _missing(claim, page)
    if missing:
        return _refute(claim, page, f"not on the page: {', '.join(missing)}")
    wrong_cell = _wrong_cell(claim, page)
    if wrong_cell is not None:
        return wrong_cell
    if not claim.values:
        return _check_words(claim, page)
    return _check_values(claim, page)


@dataclass(frozen=True, slots=True)
class _Claim:
    text: str
    terms: frozenset[str]
    quantities: tuple[Quantity, ...]
    values: tuple[Quantity, ...]
    """Numbers that must stand beside the finding's words: all but years and numbers of labels; the
    years where there is nothing else."""
    names: tuple[str, ...]
    quotes: tuple[str, ...]
    is_absence: bool


def _read_claim(finding: str) -> _Claim:
    quantities = find_quantities(finding)
    values = tuple(
        q for q in quantities if not q.is_year and not _LABEL_BEFORE.search(finding[: q.start])
    )
    return _Claim(
        text=finding,
        terms=content_terms(finding),
        quantities=quantities,
        values=values or tuple(q for q in quantities if q.is_year),
        names=tuple(_names(finding)),
        quotes=tuple(" ".join(q.split()) for q in _QUOTED.findall(finding)),
        is_absence=bool(_ABSENCE.search(finding)),
    )


def _names(finding: str) -> Iterator[str]:
    """Give the names of a finding: capitalised words, not for their place in the sentence alone."""
    yield from find_codes(finding)
    for match in _NAME.finditer(finding):
        name = match.group().strip(" .,-")
        words = name.split()
        if _SENTENCE_START.search(finding[: match.start()]) and not words[0][1:2].isupper():
            # The first word of a sentence is a name only together with the next.
            words = words if len(words) > 1 else []
            if words and words[0].casefold() in ("the", "a", "an", "in", "at", "on", "of", "for"):
                words = words[1:]
        words = [w for w in words if not _UNIT.fullmatch(w.casefold().rstrip(".")) and len(w) > 1]
        if words:
            yield " ".join(words)


def _missing(claim: _Claim, page: PageText) -> list[str]:
    missing = [q.text for q in claim.quantities if not page.holds(q)]
    for quote in claim.quotes:
        if quote.casefold().strip(" .,") not in page.folded:
            missing.append(f'"{quote}"')
    for name in claim.names:
        terms = content_terms(name)
        known = name.casefold() in page.folded or (terms and all(page.knows(t) for t in terms))
        if not known and (terms or any(c.isdigit() for c in name)):
            missing.append(name)
    return missing


def _weight(term: str, page: PageText) -> float:
    """Give a term's weight: the rarer it is on the page, the more it tells passages apart."""
    return 1.0 / math.sqrt(max(1, page.frequency.get(term, 1)))


def _share(claim: _Claim, passage: Passage, page: PageText) -> float:
    """Give the share of the claim's weight on the page that a passage holds."""
    known = [term for term in claim.terms if page.knows(term)]
    total = sum(_weight(term, page) for term in known)
    if not total:
        return 0.0
    held = sum(_weight(term, page) for term in known if has_term(term, passage.terms))
    return held / total


def _n_shared(claim: _Claim, passage: Passage) -> int:
    return sum(has_term(term, passage.terms) for term in claim.terms)


def _known_share(claim: _Claim, page: PageText) -> float:
    if not claim.terms:
        return 1.0
    return sum(page.knows(term) for term in claim.terms) / len(claim.terms)


def _check_values(claim: _Claim, page: PageText) -> Judgement:
    """Require each number beside words of the finding."""
    if _known_share(claim, page) < _ON_PAGE:
        return _refute(claim, page, "the page speaks of something else")
    evidence: dict[str, None] = {}
    rows = {row.text for row in _named_rows(claim, page)}
    for quantity in claim.values:
        holders = [passage for passage in page.passages if passage.holds(quantity)]
        in_row = next((holder for holder in holders if holder.text in rows), None)
        if in_row is not None:
            evidence[in_row.text] = None
            continue
        best = _best(claim, holders, page)
        if best is None or _share(claim, best, page) < _BESIDE:
            return _refute(claim, page, f"{quantity.text} stands on the page beside other words")
        evidence[best.text] = None
    return Judgement(Verdict.SUPPORTED, _cut(" | ".join(evidence)), "")


def _check_words(claim: _Claim, page: PageText) -> Judgement:
    """Require one passage, or two in a row, to hold most of the words of a finding."""
    best, share = _best_by_words(claim, page.passages)
    if best is not None and share >= _WORDS_ALONE:
        return Judgement(Verdict.SUPPORTED, _cut(best.text), "")
    return Judgement(
        Verdict.NOT_FOUND,
        _cut(best.text) if best is not None and share > 0 else None,
        f"no passage holds more than {share:.0%} of its words",
    )


def _best_by_words(claim: _Claim, passages: Sequence[Passage]) -> tuple[Passage | None, float]:
    best, best_share = None, 0.0
    for passage in passages:
        share = _n_shared(claim, passage) / len(claim.terms) if claim.terms else 0.0
        if share > best_share:
            best, best_share = passage, share
    return best, best_share


def _check_absence(claim: _Claim, page: PageText) -> Judgement:
    """Believe "the page does not say" unless a passage holds most of the words."""
    best, share = _best_by_words(claim, page.passages)
    if best is not None and share >= _WORDS_ALONE:
        return Judgement(Verdict.CONTRADICTED, _cut(best.text), "the page does speak of it")
    return Judgement(Verdict.SUPPORTED, None, "no passage speaks of it")


def _named_rows(claim: _Claim, page: PageText) -> list[Passage]:
    """Give the table rows whose label the finding names, the longest label alone."""
    named = []
    for passage in page.passages:
        if not passage.label or not passage.label.strip():
            continue
        terms = content_terms(passage.label)
        numbers = passage.label_quantities
        if (terms or numbers) and (
            all(has_term(term, claim.terms) for term in terms)
            and all(any(n.equals(q) for q in claim.quantities) for n in numbers)
        ):
            named.append(passage)
    return [
        row
        for row in named
        if not any(
            content_terms(row.label or "") < content_terms(other.label or "") for other in named
        )
    ]


def _wrong_cell(claim: _Claim, page: PageText) -> Judgement | None:
    """Find a named row whose value for the finding is another one; None where there is none."""
    rows = _named_rows(claim, page)
    values = [q for q in claim.values if not q.is_year]
    for row in rows:
        named = [year for year in row.columns if any(q.text == year for q in claim.quantities)]
        cells = {row.columns[year] for year in named}
        others = {cell for year, cell in row.columns.items() if year not in named}
        said = {value for q in values for value in (q.value, *q.others)}
        if named and said & others and not said & cells:
            return Judgement(
                Verdict.CONTRADICTED,
                _cut(row.text),
                f"under {', '.join(named)} the row holds {', '.join(map(str, sorted(cells)))}",
            )
    for quantity in values:
        holders = [passage for passage in page.passages if passage.holds(quantity)]
        if rows and holders and all(_is_another_row(claim, holder) for holder in holders):
            return Judgement(
                Verdict.CONTRADICTED,
                _cut(rows[0].text),
                f"{quantity.text} stands in another row: {_cut(holders[0].text)}",
            )
    return None


def _is_another_row(claim: _Claim, holder: Passage) -> bool:
    """Tell whether a passage is a table's row that the finding does not speak of."""
    if holder.label is None:
        return False
    shares = any(has_term(term, claim.terms) for term in content_terms(holder.label))
    numbers = all(any(n.equals(q) for q in claim.quantities) for n in holder.label_quantities)
    return not (shares and numbers)


def _refute(claim: _Claim, page: PageText, reason: str) -> Judgement:
    """Tell a contradiction (a passage on the same with another number) from silence."""
    candidates = [
        passage
        for passage in page.passages
        if passage.quantities
        and not all(any(q.equals(c) for c in claim.quantities) for q in passage.quantities)
        and _n_shared(claim, passage) >= min(2, len(claim.terms))
    ]
    best = _best(claim, candidates, page)
    if claim.values and best is not None and _share(claim, best, page) >= _SAME_STATEMENT:
        return Judgement(Verdict.CONTRADICTED, _cut(best.text), reason)
    return Judgement(Verdict.NOT_FOUND, None, reason)


def _best(claim: _Claim, passages: Sequence[Passage], page: PageText) -> Passage | None:
    if not passages:
        return None
    return max(passages, key=lambda passage: (_share(claim, passage, page), -len(passage.text)))


def _cut(text: str) -> str:
    if len(text) <= MAX_EVIDENCE_CHARACTERS:
        return text
    return text[: MAX_EVIDENCE_CHARACTERS - 1] + "…"
