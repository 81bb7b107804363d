from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.scoring.literals import evaluate_concise_answer
from awm.scoring.longdocurl import LongDocURLJudge
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge
from awm.scoring.repaired import LOWERING_RULES, RepairedScore, repaired_score
from awm.scoring.score import Judge

MMLONGBENCH = MMLongBenchDocJudge()
LONGDOCURL = LongDocURLJudge()


def repair(judge: Judge, gold: object, prediction: object, answer_format: str) -> RepairedScore:
    official = judge.score(gold, prediction, answer_format)
    return repaired_score(judge.name, gold, prediction, answer_format, official)


RAISED: list[tuple[Judge, object, object, str, str]] = [
    (MMLONGBENCH, "1234", "1,234", "Int", "thousands_separators"),
    (MMLONGBENCH, "1,200.5", "1,200.5", "Float", "thousands_separators"),
    (MMLONGBENCH, "1,234", "1234", "Str", "thousands_separators"),
    (MMLONGBENCH, 692, "692 items", "Int", "unit"),
    (MMLONGBENCH, "3.2 kg", "3.2", "Float", "unit"),
    (MMLONGBENCH, "2.5", "2.5 million", "Float", "scale_word"),
    (MMLONGBENCH, 2_500_000, "2.5 million", "Int", "scale_word"),
    (MMLONGBENCH, "21%", "21", "Int", "percent_sign"),
    (MMLONGBENCH, 12, "12%", "Int", "percent_sign"),
    (LONGDOCURL, 12.5, "€12.5", "Float", "currency_sign"),
    (MMLONGBENCH, -5, "\u22125", "Int", "minus_sign"),
    (MMLONGBENCH, 7, "seven", "Int", "number_words"),
    (LONGDOCURL, "Seven", "7", "String", "number_words"),
    (LONGDOCURL, 5, "5.0", "Integer", "same_number"),
    (LONGDOCURL, "5 kg", "'5 kg'", "String", "quotes"),
    (MMLONGBENCH, "page 5", "Page 5.", "Str", "trailing_full_stop"),
    (MMLONGBENCH, "a  b c", "a b c", "Str", "whitespace"),
    (MMLONGBENCH, "Hague", "The Hague", "Str", "article"),
    (MMLONGBENCH, "Less well-off", "less well off", "Str", "hyphens"),
    (MMLONGBENCH, "Chile", "The answer is Chile", "Str", "lead_in"),
    (MMLONGBENCH, "Not answerable", "Unanswerable", "None", "refusal_wording"),
    (MMLONGBENCH, "Not answerable", "Fail to answer.", "None", "refusal_wording"),
    (MMLONGBENCH, "14:04 CET", "14:04 CET", "Int", "gold_not_a_number"),
    (MMLONGBENCH, "yes", "Yes.", "Int", "gold_not_a_number"),
    (MMLONGBENCH, "(B)", "B", "Str", "parenthesised_answer"),
    (MMLONGBENCH, ["a", "b"], "a, b", "List", "list_as_text"),
    (MMLONGBENCH, ["Paris", "Rome"], "[Paris, Rome]", "List", "list_as_text"),
    (MMLONGBENCH, ["Paris", "Rome"], "Rome and Paris", "List", "list_order"),
    (LONGDOCURL, ["x", "1,234"], "x; 1,234", "List", "list_as_text"),
    (LONGDOCURL, ["1", "2"], ["2", "1"], "List", "list_order"),
    (MMLONGBENCH, ["apple"], ["apple", "apple"], "List", "duplicates"),
    (MMLONGBENCH, ["1", "2"], ["2.0", "one"], "List", "number_words"),
    (MMLONGBENCH, "[]", "[]", "List", "empty_list"),
]


@pytest.mark.parametrize(("judge", "gold", "prediction", "answer_format", "rule"), RAISED)
def test_a_known_fault_is_mended_by_a_named_rule(
    judge: Judge, gold: object, prediction: object, answer_format: str, rule: str
) -> None:
    repaired = repair(judge, gold, prediction, answer_format)

    assert judge.score(gold, prediction, answer_format).value < 1.0
    assert repaired.value == 1.0
    assert rule in repaired.rules


@pytest.mark.parametrize(
    ("answer", "gold"), [("3,456", 3456), ("1,000,250", "1,000,250"), ("12,000.5", 12000.5)]
)
def test_thousands_that_evaluation_tore_apart_are_joined_again(answer: str, gold: object) -> None:
    prediction = evaluate_concise_answer(answer)
    answer_format = "Float" if isinstance(gold, float) else "Integer"

    repaired = repair(LONGDOCURL, gold, prediction, answer_format)

    assert isinstance(prediction, tuple)
    assert repaired.value == 1.0
    assert "thousands_separators" in repaired.rules


LOWERED: list[tuple[Judge, object, object, str, float, str]] = [
    (MMLONGBENCH, 5, "5.9", "Int", 0.0, "int_truncation"),
    (MMLONGBENCH, "1,234", "1,235", "Str", 0.0, "numbers_differ"),
    (LONGDOCURL, "5 kg", "5 mm", "String", 0.0, "numbers_differ"),
    (LONGDOCURL, "5 kg", "5 mm", "Integer", 0.0, "numbers_differ"),
    (MMLONGBENCH, "(B)", "(C)", "Str", 0.0, "parenthesised_answer"),
    (LONGDOCURL, "Adam", "Ada", "String", 0.75, "unit_letters"),
    (LONGDOCURL, "item", "ite", "String", 0.75, "unit_letters"),
    (LONGDOCURL, "kg", "", "String", 0.0, "unit_letters"),
    (MMLONGBENCH, ["apple", "https://x"], ["appel", "https://y"], "List", 0.0, "exact_items"),
]


@pytest.mark.parametrize(
    ("judge", "gold", "prediction", "answer_format", "expected", "rule"), LOWERED
)
def test_two_answers_taken_for_one_are_told_apart_by_a_named_rule(
    judge: Judge, gold: object, prediction: object, answer_format: str, expected: float, rule: str
) -> None:
    official = judge.score(gold, prediction, answer_format).value
    repaired = repair(judge, gold, prediction, answer_format)

    assert repaired.value == pytest.approx(expected)
    assert repaired.value < official
    assert rule in repaired.rules
    assert rule in LOWERING_RULES


@pytest.mark.parametrize(
    ("judge", "gold", "prediction", "answer_format"),
    [
        (MMLONGBENCH, "Chile", "China", "Str"),
        (MMLONGBENCH, "Chile", "Peru", "Str"),
        (MMLONGBENCH, "0.5", "50", "Float"),
        (MMLONGBENCH, "100", "100.9", "Float"),
        (MMLONGBENCH, 5, 6, "Int"),
        (MMLONGBENCH, 5, "five or six", "Int"),
        (MMLONGBENCH, ["a", "b"], ["a"], "List"),
        (MMLONGBENCH, ["5", "5", "3"], ["5", "3", "3"], "List"),
        (MMLONGBENCH, "Not answerable", "Less well-off", "None"),
        (MMLONGBENCH, "One Direction", "1 direction", "Str"),
        (LONGDOCURL, 5, "5 kg", "Integer"),
        (LONGDOCURL, ["apple", "banana"], ["apple"], "List"),
        (LONGDOCURL, ["apple"], "apple", "List"),
        (MMLONGBENCH, "a" * 5000, "A" * 5000 + ".", "Str"),
        (MMLONGBENCH, ["a"] * 60, "b", "List"),
        pytest.param(MMLONGBENCH, 10**5000, "5", "Int", id="an integer too long to print"),
    ],
)
def test_what_no_rule_covers_keeps_its_official_score(
    judge: Judge, gold: object, prediction: object, answer_format: str
) -> None:
    official = judge.score(gold, prediction, answer_format).value

    assert repair(judge, gold, prediction, answer_format) == RepairedScore(official, ())


def test_repairs_of_a_list_keep_the_benchmarks_own_arithmetic() -> None:
    """Two golds, four predictions, both found: 1 * sqrt(2 / 4)."""
    repaired = repair(LONGDOCURL, ["apple", "The pear"], "apple, pear, fig, nut", "List")

    assert repaired.value == pytest.approx(math.sqrt(0.5))
    assert repaired.rules == ("article", "list_as_text")


answers = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.text(alphabet="ab ()'\".,%$£€\u22125[]", max_size=10)
    | st.sampled_from(["seven", "1,234", "5 kg", "(B)", "[a, b]", "['a']", "Adam", "page 5."]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
formats = st.sampled_from(["Int", "Integer", "Float", "Str", "String", "None", "List", "?"])


@given(answers, answers, formats, st.sampled_from([MMLONGBENCH, LONGDOCURL]))
def test_no_answer_raises_and_no_score_falls_without_a_lowering_rule(
    gold: object, prediction: object, answer_format: str, judge: Judge
) -> None:
    official = judge.score(gold, prediction, answer_format)
    repaired = repaired_score(judge.name, gold, prediction, answer_format, official)

    assert 0.0 <= repaired.value <= 1.0
    assert bool(repaired.rules) == (repaired.value != official.value)
    if repaired.value < official.value:
        assert LOWERING_RULES.intersection(repaired.rules)
