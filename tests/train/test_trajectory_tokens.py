"""A trajectory's ids only grow, and its mask says who wrote them."""

from __future__ import annotations

import pytest

from awm.errors import MissingImageError
from awm.rl.tokens import TokenTrajectory, check_image_places

IMAGE = 9


def test_the_mask_is_one_exactly_where_the_policy_spoke() -> None:
    tokens = TokenTrajectory([1, 2])
    tokens.add_sampled([7, 8])
    tokens.add_observation([3, IMAGE, IMAGE, 4], n_images=1)
    tokens.add_sampled([5])

    assert tokens.ids == [1, 2, 7, 8, 3, IMAGE, IMAGE, 4, 5]
    assert tokens.completion_mask == [1, 1, 0, 0, 0, 0, 1]
    assert (tokens.n_sampled, tokens.n_images) == (3, 1)


def test_log_probabilities_stay_beside_their_tokens() -> None:
    tokens = TokenTrajectory([1])
    tokens.add_sampled([7, 8], [-0.5, -0.25])
    tokens.add_observation([3])
    tokens.add_sampled([5], [-1.0])

    assert tokens.sampled_logprobs == [-0.5, -0.25, 0.0, -1.0]
    with pytest.raises(ValueError, match="1 log-probabilities for 2 sampled tokens"):
        tokens.add_sampled([6, 7], [-1.0])


@pytest.mark.parametrize("n_features", [1, 3])
def test_places_and_features_that_differ_are_refused(n_features: int) -> None:
    with pytest.raises(MissingImageError, match=f"{n_features} features and the tokens have 2"):
        check_image_places([1, IMAGE, IMAGE], IMAGE, n_features, 1, "here")


def test_equal_places_and_features_pass() -> None:
    check_image_places([1, IMAGE, IMAGE], IMAGE, 2, 1, "here")
    check_image_places([1, 2], IMAGE, 0, 0, "here")
