from __future__ import annotations

from itertools import combinations

import pytest

from awm.analysis.statistics.ratios import mean_ratio
from awm.analysis.statistics.rollouts import (
    majority_answer,
    mean_rollout_variance,
    pass_at_k,
    pass_at_k_by_question,
    rollout_variance,
)


def test_pass_at_k_by_hand() -> None:
    # 2 of 5 correct: 1 - C(3, 3) / C(5, 3)
    assert pass_at_k([1, 1, 0, 0, 0], k=3) == pytest.approx(0.9)
    assert pass_at_k([1, 1, 0, 0, 0], k=1) == pytest.approx(0.4)
    assert pass_at_k([1, 1, 0, 0, 0], k=4) == 1.0
    assert pass_at_k([0, 0], k=2) == 0.0


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_rollout(k: int) -> None:
    scores = [0.0, 0.7, 0.0, 1.0, 0.0, 0.0]
    subsets = list(combinations(scores, k))

    expected = sum(max(subset) > 0 for subset in subsets) / len(subsets)

    assert pass_at_k(scores, k) == pytest.approx(expected)


def test_pass_at_k_needs_k_measured_rollouts() -> None:
    assert pass_at_k([1, None, float("nan")], k=2) is None
    assert pass_at_k([], k=1) is None
    with pytest.raises(ValueError, match="k=0"):
        pass_at_k([1], k=0)


def test_pass_at_k_over_questions_leaves_out_those_with_too_few_rollouts() -> None:
    values = pass_at_k_by_question([[1, 0], [0, 0], [1]], k=2)

    assert values == [1.0, 0.0, None]
    assert mean_ratio(values).value == 0.5


def test_rollout_variance_by_hand() -> None:
    # mean 0.5, squares 4 * 0.25, over 3
    assert rollout_variance([1, 0, 1, 0]) == pytest.approx(1 / 3)
    assert rollout_variance([0.5, 0.5, None]) == 0.0
    assert rollout_variance([1, None]) is None


def test_the_mean_variance_says_how_many_questions_it_rests_on() -> None:
    assert mean_rollout_variance([[1, 0], [1, 1], [1]]) == (0.25, 2)
    assert mean_rollout_variance([[1], []]) == (None, 0)


def test_the_majority_is_the_most_frequent_answer() -> None:
    majority = majority_answer(["5%", "4.7%", None, "4.7%"])

    assert (majority.answer, majority.n_votes, majority.n) == ("4.7%", 2, 3)
    assert not majority.tied
    assert majority.consistency == pytest.approx(2 / 3)


def test_a_tie_goes_to_the_answer_that_came_first_and_is_marked() -> None:
    majority = majority_answer(["b", "a", "a", "b"])

    assert (majority.answer, majority.tied) == ("b", True)


def test_no_answers_have_no_majority() -> None:
    majority = majority_answer([None, None])

    assert (majority.answer, majority.n, majority.consistency) == (None, 0, None)


def test_a_score_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"score 1.5"):
        rollout_variance([1.5, 0])
