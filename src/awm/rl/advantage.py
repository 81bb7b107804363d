"""Group advantages of GRPO, and what one training step's groups have to learn from.

A_i = (r_i - mean) / (std + eps) over the trajectories of one prompt (arXiv 2608.25618). Rewards
come as arrays of groups by members; NaN marks an unmeasured trajectory, and pads a short group.

>>> group_advantages(np.array([1.0, 0.0, np.nan, 1.0, 0.0])).round(3).tolist()
[1.0, -1.0, 0.0, 1.0, -1.0]
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from awm.scoring.outcome import Outcome

Floats: TypeAlias = NDArray[np.float64]

EPS = 1e-6
"""The paper's eps, added to the standard deviation."""
SAME_REWARD = 1e-9
"""Rewards no further apart than this are equal: sums of terms differ in their last digits."""


def group_advantages(rewards_G: Floats, eps: float = EPS, ddof: int = 0) -> Floats:
    """Normalise the rewards of one group of trajectories of the same question.

    Args:
        rewards_G: rewards, shape (G,); NaN where the trajectory is unmeasured.
        eps: added to the standard deviation; at least 0.
        ddof: 0 for the population standard deviation, 1 for the sample one (TRL, verl).

    Returns:
        Advantages, shape (G,): (r - mean) / (std + eps) over the measured ones; 0 where
        unmeasured. A group whose rewards are all equal, or that has one measured member, gives
        zeros: it carries no signal, and dividing its rounding noise by eps would invent one.
    """
    rewards_G = np.asarray(rewards_G, dtype=np.float64)
    if rewards_G.ndim != 1:
        raise ValueError(
            f"rewards of shape {rewards_G.shape}: give one group, shape (G,), or use "
            "batched_group_advantages"
        )
    advantages_G: Floats = batched_group_advantages(rewards_G[np.newaxis], eps, ddof)[0]
    return advantages_G


def batched_group_advantages(rewards_BG: Floats, eps: float = EPS, ddof: int = 0) -> Floats:
    """Normalise each row as `group_advantages` does; shapes (B, G)."""
    rewards_BG = _as_groups(rewards_BG)
    if not eps >= 0:
        raise ValueError(f"eps = {eps!r}: give a number of at least 0")
    if ddof not in (0, 1):
        raise ValueError(f"ddof = {ddof!r}: give 0 (population) or 1 (sample)")
    measured_BG = ~np.isnan(rewards_BG)
    n_B = measured_BG.sum(axis=1)
    mean_B = np.where(measured_BG, rewards_BG, 0.0).sum(axis=1) / np.maximum(n_B, 1)
    deviations_BG = np.where(measured_BG, rewards_BG - mean_B[:, np.newaxis], 0.0)
    std_B = np.sqrt(np.square(deviations_BG).sum(axis=1) / np.maximum(n_B - ddof, 1))
    learns_BG = measured_BG & groups_with_signal(rewards_BG)[:, np.newaxis]
    advantages_BG: Floats = np.zeros_like(rewards_BG)
    np.divide(deviations_BG, std_B[:, np.newaxis] + eps, out=advantages_BG, where=learns_BG)
    return advantages_BG


def groups_with_signal(rewards_BG: Floats) -> NDArray[np.bool_]:
    """Tell which groups teach anything: two measured rewards differ. Shape (B,)."""
    rewards_BG = _as_groups(rewards_BG)
    measured_BG = ~np.isnan(rewards_BG)
    highest_B = np.where(measured_BG, rewards_BG, -np.inf).max(axis=1)
    lowest_B = np.where(measured_BG, rewards_BG, np.inf).min(axis=1)
    signal_B: NDArray[np.bool_] = highest_B - lowest_B > SAME_REWARD
    return signal_B


def _as_groups(rewards_BG: Floats) -> Floats:
    rewards_BG = np.asarray(rewards_BG, dtype=np.float64)
    if rewards_BG.ndim != 2 or rewards_BG.shape[1] == 0:
        raise ValueError(
            f"rewards of shape {rewards_BG.shape}: give groups by members, shape (B, G), G >= 1"
        )
    if np.isinf(rewards_BG).any():
        raise ValueError("a reward is infinite; give NaN for an unmeasured trajectory")
    return rewards_BG


class StepSummary(BaseModel):
    """One training step in figures."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_groups: int
    n_groups_with_signal: int
    """Groups in which two measured rewards differ, so that the step can learn from them."""
    n_groups_with_answer_only_signal: int
    """The same for r = s_ans on the same trajectories: the head start that one reward has."""
    n_trajectories: int
    """Trajectories with a reward or without; padding is not counted."""
    n_unmeasured: int
    """Trajectories without a reward: advantage 0, left out of their group's mean and std."""
    cells: dict[str, int]
    """Trajectories in each outcome cell; one with an unmeasured score is in none."""
    mean_reward: float | None
    """Over the measured ones; None where there is none."""
    mean_reward_by_cell: dict[str, float | None]
    mean_advantage_by_cell: dict[str, float | None]
    """Over the trajectories with a cell and a reward; None where there is none."""


def summarize_step(
    rewards_BG: Floats,
    final_scores_BG: Floats,
    memory_scores_BG: Floats,
    *,
    present_BG: NDArray[np.bool_] | None = None,
    eps: float = EPS,
    ddof: int = 0,
) -> StepSummary:
    """Summarise the groups of one step.

    Args:
        rewards_BG: rewards, shape (B, G); NaN where the trajectory is unmeasured.
        final_scores_BG: scores of the final answers, same shape; NaN where unmeasured.
        memory_scores_BG: scores of the memory-only answers, same shape; NaN where unmeasured.
        present_BG: False where the array is padded for a group with fewer members.
        eps: as in `group_advantages`.
        ddof: as in `group_advantages`.
    """
    rewards_BG = _as_groups(rewards_BG)
    final_BG, memory_BG = (
        np.asarray(scores, dtype=np.float64) for scores in (final_scores_BG, memory_scores_BG)
    )
    present_BG = np.ones(rewards_BG.shape, bool) if present_BG is None else np.asarray(present_BG)
    shapes = {final_BG.shape, memory_BG.shape, present_BG.shape}
    if shapes != {rewards_BG.shape}:
        raise ValueError(
            f"rewards {rewards_BG.shape}, final scores {final_BG.shape}, memory scores "
            f"{memory_BG.shape}, present {present_BG.shape}: the shapes must be equal"
        )
    rewards_BG = np.where(present_BG, rewards_BG, np.nan)
    final_BG = np.where(present_BG, final_BG, np.nan)
    advantages_BG = batched_group_advantages(rewards_BG, eps, ddof)
    rewarded_BG = ~np.isnan(rewards_BG)
    cells_BG = _cell_numbers(final_BG, memory_BG)
    answer_only_BG = np.where(np.isnan(final_BG), np.nan, (final_BG > 0).astype(np.float64))
    in_cell = {cell.value: cells_BG == number for number, cell in enumerate(Outcome)}
    return StepSummary(
        n_groups=len(rewards_BG),
        n_groups_with_signal=int(groups_with_signal(rewards_BG).sum()),
        n_groups_with_answer_only_signal=int(groups_with_signal(answer_only_BG).sum()),
        n_trajectories=int(present_BG.sum()),
        n_unmeasured=int((present_BG & ~rewarded_BG).sum()),
        cells={name: int(here.sum()) for name, here in in_cell.items()},
        mean_reward=_mean(rewards_BG, rewarded_BG),
        mean_reward_by_cell={
            name: _mean(rewards_BG, here & rewarded_BG) for name, here in in_cell.items()
        },
        mean_advantage_by_cell={
            name: _mean(advantages_BG, here & rewarded_BG) for name, here in in_cell.items()
        },
    )


def _cell_numbers(final_BG: Floats, memory_BG: Floats) -> NDArray[np.int_]:
    """Give the number of each cell in the order of `Outcome`; -1 where a score is unmeasured."""
    numbers_BG = 2 * (~(final_BG > 0)).astype(np.int_) + ~(memory_BG > 0)
    return np.where(np.isnan(final_BG) | np.isnan(memory_BG), -1, numbers_BG)


def _mean(values_BG: Floats, where_BG: NDArray[np.bool_]) -> float | None:
    return float(values_BG[where_BG].mean()) if where_BG.any() else None
