from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import pytest

from awm.analysis.statistics.intervals import (
    Estimate,
    Interval,
    half_binomial_tail,
    sign_test,
    student_t_quantile,
    unanimous_interval,
    wilson_interval,
)


def reference(module: str) -> Any:
    """Import a reference implementation; its own deprecations are not ours to fail on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


def test_an_interval_refuses_ends_in_the_wrong_order_and_an_impossible_level() -> None:
    with pytest.raises(ValueError, match="low must not exceed high"):
        Interval(0.6, 0.4)
    with pytest.raises(ValueError, match=r"confidence level 95: give a probability"):
        Interval(0.4, 0.6, level=95)
    with pytest.raises(ValueError, match="low must not exceed high"):
        Interval(math.nan, 0.4)


def test_an_estimate_becomes_json_and_keeps_what_is_not_known_as_none() -> None:
    known = Estimate(0.5, 10, 3, Interval(0.25, 0.75), "bootstrap")
    unknown = Estimate(None, 0, 0, None, "bootstrap")

    assert known.as_json() == {
        "value": 0.5,
        "n": 10,
        "n_clusters": 3,
        "interval": {"low": 0.25, "high": 0.75, "level": 0.95},
        "method": "bootstrap",
    }
    assert unknown.as_json()["value"] is None
    assert unknown.as_json()["interval"] is None


def test_wilson_of_half_is_symmetric_and_as_computed_by_hand() -> None:
    interval = wilson_interval(5, 10)

    # centre 0.5; half = z / (1 + z^2/n) * sqrt(0.25/n + z^2/(4 n^2)), z = 1.959964
    assert interval is not None
    assert interval.low == pytest.approx(0.236593, abs=1e-6)
    assert interval.high == pytest.approx(0.763407, abs=1e-6)


def test_wilson_at_no_success_ends_at_z2_over_n_plus_z2() -> None:
    interval = wilson_interval(0, 10)

    assert interval is not None
    assert interval.low == 0.0
    assert interval.high == pytest.approx(3.841459 / 13.841459, abs=1e-6)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_wilson_agrees_with_statsmodels(level: float) -> None:
    proportion = reference("statsmodels.stats.proportion")
    for n_trials in (1, 7, 40, 1082):
        for n_successes in {0, 1, n_trials // 3, n_trials}:
            interval = wilson_interval(n_successes, n_trials, level)
            low, high = proportion.proportion_confint(
                n_successes, n_trials, alpha=1 - level, method="wilson"
            )
            assert interval is not None
            assert interval.low == pytest.approx(low, abs=1e-9)
            assert interval.high == pytest.approx(high, abs=1e-9)


def test_wilson_of_no_trials_is_none_and_of_impossible_counts_an_error() -> None:
    assert wilson_interval(0, 0) is None
    with pytest.raises(ValueError, match="11 successes in 10 trials"):
        wilson_interval(11, 10)


def test_ten_unanimous_documents_admit_the_dissent_that_clopper_pearson_admits() -> None:
    scipy_stats = reference("scipy.stats")
    exact = scipy_stats.binomtest(10, 10).proportion_ci(0.95, method="exact")

    interval = unanimous_interval(1.0, 10)

    assert interval is not None
    assert interval.high == 1.0
    assert interval.low == pytest.approx(0.025**0.1)
    assert interval.low == pytest.approx(exact.low)


def test_unanimity_inside_the_bounds_leaves_room_on_both_sides() -> None:
    interval = unanimous_interval(0.0, 2, bounds=(-1.0, 1.0), level=0.5)

    # dissent u = 1 - 0.25 ** 0.5 = 0.5, times a distance of 1 to either bound
    assert interval == Interval(-0.5, 0.5, 0.5)
    assert unanimous_interval(0.5, 1) is None
    with pytest.raises(ValueError, match="outside its bounds"):
        unanimous_interval(1.5, 10)


def test_the_sign_test_counts_coin_flips_exactly() -> None:
    # 9 of 10: 2 * (1 + 10) / 1024
    assert sign_test(9, 1) == 22 / 1024
    assert sign_test(1, 9) == 22 / 1024
    assert sign_test(5, 5) == 1.0
    assert sign_test(0, 0) == 1.0
    assert half_binomial_tail(1, 10) == 11 / 1024


def test_the_sign_test_agrees_with_scipy_up_to_thousands_of_pairs() -> None:
    binomtest = reference("scipy.stats").binomtest
    for n_up, n_down in [(3, 8), (0, 30), (151, 224), (1100, 1225)]:
        expected = binomtest(n_up, n_up + n_down, 0.5).pvalue
        assert sign_test(n_up, n_down) == pytest.approx(expected, rel=1e-9)


def test_the_sign_test_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="counts -1 and 3"):
        sign_test(-1, 3)
    with pytest.raises(ValueError, match="tail up to 4 of 3 trials"):
        half_binomial_tail(4, 3)


def test_students_quantile_has_its_closed_forms() -> None:
    assert student_t_quantile(0.95, 1) == pytest.approx(math.tan(0.475 * math.pi))
    # df = 2: t = p * sqrt(2 / (1 - p^2))
    assert student_t_quantile(0.95, 2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)))


@pytest.mark.parametrize("df", [3, 4, 13, 39, 134, 200, 201, 2324])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_students_quantile_agrees_with_scipy(level: float, df: int) -> None:
    expected = reference("scipy.stats").t.ppf(0.5 + level / 2, df)

    assert student_t_quantile(level, df) == pytest.approx(expected, rel=1e-8)


def test_students_quantile_needs_a_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="0 degrees of freedom"):
        student_t_quantile(0.95, 0)
