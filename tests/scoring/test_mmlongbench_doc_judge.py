from __future__ import annotations

import json
from pathlib import Path

import pytest

from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge, clean

JUDGE = MMLongBenchDocJudge()


def test_every_recorded_case_has_the_official_score(shared_folder: Path) -> None:
    path = shared_folder / "scoring" / "mmlongbench_doc_cases.jsonl"
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    differing = []
    for case in cases:
        score = JUDGE.score(case["gold"], case["pred"], case["format"])
        if isinstance(case["score"], str):
            error = case["score"].removeprefix("raises:")
            same = score.value == 0.0 and score.flags == (f"official_raises:{error}",)
        else:
            same = abs(score.value - case["score"]) <= 1e-12 and score.flags == ()
        if not same:
            differing.append((case, score))

    assert len(cases) == 1500
    assert differing == []


@pytest.mark.parametrize(
    ("gold", "prediction", "answer_format", "expected"),
    [
        (5, 5.9, "Int", 1.0),
        ("5", "5.9", "Int", 1.0),
        ("1234", "1,234", "Int", 0.0),
        ("12", "12%", "Int", 0.0),
        ("18.29%", "0.1829", "Float", 1.0),
        ("0.5", "50", "Float", 1.0),
        ("2.5", "2.5 million", "Float", 0.0),
        ("Less well-off", "Less well off", "Str", 1 - 1 / 13),
        ("Chile", "China", "Str", 0.6),
        ("(B)", "(C)", "Str", 1.0),
        ("(B)", "B", "Str", 0.0),
        ("page 5", "Page 5.", "Str", 0.0),
        ("Not answerable", "Unanswerable", "None", 1 - 4 / 14),
        ("Not answerable", "Fail to answer", "None", 0.0),
        (["a", "b"], ["b", "a"], "List", 1.0),
        ("['a','b']", "['b','a']", "List", 1.0),
        (["a", "b"], "a, b", "List", 0.0),
        (["apple", "https://x"], ["appel", "https://y"], "List", 0.6),
    ],
)
def test_the_documented_cases(
    gold: object, prediction: object, answer_format: str, expected: float
) -> None:
    score = JUDGE.score(gold, prediction, answer_format)

    assert score.value == pytest.approx(expected, abs=1e-12)
    assert score.flags == ()


@pytest.mark.parametrize(
    ("gold", "prediction", "answer_format", "flag"),
    [
        ("1,200.5", "1,200.5", "Float", "official_raises:ValueError"),
        ("Not answerable", "5", "Float", "official_raises:ValueError"),
        (None, None, "Float", "official_raises:ValueError"),
        (["Paris", "Rome"], "[Paris, Rome]", "List", "official_raises:NameError"),
        ("[]", "[]", "List", "official_raises:IndexError"),
        ([], [], "List", "official_raises:IndexError"),
        (["a"], "[1, 2", "List", "official_raises:SyntaxError"),
        (["a"], "[1/0]", "List", "official_raises:ZeroDivisionError"),
        (["a"], "['a' + 1]", "List", "official_raises:TypeError"),
        ([10**5000], [10**5000], "List", "official_raises:ValueError"),
        (["a"], "[exit()]", "List", "not_evaluated:Name"),
        (["a"], "['a'.upper()]", "List", "not_evaluated:Attribute"),
        (["a"], "[" + "1+" * 9000 + "1]", "List", "not_evaluated:too_long"),
        (["a"] * 10_000, ["a"] * 10_000, "List", "too_large"),
        ("a", "b" * 10_000_000, "Str", "too_large"),
    ],
)
def test_crashes_and_refusals_are_flagged_zeros(
    gold: object, prediction: object, answer_format: str, flag: str
) -> None:
    score = JUDGE.score(gold, prediction, answer_format)

    assert (score.value, score.flags) == (0.0, (flag,))


@pytest.mark.parametrize("gold", ["21%", "14:04 CET", "yes", "GPT-4"])
def test_four_int_golds_of_the_dataset_can_never_score(gold: str) -> None:
    assert JUDGE.score(gold, gold, "Int").value == 0.0


def test_a_failed_int_prediction_equals_an_empty_gold() -> None:
    assert JUDGE.score("", "no number", "Int").value == 1.0
    assert JUDGE.score("", "5", "Int").value == 1.0
    assert JUDGE.score(" ", "5", "Int").value == 0.0


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [("100.9", 1.0), ("101.2", 0.0), ("1.005", 1.0), ("9990", 1.0), ("1e4", 1.0), ("$100%", 1.0)],
)
def test_float_tolerance_around_a_gold_of_100(prediction: str, expected: float) -> None:
    assert JUDGE.score("100.0", prediction, "Float").value == expected


def test_float_rounds_to_two_decimals_at_least() -> None:
    assert JUDGE.score("0.004", "0.0", "Float").value == 1.0
    assert JUDGE.score("0.006", "0.0", "Float").value == 1.0  # as a hundredth
    assert JUDGE.score("0.6", "0.0", "Float").value == 0.0


def test_not_a_number_never_matches_and_infinity_does() -> None:
    assert JUDGE.score("nan", "nan", "Float").value == 0.0
    assert JUDGE.score(float("nan"), float("nan"), "Int").value == 0.0
    assert JUDGE.score("inf", "1e999999", "Float").value == 1.0


@pytest.mark.parametrize(
    "gold",
    [
        "see https://a.b/c",
        "main.py",
        "run.ipynb",
        "page five",
        "12345678",
        "555-12345",
        "5 a.m. sharp",
        "2021-03-04",
        "2021 03 04",
        "2021-03",
        "a.b@c.org",
    ],
)
def test_exact_kinds_get_no_partial_credit(gold: str) -> None:
    assert JUDGE.score(gold, gold.upper(), "Str").value == 1.0
    assert JUDGE.score(gold, gold + "x", "Str").value == 0.0
    assert JUDGE.score([gold], [gold + "x"], "List").value == 0.0


def test_an_unknown_format_is_scored_as_a_list() -> None:
    assert JUDGE.score("Chile", "China", "Integer").value == pytest.approx(0.6)
    assert JUDGE.score("['a', 'b']", "['b', 'a']", "").value == 1.0


def test_lists_of_unequal_length_score_zero() -> None:
    assert JUDGE.score(["apple", "apple"], ["apple"], "List").value == 0.0
    assert JUDGE.score("['a']", "[['a'], 'b'][0], 'c'", "List").value == 0.0


def test_numeric_lists_need_every_text_equal() -> None:
    assert JUDGE.score(["2", "1"], ["1", "2"], "List").value == 1.0
    assert JUDGE.score(["1", "2"], ["1", "2.0"], "List").value == 0.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("  Paris (France) ", "paris"),
        ("a (b) c (d", "a c (d"),
        ("a   (b)(c)", "a"),
        ("'quoted'", "quoted"),
        ("\"half'", "half"),
        ("'", ""),
        ("$$ 5%%", "5"),
        ("'$5%'", "5"),
        ("5 mile", "5 mile"),
        ("5% %", "5%"),
        (12.5, "12.5"),
        (None, "none"),
        (["A"], "['a']"),
        ("\x1c5\x1f", "5"),
    ],
)
def test_cleaning(value: object, expected: str) -> None:
    assert clean(value) == expected
