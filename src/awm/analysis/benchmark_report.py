"""A run's figures by its benchmark's own metrics and groups, official and repaired side by side.

Everything is read from the run store. The official score is the headline of every figure; beside
it stands the repaired one (`awm.scoring.repaired`), with each answer on which the two differ and
the rules behind it. Intervals come from the bootstrap over documents; several runs that differ in
nothing but seeds can be pooled, and then runs are resampled, too (docs/statistics.md).

The judge decides the metrics: MMLongBench-Doc's accuracy, F1 and groups for whatever it judges
(its own benchmark, the demo, your own questions), LongDocURL's for LongDocURL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from awm.analysis.result_name import ResultName, comparability_notes, pooled_name, result_name
from awm.analysis.scored_answers import RepairedAnswer, ScoredRun, read_scored_run
from awm.analysis.statistics.bootstrap import ResamplingPlan, bootstrap_weights, estimate_pooled
from awm.analysis.statistics.intervals import Estimate, Interval
from awm.analysis.statistics.ratios import Floats, Ratio, f1_ratio, mean_ratio, p_mmc_ratio
from awm.analysis.summary import RunSummary, summarize
from awm.errors import RunMismatchError
from awm.runs import RunStore, compare_manifests
from awm.scoring.metrics import (
    LONGDOCURL_N_QUESTIONS,
    NOT_ANSWERABLE,
    LongDocURLMetrics,
    MMLongBenchDocMetrics,
    ScoredRow,
    longdocurl_metrics,
    mmlongbench_doc_metrics,
)
from awm.scoring.outcome import Outcome, OutcomeCounts, count_outcomes

SEED_SETTINGS = frozenset({"model.seed", "reader.seed", "extractor.seed"})
"""Settings that runs of one pool may differ in."""
_AGREEMENT = 1e-9
_NO_ESTIMATE = Estimate(None, 0, 0, None, "none: the figure is not a ratio of bounded sums")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by the official scores, and the same by the repaired ones."""

    key: str
    """Name in JSON, e.g. "accuracy"."""
    title: str
    official: Estimate
    """The headline."""
    repaired: Estimate

    def as_json(self) -> dict[str, Any]:
        """Give both estimates."""
        return {"official": self.official.as_json(), "repaired": self.repaired.as_json()}


@dataclass(frozen=True, slots=True)
class GroupFigure:
    """The official accuracy of one of the benchmark's groups."""

    name: str
    accuracy: Estimate
    """Over the measured rows that are there."""
    n_unmeasured: int
    official_accuracy: float | None = None
    """Divided by the count of the full set, as the official script does; None where it fixes
    none, and for pooled runs."""
    official_n: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {**asdict(self), "accuracy": self.accuracy.as_json()}


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of one run, or of several pooled ones."""

    figures: tuple[Figure, ...]
    cells: dict[Outcome, Estimate] | None
    """Share of each cell among the answers with a cell; None where no memory was read."""
    outcomes: OutcomeCounts | None
    groups: tuple[GroupFigure, ...]

    def figure(self, key: str) -> Figure:
        """Give a figure by its name in JSON."""
        return next(figure for figure in self.figures if figure.key == key)

    def as_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {
            "figures": {figure.key: figure.as_json() for figure in self.figures},
            "cell_shares": (
                {cell.value: share.as_json() for cell, share in self.cells.items()}
                if self.cells
                else None
            ),
            "cell_counts": self.outcomes.as_dict() if self.outcomes else None,
            "groups": [group.as_json() for group in self.groups],
        }


@dataclass(frozen=True, slots=True)
class RunReport:
    """What `awm report` says of one run."""

    name: ResultName
    summary: RunSummary
    figures: Figures
    differences: tuple[RepairedAnswer, ...]
    """Every answer whose repaired score is not the official one."""
    n_answers: int
    """Answers with a score, final and memory-only ones."""
    notes: tuple[str, ...]
    """What limits the figures, and what keeps them from being compared with published ones."""

    @property
    def rule_counts(self) -> dict[str, int]:
        """How many answers each rule changed; an answer with two rules counts for both."""
        counts = Counter(rule for row in self.differences for rule in row.rules)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """Give the object of the run that `--json` prints."""
        return {
            **self.summary.as_json(),
            "name": str(self.name),
            "release": self.name.release,
            **self.figures.as_json(),
            "n_answers": self.n_answers,
            "n_repaired": len(self.differences),
            "repair_rules": self.rule_counts,
            "repaired_answers": [asdict(row) for row in self.differences],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class PooledReport:
    """Several runs of one setting as one."""

    name: ResultName
    paths: tuple[Path, ...]
    seeds: tuple[int | None, ...]
    """The model's, in the order of the runs."""
    figures: Figures
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Give the object of the pool that `--json` prints."""
        return {
            "name": str(self.name),
            "runs": [str(path) for path in self.paths],
            "seeds": list(self.seeds),
            **self.figures.as_json(),
            "notes": list(self.notes),
        }


def report_run(store: RunStore) -> RunReport:
    """Report one run, finished or not.

    Raises:
        RunStoreError: a journal cannot be read.
    """
    run, summary = read_scored_run(store), summarize(store)
    return RunReport(
        name=result_name(store.manifest),
        summary=summary,
        figures=_figures([run]),
        differences=run.differences,
        n_answers=sum(score is not None for score in (*run.finals, *run.memories)),
        notes=comparability_notes(summary),
    )


def pool_runs(stores: Sequence[RunStore]) -> PooledReport:
    """Pool runs that differ in seeds alone.

    Raises:
        RunMismatchError: fewer than two runs, a run twice, or runs that differ in anything else;
            the message names it.
        RunStoreError: a journal cannot be read.
    """
    _check_poolable(stores)
    seeds = tuple(store.manifest.settings["model"].get("seed") for store in stores)
    notes = []
    twice = sorted({seed for seed in seeds if seed is not None and seeds.count(seed) > 1})
    if twice:
        notes.append(
            f"Several runs have the seed {', '.join(map(str, twice))}: if the server honours "
            "seeds, they are one sample counted twice, and the intervals are too short."
        )
    if len(stores) == 2:
        notes.append(
            "Two runs say little about the spread between seeds; pool three or more for an "
            "interval that can be relied on (docs/statistics.md)."
        )
    figures = _figures([read_scored_run(store) for store in stores])
    return PooledReport(
        name=pooled_name(stores[0].manifest, seeds),
        paths=tuple(store.path for store in stores),
        seeds=seeds,
        figures=figures,
        notes=tuple(notes),
    )


def _check_poolable(stores: Sequence[RunStore]) -> None:
    if len(stores) < 2:
        raise RunMismatchError("pooling needs at least two runs; name the runs of the other seeds")
    folders = [store.path.resolve() for store in stores]
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise RunMismatchError(
                f"{stores[number].path} is given twice: pooling a run with itself would make its "
                "intervals too short"
            )
    for other in stores[1:]:
        differences = [
            line
            for line in compare_manifests(stores[0].manifest, other.manifest)
            if line.partition(": ")[0] not in SEED_SETTINGS
        ]
        if differences:
            raise RunMismatchError(
                f"{stores[0].path} and {other.path} differ in more than seeds and cannot be "
                "pooled:\n  "
                + "\n  ".join(differences)
                + "\nLeave --pool out to see them side by side, or use `awm compare`."
            )


def _figures(runs: Sequence[ScoredRun]) -> Figures:
    """Estimate every figure; the runs list the same questions in the same order."""
    plan = bootstrap_weights([example.document_id for example in runs[0].examples])
    outcomes = [outcome for run in runs for outcome in run.outcomes]
    is_longdocurl = runs[0].judge == "longdocurl"
    own = _longdocurl_figures(runs, plan) if is_longdocurl else _mmlongbench_figures(runs, plan)
    memory = Figure(
        "memory_accuracy",
        "memory-only accuracy",
        estimate_pooled([mean_ratio(run.memories) for run in runs], plan),
        estimate_pooled([mean_ratio(run.repaired_memories) for run in runs], plan),
    )
    p_mmc = Figure(
        "p_mmc",
        "P_mmc",
        estimate_pooled([p_mmc_ratio(run.finals, run.memories) for run in runs], plan),
        estimate_pooled(
            [p_mmc_ratio(run.repaired_finals, run.repaired_memories) for run in runs], plan
        ),
    )
    reads_memory = any(outcome is not None for outcome in outcomes)
    return Figures(
        figures=(*own, memory, p_mmc),
        cells=_cells(runs, plan) if reads_memory else None,
        outcomes=count_outcomes(outcomes) if reads_memory else None,
        groups=_groups(runs, plan),
    )


def _mmlongbench_figures(runs: Sequence[ScoredRun], plan: ResamplingPlan) -> tuple[Figure, ...]:
    accuracy = Figure(
        "accuracy",
        "accuracy",
        estimate_pooled([mean_ratio(run.finals) for run in runs], plan),
        estimate_pooled([mean_ratio(run.repaired_finals) for run in runs], plan),
    )
    f1 = Figure(
        "f1",
        "F1",
        _f1(runs, [run.finals for run in runs], plan),
        _f1(runs, [run.repaired_finals for run in runs], plan),
    )
    return accuracy, f1


def _f1(
    runs: Sequence[ScoredRun], scores_R: Sequence[Sequence[float | None]], plan: ResamplingPlan
) -> Estimate:
    """Estimate F1; of one run its value is the original's, which is 0 where it is undefined."""
    ratios = [
        f1_ratio(
            scores,
            [row.is_answerable for row in run.rows],
            [row.prediction != NOT_ANSWERABLE for row in run.rows],
        )
        for run, scores in zip(runs, scores_R, strict=True)
    ]
    # Partial credit for the words "Not answerable" themselves can lift F1 above 1.
    has_bounds = all(ratio.value is not None and ratio.value <= 1 for ratio in ratios)
    estimated = estimate_pooled(ratios, plan) if has_bounds else _NO_ESTIMATE
    if len(runs) > 1:
        return estimated
    rows = [replace(row, score=s) for row, s in zip(runs[0].rows, scores_R[0], strict=True)]
    metrics = mmlongbench_doc_metrics(rows)
    if metrics.f1 is None or estimated.value is None:
        return replace(_NO_ESTIMATE, value=metrics.f1, n=metrics.n)
    if abs(estimated.value - metrics.f1) > _AGREEMENT:
        return replace(_NO_ESTIMATE, value=metrics.f1, n=metrics.n)
    return estimated


def _longdocurl_figures(runs: Sequence[ScoredRun], plan: ResamplingPlan) -> tuple[Figure, ...]:
    official = estimate_pooled([mean_ratio(run.finals) for run in runs], plan)
    repaired = estimate_pooled([mean_ratio(run.repaired_finals) for run in runs], plan)
    n_measured = sum(score is not None for run in runs for score in run.finals)
    share = n_measured / (LONGDOCURL_N_QUESTIONS * len(runs))
    return (
        Figure("generalized_accuracy", "generalized accuracy", official, repaired),
        Figure(
            "rectified_accuracy",
            "rectified accuracy",
            _scaled(official, share),
            _scaled(repaired, share),
        ),
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    """Scale a mean to the full set, in which what was not measured counts as wrong."""
    if estimate.value is None:
        return estimate
    interval = estimate.interval and Interval(
        estimate.interval.low * factor, estimate.interval.high * factor, estimate.interval.level
    )
    return replace(estimate, value=estimate.value * factor, interval=interval)


def _cells(runs: Sequence[ScoredRun], plan: ResamplingPlan) -> dict[Outcome, Estimate]:
    return {
        cell: estimate_pooled(
            [
                mean_ratio([None if o is None else float(o == cell) for o in run.outcomes])
                for run in runs
            ],
            plan,
        )
        for cell in Outcome
    }


def _groups(runs: Sequence[ScoredRun], plan: ResamplingPlan) -> tuple[GroupFigure, ...]:
    """Estimate every group; its members are those that the benchmark's own metrics count in it."""
    summarize_rows: Callable[[Sequence[ScoredRow]], MMLongBenchDocMetrics | LongDocURLMetrics]
    is_longdocurl = runs[0].judge == "longdocurl"
    summarize_rows = longdocurl_metrics if is_longdocurl else mmlongbench_doc_metrics
    by_run = [summarize_rows(run.rows).groups for run in runs]
    # How often a row counts in a group: an evidence source that is named twice counts twice.
    times_N: dict[str, Floats] = {g.name: np.zeros(len(runs[0].rows)) for g in by_run[0]}
    for i, row in enumerate(runs[0].rows):
        for member in summarize_rows([row]).groups:
            if member.n + member.n_unmeasured:
                times_N[member.name][i] = member.n + member.n_unmeasured
    figures = []
    for place, official in enumerate(by_run[0]):
        ratios = [_weighted_mean(run.finals, times_N[official.name]) for run in runs]
        accuracy = replace(
            estimate_pooled(ratios, plan), n=max(groups[place].n for groups in by_run)
        )
        is_single = len(runs) == 1
        figures.append(
            GroupFigure(
                name=official.name,
                accuracy=accuracy,
                n_unmeasured=sum(groups[place].n_unmeasured for groups in by_run),
                official_accuracy=official.official_accuracy if is_single else None,
                official_n=official.official_n,
            )
        )
    return tuple(figures)


def _weighted_mean(scores: Sequence[float | None], times_N: Floats) -> Ratio:
    mean = mean_ratio(scores)
    return Ratio(mean.numerators_N * times_N, mean.denominators_N * times_N)
