"""What one training step, or one evaluation inside training, amounts to.

Counts are pooled over all rollouts between two log lines, and shares are taken at the end: the
mean of small batches' P_mmc is not P_mmc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from awm.rl.advantage import StepSummary, summarize_step
from awm.scoring.outcome import Outcome, count_outcomes, outcome
from awm.train.reward import ScoredTrajectory


class TrainingRecord(BaseModel):
    """One line of `steps.jsonl` or `curve.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    """Updates made: a training record is of the rollouts of update `step`, an evaluation of the
    policy after it."""
    final_accuracy: float | None
    """Mean score of the final answers, in [0, 1]; None: none was measured."""
    memory_accuracy: float | None
    """Mean score of the answers from the memory alone."""
    p_mmc: float | None
    """None where no answer is right."""
    refusals: float
    """Refused calls and answers, per trajectory."""
    images: float
    """Page images, per trajectory."""
    findings: float
    """Findings, per trajectory."""
    turns: float
    answered_share: float
    cut_share: float
    """Of the trajectories: those that ended at a token limit."""
    groups: StepSummary
    """Cells, rewards and advantages by cell, groups with signal, unmeasured."""


@dataclass(slots=True)
class _Batch:
    scored: list[ScoredTrajectory]
    group_size: int


class StepRecorder:
    """Collects scored rollouts until they are taken."""

    def __init__(self) -> None:
        self._batches: dict[str, list[_Batch]] = {"train": [], "eval": []}

    def add(self, mode: str, scored: Sequence[ScoredTrajectory], group_size: int) -> None:
        """Add a batch; its trajectories come in groups of `group_size`."""
        self._batches[mode].append(_Batch(list(scored), group_size))

    def take(self, mode: str, step: int) -> TrainingRecord | None:
        """Summarise and forget what was collected; None where nothing was."""
        batches, self._batches[mode] = self._batches[mode], []
        scored = [s for batch in batches for s in batch.scored]
        return summarise(scored, batches[0].group_size, step) if scored else None


def summarise(scored: Sequence[ScoredTrajectory], group_size: int, step: int) -> TrainingRecord:
    """Summarise trajectories that come in groups."""
    n = len(scored)
    cells = count_outcomes(outcome(s.final_score, s.memory_score) for s in scored)
    finals_N, memories_N, rewards_N = (
        np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        for values in (
            [s.final_score for s in scored],
            [s.memory_score for s in scored],
            [s.reward for s in scored],
        )
    )
    shape = (-1, group_size if n % group_size == 0 else 1)
    return TrainingRecord(
        step=step,
        final_accuracy=_mean(finals_N),
        memory_accuracy=_mean(memories_N),
        p_mmc=cells.p_mmc,
        refusals=sum(s.n_refusals for s in scored) / n,
        images=sum(s.n_images for s in scored) / n,
        findings=sum(s.n_findings for s in scored) / n,
        turns=sum(s.turns for s in scored) / n,
        answered_share=sum(s.is_answered for s in scored) / n,
        cut_share=sum(s.is_cut for s in scored) / n,
        groups=summarize_step(
            rewards_N.reshape(shape), finals_N.reshape(shape), memories_N.reshape(shape)
        ),
    )


def loggable_metrics(record: TrainingRecord) -> dict[str, float]:
    """Name a record's figures for TRL's loggers; what was not measured has no figure."""
    groups = record.groups
    n = sum(groups.cells.values())
    named: dict[str, float | None] = {
        "final_accuracy": record.final_accuracy,
        "memory_accuracy": record.memory_accuracy,
        "p_mmc": record.p_mmc,
        "refused_calls": record.refusals,
        "images": record.images,
        "findings": record.findings,
        "turns": record.turns,
        "answered_share": record.answered_share,
        "cut_share": record.cut_share,
        "unmeasured": float(groups.n_unmeasured),
        "groups": float(groups.n_groups),
        "groups_with_signal": float(groups.n_groups_with_signal),
        "groups_with_answer_only_signal": float(groups.n_groups_with_answer_only_signal),
        "mean_reward": groups.mean_reward,
    }
    for cell in Outcome:
        named[f"share/{cell}"] = groups.cells[cell] / n if n else None
        named[f"reward/{cell}"] = groups.mean_reward_by_cell[cell]
        named[f"advantage/{cell}"] = groups.mean_advantage_by_cell[cell]
    return {f"awm/{name}": value for name, value in named.items() if value is not None}


def _mean(values_N: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    measured = values_N[~np.isnan(values_N)]
    return float(measured.mean()) if measured.size else None
