from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.rl.advantage import (
    batched_group_advantages,
    group_advantages,
    groups_with_signal,
    summarize_step,
)

NAN = float("nan")


def test_one_trajectory_of_each_cell_by_hand() -> None:
    # mean 0.475; squared deviations 0.275625 + 0.050625 + 0.075625 + 0.225625 = 0.6275
    population = (0.6275 / 4) ** 0.5 + 1e-6
    sample = (0.6275 / 3) ** 0.5 + 1e-6
    deviations_G = np.array([0.525, 0.225, -0.275, -0.475])
    rewards_G = np.array([1.0, 0.7, 0.2, 0.0])

    assert group_advantages(rewards_G) == pytest.approx(deviations_G / population, rel=1e-12)
    assert group_advantages(rewards_G, ddof=1) == pytest.approx(deviations_G / sample, rel=1e-12)
    assert group_advantages(rewards_G)[0] == pytest.approx(1.32551, abs=1e-5)


def test_eps_is_added_to_the_standard_deviation() -> None:
    rewards_G = np.array([1.0, 0.0])
    assert group_advantages(rewards_G, eps=0.5).tolist() == [0.5, -0.5]
    assert group_advantages(rewards_G, eps=0.0).tolist() == [1.0, -1.0]


def test_an_unmeasured_trajectory_is_left_out_of_mean_and_deviation() -> None:
    advantages_G = group_advantages(np.array([1.0, NAN, 0.7, NAN, 0.7]), eps=0.0)

    # mean 0.8, deviations 0.2, -0.1, -0.1, population std sqrt(0.02)
    std = 0.02**0.5
    assert advantages_G == pytest.approx([0.2 / std, 0.0, -0.1 / std, 0.0, -0.1 / std])
    assert advantages_G[[0, 2, 4]] == pytest.approx(group_advantages(np.array([1, 0.7, 0.7]), 0.0))


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(
    "rewards",
    [
        [0.7] * 8,
        [0.7, 0.1 + 0.6, 0.7],
        [1.0],
        [NAN],
        [NAN, 0.2, NAN],
        [NAN, NAN],
        [0.2, NAN, 0.2],
    ],
)
@pytest.mark.parametrize("eps", [1e-6, 0.0])
def test_equal_single_and_unmeasured_rewards_carry_no_signal(
    rewards: list[float], ddof: int, eps: float
) -> None:
    assert not group_advantages(np.array(rewards), eps, ddof).any()
    assert groups_with_signal(np.array([rewards])).tolist() == [False]


def test_a_batch_normalises_each_group_on_its_own() -> None:
    rewards_BG = np.array([[1.0, 0.0, NAN], [0.2, 0.2, 0.2], [NAN, NAN, NAN], [1.0, 0.7, 0.0]])

    advantages_BG = batched_group_advantages(rewards_BG)

    for advantages_G, rewards_G in zip(advantages_BG, rewards_BG, strict=True):
        assert advantages_G.tolist() == group_advantages(rewards_G).tolist()
    assert groups_with_signal(rewards_BG).tolist() == [True, False, False, True]
    assert batched_group_advantages(np.zeros((0, 4))).shape == (0, 4)


@given(
    st.lists(st.sampled_from([1.0, 0.7, 0.2, 0.0, NAN]), min_size=1, max_size=12),
    st.sampled_from([0, 1]),
)
def test_advantages_add_up_to_zero_and_keep_the_order_of_the_rewards(
    rewards: list[float], ddof: int
) -> None:
    rewards_G = np.array(rewards)
    advantages_G = group_advantages(rewards_G, ddof=ddof)
    measured = ~np.isnan(rewards_G)

    assert advantages_G.sum() == pytest.approx(0, abs=1e-9)
    assert not advantages_G[~measured].any()
    order = np.argsort(rewards_G[measured], kind="stable")
    assert (np.diff(advantages_G[measured][order]) >= -1e-12).all()
    if groups_with_signal(rewards_G[np.newaxis])[0]:
        assert np.array_equal(
            advantages_G[measured] > 1e-9,
            rewards_G[measured] > rewards_G[measured].mean() + 1e-9,
        )


@pytest.mark.parametrize(
    ("rewards", "eps", "ddof", "message"),
    [
        ([1.0, float("inf")], 1e-6, 0, "infinite"),
        ([], 1e-6, 0, r"shape \(1, 0\)"),
        ([[1.0]], 1e-6, 0, "batched_group_advantages"),
        ([1.0, 0.0], -1.0, 0, "eps = -1.0"),
        ([1.0, 0.0], NAN, 0, "eps = nan"),
        ([1.0, 0.0], 1e-6, 2, "ddof = 2"),
    ],
)
def test_input_that_makes_no_sense_is_refused(
    rewards: list[float], eps: float, ddof: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        group_advantages(np.array(rewards, dtype=np.float64), eps, ddof)


def test_a_step_reports_signal_for_both_rewards_and_means_by_cell() -> None:
    final_BG = np.array([[1.0, 0.5, 1.0], [0.0, 0.0, NAN], [1.0, 1.0, 0.0]])
    memory_BG = np.array([[1.0, 0.0, NAN], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    rewards_BG = np.array([[1.0, 0.7, NAN], [0.0, 0.0, NAN], [1.0, 1.0, 0.2]])

    step = summarize_step(rewards_BG, final_BG, memory_BG, eps=0.0)

    assert (step.n_groups, step.n_trajectories, step.n_unmeasured) == (3, 9, 2)
    assert step.n_groups_with_signal == 2  # the first by its memories alone
    assert step.n_groups_with_answer_only_signal == 1
    assert step.cells == {
        "memory_supported_correct": 3,
        "memory_missing_correct": 1,
        "answering_error": 1,
        "unresolved_error": 2,
    }
    assert step.mean_reward == pytest.approx(3.9 / 7)
    assert step.mean_reward_by_cell["memory_missing_correct"] == 0.7
    # Group 1: +1 and -1. Group 3: mean 2.2 / 3, so 0.5**0.5 twice and -(2**0.5).
    means = step.mean_advantage_by_cell
    assert means["memory_supported_correct"] == pytest.approx((1 + 2 * 0.5**0.5) / 3)
    assert means["memory_missing_correct"] == pytest.approx(-1)
    assert means["answering_error"] == pytest.approx(-(2**0.5))
    assert means["unresolved_error"] == 0.0


def test_padding_is_neither_counted_nor_unmeasured() -> None:
    rewards_BG = np.array([[1.0, 0.0, 0.0], [0.7, 0.7, NAN]])
    scores_BG = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, NAN]])
    present_BG = np.array([[True, True, False], [True, True, True]])

    step = summarize_step(rewards_BG, scores_BG, scores_BG, present_BG=present_BG)

    assert (step.n_trajectories, step.n_unmeasured) == (5, 1)
    assert step.cells["memory_supported_correct"] == 3
    assert step.mean_advantage_by_cell["memory_missing_correct"] is None


def test_a_step_without_a_measured_trajectory_has_no_means() -> None:
    nothing_BG = np.full((2, 2), NAN)
    step = summarize_step(nothing_BG, nothing_BG, nothing_BG)
    assert step.mean_reward is None
    assert step.n_unmeasured == 4
    assert set(step.mean_advantage_by_cell.values()) == {None}


def test_arrays_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="the shapes must be equal"):
        summarize_step(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((3, 2)))
