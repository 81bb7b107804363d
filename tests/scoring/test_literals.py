from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.scoring.literals import (
    EVALUATION_ERRORS,
    MAX_SOURCE_CHARS,
    NotEvaluatedError,
    evaluate_concise_answer,
    evaluate_expression,
    is_bounded,
    python_text,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12-5", 7),
        ("2019-2020", -1),
        ("2021-10-15", 1996),
        ("3,456", (3, 456)),
        ("1/2", 0.5),
        ("12.50", 12.5),
        ("2**10", 1024),
        ("7 // 2 + 7 % 2", 4),
        ("-5", -5),
        ("  5", 5),
        ("'quoted'", "quoted"),
        ("'a' 'b'", "ab"),
        ("['a', 'b']", ["a", "b"]),
        ("('a', 1.5)", ("a", 1.5)),
        ("{'a': [1, None]}", {"a": [1, None]}),
        ("{1}", [1]),
        ("None", None),
        ("not True", False),
        ("3 > 2 > 1", True),
        ("['a', 'b'][1]", "b"),
        ("1e999", float("inf")),
    ],
)
def test_literals_and_arithmetic_evaluate(text: str, expected: object) -> None:
    value = evaluate_concise_answer(text)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Less well-off",
        "Not answerable",
        "2021-08-15",  # 08 is no Python integer
        "05",
        "1,200 kg",
        "12%",
        "[a, b]",
        "[1, 2",
        "1/0",
        "'a' + 1",
        "{[]}",
        "exit()",
        "[exit()]",
        'case["answer"]',
        "__import__('os').system('x')",
        "open('/etc/passwd').read()",
        "().__class__.__bases__",
        "'a'.upper()",
        "(1)(2)",
        "list",
        "result",
        "f'{1}'",
        "[x for x in (1, 2)]",
        "lambda: 0",
        "[*(1, 2)]",
        "9**9**9",
        "(9**99)**(9**99)",
        "1 << 10**9",
        "'a' * 10**9",
        "[0] * 10**9",
        "'%999999999d' % 1",
        "9" * 5000,
        "-" * 100_000 + "1",
        "[" * 100_000,
        "[" * 199 + "]" * 199,
        "'\ud800'",
        "\x00",
        "...",
        "b'bytes'",
        "1j",
        "[{1}]",
    ],
)
def test_everything_else_stays_text(text: str) -> None:
    assert evaluate_concise_answer(text) is text


def test_a_stray_backslash_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate_concise_answer(r"['\d', 'x']") == [r"\d", "x"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[a, b]", NameError),
        ("[foo(1/0)]", NameError),
        ("[U.S]", NameError),
        ("[f'{x}']", NameError),
        ("[x for x in y]", NameError),
        ("[1, 2", SyntaxError),
        ("[05]", SyntaxError),
        ("[await x]", SyntaxError),
        ("[1/0]", ZeroDivisionError),
        ("['a' + 1]", TypeError),
        ("[1(2)]", TypeError),
        ("['a'][5]", IndexError),
        ("['a'.b]", AttributeError),
        ("['\ud800']", UnicodeEncodeError),
    ],
)
def test_errors_are_those_of_python(text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        evaluate_expression(text)

    assert type(raised.value) is error


@pytest.mark.parametrize(
    "text", ["[exit()]", "[len]", "[gt]", "['a'.upper()]", "[lambda: x]", "[9**9**9]"]
)
def test_what_python_would_run_is_refused(text: str) -> None:
    with pytest.raises(NotEvaluatedError):
        evaluate_expression(text)


def test_operands_that_python_skips_are_not_evaluated() -> None:
    assert evaluate_expression("0 and foo") == 0
    assert evaluate_expression("1 or foo") == 1
    assert evaluate_expression("1 if 1 else foo") == 1
    assert evaluate_expression("2 < 1 < foo") is False


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_the_python_text_of_a_json_value_reads_back_as_it_is(value: object) -> None:
    text = repr(value)
    if "inf" in text or len(text) > MAX_SOURCE_CHARS or "\\ud" in text:
        return
    assert evaluate_expression(text) == ast.literal_eval(text)


@given(st.text(alphabet="[](){}'\",:+-*/%<>=0123456789.eabTrueNone \\\n\t_&|~", max_size=40))
def test_no_text_raises_or_becomes_unbounded(text: str) -> None:
    assert is_bounded(evaluate_concise_answer(text))
    try:
        evaluate_expression(text)
    except (NotEvaluatedError, *EVALUATION_ERRORS):
        pass


def test_bounds_of_values() -> None:
    loop: list[object] = []
    loop.append(loop)
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]

    assert is_bounded(["a", {"b": (1, None, 2.5)}])
    assert not is_bounded(loop)
    assert not is_bounded(deep)
    assert not is_bounded(["a"] * 10_000)
    assert not is_bounded("a" * 10_000_000)
    assert not is_bounded(object())


def test_an_integer_too_long_to_print_raises_like_python() -> None:
    with pytest.raises(ValueError, match=r"digit|bits"):
        python_text(10**40_000)
