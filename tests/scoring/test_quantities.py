from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.scoring.quantities import read_quantity


@pytest.mark.parametrize(
    ("text", "value", "scale", "unit"),
    [
        ("5", "5", 1, None),
        ("-5.50", "-5.50", 1, None),
        ("\u22125", "-5", 1, None),
        ("1,234,567.8", "1234567.8", 1, None),
        ("1 234", "1234", 1, None),
        ("12 %", "12", 1, "percent"),
        ("12 per cent", "12", 1, "percent"),
        ("$ 5", "5", 1, "usd"),
        ("-$5", "-5", 1, "usd"),
        ("$-5", "-5", 1, "usd"),
        ("5 euros", "5", 1, "eur"),
        ("2.5 million", "2.5", 1_000_000, None),
        ("$2.5 bn", "2.5", 1_000_000_000, "usd"),
        ("5 kg", "5", 1, "kg"),
        ("5 Kilograms", "5", 1, "kg"),
        ("seven", "7", 1, None),
        ("Twenty-one", "21", 1, None),
        ("three hundred and five", "305", 1, None),
        ("two thousand twelve", "2012", 1, None),
        ("nine hundred ninety-nine million nine hundred thousand one", "999900001", 1, None),
        ("seven miles", "7", 1, "mi"),
    ],
)
def test_quantities_are_read(text: str, value: str, scale: int, unit: str | None) -> None:
    quantity = read_quantity(text)

    assert quantity is not None
    assert (quantity.value, quantity.scale, quantity.unit) == (Decimal(value), scale, unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "Route 66",
        "692 items",
        "2021-03",
        "1,23",
        "1,2345",
        "1.2.3",
        "5 to 6",
        "seven eleven",
        "hundred",
        "twenty and",
        "one direction",
        "9" * 81,
        "\u0663",
    ],
)
def test_what_is_not_only_a_quantity_is_none(text: str) -> None:
    assert read_quantity(text) is None


def test_any_words_may_follow_where_the_format_asks_for_a_number() -> None:
    quantity = read_quantity("692 items", any_unit=True)

    assert quantity is not None
    assert quantity.value == 692
    assert quantity.rules == {"unit"}
    assert read_quantity("692 items or more than that", any_unit=True) is None
    assert read_quantity("5 or 6", any_unit=True) is None


@given(st.integers(0, 10**12))
def test_thousands_separators_change_nothing(number: int) -> None:
    quantity = read_quantity(f"{number:,}")

    assert quantity is not None
    assert quantity.value == number


@given(st.text(max_size=100))
def test_no_text_raises(text: str) -> None:
    read_quantity(text)
    read_quantity(text, any_unit=True)
