"""An estimate with its interval, and the exact distributions that the analysis leans on.

`bootstrap` turns the scores of one run into estimates, `paired` compares two runs, `agreement`
measures how far raters agree, `rollouts` summarises repeated attempts. Method, formulas and the
measured coverage of the intervals: docs/statistics.md. Every level is a probability, 0.95 unless
told otherwise, and `None` means that a number cannot be computed, never 0.

>>> interval = wilson_interval(8, 10)
>>> round(interval.low, 4), round(interval.high, 4)
(0.4902, 0.9433)
>>> sign_test(n_up=9, n_down=1)
0.021484375
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

STANDARD_NORMAL = NormalDist()

_CLOSED_FORM_DF_LIMIT = 200
"""Up to here Student's t is summed exactly; beyond, an expansion is right to 8 digits."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval."""

    low: float
    high: float
    level: float = 0.95
    """Coverage that the interval aims at; docs/statistics.md lists what it reaches."""

    def __post_init__(self) -> None:
        check_level(self.level)
        if not self.low <= self.high:
            raise ValueError(
                f"an interval from {self.low!r} to {self.high!r}: low must not exceed high"
            )

    @property
    def width(self) -> float:
        """Distance between the two ends."""
        return self.high - self.low

    def as_json(self) -> dict[str, float]:
        """Return the fields as a JSON object."""
        return {"low": self.low, "high": self.high, "level": self.level}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, what it rests on, and how far it could be off."""

    value: float | None
    """None where nothing was measured."""
    n: int
    """Questions that the figure rests on: those with a nonzero denominator (for P_mmc the
    correct answers), in one run; of a difference or of pooled runs, those that enter any part."""
    n_clusters: int
    """Documents that hold at least one of the `n` questions."""
    interval: Interval | None
    """None without a value, and where the figure, or either part of a difference, rests on fewer
    than 2 clusters: one document says nothing about how much documents differ."""
    method: str
    """How the interval was made, e.g. "cluster bootstrap BCa"."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object; None becomes null."""
        return {
            "value": self.value,
            "n": self.n,
            "n_clusters": self.n_clusters,
            "interval": None if self.interval is None else self.interval.as_json(),
            "method": self.method,
        }


def check_level(level: float) -> None:
    """Raise ValueError unless `level` lies strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"confidence level {level!r}: give a probability between 0 and 1")


def wilson_interval(n_successes: int, n_trials: int, level: float = 0.95) -> Interval | None:
    """Return Wilson's score interval of a proportion of independent trials.

    Args:
        n_successes: in 0..n_trials.
        n_trials: independent trials; questions of one document are not (see `bootstrap`).
        level: confidence level.

    Returns:
        The interval, None for 0 trials. Source: Wilson 1927; Brown, Cai, DasGupta 2001.
    """
    check_level(level)
    if not 0 <= n_successes <= n_trials:
        raise ValueError(
            f"{n_successes!r} successes in {n_trials!r} trials: "
            "give counts with 0 <= successes <= trials"
        )
    if n_trials == 0:
        return None
    z = STANDARD_NORMAL.inv_cdf(0.5 + level / 2)
    share = n_successes / n_trials
    shrink = 1 + z * z / n_trials
    centre = (share + z * z / (2 * n_trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n_trials + (z / (2 * n_trials)) ** 2)
    # At 0 and at n the formula gives exactly 0 and 1, up to rounding.
    low = 0.0 if n_successes == 0 else max(0.0, centre - half)
    high = 1.0 if n_successes == n_trials else min(1.0, centre + half)
    return Interval(low, high, level)


def unanimous_interval(
    value: float, n_clusters: int, bounds: tuple[float, float] = (0.0, 1.0), level: float = 0.95
) -> Interval | None:
    """Return the interval of a figure on which all clusters agree.

    Where all documents say the same, every resample does too, and a bootstrap would claim
    certainty. What G unanimous documents do show is that dissent is rare: the Clopper-Pearson
    bound of 0 dissenters in G is u = 1 - ((1 - level) / 2) ** (1 / G), and a share u of
    dissenters moves the figure at most by u times its distance to either bound.

    Args:
        value: the common value, within `bounds`.
        n_clusters: documents that agree; one counts as one observation, whatever its questions.
        bounds: smallest and largest value the figure can take.
        level: confidence level.

    Returns:
        The interval; None with fewer than 2 clusters, like every interval of this package.
    """
    check_level(level)
    lower, upper = bounds
    if not lower <= value <= upper:
        raise ValueError(f"value {value!r} lies outside its bounds {bounds!r}")
    if n_clusters < 2:
        return None
    dissent = 1 - ((1 - level) / 2) ** (1 / n_clusters)
    return Interval(value - dissent * (value - lower), value + dissent * (upper - value), level)


def half_binomial_tail(n_smaller: int, n_trials: int) -> float:
    """Return P(X <= n_smaller) for X ~ Binomial(n_trials, 1/2), in exact integers.

    The only rounding is that of the last division.
    """
    if not 0 <= n_smaller <= n_trials:
        raise ValueError(
            f"tail up to {n_smaller!r} of {n_trials!r} trials: give 0 <= n_smaller <= n_trials"
        )
    term = total = 1
    for k in range(n_smaller):
        term = term * (n_trials - k) // (k + 1)
        total += term
    return total / (1 << n_trials)


def sign_test(n_up: int, n_down: int) -> float:
    """Return the exact two-sided p-value of `n_up` against `n_down` under a fair coin.

    Ties belong in neither count. With no untied pair nothing speaks against the null: 1.0.
    """
    if n_up < 0 or n_down < 0:
        raise ValueError(f"counts {n_up!r} and {n_down!r}: give counts of at least 0")
    return min(1.0, 2 * half_binomial_tail(min(n_up, n_down), n_up + n_down))


@lru_cache(maxsize=1024)
def student_t_quantile(level: float, df: int) -> float:
    """Return t with P(|T| <= t) = level for Student's T with `df` degrees of freedom.

    Source: finite sums for whole degrees of freedom, Abramowitz & Stegun 26.7.3-4; expansion
    around the normal quantile for many, 26.7.5.
    """
    check_level(level)
    if df < 1:
        raise ValueError(f"{df!r} degrees of freedom: give at least 1")
    z = STANDARD_NORMAL.inv_cdf(0.5 + level / 2)
    if df > _CLOSED_FORM_DF_LIMIT:
        return (
            z
            + (z**3 + z) / (4 * df)
            + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
        )
    # t = sqrt(df) tan(theta): bisecting the angle keeps the heavy tails of df = 1 in reach.
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        if _central_t_probability(middle, df) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(df) * math.tan((low + high) / 2)


def _central_t_probability(theta: float, df: int) -> float:
    """Return P(|T| <= sqrt(df) tan(theta)), by the finite sums of Abramowitz & Stegun."""
    cos2 = math.cos(theta) ** 2
    term = total = 1.0
    if df % 2 == 0:
        for k in range(2, df, 2):
            term *= (k - 1) / k * cos2
            total += term
        return math.sin(theta) * total
    if df == 1:
        return 2 * theta / math.pi
    for k in range(3, df, 2):
        term *= (k - 1) / k * cos2
        total += term
    return 2 / math.pi * (theta + math.sin(theta) * math.cos(theta) * total)
