"""Audits of memories that no model is asked for: validity, echo, specificity, length, repetition.

Every rate is a sum over questions divided by another sum, findings over findings or memories over
memories, so that all of them get clustered intervals. What a rate needs and a question does not
have (shown pages, gold pages, …) leaves the question out of that rate and out of its `n`.

A finding is *generic* where it holds no number, no name and no quoted text. Names are told by
capital letters within a sentence, so a text in a script without case is left out, and a name that
opens a sentence counts only if it stands elsewhere in the memory or in the question, too.

>>> is_generic("The chart shows a clear trend."), is_generic("It fell to 4.7 % in Norway.")
(True, False)
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rapidfuzz import fuzz

from awm.analysis.diagnosis.log_rows import Memory, Note
from awm.analysis.echo import find_echo
from awm.analysis.statistics.bootstrap import ResamplingPlan, estimate
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import Ratio, mean_ratio
from awm.memory import MAX_FINDING_CHARACTERS, MAX_FINDING_WORDS

NEAR_DUPLICATE = 90.0
"""Similarity (0 to 100, words sorted) from which two findings with equal numbers are one twice."""
COMPARED_FINDINGS = 100
"""A finding is compared with so many earlier ones that hold the same numbers."""
ANSWER_ONLY_SHARE = 0.5
"""Share of a memory's words from which the answer's own words are most of it."""
RATES = {
    "empty_memories": "memories without a finding",
    "schema_violations": "findings that break the schema (empty, over 40 words, no page)",
    "refused_writes": "writes to the memory that were refused",
    "pages_in_document": "cited pages that the document has",
    "pages_shown": "cited pages that were shown",
    "pages_in_evidence": "cited pages that are gold pages",
    "all_in_evidence": "memories whose cited pages are all gold pages",
    "echo_exact": "memories that hold the gold answer, letter for letter",
    "echo_normalised": "memories that hold it with numbers and units normalised",
    "echo_share": "the memory's words that are the answer's, on average over such memories",
    "answer_only": "memories of which the answer's words are half or more",
    "generic_findings": "findings without a number, a name or a quotation",
    "exact_duplicates": "findings that repeat another one",
    "near_duplicates": "findings that nearly repeat another one",
}
"""Every rate, and what it is a share of."""
_PAGE_PREFIX = re.compile(r"\[p\. ?(\d+)\]\s*")
_QUOTED = re.compile(r"\"[^\"]{2,}\"|“[^”]{2,}”|«[^»]{2,}»|„[^“”]{2,}[“”]|(?<!\w)'[^']{2,}'(?!\w)")
_WORD = re.compile(r"[^\W\d_][\w'\u2019&-]*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class AuditCase:
    """What is known of one question's memory."""

    memory: Memory
    question: str | None = None
    gold: Any = None
    evidence_pages: Sequence[int] | None = None
    pages_shown: Sequence[int] | None = None
    page_count: int | None = None
    refused_writes: int | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """How long memories are."""

    n: int
    mean: float | None
    median: float | None
    p95: float | None
    largest: int | None

    def as_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {
            "n": self.n,
            "mean": self.mean,
            "median": self.median,
            "p95": self.p95,
            "largest": self.largest,
        }


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """The audits of a run or a log."""

    n_memories: int
    n_without_memory: int
    """Questions whose memory is not recorded: failed, or not logged."""
    rates: dict[str, Estimate]
    """By the names in `RATES`; value None where nothing could be audited."""
    counts: dict[str, tuple[float, float]]
    """The two sums of each rate."""
    memory_accuracy_without_echo: Estimate
    """Memory-only accuracy of the questions whose memory does not hold the exact gold string.
    Another set of questions, harder or easier: not comparable with the whole."""
    words: Length
    findings: Length

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "n_memories": self.n_memories,
            "n_without_memory": self.n_without_memory,
            "rates": {
                name: {
                    "count": self.counts[name][0],
                    "of": self.counts[name][1],
                    **rate.as_json(),
                }
                for name, rate in self.rates.items()
            },
            "memory_accuracy_without_echo": {
                **self.memory_accuracy_without_echo.as_json(),
                "warning": "another set of questions: not comparable with the whole",
            },
            "words": self.words.as_json(),
            "findings": self.findings.as_json(),
        }


class Audit:
    """Gathers the audits of one question after the other, in 300 bytes a question."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[array[float], array[float]]] = {
            name: (array("d"), array("d")) for name in RATES
        }
        self._words = array("q")
        self._findings = array("q")
        self.n_questions = 0

    def add(self, case: AuditCase | None) -> None:
        """Audit the next question; None where its memory is not recorded."""
        self.n_questions += 1
        found = {} if case is None else audit_memory(case)
        for name, (numerators, denominators) in self._sums.items():
            numerator, denominator = found.get(name, (0, 0))
            numerators.append(numerator)
            denominators.append(denominator)
        if case is None:
            return
        notes = split_memory(case.memory)
        self._findings.append(len(notes))
        self._words.append(sum(len(note.text.split()) for note in notes))

    def summarize(
        self, plan: ResamplingPlan, memory_scores_N: Sequence[float | None]
    ) -> AuditSummary:
        """Turn the sums into rates with intervals."""
        ratios = {
            name: Ratio(np.array(numerators), np.array(denominators))
            for name, (numerators, denominators) in self._sums.items()
        }
        exact = ratios["echo_exact"]
        without_echo = [
            score if of and not echo else None
            for score, echo, of in zip(
                memory_scores_N, exact.numerators_N, exact.denominators_N, strict=True
            )
        ]
        return AuditSummary(
            n_memories=len(self._words),
            n_without_memory=self.n_questions - len(self._words),
            rates={name: estimate(ratio, plan) for name, ratio in ratios.items()},
            counts={
                name: (float(r.numerators_N.sum()), float(r.denominators_N.sum()))
                for name, r in ratios.items()
            },
            memory_accuracy_without_echo=estimate(mean_ratio(without_echo), plan),
            words=_length(self._words),
            findings=_length(self._findings),
        )


def audit_memory(case: AuditCase) -> dict[str, tuple[float, float]]:
    """Audit one memory.

    Returns:
        By rate: (how many, of how many); a rate that cannot be audited here is left out.
    """
    notes = split_memory(case.memory)
    found: dict[str, tuple[float, float]] = {"empty_memories": (not notes, 1)}
    if not isinstance(case.memory, str):
        found["schema_violations"] = (sum(map(breaks_schema, notes)), len(notes))
    if case.refused_writes is not None:
        found["refused_writes"] = (case.refused_writes, case.refused_writes + len(notes))
    _audit_pages(case, [note.page for note in notes if note.page is not None], found)
    # The texts alone: a page tag "[p. 5]" would echo the answer 5.
    echo = find_echo("\n".join(note.text for note in notes), case.gold) if notes else None
    if echo is not None:
        found["echo_exact"] = (echo.exact, 1)
        found["echo_normalised"] = (echo.normalised, 1)
        found["answer_only"] = ((echo.share or 0.0) >= ANSWER_ONLY_SHARE, 1)
        if echo.share is not None:
            found["echo_share"] = (echo.share, 1)
    context = "\n".join([*(note.text for note in notes), case.question or ""])
    generic = [is_generic(note.text, context) for note in notes]
    found["generic_findings"] = (generic.count(True), len(generic) - generic.count(None))
    exact, near = count_duplicates([note.text for note in notes])
    found["exact_duplicates"] = (exact, len(notes))
    found["near_duplicates"] = (near, len(notes))
    return found


def _audit_pages(case: AuditCase, cited: list[int], found: dict[str, tuple[float, float]]) -> None:
    if case.page_count is not None:
        limit = case.page_count
        found["pages_in_document"] = (sum(1 <= page <= limit for page in cited), len(cited))
    if case.pages_shown is not None:
        found["pages_shown"] = (sum(page in case.pages_shown for page in cited), len(cited))
    if case.evidence_pages:
        n_gold = sum(page in case.evidence_pages for page in cited)
        found["pages_in_evidence"] = (n_gold, len(cited))
        if cited:
            found["all_in_evidence"] = (n_gold == len(cited), 1)


def split_memory(memory: Memory) -> tuple[Note, ...]:
    """Give the findings; of a text its lines, with the page of a leading "[p. 3]"."""
    if not isinstance(memory, str):
        return memory
    notes = []
    for line in memory.splitlines():
        text = line.strip()
        if text:
            prefix = _PAGE_PREFIX.match(text)
            page = int(prefix[1]) if prefix else None
            notes.append(Note(text[prefix.end() :] if prefix else text, page))
    return tuple(notes)


def breaks_schema(note: Note) -> bool:
    """Tell whether a finding is empty, too long, or names no page (arXiv 2608.25618)."""
    return (
        note.page is None
        or not 1 <= len(note.text.split()) <= MAX_FINDING_WORDS
        or len(note.text) > MAX_FINDING_CHARACTERS
    )


def is_generic(text: str, context: str = "") -> bool | None:
    """Tell whether a finding holds no number, no name and no quoted text.

    Args:
        text: the finding.
        context: the memory and the question: a capitalised word that stands there within a
            sentence is a name, also where it opens this one.

    Returns:
        None where names cannot be told, in a script without case.
    """
    if _NUMBER.search(text) or _QUOTED.search(text):
        return False
    words = list(_WORD.finditer(text))
    opening: list[str] = []
    for word in words:
        token = word.group()
        if any(character.isupper() for character in token[1:]):
            return False
        if token[0].isupper() and len(token) > 1:
            if not _opens_sentence(text, word.start()):
                return False
            opening.append(token)
    if any(_stands_within_a_sentence(token, context) for token in opening):
        return False
    letters = [character for word in words for character in word.group()]
    return True if not letters or any(c.lower() != c.upper() for c in letters) else None


def _stands_within_a_sentence(token: str, context: str) -> bool:
    start = context.find(token)
    while start >= 0:
        end = start + len(token)
        whole = not (context[start - 1 : start].isalnum() or context[end : end + 1].isalnum())
        if whole and not _opens_sentence(context, start):
            return True
        start = context.find(token, end)
    return False


def _opens_sentence(text: str, start: int) -> bool:
    at = start - 1
    while at >= 0 and text[at] in " \t\"'([“„«":
        at -= 1
    return at < 0 or text[at] in ".!?:;\n"


def count_duplicates(texts: Sequence[str]) -> tuple[int, int]:
    """Count findings that repeat an earlier one of the same memory: exactly, and nearly.

    Two findings with different numbers are never near duplicates: "4.7 in 2019" and "4.9 in 2020"
    are two facts.
    """
    exact = near = 0
    earlier: dict[tuple[str, ...], list[str]] = {}
    for text in texts:
        folded = " ".join(text.casefold().split()).rstrip(".")
        same_numbers = earlier.setdefault(tuple(sorted(_NUMBER.findall(folded))), [])
        compared = same_numbers[-COMPARED_FINDINGS:]
        if folded in compared:
            exact += 1
        elif any(fuzz.token_sort_ratio(folded, one) >= NEAR_DUPLICATE for one in compared):
            near += 1
        same_numbers.append(folded)
    return exact, near


def _length(values: array[int]) -> Length:
    if not values:
        return Length(0, None, None, None, None)
    counts = np.array(values)
    return Length(
        n=len(counts),
        mean=float(counts.mean()),
        median=float(np.median(counts)),
        p95=float(np.percentile(counts, 95)),
        largest=int(counts.max()),
    )
