"""Numbers as people write them: separators, signs, units, scale words, number words.

Used by the repaired scores only; the official rules read numbers in their own narrower ways.
Number words have a table of their own: word2number reads "point" and "and" wherever they stand
and raises on the rest, text2num brings a compiled extension, and 0 to 999,999,999 is 30 words.

    >>> read_quantity("$1,234.50").value, read_quantity("seventy-five percent").value
    (Decimal('1234.50'), Decimal('75'))
    >>> read_quantity("2.5 million").scale, read_quantity("Route 66") is None
    (1000000, True)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

MAX_QUANTITY_CHARS = 80
"""Longest text that is read as a quantity."""

_SMALL_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORD_VALUES = {word: value for value, word in enumerate(_SMALL_WORDS.split())} | {
    word: 10 * value for value, word in enumerate(_TENS_WORDS.split(), start=2)
}
_SCALES = {
    "k": 1_000,
    "thousand": 1_000,
    "million": 1_000_000,
    "millions": 1_000_000,
    "mn": 1_000_000,
    "billion": 1_000_000_000,
    "billions": 1_000_000_000,
    "bn": 1_000_000_000,
    "trillion": 1_000_000_000_000,
}
_UNIT_NAMES = {
    "percent": "% percent pct percents",
    "usd": "$ us$ usd dollar dollars",
    "eur": "€ eur euro euros",
    "gbp": "£ gbp",
    "jpy": "¥ jpy yen",
    "g": "g gram grams",
    "kg": "kg kgs kilogram kilograms",
    "lb": "lb lbs pound pounds",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "in": "inch inches",
    "ft": "ft foot feet",
    "mi": "mi mile miles",
    "acre": "acre acres",
    "ha": "ha hectare hectares",
    "l": "l liter liters litre litres",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "yr yrs year years",
}
_UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
_LINKS = frozenset({"and", "or", "to", "out", "hundred"})
"""Words after which another number follows, so that the text is not one quantity."""
_CURRENCIES = frozenset({"usd", "eur", "gbp", "jpy"})

# Every alternative starts with a different character, so nothing is tried twice.
_NUMBER = re.compile(
    r"(?P<sign>[-+]?) ?(?P<currency>us\$|[$€£¥])? ?(?P<sign2>-?)"
    r"(?P<digits>[0-9]{1,3}(?:[,'\u00a0\u202f\u2009 ][0-9]{3})++(?![0-9])|[0-9]+)"
    r"(?P<decimals>\.[0-9]+)? ?(?P<rest>[^0-9]*+)"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what stood around it."""

    value: Decimal
    """The number as written, before its scale word: 2.5 in "2.5 million"."""
    scale: int
    """Value of the scale word, 1 without one."""
    unit: str | None
    """Canonical name of a known unit, e.g. "kg" or "percent"; None: none, or an unknown one."""
    rules: frozenset[str]
    """What had to be read that a bare number does not have."""

    def readings(self) -> tuple[Decimal, ...]:
        """Return the number at face value, and with its scale word where it has one."""
        return (self.value,) if self.scale == 1 else (self.value, self.value * self.scale)


def units_agree(left: Quantity, right: Quantity) -> bool:
    """Tell whether two quantities may be compared: the same unit, or one side without."""
    return left.unit is None or right.unit is None or left.unit == right.unit


def paired_readings(left: Quantity, right: Quantity) -> list[tuple[Decimal, Decimal]]:
    """Return the pairs of numbers to compare.

    Two scale words are both applied. One alone may repeat what the question says ("in
    millions") or not, so it is read both ways.
    """
    if left.scale != 1 and right.scale != 1:
        return [(left.value * left.scale, right.value * right.scale)]
    return [(one, other) for one in left.readings() for other in right.readings()]


def read_quantity(text: str, *, any_unit: bool = False) -> Quantity | None:
    """Read a text that is one quantity and nothing else.

    Args:
        text: the text, in any case.
        any_unit: whether words that are no known unit may follow ("692 items").

    Returns:
        None where the text is something else.
    """
    if len(text) > MAX_QUANTITY_CHARS:
        return None
    lowered = text.lower().replace("\u2212", "-").strip()
    in_digits = _replace_number_words(lowered)
    match = _NUMBER.fullmatch(in_digits)
    if match is None:
        return None
    rules = {"number_words"} if in_digits != lowered else set()
    if "\u2212" in text:
        rules.add("minus_sign")
    digits = re.sub(r"[^0-9]", "", match["digits"])
    if digits != match["digits"]:
        rules.add("thousands_separators")
    tail = _read_tail(match["rest"], any_unit=any_unit)
    if tail is None:
        return None
    scale, unit, tail_rules = tail
    if match["currency"]:
        rules.add("currency_sign")
        unit = unit or _UNITS[match["currency"]]
    sign = "-" if "-" in (match["sign"], match["sign2"]) else ""
    return Quantity(
        value=Decimal(f"{sign}{digits}{match['decimals'] or ''}"),
        scale=scale,
        unit=unit,
        rules=frozenset(rules | tail_rules),
    )


def _read_tail(text: str, *, any_unit: bool) -> tuple[int, str | None, set[str]] | None:
    """Read what follows the digits: scale word and unit; None where it is something else."""
    words = text.replace("%", " % ").replace("per cent", "percent").split()
    scale, unit, rules = 1, None, set[str]()
    if words and words[0] in _SCALES:
        scale = _SCALES[words.pop(0)]
        rules.add("scale_word")
    if words and words[0] in _UNITS:
        unit = _UNITS[words.pop(0)]
        if unit == "percent":
            rules.add("percent_sign")
        else:
            rules.add("currency_sign" if unit in _CURRENCIES else "unit")
    if not words:
        return scale, unit, rules
    if any_unit and len(words) <= 3 and all(_may_name_a_unit(word) for word in words):
        return scale, unit, rules | {"unit"}
    return None


def _may_name_a_unit(word: str) -> bool:
    return word.isalpha() and not (word in _WORD_VALUES or word in _SCALES or word in _LINKS)


def _replace_number_words(text: str) -> str:
    """Write leading number words in digits; other text comes back as it is."""
    words = text.replace("-", " ").split()
    total, group, n_read = 0, 0, 0
    last = ""
    for position, word in enumerate(words):
        if word in _WORD_VALUES:
            value = _WORD_VALUES[word]
            fits_tens = last in _TENS_WORDS.split() and 0 < value < 10
            if last and not (fits_tens or last in ("hundred", "thousand", "million", "and")):
                break
            group += value
        elif word == "hundred" and 0 < group < 10:
            group *= 100
        elif word in ("thousand", "million") and 0 < group < 1000:
            total += group * _SCALES[word]
            group = 0
        elif not (word == "and" and last in ("hundred", "thousand", "million")):
            break
        last, n_read = word, position + 1
    if n_read == 0 or last == "and":
        return text
    return " ".join([str(total + group), *words[n_read:]])
