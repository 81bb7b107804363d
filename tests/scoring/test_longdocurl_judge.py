from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from awm.scoring.literals import evaluate_concise_answer
from awm.scoring.longdocurl import LongDocURLJudge, clean

JUDGE = LongDocURLJudge()


def test_every_recorded_case_has_the_official_score(shared_folder: Path) -> None:
    path = shared_folder / "scoring" / "longdocurl_cases.jsonl"
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
        (5, "5.0", "Integer", 0.0),
        (5, 5.0, "Integer", 0.0),
        (5, "5 kg", "Integer", 1.0),
        ("5 million", 5, "Integer", 1.0),
        ("96,395", "96395", "Integer", 1.0),
        (12.5, "12.5 billion", "Float", 1.0),
        (12.5, "€12.5", "Float", 0.0),
        ("£12.5", "$12.5%", "Float", 1.0),
        ("x", "x", "Float", 0.0),
        ("Museum", "useu", "String", 0.8),
        ("item", "ite", "String", 1.0),
        ("Adam", "Ada", "String", 1.0),
        ("kg", "", "String", 1.0),
        ("Fail to answer", "Fail to answer", "None", 1.0),
        (["apple", "banana"], ["apple"], "List", 0.5),
        (["apple", "banana"], ["apple", "xyzzy", "banana", "qwert"], "List", math.sqrt(0.5)),
        (["apple", "apple"], ["apple"], "List", 1.0),
        (["1", "2"], ["2", "1"], "List", 0.0),
        (["1", "2"], ["1", "2"], "List", 1.0),
        ([{"a": "x", "b": 1}], [{"c": "x", "d": 1}], "List", 1.0),
        ([{"a": "x", "b": "y"}], "x-y", "List", 1.0),
        ("[a, b]", "[a, b]", "List", 1.0),
        ("Chile", "China", "Str", 0.6),
    ],
)
def test_the_documented_cases(
    gold: object, prediction: object, answer_format: str, expected: float
) -> None:
    score = JUDGE.score(gold, prediction, answer_format)

    assert score.value == pytest.approx(expected, abs=1e-12)
    assert score.flags == ()


@pytest.mark.parametrize(
    ("gold", "prediction", "flags"),
    [
        (["apple"], [], ("official_raises:IndexError",)),
        ([], ["apple"], ("official_raises:IndexError",)),
        ([{"a": 1}, "x"], ["y"], ("official_raises:AttributeError",)),
        (["a"], "[exit()]", ("not_evaluated:Name",)),
        (["a"], "Fail to extract", ("extraction_failed",)),
        (["a"] * 10_000, "b", ("too_large",)),
        (["a" * 500 + str(n) for n in range(210)], ["b" * 9 + str(n) for n in range(210)],
         ("too_large",)),
    ],
)  # fmt: skip
def test_crashes_and_refusals_are_flagged_zeros(
    gold: object, prediction: object, flags: tuple[str, ...]
) -> None:
    score = JUDGE.score(gold, prediction, "List")

    assert (score.value, score.flags) == (0.0, flags)


def test_a_list_that_would_be_run_is_scored_as_the_text_it_is() -> None:
    score = JUDGE.score("[exit()]", "[exit()]", "List")

    assert score.value == 1.0
    assert score.flags == ("not_evaluated:Name", "not_evaluated:Name")


def test_an_answer_that_was_not_extracted_scores_zero_even_where_gold_says_so() -> None:
    assert JUDGE.score("Fail to extract", "Fail to extract", "String").value == 0.0


def test_failed_integers_compare_as_empty_text() -> None:
    assert JUDGE.score("kg", "no number", "Integer").value == 1.0
    assert JUDGE.score("none", "no number", "Integer").value == 0.0


@pytest.mark.parametrize(
    ("gold", "answer", "answer_format", "expected"),
    [
        (7, "12-5", "Integer", 1.0),
        (3456, "3,456", "Integer", 0.0),
        ("2021-10-15", "2021-10-15", "String", 0.0),
        (0.5, "1/2", "Float", 1.0),
        ("12.50", "12.50", "String", 0.8),
        ("2019-2020", "2019-2020", "String", 0.0),
    ],
)
def test_the_pipeline_scores_evaluated_answers(
    gold: object, answer: str, answer_format: str, expected: float
) -> None:
    value = JUDGE.score(gold, evaluate_concise_answer(answer), answer_format).value

    assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("12 kg", "12"),
        ("30 mm", "30"),
        ("5 m", "5"),
        ("10 meters", "10"),
        ("3 acres", "3"),
        ("15 minutes", "15"),
        ("5 miles", "5"),
        ("2 thousand", "2"),
        ("7 billion", "7"),
        ("item", "ite"),
        ("smile", "s"),
        ("1,234 (approx.)", "1234"),
        ("£$5", "$5"),
        ("$£5%", "5"),
        ("5 kg ,", "5 kg"),
    ],
)
def test_cleaning(value: object, expected: str) -> None:
    assert clean(value) == expected


def test_the_second_percent_sign_is_dropped_for_floats_only() -> None:
    assert JUDGE.score("5", "5% %", "Float").value == 1.0
    assert JUDGE.score("5", "5% %", "Integer").value == 0.0
