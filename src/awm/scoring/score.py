"""A score, the interface of a judge, and what both promise.

A judge never executes text, never raises on any gold answer, prediction or format, and answers
in bounded time. Where the official function crashes, the score is 0.0 and a flag says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

GoldAnswer = str | int | float | list[object] | None
"""A gold answer as the dataset's JSON gives it."""


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of one answer."""

    value: float
    """In [0, 1]. An answer that could not be measured has no `Score` at all."""
    flags: tuple[str, ...] = ()
    """What a reader of the score should know, e.g. "official_raises:ValueError"."""


class Judge(Protocol):
    """Scores a short answer against gold by a benchmark's official rules."""

    @property
    def name(self) -> str:
        """Name on the command line, e.g. "mmlongbench-doc"."""
        ...

    def score(self, gold: object, prediction: object, answer_format: str) -> Score:
        """Score `prediction`; `answer_format` is the gold's."""
        ...
