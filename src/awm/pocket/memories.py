"""What the frozen reader learns from: memories that state the answer, and memories that deceive.

Half of them hold what a reader must not fall for: generic findings, findings about another subject
or another kind of fact, one half of a comparison, findings cut short, and nothing at all. The
answer to those is "Not answerable". A finding with a wrong number gives that wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from awm.benchmarks.pocket_world import (
    KEYS,
    MAX_PAGES,
    NAMES,
    NOT_ANSWERABLE,
    PocketCase,
    draw_value,
)
from awm.memory import Finding
from awm.pocket.teacher import (
    compared,
    generic_finding,
    larger,
    missing_finding,
    specific_finding,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory with what a reader should answer from it."""

    sort: str
    """How it was made; one of `SORTS`."""
    case: PocketCase
    findings: tuple[Finding, ...]
    answer: str
    reply: str
    """The answer, behind thoughts where two values are compared."""


class MemoryMaker:
    """Makes memories of cases, good ones and deceptive ones.

    Args:
        random: what chooses.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def make(self, case: PocketCase, sort: str | None = None) -> Memory:
        """Make a memory of a case.

        Args:
            case: gives the question and the facts.
            sort: one of `SORTS`; None: any, the good ones most often.
        """
        chosen = sort or self._random.choices(list(_SORTS), [w for _, w in _SORTS.values()])[0]
        texts, answer = _SORTS[chosen][0](self, case)
        thoughts = ""
        if len(case.subjects) == 2 and answer != NOT_ANSWERABLE:
            thoughts = compared(case.subjects, _stated_values(case, texts))
        return Memory(chosen, case, self._as_findings(texts), answer, thoughts + answer)

    def _as_findings(self, texts: list[str]) -> tuple[Finding, ...]:
        page = self._random.randint(1, MAX_PAGES)
        findings = []
        for turn, text in enumerate(texts):
            if self._random.random() < 0.7:
                page = self._random.randint(1, MAX_PAGES)
            findings.append(Finding(text=text, page=page, turn=turn + 1))
        return tuple(findings)

    def _good(self, case: PocketCase) -> tuple[list[str], str]:
        return self._specific(case), case.answer

    def _good_in_a_crowd(self, case: PocketCase) -> tuple[list[str], str]:
        texts = self._specific(case) + self._distractors(case, self._random.randint(1, 3))
        self._random.shuffle(texts)
        return texts, case.answer

    def _wrong_number(self, case: PocketCase) -> tuple[list[str], str]:
        if case.kind == "unanswerable":
            return self._good(case)
        if case.kind == "count":
            number = str(self._random.randint(1, 9))
            return [f"Pages with the {case.key}: {number}."], number
        values = self._values(case.subjects)
        texts = [self._fact(case.key, s, v) for s, v in zip(case.subjects, values, strict=True)]
        if self._random.random() < 0.3:
            texts += self._distractors(case, 1)
        self._random.shuffle(texts)
        if case.kind == "larger_subject":
            return texts, larger(case.subjects, values)
        return texts, max(values)

    def _generic(self, case: PocketCase) -> tuple[list[str], str]:
        texts = [generic_finding(case, i) for i in range(max(1, len(case.subjects)))]
        return texts[: self._random.randint(1, 2)], NOT_ANSWERABLE

    def _generic_in_a_crowd(self, case: PocketCase) -> tuple[list[str], str]:
        texts, answer = self._generic(case)
        texts += self._distractors(case, self._random.randint(1, 2))
        self._random.shuffle(texts)
        return texts, answer

    def _nothing_but_distractors(self, case: PocketCase) -> tuple[list[str], str]:
        return self._distractors(case, self._random.randint(1, 3)), NOT_ANSWERABLE

    def _half(self, case: PocketCase) -> tuple[list[str], str]:
        if len(case.subjects) < 2:
            return self._nothing_but_distractors(case)
        i = self._random.randrange(2)
        value = self._values((case.subjects[i],))[0]
        texts = [self._fact(case.key, case.subjects[i], value)]
        if self._random.random() < 0.5:
            texts.append(generic_finding(case, 1 - i))
        if self._random.random() < 0.3:
            texts += self._distractors(case, 1)
        self._random.shuffle(texts)
        return texts, NOT_ANSWERABLE

    def _broken(self, case: PocketCase) -> tuple[list[str], str]:
        if case.kind in ("count", "unanswerable"):
            return self._generic(case)
        value = self._values((case.subjects[0],))[0]
        words = self._fact(case.key, case.subjects[0], value).split()
        way = self._random.randrange(3)
        if way == 0:
            words = words[: self._random.randint(1, 5)]
        elif way == 1:
            words = [word for word in words if word != case.subjects[0]]
        else:
            words = [word for word in words if word != case.key]
        return [" ".join(words)], NOT_ANSWERABLE

    def _empty(self, case: PocketCase) -> tuple[list[str], str]:
        return [], NOT_ANSWERABLE

    def _specific(self, case: PocketCase) -> list[str]:
        n = len(case.subjects) if case.kind != "count" else 1
        return [specific_finding(case, i) for i in range(n)]

    def _distractors(self, case: PocketCase, n: int) -> list[str]:
        """Write findings that look like the asked fact and are about something else."""
        random = self._random
        texts = []
        others = [name for name in NAMES if name not in case.subjects]
        for _ in range(n):
            way = random.random()
            other_key = random.choice([key for key in KEYS if key != case.key])
            if way < 0.45:
                name, key = random.choice(others), case.key
            elif way < 0.8:
                name, key = random.choice(case.subjects or others), other_key
            else:
                name, key = random.choice(others), other_key
            if case.kind == "count" and way < 0.45:
                texts.append(f"Pages with the {other_key}: {random.randint(1, 9)}.")
            elif random.random() < 0.15:
                texts.append(missing_finding(key, name))
            else:
                texts.append(self._fact(key, name, self._values((name,))[0]))
        return texts

    def _fact(self, key: str, name: str, value: str) -> str:
        return f"The {key} of {name} is {value}."

    def _values(self, names: tuple[str, ...]) -> list[str]:
        values: list[str] = []
        for name in names:
            leads = [int(value[:2]) for value in values]
            values.append(draw_value(self._random, "train", name, leads))
        return values


def _stated_values(case: PocketCase, texts: list[str]) -> list[str]:
    """Give the values that findings state for a comparison's subjects."""
    starts = [f"The {case.key} of {subject} is " for subject in case.subjects]
    stated = [next(text for text in texts if text.startswith(start)) for start in starts]
    return [
        text.removeprefix(start).rstrip(".") for start, text in zip(starts, stated, strict=True)
    ]


_SORTS: dict[str, tuple[Callable[[MemoryMaker, PocketCase], tuple[list[str], str]], float]] = {
    "good": (MemoryMaker._good, 0.15),
    "good_in_a_crowd": (MemoryMaker._good_in_a_crowd, 0.2),
    "wrong_number": (MemoryMaker._wrong_number, 0.15),
    "generic": (MemoryMaker._generic, 0.09),
    "generic_in_a_crowd": (MemoryMaker._generic_in_a_crowd, 0.06),
    "nothing_but_distractors": (MemoryMaker._nothing_but_distractors, 0.17),
    "half": (MemoryMaker._half, 0.08),
    "broken": (MemoryMaker._broken, 0.08),
    "empty": (MemoryMaker._empty, 0.02),
}
SORTS = tuple(_SORTS)
