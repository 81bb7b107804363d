"""No answer may run code, raise, hang or take long, whatever the format."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.scoring.literals import evaluate_concise_answer
from awm.scoring.longdocurl import LongDocURLJudge
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge
from awm.scoring.repaired import repaired_score
from awm.scoring.score import Judge

LIMIT_S = 0.05
N_TRIES = 5
"""The fastest of some tries counts, in processor time: a busy machine is not the judge's fault."""
MEGABYTE = 1_000_000
JUDGES: list[Judge] = [MMLongBenchDocJudge(), LongDocURLJudge()]
FORMATS = ("Int", "Integer", "Float", "Str", "String", "None", "List", "anything")


def nest(depth: int, *, as_tuple: bool = False) -> object:
    value: object = 0
    for _ in range(depth):
        value = (value,) if as_tuple else [value]
    return value


def make_loop() -> list[object]:
    loop: list[object] = []
    loop.append(loop)
    return loop


HOSTILE: dict[str, Any] = {
    "exit": "[exit()]",
    "name lookup": 'case["answer"]',
    "import": "__import__('os').system('x')",
    "import in a list": "[__import__('os').system('x')]",
    "open": "[open('/etc/passwd').read()]",
    "brackets": "[" * 10**5,
    "nested brackets": "[" * 10**5 + "]" * 10**5,
    "parser limit": "[" * 199 + "]" * 199,
    "power tower": "9**9**9",
    "power tower in a list": "[9**9**9]",
    "repetition": '["a"*10**9]',
    "repetition of repetitions": "[" * 90 + "0" + "]*9" * 90,
    "many repetitions": "[" + "'a'*999," * 800 + "]",
    "format": "['%999999999d' % 1]",
    "shift": "[1 << 10**9]",
    "long sum": "[" + "1+" * 3990 + "1]",
    "long negation": "-" * 7999 + "1",
    "long comparison": "[" + "1<" * 3990 + "1]",
    "lambdas": "[lambda:" * 900,
    "digits": "9" * MEGABYTE,
    "decimals": "0." + "9" * MEGABYTE,
    "overflow": "1e999999",
    "letters": "a" * MEGABYTE,
    "other letters": "ab" * (MEGABYTE // 2),
    "mixed letters": ("the quick brown fox " * (MEGABYTE // 20))[7:],
    "non-ascii": "ß😀" * (MEGABYTE // 2),
    "shorter non-ascii": "ß😀" * 149_000,
    "lone surrogate": "\ud800",
    "lone surrogates": "\ud800" * MEGABYTE,
    "NUL": "\x00",
    "NULs": "[\x00]" * 1000,
    "whitespace": "a" + " " * MEGABYTE + "b",
    "whitespace and parenthesis": "a" + " " * MEGABYTE + "(b",
    "opening parentheses": "(" * MEGABYTE,
    "parentheses": "()" * 49_000,
    "too many parentheses": "()" * (MEGABYTE // 2),
    "quotes": "'" * MEGABYTE,
    "commas": "," * MEGABYTE,
    "unit letters": "kg" * (MEGABYTE // 2),
    "almost an e-mail": "a@" + "a." * (MEGABYTE // 2) + "!",
    "almost a phone number": "1-" * (MEGABYTE // 2),
    "almost a number": "1" * MEGABYTE + "x",
    "backslashes": "['\\" + "n" * 7000,
    "list of texts": "[" + "'a'," * (MEGABYTE // 4) + "'a']",
    "list with a long text": "['" + "a" * MEGABYTE + "']",
    "deep list": nest(10**5),
    "less deep list": nest(140),
    "deep tuple": nest(10**5, as_tuple=True),
    "loop": make_loop(),
    "many items": ["a"] * MEGABYTE,
    "many distinct items": [f"x{number}" for number in range(199)],
    "long items": ["a" * 900 + str(number) for number in range(199)],
    "huge integer": 10**5000,
    "huger integer": 1 << 10**7,
    "huge integer in a list": [10**5000],
    "not a number": float("nan"),
    "bytes": b"x" * MEGABYTE,
    "object": object(),
}


def fastest_s(call: Any) -> float:
    durations = []
    for _ in range(N_TRIES):
        started = time.process_time()
        call()
        durations.append(time.process_time() - started)
        if durations[-1] < LIMIT_S:
            break
    return min(durations)


def score_in_both_ways(judge: Judge, gold: object, prediction: object, fmt: str) -> None:
    official = judge.score(gold, prediction, fmt)
    assert 0.0 <= official.value <= 1.0
    assert 0.0 <= repaired_score(judge.name, gold, prediction, fmt, official).value <= 1.0


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_are_scored_in_bounded_time(judge: Judge, name: str) -> None:
    hostile = HOSTILE[name]
    formats = (
        ("Int", "Float", "Str", "List")
        if judge is JUDGES[0]
        else ("Integer", "Float", "String", "List")
    )
    for other in (hostile, "5", ["a", "b"], HOSTILE["mixed letters"]):
        for gold, prediction in ((hostile, other), (other, hostile)):
            for fmt in formats:
                duration_s = fastest_s(
                    lambda g=gold, p=prediction, f=fmt: score_in_both_ways(judge, g, p, f)
                )
                assert duration_s < LIMIT_S, (fmt, name)


@pytest.mark.parametrize("name", [name for name, value in HOSTILE.items() if type(value) is str])
def test_hostile_texts_are_evaluated_in_bounded_time(name: str) -> None:
    assert fastest_s(lambda: evaluate_concise_answer(HOSTILE[name])) < LIMIT_S


def test_a_list_written_as_code_does_nothing(tmp_path: Any) -> None:
    target = tmp_path / "written"
    code = f"[open({str(target)!r}, 'w').write('x')]"

    for judge in JUDGES:
        assert judge.score(["x"], code, "List").value == 0.0
        assert judge.score(code, ["x"], "List").value == 0.0
    evaluate_concise_answer(code)

    assert not target.exists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=15,
)
expressions = st.text(alphabet="[](){}'\",:+-*/%<>=019.eabx \\\n~&|", max_size=30).map(
    lambda text: "[" + text
)


@given(
    json_values | expressions,
    json_values | expressions,
    st.text(max_size=8) | st.sampled_from(FORMATS),
)
def test_no_json_value_makes_a_judge_raise(gold: object, prediction: object, fmt: str) -> None:
    for judge in JUDGES:
        score = judge.score(gold, prediction, fmt)

        assert 0.0 <= score.value <= 1.0


@given(st.text(max_size=40) | st.integers(), st.sampled_from(["Str", "String", "None"]))
def test_an_answer_equal_to_gold_is_right_as_text(answer: object, fmt: str) -> None:
    benchmark = JUDGES[0] if fmt == "Str" else JUDGES[1]

    assert benchmark.score(answer, answer, fmt).value == 1.0 or answer == "Fail to extract"
