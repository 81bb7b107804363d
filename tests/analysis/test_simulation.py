from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from awm.analysis.simulation import (
    P11_ROWS,
    TRADE_OFF,
    Experiment,
    Mixture,
    RestShares,
    exact,
    find_crossing,
    find_sensitivity,
    monte_carlo,
)
from awm.errors import ConfigError
from awm.rl.reward import RewardSettings

AWM = RewardSettings()
ANSWER_ONLY = RewardSettings(kind="answer_only")
MIXED = Mixture(p11=0.4, p10=0.2, p01=0.1, p00=0.3)
CELLS = (
    "memory_supported_correct",
    "memory_missing_correct",
    "answering_error",
    "unresolved_error",
)


def brute_force(
    mixture: Mixture, rewards: tuple[float, ...], group_size: int, ddof: int
) -> tuple[list[float], list[float]]:
    """Go through all 4^G ordered groups: E[A | cell], and the error of one drawn group."""
    p = (mixture.p11, mixture.p10, mixture.p01, mixture.p00)
    groups = []
    for group in itertools.product(range(4), repeat=group_size):
        probability = math.prod(p[cell] for cell in group)
        values = [rewards[cell] for cell in group]
        mean = sum(values) / group_size
        squares = sum((value - mean) ** 2 for value in values)
        std = math.sqrt(squares / (group_size - ddof))
        equal = len(set(values)) == 1
        groups.append(
            (probability, group, [0.0 if equal else (v - mean) / (std + 1e-6) for v in values])
        )
    means, errors = [], []
    for cell in range(4):
        expected = group_size * p[cell]
        total = sum(
            probability * sum(a for c, a in zip(group, advantages, strict=True) if c == cell)
            for probability, group, advantages in groups
        )
        mean = total / expected
        spread = sum(
            probability
            * sum(a - mean for c, a in zip(group, advantages, strict=True) if c == cell) ** 2
            for probability, group, advantages in groups
        )
        means.append(mean)
        errors.append(math.sqrt(spread) / expected)
    return means, errors


@pytest.mark.parametrize("group_size", [2, 3, 5])
@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(
    ("reward", "rewards"), [(AWM, (1.0, 0.7, 0.2, 0.0)), (ANSWER_ONLY, (1.0, 1.0, 0.0, 0.0))]
)
def test_enumerating_compositions_agrees_with_every_ordered_group(
    reward: RewardSettings, rewards: tuple[float, ...], group_size: int, ddof: int
) -> None:
    experiment = Experiment.model_validate(
        {"settings": reward, "group_size": group_size, "ddof": ddof, "n_groups": 100}
    )
    means, errors = brute_force(MIXED, rewards, group_size, ddof)

    known = exact(MIXED, experiment)
    drawn = monte_carlo(MIXED, experiment)

    assert list(known.advantages) == list(CELLS)
    assert list(known.advantages.values()) == pytest.approx(means, abs=1e-12)
    assert drawn.standard_errors is not None
    assert list(drawn.standard_errors.values()) == pytest.approx([e / 10 for e in errors])


def test_a_pair_by_hand() -> None:
    # Of two, the better gets +1 and the worse -1; a tie gives 0: A = p(worse) - p(better).
    advantages = exact(MIXED, Experiment(group_size=2, eps=0)).advantages
    assert list(advantages.values()) == pytest.approx([0.6, 0.4 - 0.4, 0.3 - 0.6, -0.7])

    answer_only = Experiment(group_size=2, eps=0, settings=ANSWER_ONLY)
    assert list(exact(MIXED, answer_only).advantages.values()) == pytest.approx(
        [0.4, 0.4, -0.6, -0.6]
    )


def test_the_share_of_groups_with_signal_by_hand() -> None:
    awm = exact(MIXED, Experiment())
    answer_only = exact(MIXED, Experiment(settings=ANSWER_ONLY))
    assert awm.groups_with_signal == pytest.approx(1 - (0.4**8 + 0.2**8 + 0.1**8 + 0.3**8))
    assert answer_only.groups_with_signal == pytest.approx(1 - (0.6**8 + 0.4**8))


@pytest.mark.parametrize("reward", [AWM, ANSWER_ONLY])
@pytest.mark.parametrize(("group_size", "ddof"), [(8, 0), (8, 1), (4, 0)])
def test_monte_carlo_stays_within_four_standard_errors_on_every_row(
    reward: RewardSettings, group_size: int, ddof: int
) -> None:
    experiment = Experiment.model_validate(
        {"settings": reward, "group_size": group_size, "ddof": ddof}
    )
    for p11 in P11_ROWS:
        known = exact(TRADE_OFF.mix(p11), experiment)
        drawn = monte_carlo(TRADE_OFF.mix(p11), experiment)
        assert drawn.n_groups == 15_000
        for cell in CELLS:
            error = (drawn.standard_errors or {})[cell]
            value, reference = drawn.advantages[cell], known.advantages[cell]
            assert value is not None
            assert reference is not None
            assert error is not None
            assert abs(value - reference) <= 4 * error, (p11, cell)


def test_standard_errors_match_the_spread_over_seeds() -> None:
    experiments = [Experiment(n_groups=200, seed=seed) for seed in range(200)]
    runs = [monte_carlo(MIXED, experiment) for experiment in experiments]
    values = np.array([list(run.advantages.values()) for run in runs], dtype=np.float64)
    spread = values.std(axis=0)
    errors = list((runs[0].standard_errors or {}).values())
    assert errors == pytest.approx(spread.tolist(), rel=0.2)


def test_monte_carlo_repeats_itself_by_seed() -> None:
    first, again, other = (
        monte_carlo(MIXED, Experiment(n_groups=50, seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first.advantages != other.advantages


def test_missing_correct_turns_negative_and_supported_correct_never_does() -> None:
    rows = [exact(TRADE_OFF.mix(p11), Experiment()).advantages for p11 in P11_ROWS]
    missing = [row["memory_missing_correct"] or 0.0 for row in rows]
    supported = [row["memory_supported_correct"] or 0.0 for row in rows]

    assert missing[0] > 0 > missing[-1]
    assert all(earlier > later for earlier, later in itertools.pairwise(missing))
    assert min(supported) > 0


def test_answer_only_gives_both_kinds_of_correct_the_same() -> None:
    for p11 in P11_ROWS:
        row = exact(TRADE_OFF.mix(p11), Experiment(settings=ANSWER_ONLY)).advantages
        values = list(row.values())
        assert values[0] == pytest.approx(values[1], rel=1e-12)
        assert values[2] == pytest.approx(values[3], rel=1e-12)


@given(
    st.lists(st.floats(0.001, 1), min_size=4, max_size=4),
    st.sampled_from([AWM, ANSWER_ONLY]),
    st.integers(2, 10),
)
@settings(max_examples=50)
def test_expected_advantages_weighted_by_the_cells_add_up_to_zero(
    weights: list[float], reward: RewardSettings, group_size: int
) -> None:
    total = sum(weights)
    p11, p10, p01, p00 = (weight / total for weight in weights)
    mixture = Mixture(p11=p11, p10=p10, p01=p01, p00=p00)
    known = exact(mixture, Experiment(settings=reward, group_size=group_size))
    values = [value or 0.0 for value in known.advantages.values()]
    assert np.dot(mixture.as_array(), values) == pytest.approx(0, abs=1e-9)


def test_a_cell_without_probability_has_no_advantage() -> None:
    mixture = Mixture(p11=0.5, p10=0.5, p01=0, p00=0)
    for result in (exact(mixture, Experiment()), monte_carlo(mixture, Experiment(n_groups=100))):
        assert result.advantages["answering_error"] is None
        assert result.advantages["unresolved_error"] is None
        assert result.advantages["memory_missing_correct"] is not None


def test_a_single_cell_gives_zero_and_no_signal() -> None:
    certain = Mixture(p11=0, p10=1, p01=0, p00=0)
    for result in (exact(certain, Experiment()), monte_carlo(certain, Experiment(n_groups=10))):
        assert list(result.advantages.values()) == [None, 0.0, None, None]
        assert result.groups_with_signal == 0


def test_a_rare_cell_that_was_drawn_has_an_error_above_zero() -> None:
    rare = Mixture(p11=0.9995, p10=0.0005, p01=0, p00=0)
    drawn = monte_carlo(rare, Experiment(n_groups=2_000))
    assert drawn.standard_errors is not None
    assert (drawn.standard_errors["memory_missing_correct"] or 0) > 0.01
    assert drawn.advantages["answering_error"] is None


def test_the_crossing_of_pairs_by_hand() -> None:
    # A(1,0) = p(worse) - p11 = (1 - p11) 4/6 - p11
    crossing = find_crossing(TRADE_OFF, Experiment(group_size=2, eps=0))
    assert crossing.mixture is not None
    assert crossing.mixture.p11 == pytest.approx(0.4, abs=1e-9)


@pytest.mark.parametrize("group_size", [4, 8, 16])
def test_the_exact_advantage_is_zero_at_the_crossing(group_size: int) -> None:
    experiment = Experiment(group_size=group_size)
    crossing = find_crossing(TRADE_OFF, experiment)
    assert crossing.mixture is not None
    value = exact(crossing.mixture, experiment).advantages["memory_missing_correct"]
    assert value == pytest.approx(0, abs=1e-9)


def test_answer_only_has_no_crossing() -> None:
    assert find_crossing(TRADE_OFF, Experiment(settings=ANSWER_ONLY)).mixture is None


def test_beside_supported_correct_alone_missing_correct_is_negative_from_the_start() -> None:
    crossing = find_crossing(RestShares(p10=1, p01=0, p00=0), Experiment())
    assert crossing.mixture is not None
    assert crossing.mixture.p11 == pytest.approx(0, abs=1e-9)


def test_without_missing_correct_there_is_nothing_to_cross() -> None:
    with pytest.raises(ConfigError, match="no share of 1 - p11"):
        find_crossing(RestShares(p10=0, p01=1, p00=1), Experiment())


def test_the_crossing_comes_later_in_larger_groups_and_with_a_higher_r10() -> None:
    crossings = find_sensitivity(TRADE_OFF, Experiment())
    sizes = [c.mixture.p11 for c in crossings[:5] if c.mixture is not None]
    assert sizes == sorted(sizes)
    assert len(sizes) == 5
    r10 = [
        (c.rewards["memory_missing_correct"], c.mixture.p11)
        for c in crossings[5:]
        if c.mixture is not None and c.rewards["answering_error"] == 0.2
    ]
    assert len(r10) >= 6
    assert [p11 for _, p11 in sorted(r10)] == sorted(p11 for _, p11 in r10)


def test_only_the_place_of_the_middle_rewards_between_the_outer_ones_matters() -> None:
    stretched = RewardSettings(r11=6.0, r10=4.5, r01=2.0, r00=1.0)
    first = exact(MIXED, Experiment(eps=0)).advantages.values()
    second = exact(MIXED, Experiment(eps=0, settings=stretched)).advantages.values()
    assert list(first) == pytest.approx(list(second), rel=1e-12)


def test_the_exact_curves_of_the_whole_figure_take_under_two_seconds() -> None:
    started = time.perf_counter()
    for reward in (AWM, ANSWER_ONLY):
        for step in range(1, 200):
            exact(TRADE_OFF.mix(step / 200), Experiment(settings=reward))
    find_crossing(TRADE_OFF, Experiment())
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"p11": 0.5, "p10": 0.5, "p01": 0.5, "p00": 0.5}, r"= 2; .*must add up to 1"),
        ({"p11": -0.1, "p10": 0.5, "p01": 0.3, "p00": 0.3}, "greater than or equal to 0"),
        ({"p11": math.nan, "p10": 0.5, "p01": 0.5, "p00": 0}, "finite"),
        ({"p11": 1}, "Field required"),
    ],
)
def test_an_impossible_mixture_is_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Mixture.model_validate(values)


def test_thirds_to_six_digits_are_a_mixture() -> None:
    mixture = Mixture(p11=0.333333, p10=0.333333, p01=0.333333, p00=0.000001)
    assert mixture.as_array().sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"group_size": 1}, "greater than or equal to 2"),
        ({"group_size": 65}, "less than or equal to 64"),
        ({"n_groups": 0}, "greater than or equal to 1"),
        ({"ddof": 2}, "0 or 1"),
        ({"settings": {"kind": "graded"}}, "knows only outcome cells"),
        ({"settings": {"grounding_weight": 0.1}}, "knows only outcome cells"),
        ({"settings": {"r10": 1.0}}, "break the order"),
    ],
)
def test_an_experiment_that_cannot_be_run_is_refused(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Experiment.model_validate(values)
