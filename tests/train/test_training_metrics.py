"""The figures of a step, against hand-computed ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

from awm.scoring.outcome import Outcome
from awm.train.metrics import StepRecorder, loggable_metrics, summarise
from awm.train.reward import ScoredTrajectory


def trajectory(
    final: float | None, memory: float | None, reward: float | None, **counts: int
) -> ScoredTrajectory:
    values: dict[str, Any] = {"n_refusals": 0, "n_images": 3, "n_findings": 1, "turns": 3, **counts}
    return ScoredTrajectory("q", final, memory, reward, {}, is_answered=final is not None, **values)


GROUP = [
    trajectory(1.0, 1.0, 1.0),
    trajectory(1.0, 0.0, 0.7, n_refusals=2),
    trajectory(0.0, 0.0, 0.0, n_images=0, n_findings=0),
    trajectory(1.0, None, None),
]


def test_a_step_is_summed_up() -> None:
    record = summarise(GROUP, 4, step=7)

    assert record.final_accuracy == pytest.approx(3 / 4)
    assert record.memory_accuracy == pytest.approx(1 / 3)
    assert record.p_mmc == pytest.approx(1 / 2)
    assert (record.refusals, record.images, record.findings) == (0.5, 9 / 4, 3 / 4)
    assert record.groups.n_unmeasured == 1
    assert record.groups.n_groups_with_signal == 1
    mean = (1.0 + 0.7 + 0.0) / 3
    std = math.sqrt(((1 - mean) ** 2 + (0.7 - mean) ** 2 + mean**2) / 3)
    advantages = record.groups.mean_advantage_by_cell
    assert advantages[Outcome.MEMORY_MISSING_CORRECT] == pytest.approx((0.7 - mean) / (std + 1e-6))


def test_what_was_not_measured_has_no_figure() -> None:
    logged = loggable_metrics(summarise([trajectory(None, None, None)] * 4, 4, step=1))

    assert "awm/p_mmc" not in logged
    assert "awm/final_accuracy" not in logged
    assert logged["awm/unmeasured"] == 4.0


def test_batches_are_pooled_before_shares_are_taken() -> None:
    recorder = StepRecorder()
    recorder.add("eval", [trajectory(1.0, 0.0, 0.7)], 1)
    recorder.add("eval", [trajectory(1.0, 1.0, 1.0)] * 3, 1)

    record = recorder.take("eval", step=20)

    assert record is not None
    assert record.p_mmc == pytest.approx(1 / 4)
    assert recorder.take("eval", step=20) is None
    assert recorder.take("train", step=20) is None
