"""The pairs of several seeds as one comparison: `awm pocket pool`.

Every pair of `awm pocket reproduce` asked the same unseen questions, so seeds and documents are
crossed: intervals come from a bootstrap over both, and differences are paired by document
(docs/statistics.md). Only files are read; neither torch nor a model is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from awm.analysis.scored_answers import ScoredRun, read_scored_run
from awm.analysis.statistics.bootstrap import (
    ResamplingPlan,
    bootstrap_weights,
    estimate_pooled,
    estimate_pooled_difference,
)
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import Ratio, mean_ratio, p_mmc_ratio
from awm.errors import RunMismatchError, RunStoreError
from awm.faults import reason
from awm.rl.reward import RewardKind
from awm.runs import Journal, open_run
from awm.train.metrics import TrainingRecord
from awm.train.pocket import ARMS, Reproduction


def _right(scores: Sequence[float | None]) -> list[float | None]:
    return [None if score is None else float(score > 0) for score in scores]


_RATIOS: dict[str, Callable[[ScoredRun], Ratio]] = {
    "accuracy": lambda run: mean_ratio(_right(run.finals)),
    "memory_accuracy": lambda run: mean_ratio(_right(run.memories)),
    "p_mmc": lambda run: p_mmc_ratio(run.finals, run.memories),
}
FIGURES = tuple(_RATIOS)


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """One policy, or one reward with a policy for each seed, on the unseen questions."""

    name: str
    """before, answer_only or awm."""
    figures: dict[str, Estimate]
    """Under the names of `FIGURES`; an answer is right with any score above 0."""
    groups_with_signal: float | None
    """Of the training: groups of a step in which two rewards differ, mean over steps and seeds."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What one training measured on the held-out questions, step by step."""

    arm: RewardKind
    seed: int
    records: tuple[TrainingRecord, ...]


@dataclass(frozen=True, slots=True)
class PocketPool:
    """Pairs of several seeds."""

    seeds: tuple[int, ...]
    steps: int
    arms: tuple[ArmFigures, ...]
    differences: dict[str, Estimate]
    """AWM minus answer-only, under the names of `FIGURES`."""
    gaps: dict[int, float | None]
    """By seed: P_mmc of AWM minus that of answer-only; None where one has no right answer."""
    curves: tuple[Curve, ...]

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "seeds": list(self.seeds),
            "steps": self.steps,
            "arms": [
                {
                    "name": arm.name,
                    **{name: figure.as_json() for name, figure in arm.figures.items()},
                    "groups_with_signal": arm.groups_with_signal,
                }
                for arm in self.arms
            ],
            "awm_minus_answer_only": {
                name: figure.as_json() for name, figure in self.differences.items()
            },
            "p_mmc_gap_by_seed": {str(seed): gap for seed, gap in self.gaps.items()},
        }


def pool_reproductions(folders: Sequence[Path]) -> PocketPool:
    """Pool the pairs of several seeds.

    Args:
        folders: those that `awm pocket reproduce` wrote, each to its end.

    Raises:
        RunStoreError: a folder holds no finished pair.
        RunMismatchError: fewer than two, a seed twice, or pairs with other steps or questions.
    """
    pairs = [_read_pair(folder) for folder in folders]
    _check_poolable(folders, pairs)
    runs = {
        name: [read_scored_run(open_run(folder / f"eval-{name}")) for folder in folders]
        for name in ("before", *ARMS)
    }
    # The checkpoint is one policy: the folders hold the same run of it.
    runs["before"] = runs["before"][:1]
    questions = [example.question_id for example in runs["before"][0].examples]
    for name, listed in runs.items():
        for folder, run in zip(folders, listed, strict=False):
            if [example.question_id for example in run.examples] != questions:
                raise RunMismatchError(
                    f"{folder / f'eval-{name}'} asked other questions than "
                    f"{folders[0] / 'eval-before'}; pool pairs with one number of --questions"
                )
    plan = bootstrap_weights([example.document_id for example in runs["before"][0].examples])
    return PocketPool(
        seeds=tuple(pair.seed for pair in pairs),
        steps=pairs[0].steps,
        arms=tuple(_arm(name, listed, pairs, plan) for name, listed in runs.items()),
        differences={
            name: estimate_pooled_difference(
                [ratio(run) for run in runs["awm"]],
                [ratio(run) for run in runs["answer_only"]],
                plan,
            )
            for name, ratio in _RATIOS.items()
        },
        gaps={pair.seed: _gap(pair) for pair in pairs},
        curves=tuple(
            Curve(arm, pair.seed, tuple(Journal(path, TrainingRecord).read()))
            for arm in ARMS
            for folder, pair in zip(folders, pairs, strict=True)
            for path in (folder / arm / "curve.jsonl",)
        ),
    )


def _read_pair(folder: Path) -> Reproduction:
    path = folder / "comparison.json"
    try:
        return Reproduction.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunStoreError(_no_pair(folder, path.name)) from error
    except OSError as error:
        raise RunStoreError(f"{path} cannot be read: {reason(error)}") from error
    except ValidationError as error:
        raise RunStoreError(
            f"{path} is no comparison of awm pocket reproduce: {error.error_count()} fields are "
            "wrong or missing"
        ) from error


def _no_pair(folder: Path, missing: str) -> str:
    """Say why a path without a comparison cannot be pooled, and what to do about it."""
    if not folder.exists():
        return (
            f"{folder} does not exist; name folders that awm pocket reproduce --out FOLDER finished"
        )
    if (folder / "eval-before").is_dir():
        return (
            f"{folder} holds no finished pair (there is no {missing}); finish it with the options "
            f"that it was begun with: awm pocket reproduce --seed S --out {folder}"
        )
    return (
        f"{folder} is no pair of awm pocket reproduce (there is neither {missing} nor "
        "eval-before); name folders that awm pocket reproduce --out FOLDER finished"
    )


def _check_poolable(folders: Sequence[Path], pairs: Sequence[Reproduction]) -> None:
    if len(pairs) < 2:
        raise RunMismatchError("pooling needs the pairs of at least two seeds; name their folders")
    seeds = [pair.seed for pair in pairs]
    for folder, pair in zip(folders, pairs, strict=True):
        if seeds.count(pair.seed) > 1:
            raise RunMismatchError(
                f"seed {pair.seed} is given twice ({folder}): a pair pooled with itself would "
                "make the intervals too short"
            )
        if (pair.steps, pair.test_seed) != (pairs[0].steps, pairs[0].test_seed):
            raise RunMismatchError(
                f"{folder} made {pair.steps} steps and asked the questions of seed "
                f"{pair.test_seed}, {folders[0]} made {pairs[0].steps} and asked those of "
                f"{pairs[0].test_seed}; pool pairs that differ in the seed alone"
            )
        if [arm.name for arm in pair.arms] != ["before", *ARMS]:
            raise RunMismatchError(f"{folder} does not hold both rewards")


def _arm(
    name: str, runs: Sequence[ScoredRun], pairs: Sequence[Reproduction], plan: ResamplingPlan
) -> ArmFigures:
    signals = [
        arm.groups_with_signal
        for pair in pairs
        for arm in pair.arms
        if arm.name == name and arm.groups_with_signal is not None
    ]
    return ArmFigures(
        name,
        {
            figure: estimate_pooled([ratio(run) for run in runs], plan)
            for figure, ratio in _RATIOS.items()
        },
        fmean(signals) if signals else None,
    )


def _gap(pair: Reproduction) -> float | None:
    found = {arm.name: arm.p_mmc for arm in pair.arms}
    awm, answer_only = found["awm"], found["answer_only"]
    return None if awm is None or answer_only is None else awm - answer_only
