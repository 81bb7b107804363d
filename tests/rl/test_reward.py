from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from awm.rl.reward import (
    RewardRecord,
    RewardSettings,
    TrajectoryMeasures,
    agreement_share,
    compute_reward,
    supported_share,
)
from awm.scoring.outcome import Outcome, outcome

SCORES = st.floats(0, 1)


def reward(final: float | None, memory: float | None, settings: RewardSettings) -> float | None:
    record = compute_reward(TrajectoryMeasures(final, memory), settings)
    return None if record is None else record.total


@pytest.mark.parametrize(
    ("final", "memory", "awm", "answer_only"),
    [(1.0, 1.0, 1.0, 1.0), (1.0, 0.0, 0.7, 1.0), (0.0, 1.0, 0.2, 0.0), (0.0, 0.0, 0.0, 0.0)],
)
def test_each_cell_has_its_reward(
    final: float, memory: float, awm: float, answer_only: float
) -> None:
    assert reward(final, memory, RewardSettings()) == awm
    assert reward(final, memory, RewardSettings(kind="answer_only")) == answer_only
    assert reward(final, memory, RewardSettings(kind="graded")) == awm


def test_a_partial_score_counts_as_right_unless_the_reward_is_graded() -> None:
    assert reward(0.55, 0.1, RewardSettings()) == 1.0
    assert reward(0.55, 0.0, RewardSettings(kind="answer_only")) == 1.0


@pytest.mark.parametrize(
    ("final", "memory", "expected"),
    [
        (0.5, 1.0, 0.7 + 0.3 * 0.75),
        (0.5, 0.0, 0.2 + 0.5 * 0.5),
        (0.0, 0.5, 0.0 + 0.2 * 0.5),
        (0.1, 0.0, 0.2 + 0.5 * 0.1),
    ],
)
def test_a_graded_reward_fills_the_band_below_the_cell(
    final: float, memory: float, expected: float
) -> None:
    assert reward(final, memory, RewardSettings(kind="graded")) == pytest.approx(expected)


@given(SCORES, SCORES, SCORES, SCORES)
def test_a_graded_reward_never_puts_a_worse_cell_above_a_better_one(
    final: float, memory: float, other_final: float, other_memory: float
) -> None:
    settings = RewardSettings(kind="graded")
    cells = list(Outcome)
    rank, other_rank = (
        cells.index(cell)
        for cell in (outcome(final, memory), outcome(other_final, other_memory))
        if cell is not None
    )
    value, other = reward(final, memory, settings), reward(other_final, other_memory, settings)

    assert value is not None
    assert other is not None
    if rank < other_rank:
        assert value >= other
    if final <= other_final and memory <= other_memory:
        assert value <= other + 1e-12
    assert 0 <= value <= 1


@pytest.mark.parametrize("final", [0.0, 1.0, None])
@pytest.mark.parametrize("memory", [0.0, 1.0, None])
def test_an_unmeasured_score_gives_no_reward_where_the_reward_needs_it(
    final: float | None, memory: float | None
) -> None:
    for kind in ("awm", "graded"):
        unmeasured = final is None or memory is None
        assert (reward(final, memory, RewardSettings(kind=kind)) is None) == unmeasured
    answer_only = reward(final, memory, RewardSettings(kind="answer_only"))
    assert (answer_only is None) == (final is None)


@pytest.mark.parametrize(
    "values",
    [
        {"r10": 1.0},
        {"r01": 0.7},
        {"r00": 0.2},
        {"r11": 0.5},
        {"r00": 0.3, "r01": 0.2},
        {"kind": "graded", "r10": 1.2},
    ],
)
def test_rewards_out_of_order_are_refused_with_their_values(values: dict[str, float | str]) -> None:
    with pytest.raises(ValidationError, match=r"r11 = .*break the order r11 > r10 > r01 > r00"):
        RewardSettings.model_validate(values)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_reward_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        RewardSettings(r11=value)


def test_answer_only_refuses_cell_rewards_that_it_would_ignore() -> None:
    with pytest.raises(ValidationError, match=r"has no use for r10 = 0\.6"):
        RewardSettings(kind="answer_only", r10=0.6)

    settings = RewardSettings(kind="answer_only")
    assert RewardSettings.model_validate_json(settings.model_dump_json()) == settings


def test_each_term_stands_in_the_record_as_weighed() -> None:
    settings = RewardSettings(
        grounding_weight=0.1,
        self_consistency_weight=0.04,
        memory_length_weight=0.05,
        memory_length_cap_words=200,
    )
    measures = TrajectoryMeasures(
        1.0, 0.0, grounded_share=0.5, self_consistency=0.75, memory_words=80
    )

    record = compute_reward(measures, settings)

    assert record is not None
    assert list(record.terms) == ["outcome", "grounding", "self_consistency", "memory_length"]
    assert record.terms["outcome"] == 0.7
    assert record.terms["grounding"] == pytest.approx(0.05)
    assert record.terms["self_consistency"] == pytest.approx(0.03)
    assert record.terms["memory_length"] == pytest.approx(-0.02)
    assert record.total == pytest.approx(0.76)
    assert RewardRecord.model_validate_json(record.model_dump_json()) == record


def test_a_memory_over_the_cap_loses_no_more_than_the_weight() -> None:
    settings = RewardSettings(memory_length_weight=0.1, memory_length_cap_words=100)
    record = compute_reward(TrajectoryMeasures(1.0, 1.0, memory_words=5_000), settings)
    assert record is not None
    assert record.total == pytest.approx(0.9)


@pytest.mark.parametrize(
    "weight", ["grounding_weight", "self_consistency_weight", "memory_length_weight"]
)
def test_a_term_whose_input_was_not_measured_leaves_the_trajectory_without_a_reward(
    weight: str,
) -> None:
    measures = TrajectoryMeasures(1.0, 1.0)
    assert compute_reward(measures, RewardSettings.model_validate({weight: 0.1})) is None


def test_a_term_that_is_off_needs_no_input_and_leaves_no_trace() -> None:
    record = compute_reward(TrajectoryMeasures(0.0, 1.0), RewardSettings())
    assert record == RewardRecord(total=0.2, terms={"outcome": 0.2})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"grounding_weight": 0.2}, r"grounding_weight 0\.2 = 0\.2 .*smallest gap .* is 0\.2"),
        ({"grounding_weight": 0.1, "memory_length_weight": 0.15}, r"0\.1 \+ .* = 0\.25"),
        ({"kind": "graded", "grounding_weight": 0.01}, "leave no gap between the cells"),
        ({"kind": "answer_only", "self_consistency_weight": 1.0}, "is 1"),
    ],
)
def test_weights_that_could_break_the_order_need_to_be_allowed(
    values: dict[str, float | str], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        RewardSettings.model_validate(values)
    RewardSettings.model_validate({**values, "terms_may_break_order": True})


def test_allowed_weights_keep_every_cell_above_the_next_whatever_the_terms_say() -> None:
    settings = RewardSettings(grounding_weight=0.07, memory_length_weight=0.12)
    totals = {
        cell: [
            record.total
            for grounded, words in itertools.product((0.0, 0.5, 1.0), (0, 240, 10_000))
            if (
                record := compute_reward(
                    TrajectoryMeasures(*cell, grounded_share=grounded, memory_words=words), settings
                )
            )
        ]
        for cell in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
    }
    for better, worse in itertools.pairwise(totals.values()):
        assert min(better) > max(worse)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        RewardSettings(memory_length_weight=-0.1)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_a_measure_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="give None where it was not measured"):
        TrajectoryMeasures(value, 1.0)
    with pytest.raises(ValueError, match="grounded_share"):
        TrajectoryMeasures(1.0, 1.0, grounded_share=value)


def test_a_negative_word_count_is_refused() -> None:
    with pytest.raises(ValueError, match="memory_words = -1"):
        TrajectoryMeasures(1.0, 1.0, memory_words=-1)


def test_an_empty_memory_supports_nothing_and_a_failed_check_is_unmeasured() -> None:
    assert supported_share([]) == 0.0
    assert supported_share([True, False]) == 0.5
    assert supported_share([True, None]) is None


def test_agreement_counts_the_most_frequent_answer_without_case_and_spacing() -> None:
    assert agreement_share(["Not  Answerable", "not answerable", "12", "13"]) == 0.5
    assert agreement_share(["a", "b"]) == 0.5
    assert agreement_share(["a", None]) is None
    with pytest.raises(ValueError, match="1 reader rollouts"):
        agreement_share(["a"])
