from __future__ import annotations

import importlib
import random
import warnings
from typing import Any

import pytest

from awm.analysis.statistics.agreement import Agreement, cohen_kappa, fleiss_kappa


def inter_rater() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("statsmodels.stats.inter_rater")


def test_cohens_kappa_of_a_two_by_two_table() -> None:
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed 0.7, expected 0.5*0.6 + 0.5*0.4
    a = ["yes"] * 25 + ["no"] * 25
    b = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15

    agreement = cohen_kappa(a, b)

    assert agreement.observed == 0.7
    assert agreement.expected == 0.5
    assert agreement.kappa == pytest.approx(0.4)
    assert agreement.n == 50


def test_cohens_kappa_agrees_with_statsmodels_on_graded_labels() -> None:
    rng = random.Random(3)
    a = [rng.choice("xyz") for _ in range(200)]
    b = [label if rng.random() < 0.6 else rng.choice("xyz") for label in a]
    table = [[sum(p == (i, j) for p in zip(a, b, strict=True)) for j in "xyz"] for i in "xyz"]

    expected = inter_rater().cohens_kappa(table).kappa

    assert cohen_kappa(a, b).kappa == pytest.approx(expected, abs=1e-12)


def test_cohens_kappa_of_a_rater_against_the_opposite_is_minus_one() -> None:
    assert cohen_kappa([True, False], [False, True]).kappa == -1.0


def test_a_kappa_is_undefined_where_everything_is_one_category() -> None:
    assert cohen_kappa(["yes"] * 7, ["yes"] * 7) == Agreement(None, 1.0, 1.0, 7, 0)
    assert fleiss_kappa([["yes"] * 3] * 7) == Agreement(None, 1.0, 1.0, 7, 0)


def test_one_constant_rater_leaves_cohens_kappa_at_zero() -> None:
    assert cohen_kappa(["yes", "yes"], ["yes", "no"]).kappa == 0.0


def test_items_without_all_labels_are_counted_and_left_out() -> None:
    cohen = cohen_kappa([1, 0, None, 1], [1, 0, 1, None])
    fleiss = fleiss_kappa([[1, 1], [0, 0], [1, None]])

    assert (cohen.kappa, cohen.n, cohen.n_left_out) == (1.0, 2, 2)
    assert (fleiss.kappa, fleiss.n, fleiss.n_left_out) == (1.0, 2, 1)


def test_no_items_give_no_agreement() -> None:
    assert cohen_kappa([], []) == Agreement(None, None, None, 0, 0)
    assert fleiss_kappa([]) == Agreement(None, None, None, 0, 0)
    assert fleiss_kappa([[None, 1]]) == Agreement(None, None, None, 0, 1)


def test_fleiss_kappa_by_hand() -> None:
    # Each item has 1 agreeing pair of 3; both labels have share 1/2: (1/3 - 1/2) / (1/2)
    agreement = fleiss_kappa([["a", "a", "b"], ["a", "b", "b"]])

    assert agreement.observed == pytest.approx(1 / 3)
    assert agreement.expected == 0.5
    assert agreement.kappa == pytest.approx(-1 / 3)


def test_fleiss_kappa_agrees_with_statsmodels() -> None:
    rng = random.Random(5)
    items = []
    for _ in range(60):
        usual = rng.choice("wxyz")
        items.append([usual if rng.random() < 0.5 else rng.choice("wxyz") for _ in range(4)])
    counts = [[labels.count(category) for category in "wxyz"] for labels in items]

    expected = inter_rater().fleiss_kappa(counts)

    assert fleiss_kappa(items).kappa == pytest.approx(expected, abs=1e-12)


def test_kappas_refuse_ragged_labels() -> None:
    with pytest.raises(ValueError, match="2 labels against 1"):
        cohen_kappa([1, 2], [1])
    with pytest.raises(ValueError, match=r"items with \[2, 3\] labels"):
        fleiss_kappa([[1, 1], [1, 1, 1]])
    with pytest.raises(ValueError, match="at least 2 raters"):
        fleiss_kappa([[1], [0]])
