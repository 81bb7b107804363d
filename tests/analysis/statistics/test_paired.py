from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

from awm.analysis.statistics.paired import (
    ScoredQuestion,
    compare_runs,
    match_by_id,
    mcnemar,
    mcnemar_by_label,
)


def contingency_tables() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("statsmodels.stats.contingency_tables")


def scored(
    number: int, answer: float | None, memory: float | None = 0.0, document: str | None = None
) -> ScoredQuestion:
    return ScoredQuestion(f"q{number}", document or f"d{number // 2}", answer, memory)


def outcomes(n_only_a: int, n_only_b: int, n_both: int = 0) -> tuple[list[bool], list[bool]]:
    a = [True] * n_only_a + [False] * n_only_b + [True] * n_both
    b = [False] * n_only_a + [True] * n_only_b + [True] * n_both
    return a, b


def test_mcnemar_of_one_against_five_by_hand() -> None:
    test = mcnemar(*outcomes(1, 5, n_both=3))

    assert (test.n_both, test.n_only_a, test.n_only_b, test.n_neither) == (3, 1, 5, 0)
    # exact: 2 * (1 + 6) / 64; mid-p takes away P(X = 1) = 6 / 64
    assert test.p_exact == 14 / 64
    assert test.p_mid == 8 / 64


def test_mcnemar_of_an_even_split() -> None:
    test = mcnemar(*outcomes(1, 1))

    assert test.p_exact == 1.0
    # nothing is likelier than the observed split, which counts half: 1 - 0.5 / 2
    assert test.p_mid == 0.75


def test_mcnemar_without_discordant_pairs_finds_nothing() -> None:
    test = mcnemar([True, False, None], [True, False, True])

    assert (test.p_exact, test.p_mid, test.n_left_out) == (1.0, 1.0, 1)
    assert test.n_neither == 1


def test_one_sided_discordance_reaches_the_smallest_p() -> None:
    test = mcnemar(*outcomes(0, 6))

    assert test.p_exact == 2 / 64
    assert test.p_mid == 1 / 64


@pytest.mark.parametrize(("n_only_a", "n_only_b"), [(1, 5), (0, 6), (7, 7), (151, 224)])
def test_mcnemar_agrees_with_statsmodels(n_only_a: int, n_only_b: int) -> None:
    table = [[30, n_only_a], [n_only_b, 20]]

    expected = contingency_tables().mcnemar(table, exact=True).pvalue

    assert mcnemar(*outcomes(n_only_a, n_only_b)).p_exact == pytest.approx(expected, rel=1e-9)


def test_mcnemar_takes_each_cell_against_the_rest() -> None:
    a = ["mmc", "mmc", "mmc", "unresolved", None]
    b = ["supported", "supported", "mmc", "mmc", "mmc"]

    tests = mcnemar_by_label(a, b)

    assert list(tests) == ["mmc", "unresolved", "supported"]
    assert (tests["mmc"].n_only_a, tests["mmc"].n_only_b, tests["mmc"].n_both) == (2, 1, 1)
    assert tests["mmc"].n_left_out == 1
    assert tests["supported"].p_exact == 0.5


def test_mcnemar_refuses_lists_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="2 outcomes against 1"):
        mcnemar([True, False], [True])


def test_questions_are_matched_by_id_in_any_order() -> None:
    a = [scored(1, 1.0), scored(2, 0.0), scored(3, 0.5)]
    b = [scored(4, 1.0), scored(3, 0.0), scored(1, 1.0)]

    matching = match_by_id(a, b)

    assert [(left.id, right.id) for left, right in matching.pairs] == [("q1", "q1"), ("q3", "q3")]
    assert matching.only_in_a == ("q2",)
    assert matching.only_in_b == ("q4",)


def test_matching_refuses_what_cannot_be_the_same_question() -> None:
    with pytest.raises(ValueError, match="'q1' stands twice in the second run"):
        match_by_id([scored(1, 1.0)], [scored(1, 1.0), scored(1, 0.0)])
    with pytest.raises(ValueError, match="about 'x' in the first run and about 'y'"):
        match_by_id([scored(1, 1.0, document="x")], [scored(1, 1.0, document="y")])
    with pytest.raises(ValueError, match="score nan of question 'q1'"):
        scored(1, float("nan"))


def test_a_comparison_counts_what_it_leaves_out() -> None:
    a = [scored(1, 1.0, 1.0), scored(2, None, 1.0), scored(3, 1.0, 0.0), scored(5, 1.0)]
    b = [scored(1, 0.0, 1.0), scored(2, 1.0, 0.0), scored(3, 1.0, None), scored(6, 1.0)]

    comparison = compare_runs(a, b, n_resamples=100)

    assert comparison.n_pairs == 3
    assert (comparison.only_in_a, comparison.only_in_b) == (("q5",), ("q6",))
    assert (comparison.n_answer_unmeasured, comparison.n_memory_unmeasured) == (1, 1)
    assert comparison.answer_difference.value == 0.5
    assert comparison.answer_difference.n == 2
    assert comparison.memory_difference.value == 0.5
    assert comparison.answer_mcnemar.n_only_a == 1
    assert comparison.answer_mcnemar.n_left_out == 1


def test_the_difference_of_p_mmc_conditions_on_each_runs_own_correct_answers() -> None:
    a = [scored(i, 1.0, float(i >= 1)) for i in range(4)]  # 4 correct, 1 without memory
    b = [scored(i, float(i < 2), 0.0) for i in range(4)]  # 2 correct, both without memory

    difference = compare_runs(a, b, n_resamples=500).p_mmc_difference

    assert difference.value == 0.25 - 1.0
    assert difference.n == 4


def test_swapping_the_runs_mirrors_the_difference() -> None:
    a = [scored(i, float(i % 3 > 0), float(i % 2)) for i in range(40)]
    b = [scored(i, float(i % 4 > 1), float(i % 5 > 1)) for i in range(40)]

    ab, ba = compare_runs(a, b, seed=2), compare_runs(b, a, seed=2)

    assert ab.answer_difference.interval is not None
    assert ba.answer_difference.interval is not None
    assert ab.answer_difference.value == pytest.approx(-(ba.answer_difference.value or 0))
    assert ab.answer_difference.interval.low == pytest.approx(-ba.answer_difference.interval.high)
    assert ab.answer_mcnemar.p_exact == ba.answer_mcnemar.p_exact


def test_runs_without_a_shared_question_have_nothing_to_compare() -> None:
    comparison = compare_runs([scored(1, 1.0)], [scored(2, 1.0)])

    assert comparison.n_pairs == 0
    assert comparison.answer_difference.value is None
    assert comparison.answer_mcnemar.p_exact == 1.0
