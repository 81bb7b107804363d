"""The advantage that each outcome cell can expect, by mixture of the cells (arXiv 2608.25618).

A mixture says how often a policy ends in each cell. Drawing G trajectories from it, what is
E[A_i | trajectory i is in the cell]? The exact answer puts one trajectory into the cell and sums
over every composition of the other G - 1; Monte Carlo draws groups, and is checked against it.
Both take their advantages from `awm.rl.advantage`, the code that training runs.

`TRADE_OFF` follows the paper's Figure 3: p11 rises, and the other cells share what is left in a
fixed proportion, which is ours. Method and results: docs/reward.md.

>>> mixture = Mixture(p11=0.5, p10=0.5, p01=0, p00=0)
>>> pair = Experiment(settings=RewardSettings(), group_size=2)
>>> [a and round(a, 3) for a in exact(mixture, pair).advantages.values()]
[0.5, -0.5, None, None]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Literal, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from awm.errors import ConfigError
from awm.rl.advantage import EPS, batched_group_advantages, groups_with_signal
from awm.rl.reward import RewardSettings
from awm.scoring.outcome import Outcome

Floats: TypeAlias = NDArray[np.float64]
Method = Literal["exact", "monte_carlo"]
Value = TypeVar("Value", float, float | None)

CELLS = tuple(Outcome)
"""The axis K of every array here, of length 4."""
MISSING = CELLS.index(Outcome.MEMORY_MISSING_CORRECT)
MAX_GROUP_SIZE = 64
"""Compositions grow with the cube of G: 120 beside a trajectory for G = 8, 43,680 for G = 64."""
MAX_GROUPS = 10_000_000
"""Most groups that Monte Carlo draws for one mixture."""
P11_ROWS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The rows of the curve: 0.05, 0.10 ... 0.95."""

_FROZEN = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
_CHUNK_MEMBERS = 4_000_000
"""Trajectories that Monte Carlo holds at a time."""
_SUM_TOLERANCE = 1e-6


class Mixture(BaseModel):
    """Probability of each outcome cell; they add up to 1."""

    model_config = _FROZEN

    p11: float = Field(ge=0)
    """Memory-supported correct."""
    p10: float = Field(ge=0)
    """Memory-missing correct."""
    p01: float = Field(ge=0)
    """Answering error."""
    p00: float = Field(ge=0)
    """Unresolved error."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = self.p11 + self.p10 + self.p01 + self.p00
        if abs(total - 1) > _SUM_TOLERANCE:
            raise ValueError(
                f"{self.p11} + {self.p10} + {self.p01} + {self.p00} = {total:.6g}; the four "
                "probabilities must add up to 1"
            )
        return self

    def as_array(self) -> Floats:
        """Give the probabilities, shape (K,), scaled to add up to 1."""
        values_K = np.array([self.p11, self.p10, self.p01, self.p00])
        shares_K: Floats = values_K / values_K.sum()
        return shares_K


class RestShares(BaseModel):
    """How the cells other than (1, 1) share 1 - p11."""

    model_config = _FROZEN

    p10: float = Field(default=2 / 6, ge=0)
    p01: float = Field(default=1 / 6, ge=0)
    p00: float = Field(default=3 / 6, ge=0)

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.p10 + self.p01 + self.p00 <= 0:
            raise ValueError("all three shares are 0; give at least one above 0")
        return self

    def mix(self, p11: float) -> Mixture:
        """Give the mixture with this p11."""
        scale = (1 - p11) / (self.p10 + self.p01 + self.p00)
        return Mixture(p11=p11, p10=self.p10 * scale, p01=self.p01 * scale, p00=self.p00 * scale)


TRADE_OFF = RestShares()
"""Of what is not (1, 1): 2 parts (1, 0), 1 part (0, 1), 3 parts (0, 0)."""


class Experiment(BaseModel):
    """What is simulated, apart from the mixture."""

    model_config = _FROZEN

    settings: RewardSettings = RewardSettings()
    """Kind awm or answer_only; terms are not simulated."""
    group_size: int = Field(default=8, ge=2, le=MAX_GROUP_SIZE)
    """G: trajectories of one prompt. A group of one has no advantage."""
    ddof: Literal[0, 1] = 0
    """0: population standard deviation, as the paper's formula. 1: sample, as TRL and verl."""
    eps: float = Field(default=EPS, ge=0)
    n_groups: int = Field(default=15_000, ge=1, le=MAX_GROUPS)
    """Groups that Monte Carlo draws for each mixture."""
    seed: int = Field(default=0, ge=0)
    """Of Monte Carlo. Every mixture and reward starts from it: rewards see the same groups."""

    @model_validator(mode="after")
    def _pays_by_cell(self) -> Self:
        settings = self.settings
        terms = settings.grounding_weight, settings.self_consistency_weight
        if settings.kind == "graded" or any(terms) or settings.memory_length_weight:
            raise ValueError(
                "a simulation knows only outcome cells: give rewards of kind awm or answer_only "
                "without terms"
            )
        return self

    def rewards(self) -> Floats:
        """Give the reward of each cell, shape (K,)."""
        return np.array([self.settings.cell_rewards[cell] for cell in CELLS])


class Simulated(BaseModel):
    """Expected advantages under one mixture and one reward."""

    model_config = _FROZEN

    mixture: Mixture
    reward: Literal["awm", "answer_only"]
    method: Method
    advantages: dict[str, float | None]
    """E[A_i | trajectory i is in the cell]; None where the cell has no probability or, by Monte
    Carlo, was never drawn."""
    standard_errors: dict[str, float | None] | None
    """Of Monte Carlo, from the exact distribution of the groups: an estimate from the drawn ones
    would be 0 where a rare cell happened to meet the same company each time."""
    groups_with_signal: float
    """Share of groups whose rewards are not all equal."""
    rewards: dict[str, float]
    group_size: int
    ddof: int
    eps: float
    n_groups: int | None = None
    """Groups drawn; None for the exact method."""
    seed: int | None = None


class Crossing(BaseModel):
    """Where the (1, 0) cell turns negative as p11 rises."""

    model_config = _FROZEN

    group_size: int
    rewards: dict[str, float]
    ddof: int
    mixture: Mixture | None
    """The mixture with expected advantage 0; None where the (1, 0) cell never turns negative,
    as under answer-only."""


def exact(mixture: Mixture, experiment: Experiment) -> Simulated:
    """Sum over every composition of the group."""
    p_K = mixture.as_array()
    means_K, _ = _expect(p_K, experiment)
    rewards_K = experiment.rewards()
    p_of_reward = [float(p_K[rewards_K == reward].sum()) for reward in set(rewards_K.tolist())]
    return _result(
        mixture,
        experiment,
        "exact",
        advantages=_where(p_K > 0, means_K),
        standard_errors=None,
        signal=1 - math.fsum(p**experiment.group_size for p in p_of_reward),
    )


def monte_carlo(mixture: Mixture, experiment: Experiment) -> Simulated:
    """Draw groups, and average over all trajectories of a cell."""
    p_K, rewards_K = mixture.as_array(), experiment.rewards()
    rng = np.random.default_rng(experiment.seed)
    counts_K, sums_K, n_signal = np.zeros(4, dtype=np.int_), np.zeros(4), 0
    left = experiment.n_groups
    while left:
        n = min(left, _CHUNK_MEMBERS // experiment.group_size)
        cells_NG = rng.choice(4, size=(n, experiment.group_size), p=p_K)
        rewards_NG = rewards_K[cells_NG]
        advantages_NG = batched_group_advantages(rewards_NG, experiment.eps, experiment.ddof)
        counts_K += np.bincount(cells_NG.ravel(), minlength=4)
        sums_K += np.bincount(cells_NG.ravel(), weights=advantages_NG.ravel(), minlength=4)
        n_signal += int(groups_with_signal(rewards_NG).sum())
        left -= n
    drawn = counts_K > 0
    _, spreads_K = _expect(p_K, experiment)
    errors_K = np.sqrt(spreads_K / (experiment.n_groups * experiment.group_size * p_K + ~drawn))
    return _result(
        mixture,
        experiment,
        "monte_carlo",
        advantages=_where(drawn, sums_K / np.maximum(counts_K, 1)),
        standard_errors=_where(drawn, errors_K),
        signal=n_signal / experiment.n_groups,
    )


def find_crossing(rest: RestShares, experiment: Experiment) -> Crossing:
    """Find the p11 at which the exact advantage of the (1, 0) cell falls below zero.

    Raises:
        ConfigError: the (1, 0) cell has no share of the rest.
    """
    if rest.p10 == 0:
        raise ConfigError(
            "the (1, 0) cell has no share of 1 - p11, so it has no advantage to follow; give the "
            "first value of the rest a share above 0"
        )

    def advantage(p11: float) -> float:
        return float(_expect(rest.mix(p11).as_array(), experiment)[0][MISSING])

    grid = [step / 100 for step in range(101)]
    # Sums of the same products in another order differ in the last digits: not a crossing.
    falls = (
        (low, high)
        for low, high in pairwise(grid)
        if advantage(low) >= 0 and advantage(high) < -1e-12
    )
    bracket = next(falls, None)
    mixture = None
    if bracket is not None:
        low, high = bracket
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (middle, high) if advantage(middle) >= 0 else (low, middle)
        mixture = rest.mix((low + high) / 2)
    return Crossing(
        group_size=experiment.group_size,
        rewards=_named(experiment.rewards().tolist()),
        ddof=experiment.ddof,
        mixture=mixture,
    )


def find_sensitivity(rest: RestShares, experiment: Experiment) -> list[Crossing]:
    """Find the crossing for other group sizes, and for other values of r10 and r01.

    Shifting or stretching all rewards leaves advantages as they are (but for eps), so r11 and r00
    stay; the two values between them move over the range that keeps the order.
    """
    settings = experiment.settings
    span = settings.r11 - settings.r00

    def with_share(name: str, share: float) -> RewardSettings | None:
        value = round(settings.r00 + share * span, 12)
        r10 = value if name == "r10" else settings.r10
        r01 = value if name == "r01" else settings.r01
        if not settings.r11 > r10 > r01 > settings.r00:
            return None
        return RewardSettings(**{**settings.model_dump(), name: value})

    sizes = [experiment.model_copy(update={"group_size": g}) for g in (2, 4, 8, 16, 32)]
    moved = [with_share("r10", share) for share in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)]
    moved += [with_share("r01", share) for share in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)]
    others = [experiment.model_copy(update={"settings": s}) for s in moved if s is not None]
    return [find_crossing(rest, other) for other in sizes + others]


def _expect(p_K: Floats, experiment: Experiment) -> tuple[Floats, Floats]:
    """Sum over the compositions of the G - 1 trajectories beside one in each cell.

    Returns:
        mean = E[A | cell], and E[n (A - mean)^2 | cell] with n the trajectories in the cell, each
        of shape (K,); for a cell of probability 0, what it would be if it occurred. Averaging A
        over the N G p trajectories that N groups put into a cell has, to first order, the
        variance of the second divided by N G p: the members of a group are no independent draws.
    """
    counts_CK, coefficients_C = _compositions(experiment.group_size - 1)
    advantages_KC = _advantage_table(
        tuple(experiment.rewards().tolist()), experiment.group_size, experiment.eps, experiment.ddof
    )
    powers_KG = p_K[:, np.newaxis] ** np.arange(experiment.group_size)
    probabilities_C = coefficients_C.copy()
    for powers_G, counts_C in zip(powers_KG, counts_CK.T, strict=True):
        probabilities_C *= powers_G[counts_C]
    means_K: Floats = advantages_KC @ probabilities_C
    squares_KC = (counts_CK.T + 1) * np.square(advantages_KC - means_K[:, np.newaxis])
    return means_K, squares_KC @ probabilities_C


@lru_cache(maxsize=8)
def _compositions(n: int) -> tuple[NDArray[np.int_], Floats]:
    """List every way in which n trajectories fall into four cells.

    Returns:
        Counts, shape (C, K), and multinomial coefficients, shape (C,); C = (n + 3 choose 3).
    """
    bars_CB = np.array(list(combinations(range(n + 3), 3)))
    ends_CE = np.pad(bars_CB, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, n + 3)))
    counts_CK = np.diff(ends_CE, axis=1) - 1
    factorials = [math.factorial(k) for k in range(n + 1)]
    coefficients = [
        factorials[n] // math.prod(factorials[k] for k in counts) for counts in counts_CK.tolist()
    ]
    return counts_CK, np.array(coefficients, dtype=np.float64)


@lru_cache(maxsize=64)
def _advantage_table(rewards: tuple[float, ...], group_size: int, eps: float, ddof: int) -> Floats:
    """Give the advantage of a member of each cell beside each composition, shape (K, C)."""
    counts_CK, _ = _compositions(group_size - 1)
    rewards_K = np.array(rewards)
    others_CG = np.repeat(np.tile(rewards_K, len(counts_CK)), counts_CK.ravel()).reshape(
        len(counts_CK), group_size - 1
    )
    rows = []
    for reward in rewards:
        groups_CG = np.pad(others_CG, ((0, 0), (1, 0)), constant_values=reward)
        rows.append(batched_group_advantages(groups_CG, eps, ddof)[:, 0])
    return np.stack(rows)


def _where(known_K: NDArray[np.bool_], values_K: Floats) -> list[float | None]:
    return [float(v) if known else None for v, known in zip(values_K, known_K, strict=True)]


def _result(
    mixture: Mixture,
    experiment: Experiment,
    method: Method,
    *,
    advantages: Sequence[float | None],
    standard_errors: Sequence[float | None] | None,
    signal: float,
) -> Simulated:
    drawn = method == "monte_carlo"
    return Simulated(
        mixture=mixture,
        reward="answer_only" if experiment.settings.kind == "answer_only" else "awm",
        method=method,
        advantages=_named(advantages),
        standard_errors=None if standard_errors is None else _named(standard_errors),
        groups_with_signal=signal,
        rewards=_named(experiment.rewards().tolist()),
        group_size=experiment.group_size,
        ddof=experiment.ddof,
        eps=experiment.eps,
        n_groups=experiment.n_groups if drawn else None,
        seed=experiment.seed if drawn else None,
    )


def _named(values: Sequence[Value]) -> dict[str, Value]:
    return {cell.value: value for cell, value in zip(CELLS, values, strict=True)}
