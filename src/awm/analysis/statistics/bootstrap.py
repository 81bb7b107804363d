"""Figures of a run with intervals from a bootstrap over documents.

Questions about one document succeed and fail together, so documents are resampled, not
questions. A figure is a `Ratio` of two sums over questions, which are resampled together, and
figures that share a `ResamplingPlan` share every resample, so that their differences are paired.
Several runs of one setting are crossed with the questions: runs and documents are then resampled
independently of each other. docs/statistics.md has formulas and measured coverage.

Axes: N questions, G documents (clusters), R runs, B resamples.

>>> from awm.analysis.statistics.ratios import mean_ratio, p_mmc_ratio
>>> plan = bootstrap_weights(["a", "a", "b", "b", "c", "c"])
>>> final = [1, 1, 1, 0, 1, 0]
>>> memory = [1, 0, 1, 0, 0, 0]
>>> p_mmc = estimate(p_mmc_ratio(final, memory), plan)
>>> p_mmc.value, p_mmc.n, p_mmc.n_clusters
(0.5, 4, 3)
>>> lift = estimate_difference(mean_ratio(final), mean_ratio(memory), plan)
>>> round(lift.value, 3)
0.333
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from awm.analysis.statistics.intervals import (
    STANDARD_NORMAL,
    Estimate,
    Interval,
    check_level,
    student_t_quantile,
    unanimous_interval,
)
from awm.analysis.statistics.ratios import Floats, Ratio

DEFAULT_RESAMPLES = 10_000
CLUSTER_METHOD = "cluster bootstrap BCa, t-expanded"
CROSSED_METHOD = "bootstrap BCa over documents x runs, t-expanded"
UNANIMOUS_METHOD = "unanimous clusters, Clopper-Pearson bound on dissent"

THIN_CLUSTERS = 8
"""Below, the most extreme resample (one document, G times) lies inside the interval sought."""
THIN_RUNS = 3
"""The same for runs: two of them know only two values."""

_CHUNK_CELLS = 1 << 20
"""Weights held at once: 8 MiB of float64."""
_ROUNDING = 1e-12
"""Figures of order 1 that differ by less are equal; sums in another order differ by 1e-15."""


@dataclass(frozen=True, slots=True, eq=False)
class ResamplingPlan:
    """One set of resamples of documents, drawn again, and the same, for every figure."""

    cluster_N: NDArray[np.intp]
    """Index of each question's document, in 0..n_clusters-1."""
    n_clusters: int
    n_resamples: int
    seed: int

    def cluster_sums(self, values_N: Floats) -> Floats:
        """Return the sum of the values of each document, shape (G,)."""
        if values_N.shape != self.cluster_N.shape:
            raise ValueError(
                f"{values_N.shape[0]} values for {self.cluster_N.shape[0]} questions: "
                "a figure and its plan must list the same questions in the same order"
            )
        return np.bincount(self.cluster_N, weights=values_N, minlength=self.n_clusters).astype(
            np.float64
        )

    def weights(self) -> Iterator[Floats]:
        """Yield how often each resample holds each document, in chunks of shape (b, G)."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        n_rows = max(1, _CHUNK_CELLS // self.n_clusters)
        for start in range(0, self.n_resamples, n_rows):
            n = min(n_rows, self.n_resamples - start)
            drawn = rng.integers(0, self.n_clusters, size=(n, self.n_clusters))
            drawn += np.arange(n)[:, None] * self.n_clusters
            counts = np.bincount(drawn.ravel(), minlength=n * self.n_clusters)
            yield counts.reshape(n, self.n_clusters).astype(np.float64)

    def resampled_sums(self, sums_GK: Floats) -> Floats:
        """Return the K totals of every resample, shape (B, K)."""
        return np.concatenate([weights_BG @ sums_GK for weights_BG in self.weights()])

    def run_weights(self, n_runs: int, arm: int) -> Floats:
        """Return weights of runs, shape (B, R), that sum to R in every resample.

        R - 1 runs are drawn and scaled up: with the few seeds one can afford, drawing R would
        understate their variance by (R - 1) / R (Rao & Wu 1988).
        """
        rng = np.random.Generator(np.random.PCG64([self.seed, arm + 1]))
        counts = rng.multinomial(n_runs - 1, np.full(n_runs, 1 / n_runs), size=self.n_resamples)
        return counts.astype(np.float64) * (n_runs / (n_runs - 1))


def bootstrap_weights(
    clusters_N: Sequence[Hashable], n_resamples: int = DEFAULT_RESAMPLES, seed: int = 0
) -> ResamplingPlan:
    """Plan resamples of the documents that `clusters_N` names, one per question.

    Documents are numbered by the order of their ids, so neither the order of the questions nor
    the order of the documents changes a resample.
    """
    if n_resamples < 1 or seed < 0:
        raise ValueError(
            f"{n_resamples!r} resamples with seed {seed!r}: give at least 1 resample and a seed "
            "of at least 0"
        )
    if not len(clusters_N):
        return ResamplingPlan(np.zeros(0, dtype=np.intp), 0, n_resamples, seed)
    names = sorted(set(clusters_N), key=lambda name: (str(type(name)), str(name)))
    index = {name: i for i, name in enumerate(names)}
    cluster_N = np.array([index[name] for name in clusters_N], dtype=np.intp)
    return ResamplingPlan(cluster_N, len(names), n_resamples, seed)


def estimate(ratio: Ratio, plan: ResamplingPlan, level: float = 0.95) -> Estimate:
    """Estimate a figure of one run."""
    return _estimate([_Arm(1.0, (ratio,))], plan, level)


def estimate_difference(
    minuend: Ratio, subtrahend: Ratio, plan: ResamplingPlan, level: float = 0.95
) -> Estimate:
    """Estimate the difference of two figures over the same questions, paired by document."""
    return _estimate([_Arm(1.0, (minuend,)), _Arm(-1.0, (subtrahend,))], plan, level)


def estimate_pooled(
    ratios_R: Sequence[Ratio], plan: ResamplingPlan, level: float = 0.95
) -> Estimate:
    """Estimate a figure of several runs (seeds) of one setting over the same questions.

    The value pools the sums of all runs. Documents and runs are resampled independently (the
    runs are crossed with the questions), so the interval speaks of new documents and new seeds.
    With one run it is `estimate`: one seed says nothing about others.
    """
    return _estimate([_Arm(1.0, tuple(ratios_R))], plan, level)


def estimate_pooled_difference(
    minuends_R: Sequence[Ratio],
    subtrahends_R: Sequence[Ratio],
    plan: ResamplingPlan,
    level: float = 0.95,
) -> Estimate:
    """Estimate the difference of two settings, each with its own runs, paired by document."""
    arms = [_Arm(1.0, tuple(minuends_R)), _Arm(-1.0, tuple(subtrahends_R))]
    return _estimate(arms, plan, level)


def ratio_bootstrap(
    numerators_N: ArrayLike,
    denominators_N: ArrayLike,
    clusters_N: Sequence[Hashable],
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Estimate sum(numerators) / sum(denominators), questions clustered by document."""
    ratio = Ratio(
        np.asarray(numerators_N, dtype=np.float64),
        np.asarray(denominators_N, dtype=np.float64),
        bounds,
    )
    return estimate(ratio, bootstrap_weights(clusters_N, n_resamples, seed), level)


@dataclass(frozen=True, slots=True)
class _Arm:
    """One ratio of a difference, pooled over its runs."""

    sign: float
    ratios_R: tuple[Ratio, ...]

    def __post_init__(self) -> None:
        if not self.ratios_R:
            raise ValueError("no run given: pool at least one")


@dataclass(frozen=True, slots=True, eq=False)
class _ArmSums:
    """Sums of one arm per document and run, and its influence on the figure."""

    numerators_GR: Floats
    denominators_GR: Floats

    @property
    def value(self) -> float:
        """The ratio over all documents and runs."""
        return float(self.numerators_GR.sum() / self.denominators_GR.sum())

    @property
    def n_clusters(self) -> int:
        """Documents that enter the arm in any run."""
        return int(np.count_nonzero(self.denominators_GR.sum(axis=1)))

    def influence_GR(self) -> Floats:
        """Return how far each document and run pulls the ratio: (N - r D) / sum(D)."""
        residuals_GR = self.numerators_GR - self.value * self.denominators_GR
        influence_GR: Floats = residuals_GR / self.denominators_GR.sum()
        return influence_GR

    def resampled(self, plan: ResamplingPlan, arm: int) -> Floats:
        """Return the ratio in every resample, shape (B,); NaN where the denominator is 0."""
        n_runs = self.numerators_GR.shape[1]
        if n_runs == 1:
            sums = plan.resampled_sums(np.hstack([self.numerators_GR, self.denominators_GR]))
            numerators_B, denominators_B = sums[:, 0], sums[:, 1]
        else:
            run_weights_BR = plan.run_weights(n_runs, arm)
            numerators_B = (plan.resampled_sums(self.numerators_GR) * run_weights_BR).sum(1)
            denominators_B = (plan.resampled_sums(self.denominators_GR) * run_weights_BR).sum(1)
        ratio_B = np.full(plan.n_resamples, np.nan)
        np.divide(numerators_B, denominators_B, out=ratio_B, where=denominators_B > 0)
        return ratio_B


def _estimate(arms: Sequence[_Arm], plan: ResamplingPlan, level: float) -> Estimate:
    """Estimate the signed sum of the arms' pooled ratios."""
    check_level(level)
    crossed = any(len(arm.ratios_R) > 1 for arm in arms)
    method = CROSSED_METHOD if crossed else CLUSTER_METHOD
    sums = [_arm_sums(arm, plan) for arm in arms]
    enters_N = np.zeros(plan.cluster_N.shape, dtype=np.bool_)
    for arm in arms:
        for ratio in arm.ratios_R:
            enters_N |= ratio.denominators_N > 0
    n, n_clusters = int(enters_N.sum()), len(np.unique(plan.cluster_N[enters_N]))
    if any(arm_sums.denominators_GR.sum() == 0 for arm_sums in sums):
        return Estimate(None, n, n_clusters, None, method)
    value = sum(arm.sign * s.value for arm, s in zip(arms, sums, strict=True))
    bounds = _bounds(arms)
    if not bounds[0] - _ROUNDING <= value <= bounds[1] + _ROUNDING:
        raise ValueError(
            f"the figure is {value!r}, outside its bounds {bounds!r}: give the ratio the smallest "
            "and the largest value it can take as `bounds`"
        )
    # The part that rests on the fewest documents decides what can be said of a difference.
    n_fewest = min(arm_sums.n_clusters for arm_sums in sums)
    if n_fewest < 2:
        return Estimate(value, n, n_clusters, None, method)

    influence_G = np.zeros(plan.n_clusters)
    influences = [influence_G]
    for arm, arm_sums in zip(arms, sums, strict=True):
        influence_GR = arm.sign * arm_sums.influence_GR()
        influence_G += influence_GR.sum(axis=1)
        if len(arm.ratios_R) > 1:
            influences.append(influence_GR.sum(axis=0))
    if max(float(np.abs(part).max()) for part in influences) < _ROUNDING:
        clipped = min(max(value, bounds[0]), bounds[1])
        interval = unanimous_interval(clipped, n_fewest, bounds, level)
        return Estimate(value, n, n_clusters, interval, UNANIMOUS_METHOD)
    resampled_B = np.zeros(plan.n_resamples)
    for i, (arm, arm_sums) in enumerate(zip(arms, sums, strict=True)):
        resampled_B += arm.sign * arm_sums.resampled(plan, i)
    spread = _spread(influences, n_fewest)
    interval = _bca_interval(value, resampled_B, spread, n_fewest, level, bounds)
    return Estimate(value, n, n_clusters, interval, method)


def _arm_sums(arm: _Arm, plan: ResamplingPlan) -> _ArmSums:
    return _ArmSums(
        np.column_stack([plan.cluster_sums(r.numerators_N) for r in arm.ratios_R]),
        np.column_stack([plan.cluster_sums(r.denominators_N) for r in arm.ratios_R]),
    )


def _bounds(arms: Sequence[_Arm]) -> tuple[float, float]:
    """Return the smallest and the largest value that the signed sum of the arms can take."""
    low = high = 0.0
    for arm in arms:
        ends = [arm.sign * bound for ratio in arm.ratios_R for bound in ratio.bounds]
        low, high = low + min(ends), high + max(ends)
    return low, high


@dataclass(frozen=True, slots=True)
class _Spread:
    """What the influences of documents and runs say about the figure's distribution."""

    variance: float
    """Linearised variance of the figure."""
    df: int
    """Its degrees of freedom (Satterthwaite 1946), rounded down."""
    acceleration: float
    """Skewness of the influences / 6, that of BCa with several samples."""
    is_thin: bool
    """Whether there are too few documents or runs for resamples to reach the interval's ends."""


def _spread(influences: Sequence[Floats], n_clusters: int) -> _Spread:
    """Summarise the influences of documents (first) and, where crossed, of each arm's runs."""
    sizes = [n_clusters, *(len(part) for part in influences[1:])]
    squares = [float(np.sum(part**2)) for part in influences]
    cubes = sum(float(np.sum(part**3)) for part in influences)
    variances = [square * n / (n - 1) for square, n in zip(squares, sizes, strict=True)]
    spread = sum(v**2 / (n - 1) for v, n in zip(variances, sizes, strict=True))
    return _Spread(
        variance=sum(variances),
        df=max(1, math.floor(sum(variances) ** 2 / spread + _ROUNDING * max(sizes))),
        acceleration=cubes / (6 * sum(squares) ** 1.5),
        is_thin=n_clusters < THIN_CLUSTERS or any(n < THIN_RUNS for n in sizes[1:]),
    )


def _bca_interval(
    value: float,
    resampled_B: Floats,
    spread: _Spread,
    n_clusters: int,
    level: float,
    bounds: tuple[float, float],
) -> Interval | None:
    """Return the bias-corrected accelerated interval, expanded for few clusters.

    A percentile interval is too short with few clusters by sqrt((G - 1) / G) and by the normal
    quantile in place of Student's (Hesterberg 2015); both are put back into the normal quantile
    before BCa (Efron & Tibshirani 1993, 14.3) moves it. Where data are thin, the interval is
    extended to cover Student's t interval of the linearised figure.
    """
    resampled = np.sort(resampled_B[~np.isnan(resampled_B)])
    if not len(resampled):
        return None
    n_below = np.count_nonzero(resampled < value - _ROUNDING)
    n_equal = np.count_nonzero(np.abs(resampled - value) <= _ROUNDING)
    share_below = (n_below + 0.5 * n_equal) / len(resampled)
    edge = 0.5 / len(resampled)
    bias = STANDARD_NORMAL.inv_cdf(min(max(share_below, edge), 1 - edge))
    t = student_t_quantile(level, spread.df)
    z = t * math.sqrt(n_clusters / (n_clusters - 1))
    low = _quantile(resampled, _bca_probability(-z, bias, spread.acceleration))
    high = _quantile(resampled, _bca_probability(z, bias, spread.acceleration))
    if spread.is_thin:
        half = t * math.sqrt(spread.variance)
        low, high = min(low, value - half), max(high, value + half)
    return Interval(max(low, bounds[0]), min(high, bounds[1]), level)


def _bca_probability(z: float, bias: float, acceleration: float) -> float:
    """Return the share of resamples below the interval's end at normal quantile `z`."""
    shifted = bias + z
    shrink = 1 - acceleration * shifted
    if shrink <= 0:
        # The acceleration outgrew the quantile, as it can with 2 or 3 clusters: the end lies
        # beyond every resample.
        return 0.0 if shifted < 0 else 1.0
    return STANDARD_NORMAL.cdf(bias + shifted / shrink)


def _quantile(sorted_B: Floats, probability: float) -> float:
    """Return the quantile of sorted values, interpolated between expected order statistics."""
    position = min(max(probability * (len(sorted_B) + 1) - 1, 0.0), len(sorted_B) - 1.0)
    lower = math.floor(position)
    upper = min(lower + 1, len(sorted_B) - 1)
    share = position - lower
    return float(sorted_B[lower] * (1 - share) + sorted_B[upper] * share)
