"""The reward of one trajectory: its outcome cell, and optional terms (arXiv 2608.25618).

The paper orders the cells, r11 > r10 > r01 > r00, and gives no numbers; 1.0, 0.7, 0.2 and 0.0 are
ours. A trajectory whose reader or judge failed has no reward: `None`, which `awm.rl.advantage`
leaves out of the group. It never becomes 0. Formulas and guarantees: docs/reward.md.

>>> settings = RewardSettings()
>>> compute_reward(TrajectoryMeasures(final_score=1.0, memory_score=0.0), settings).total
0.7
>>> compute_reward(TrajectoryMeasures(final_score=1.0, memory_score=None), settings) is None
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from awm.scoring.outcome import Outcome, outcome

RewardKind = Literal["awm", "answer_only", "graded"]

OUTCOME_TERM = "outcome"
GROUNDING_TERM = "grounding"
SELF_CONSISTENCY_TERM = "self_consistency"
MEMORY_LENGTH_TERM = "memory_length"

_CELL_FIELDS = ("r11", "r10", "r01", "r00")


class RewardSettings(BaseModel):
    """What a trajectory is worth.

    The terms are ablations that the paper names and does not use; all are off by default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: RewardKind = "awm"
    """awm: the value of the outcome cell. answer_only: s_ans, the paper's baseline. graded: the
    cells' values joined by the raw scores."""
    r11: float = 1.0
    """Memory-supported correct."""
    r10: float = 0.7
    """Memory-missing correct."""
    r01: float = 0.2
    """Answering error: the memory held the answer."""
    r00: float = 0.0
    """Unresolved error."""
    grounding_weight: float = Field(default=0.0, ge=0)
    """Added per share of findings that their source page supports; 0: off."""
    self_consistency_weight: float = Field(default=0.0, ge=0)
    """Added per share of K reader rollouts that agree; 0: off."""
    memory_length_weight: float = Field(default=0.0, ge=0)
    """Taken away from a memory of `memory_length_cap_words` words or more, in proportion from a
    shorter one; 0: off. It also weighs on findings that the answer needs."""
    memory_length_cap_words: int = Field(default=480, ge=1)
    """480: twelve turns, the default limit of an episode, with a finding of 40 words each."""
    terms_may_break_order: bool = False
    """Allow weights with which a worse cell can earn more than a better one."""

    @property
    def cell_rewards(self) -> dict[Outcome, float]:
        """The value of each cell; for `graded`, where both scores are 0 or 1."""
        values = (
            (1.0, 1.0, 0.0, 0.0)
            if self.kind == "answer_only"
            else (self.r11, self.r10, self.r01, self.r00)
        )
        return dict(zip(Outcome, values, strict=True))

    @model_validator(mode="after")
    def _cells_stay_in_order(self) -> Self:
        if self.kind == "answer_only":
            changed = [
                f"{name} = {getattr(self, name)}"
                for name in _CELL_FIELDS
                if getattr(self, name) != type(self).model_fields[name].default
            ]
            if changed:
                raise ValueError(
                    f"answer_only pays s_ans and has no use for {', '.join(changed)}: leave them "
                    "out, or choose kind awm or graded"
                )
        elif not self.r11 > self.r10 > self.r01 > self.r00:
            raise ValueError(
                f"rewards r11 = {self.r11}, r10 = {self.r10}, r01 = {self.r01}, r00 = {self.r00} "
                "break the order r11 > r10 > r01 > r00; give four falling values"
            )
        return self

    @model_validator(mode="after")
    def _terms_keep_the_order(self) -> Self:
        weights = {
            name: getattr(self, name)
            for name in ("grounding_weight", "self_consistency_weight", "memory_length_weight")
            if getattr(self, name)
        }
        reach, gap = sum(weights.values()), self.smallest_gap
        if reach >= gap and weights and not self.terms_may_break_order:
            named = " + ".join(f"{name} {weight}" for name, weight in weights.items())
            why = (
                "graded rewards leave no gap between the cells"
                if self.kind == "graded"
                else f"the smallest gap between two cells is {gap:.4g}"
            )
            raise ValueError(
                f"{named} = {reach:.4g} can lift a worse cell over a better one ({why}); lower "
                "the weights below it, or set terms_may_break_order = true"
            )
        return self

    @property
    def smallest_gap(self) -> float:
        """Least distance between the rewards of two cells that the kind tells apart."""
        if self.kind == "graded":
            return 0.0
        values = sorted(set(self.cell_rewards.values()), reverse=True)
        return min(high - low for high, low in pairwise(values))


@dataclass(frozen=True, slots=True)
class TrajectoryMeasures:
    """What was measured of one trajectory. `None`: not measured, or not asked for."""

    final_score: float | None
    """The judge's score of the final answer, in [0, 1]."""
    memory_score: float | None
    """The judge's score of the frozen reader's answer from the memory alone, in [0, 1]."""
    grounded_share: float | None = None
    """Share of the findings that their source page supports; see `supported_share`."""
    self_consistency: float | None = None
    """Share of K reader rollouts that give the most frequent answer; see `agreement_share`."""
    memory_words: int | None = None
    """Whitespace-separated words of all findings together."""

    def __post_init__(self) -> None:
        for name in ("final_score", "memory_score", "grounded_share", "self_consistency"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(
                    f"{name} = {value!r} is outside [0, 1]; give None where it was not measured"
                )
        if self.memory_words is not None and self.memory_words < 0:
            raise ValueError(f"memory_words = {self.memory_words!r}: a count cannot be negative")


class RewardRecord(BaseModel):
    """The reward of one trajectory, and what it is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    total: float
    """Sum of the terms."""
    terms: dict[str, float]
    """"outcome" first, then each term in use under its name, as weighed: they add up."""


def compute_reward(measures: TrajectoryMeasures, settings: RewardSettings) -> RewardRecord | None:
    """Reward one trajectory.

    Returns:
        None where the outcome or the input of a term in use was not measured.
    """
    base = _outcome_reward(measures.final_score, measures.memory_score, settings)
    words, cap = measures.memory_words, settings.memory_length_cap_words
    length = None if words is None else -min(words / cap, 1.0)
    terms = {OUTCOME_TERM: base}
    for name, weight, value in (
        (GROUNDING_TERM, settings.grounding_weight, measures.grounded_share),
        (SELF_CONSISTENCY_TERM, settings.self_consistency_weight, measures.self_consistency),
        (MEMORY_LENGTH_TERM, settings.memory_length_weight, length),
    ):
        if weight:
            terms[name] = None if value is None else weight * value
    measured = {name: value for name, value in terms.items() if value is not None}
    if len(measured) < len(terms):
        return None
    return RewardRecord(total=sum(measured.values()), terms=measured)


def _outcome_reward(
    final: float | None, memory: float | None, settings: RewardSettings
) -> float | None:
    if settings.kind == "answer_only":
        return None if final is None else float(final > 0)
    cell = outcome(final, memory)
    if cell is None or final is None or memory is None:
        return None
    if settings.kind == "awm":
        return settings.cell_rewards[cell]
    # Each cell owns the band above the next worse cell's value, so a graded reward keeps the
    # order of the cells. A bilinear blend would not: scores (0.1, 0) would earn less than (0, 1).
    if cell is Outcome.MEMORY_SUPPORTED_CORRECT:
        return _blend(settings.r10, settings.r11, (final + memory) / 2)
    if cell is Outcome.MEMORY_MISSING_CORRECT:
        return _blend(settings.r01, settings.r10, final)
    if cell is Outcome.ANSWERING_ERROR:
        return _blend(settings.r00, settings.r01, memory)
    return settings.r00


def _blend(low: float, high: float, share: float) -> float:
    return (1 - share) * low + share * high


def supported_share(supported: Sequence[bool | None]) -> float | None:
    """Give the share of findings that their source page supports.

    Args:
        supported: one verdict a finding; None where the check failed.

    Returns:
        None where a verdict is missing. 0 for a memory without findings: were it unmeasured, an
        agent could escape a low reward by writing nothing.

    >>> supported_share([True, True, False, True])
    0.75
    """
    verdicts = [verdict for verdict in supported if verdict is not None]
    if len(verdicts) < len(supported):
        return None
    return sum(verdicts) / len(verdicts) if verdicts else 0.0


def agreement_share(answers: Sequence[str | None]) -> float | None:
    """Give the share of K reader rollouts whose answer is the most frequent one.

    Case and spacing do not count. It says nothing about being right: a memory from which the
    reader always declines to answer agrees with itself.

    Args:
        answers: one answer a rollout, K >= 2; None where the reader failed.

    Returns:
        A share in [1 / K, 1]; None where an answer is missing.

    >>> agreement_share(["4.7 %", "4.7  %", "unknown", "4.8 %"])
    0.5
    """
    if len(answers) < 2:
        raise ValueError(f"{len(answers)} reader rollouts: agreement needs at least 2")
    texts = [" ".join(answer.split()).casefold() for answer in answers if answer is not None]
    if len(texts) < len(answers):
        return None
    return Counter(texts).most_common(1)[0][1] / len(texts)
