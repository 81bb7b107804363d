from __future__ import annotations

import importlib
import math
import time
import warnings
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from awm.analysis.statistics.bootstrap import (
    CLUSTER_METHOD,
    CROSSED_METHOD,
    UNANIMOUS_METHOD,
    bootstrap_weights,
    estimate,
    estimate_difference,
    estimate_pooled,
    estimate_pooled_difference,
    ratio_bootstrap,
)
from awm.analysis.statistics.intervals import Estimate, Interval, student_t_quantile
from awm.analysis.statistics.ratios import Ratio, f1_ratio, mean_ratio, measured_scores, p_mmc_ratio


def scipy_stats() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("scipy.stats")


def interval_of(result: Estimate) -> Interval:
    assert result.interval is not None
    return result.interval


def benchmark_like(seed: int = 0) -> tuple[list[str], list[float], list[float]]:
    """Return documents, final and memory-only scores of 1,082 questions over 135 documents."""
    rng = np.random.default_rng(seed)
    documents = [f"d{i}" for i in [*range(135), *rng.integers(0, 135, 947)]]
    answers = (rng.random(1082) < 0.5).astype(float)
    memories = answers * (rng.random(1082) < 0.8)
    return documents, answers.tolist(), memories.tolist()


def test_a_mean_leaves_out_what_was_not_measured() -> None:
    assert mean_ratio([1.0, None, 0.5, math.nan]).value == 0.75
    assert mean_ratio([None, None]).value is None


def test_p_mmc_is_the_share_of_correct_answers_whose_memory_fails() -> None:
    # correct: 1st (memory fails), 2nd (0.2 counts as held), 4th (memory not measured)
    ratio = p_mmc_ratio([1.0, 0.3, 0.0, 1.0, None], [0.0, 0.2, 0.0, None, 0.0])

    assert ratio.numerators_N.tolist() == [1, 0, 0, 0, 0]
    assert ratio.denominators_N.tolist() == [1, 1, 0, 0, 0]
    assert ratio.value == 0.5


def test_f1_as_a_ratio_is_the_harmonic_mean_of_precision_and_recall() -> None:
    scores = [1.0, 0.5, 0.0, 1.0, 0.0]
    answerable = [True, True, True, False, False]
    answered = [True, True, False, False, True]

    recall, precision = 1.5 / 3, 1.5 / 3

    f1 = f1_ratio(scores, answerable, answered).value
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
    assert f1_ratio([1.0], [False], [False]).value is None


def test_f1_of_unequal_precision_and_recall() -> None:
    # S = 1, A = 1, P = 3: recall 1, precision 1/3
    f1 = f1_ratio([1.0, 0.0, 0.0], [True, False, False], [True, True, True]).value

    assert f1 == pytest.approx(0.5)


def test_scores_outside_their_range_and_ragged_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"score 45.0 of question 1"):
        measured_scores([0.5, 45.0])
    with pytest.raises(ValueError, match=r"lengths \[2, 1\]"):
        p_mmc_ratio([1, 1], [1])
    with pytest.raises(ValueError, match="3 values for 2 questions"):
        estimate(mean_ratio([1, 0, 1]), bootstrap_weights(["a", "b"]))
    with pytest.raises(ValueError, match="question 1 has a numerator or denominator"):
        Ratio(np.array([1.0, np.nan]), np.ones(2))
    with pytest.raises(ValueError, match="denominator is negative"):
        Ratio(np.zeros(1), np.array([-1.0]))
    with pytest.raises(ValueError, match=r"outside its bounds \(0.0, 1.0\)"):
        ratio_bootstrap([3.0, 5.0], [1.0, 1.0], ["a", "b"])
    with pytest.raises(ValueError, match="0 resamples"):
        bootstrap_weights(["a"], n_resamples=0)


def test_every_resample_holds_as_many_documents_as_there_are() -> None:
    plan = bootstrap_weights(list(range(3000)), n_resamples=1000, seed=4)

    chunks = list(plan.weights())
    weights_BG = np.concatenate(chunks)

    assert len(chunks) > 1, "large plans are drawn in chunks"
    assert weights_BG.shape == (1000, 3000)
    assert (weights_BG.sum(axis=1) == 3000).all()
    assert weights_BG.mean() == 1.0
    assert weights_BG.var() == pytest.approx(1 - 1 / 3000, abs=0.01)


def test_two_documents_are_resampled_in_their_four_ways() -> None:
    plan = bootstrap_weights(["a", "b"], n_resamples=40_000, seed=1)

    n_of_a = plan.resampled_sums(np.array([[1.0], [0.0]]))[:, 0]

    shares = [float((n_of_a == count).mean()) for count in (0, 1, 2)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.01)


def test_a_ratio_pools_the_sums_of_documents() -> None:
    result = ratio_bootstrap([1, 0, 1, 1], [1, 1, 1, 1], ["a", "a", "b", "b"])

    assert (result.value, result.n, result.n_clusters) == (0.75, 4, 2)
    assert result.method == CLUSTER_METHOD
    assert interval_of(result).low >= 0.0
    assert interval_of(result).high == 1.0


def test_an_estimate_is_the_same_for_the_same_seed_and_any_order_of_questions() -> None:
    documents, answers, _ = benchmark_like()
    order = np.random.default_rng(1).permutation(len(documents))

    first = ratio_bootstrap(answers, [1.0] * 1082, documents, seed=3)
    shuffled = ratio_bootstrap(
        [answers[i] for i in order], [1.0] * 1082, [documents[i] for i in order], seed=3
    )
    other_seed = ratio_bootstrap(answers, [1.0] * 1082, documents, seed=4)

    assert first == shuffled
    assert first != other_seed
    assert interval_of(first).low == pytest.approx(interval_of(other_seed).low, abs=0.003)


@pytest.mark.parametrize("skew", [1.0, 4.0])
def test_unclustered_intervals_agree_with_scipys_bca_at_the_expanded_level(skew: float) -> None:
    stats = scipy_stats()
    scores = np.random.default_rng(2).random(60) ** skew
    normal = NormalDist()
    expanded = math.sqrt(60 / 59) * student_t_quantile(0.95, 59)
    level = 2 * normal.cdf(expanded) - 1

    expected = stats.bootstrap(
        (scores,), np.mean, n_resamples=20_000, confidence_level=level, method="BCa", rng=5
    ).confidence_interval
    interval = interval_of(
        estimate(mean_ratio(scores), bootstrap_weights(list(range(60)), 20_000, seed=5))
    )

    assert interval.low == pytest.approx(expected.low, abs=0.004)
    assert interval.high == pytest.approx(expected.high, abs=0.004)


def test_documents_that_agree_within_widen_the_interval_by_the_root_of_their_size() -> None:
    # 40 documents, 4 identical answers in each: as much information as 40 answers.
    by_document = [1.0, 0.0] * 20
    repeated = [score for score in by_document for _ in range(4)]
    documents = [i for i in range(40) for _ in range(4)]

    clustered = interval_of(estimate(mean_ratio(repeated), bootstrap_weights(documents)))
    single = interval_of(estimate(mean_ratio(by_document), bootstrap_weights(range(40))))
    naive = interval_of(estimate(mean_ratio(repeated), bootstrap_weights(range(160))))

    assert clustered == single
    assert clustered.width / naive.width == pytest.approx(2, rel=0.08)


def test_unanimous_scores_do_not_get_an_interval_without_width() -> None:
    plan = bootstrap_weights(list(range(10)))

    all_wrong = estimate(mean_ratio([0.0] * 10), plan)
    all_right = estimate(mean_ratio([1.0] * 10), plan)
    all_half = estimate(mean_ratio([0.5] * 10), plan)

    dissent = 1 - 0.025**0.1
    assert all_wrong.method == UNANIMOUS_METHOD
    assert interval_of(all_wrong).low == 0.0
    assert interval_of(all_wrong).high == pytest.approx(dissent)
    assert interval_of(all_right).low == pytest.approx(1 - dissent)
    assert interval_of(all_half).low == pytest.approx(0.5 - 0.5 * dissent)
    assert interval_of(all_half).high == pytest.approx(0.5 + 0.5 * dissent)


def test_unanimity_counts_documents_not_questions() -> None:
    two_documents = estimate(mean_ratio([0.0] * 100), bootstrap_weights([0, 1] * 50))

    assert interval_of(two_documents).high == pytest.approx(1 - 0.025**0.5)


def test_nothing_measured_gives_no_value_and_one_document_no_interval() -> None:
    plan = bootstrap_weights(["a", "a", "b"])

    nothing = estimate(mean_ratio([None, None, None]), plan)
    no_question = estimate(mean_ratio([]), bootstrap_weights([]))
    no_correct_answer = estimate(p_mmc_ratio([0, 0, 0], [0, 1, 0]), plan)
    one_document = estimate(mean_ratio([1, 0, None]), plan)

    assert nothing == Estimate(None, 0, 0, None, CLUSTER_METHOD)
    assert no_question == Estimate(None, 0, 0, None, CLUSTER_METHOD)
    assert no_correct_answer.value is None
    assert one_document == Estimate(0.5, 2, 1, None, CLUSTER_METHOD)


def test_resamples_without_a_correct_answer_are_left_out_of_p_mmc() -> None:
    # Only 2 of 6 documents hold a correct answer: (4/6)^6, about 9 %, of resamples have none.
    answers, memories = [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]

    result = estimate(p_mmc_ratio(answers, memories), bootstrap_weights(list(range(6))))

    assert (result.value, result.n, result.n_clusters) == (0.5, 2, 2)
    assert interval_of(result) == Interval(0.0, 1.0)


def test_the_lift_of_two_figures_is_paired() -> None:
    documents, answers, memories = benchmark_like()
    plan = bootstrap_weights(documents)
    final, memory = mean_ratio(answers), mean_ratio(memories)

    lift = estimate_difference(final, memory, plan)
    # The same figure as the mean of the questions' differences, which lie in [0, 1] here.
    direct = estimate(
        Ratio(final.numerators_N - memory.numerators_N, np.ones(1082), (-1.0, 1.0)), plan
    )

    assert lift.value == pytest.approx(direct.value)
    assert interval_of(lift).low == pytest.approx(interval_of(direct).low)
    assert interval_of(lift).high == pytest.approx(interval_of(direct).high)
    assert interval_of(lift).width < interval_of(estimate(final, plan)).width


def test_a_figure_minus_itself_is_zero_within_what_unanimity_shows() -> None:
    documents, answers, memories = benchmark_like()
    plan = bootstrap_weights(documents)
    p_mmc = p_mmc_ratio(answers, memories)

    result = estimate_difference(p_mmc, p_mmc, plan)

    dissent = 1 - 0.025 ** (1 / result.n_clusters)
    assert result.value == 0.0
    assert interval_of(result).low == pytest.approx(-dissent)
    assert interval_of(result).high == pytest.approx(dissent)


def test_a_difference_has_no_interval_where_one_part_rests_on_one_document() -> None:
    plan = bootstrap_weights(["a", "b", "c"])
    everywhere = p_mmc_ratio([1, 1, 1], [1, 0, 1])
    only_in_a = p_mmc_ratio([1, 0, 0], [0, 0, 0])

    result = estimate_difference(everywhere, only_in_a, plan)

    assert result.value == pytest.approx(1 / 3 - 1)
    assert result.interval is None


def test_a_difference_is_undefined_where_one_part_is() -> None:
    plan = bootstrap_weights(["a", "b"])

    result = estimate_difference(mean_ratio([1, 0]), mean_ratio([None, None]), plan)

    assert result.value is None
    assert result.interval is None


def test_a_higher_level_gives_a_wider_interval() -> None:
    documents, answers, _ = benchmark_like()
    plan = bootstrap_weights(documents)
    ratio = mean_ratio(answers)

    widths = [interval_of(estimate(ratio, plan, level)).width for level in (0.5, 0.9, 0.99)]

    assert widths == sorted(widths)
    with pytest.raises(ValueError, match=r"confidence level 1\.0"):
        estimate(ratio, plan, 1.0)


def test_runs_are_drawn_one_fewer_and_scaled_up() -> None:
    plan = bootstrap_weights(["a"], n_resamples=20_000)

    of_two = plan.run_weights(2, arm=0)
    of_three = plan.run_weights(3, arm=0)

    assert {tuple(row) for row in of_two.tolist()} == {(2.0, 0.0), (0.0, 2.0)}
    assert np.allclose(of_three.sum(axis=1), 3)
    # The mean of three runs has variance s^2 / 3, with s^2 = 0.09 for 0.2, 0.5, 0.8.
    means = of_three @ np.array([0.2, 0.5, 0.8]) / 3
    assert means.var() == pytest.approx(0.03, rel=0.03)


def test_the_pool_of_one_run_is_that_run() -> None:
    documents, answers, _ = benchmark_like()
    plan = bootstrap_weights(documents)

    assert estimate_pooled([mean_ratio(answers)], plan) == estimate(mean_ratio(answers), plan)


def test_runs_that_differ_widen_the_pooled_interval() -> None:
    rng = np.random.default_rng(9)
    documents = [f"d{i}" for i in range(135) for _ in range(8)]
    plan = bootstrap_weights(documents)

    def runs(accuracies: list[float]) -> list[Ratio]:
        return [mean_ratio((rng.random(1080) < p).astype(float)) for p in accuracies]

    alike = estimate_pooled(runs([0.5, 0.5, 0.5, 0.5]), plan)
    apart = estimate_pooled(runs([0.4, 0.45, 0.55, 0.6]), plan)

    assert alike.method == CROSSED_METHOD
    assert alike.value == pytest.approx(0.5, abs=0.03)
    assert (alike.n, alike.n_clusters) == (1080, 135)
    # The runs' own standard error is sqrt(0.25 / 30) = 0.091 / 2 = 0.046; times 1.96 each way.
    assert interval_of(apart).width > 2 * 0.046 * 1.96
    assert interval_of(alike).width < 0.1


def test_identical_runs_add_nothing_to_the_interval_of_one() -> None:
    documents, answers, _ = benchmark_like()
    plan = bootstrap_weights(documents)
    run = mean_ratio(answers)

    pooled, single = estimate_pooled([run, run, run], plan), estimate(run, plan)

    assert interval_of(pooled).low == pytest.approx(interval_of(single).low, abs=1e-9)
    assert interval_of(pooled).high == pytest.approx(interval_of(single).high, abs=1e-9)


def test_two_settings_with_several_runs_are_paired_by_document() -> None:
    rng = np.random.default_rng(6)
    documents = [f"d{i}" for i in range(60) for _ in range(8)]
    chances = np.repeat(rng.beta(1, 1, 60), 8)
    plan = bootstrap_weights(documents)

    def run(gain: float) -> Ratio:
        return mean_ratio((rng.random(480) < np.minimum(chances + gain, 1)).astype(float))

    better, worse = [run(0.2) for _ in range(4)], [run(0.0) for _ in range(4)]
    difference = estimate_pooled_difference(better, worse, plan)

    assert difference.value == pytest.approx(0.18, abs=0.05)
    assert interval_of(difference).low > 0.05
    assert interval_of(difference).width < interval_of(estimate_pooled(worse, plan)).width


def test_a_pool_needs_a_run() -> None:
    with pytest.raises(ValueError, match="no run given"):
        estimate_pooled([], bootstrap_weights(["a"]))


def test_ten_thousand_resamples_of_the_benchmark_take_well_under_two_seconds() -> None:
    documents, answers, memories = benchmark_like()

    start = time.perf_counter()
    plan = bootstrap_weights(documents, n_resamples=10_000)
    estimate(p_mmc_ratio(answers, memories), plan)
    elapsed_s = time.perf_counter() - start

    assert plan.n_clusters == 135
    assert elapsed_s < 2.0
