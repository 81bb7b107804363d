"""Numbers in text, by their values: separators, signs, currencies, words and multipliers aside.

>>> [str(q.value) for q in find_quantities("EUR 1,240.50 in May 2019, twenty-five of 3 million")]
['1240.50', '2019', '25', '3']
>>> find_quantities("57,500 visits")[0].equals(find_quantities("57500")[0])
True
>>> find_quantities("6.2 million")[0].equals(find_quantities("6,200,000")[0])
True

A code such as "E12" or "QF-40" is a name and no number; "one" is too often a pronoun to count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

_CODE = re.compile(r"\b[^\W\d_][^\W\d]*+-?[^\W\d]*+\d[\w-]*\b")
"""A letter first, and a digit before the second hyphen; possessive, so that it stays linear."""
_DIGITS = re.compile(r"(?<![^\W_])(?<!\d[.,:])\d+(?:[.,:’'\u00a0\u202f]\d+)*")  # noqa: RUF001
_SMALL_WORDS = {
    0: "zero",
    1: "one",
    2: "two",
    3: "three",
    4: "four",
    5: "five",
    6: "six",
    7: "seven",
    8: "eight",
    9: "nine",
    10: "ten",
    11: "eleven",
    12: "twelve",
    13: "thirteen",
    14: "fourteen",
    15: "fifteen",
    16: "sixteen",
    17: "seventeen",
    18: "eighteen",
    19: "nineteen",
    20: "twenty",
    30: "thirty",
    40: "forty",
    50: "fifty",
    60: "sixty",
    70: "seventy",
    80: "eighty",
    90: "ninety",
}
_SMALL = {word: number for number, word in _SMALL_WORDS.items()}
_SCALES = {"hundred": 100, "thousand": 1_000}
_MULTIPLIERS = {
    "thousand": 10**3,
    "million": 10**6,
    "millions": 10**6,
    "mn": 10**6,
    "m": 10**6,
    "billion": 10**9,
    "billions": 10**9,
    "bn": 10**9,
    "b": 10**9,
    "trillion": 10**12,
    "k": 10**3,
}
_NUMBER_WORD = "|".join([*sorted(_SMALL, key=len, reverse=True), *_SCALES])
_SPELLED = re.compile(
    rf"\b(?:{_NUMBER_WORD})(?:(?:\s+and\s+|[\s-]+)(?:{_NUMBER_WORD}))*\b", re.IGNORECASE
)
_MULTIPLIER = re.compile(
    r"(?:\s?(?P<word>thousand|millions?|billions?|trillion|mn|bn)|(?P<letter>[mbk]))\b",
    re.IGNORECASE,
)
"""A single letter counts only where it touches the digits: "5 m" is a length."""
_YEARS = (Decimal(1500), Decimal(2099))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number where it stands in a text."""

    value: Decimal
    """At least 0: a sign is too often a dash to count."""
    others: tuple[Decimal, ...]
    """Further readings: with the multiplier behind it, or with the other decimal separator."""
    start: int
    end: int
    text: str

    @property
    def is_year(self) -> bool:
        """Tell whether it can be a year: four digits without a separator, 1500 to 2099."""
        return bool(re.fullmatch(r"\d{4}", self.text)) and _YEARS[0] <= self.value <= _YEARS[1]

    def equals(self, other: Quantity) -> bool:
        """Tell whether any reading of the one is a reading of the other."""
        return bool({self.value, *self.others} & {other.value, *other.others})


def find_quantities(text: str) -> tuple[Quantity, ...]:
    """Find the numbers of a text, in digits and in words."""
    masked = _CODE.sub(lambda match: " " * len(match.group()), text)
    found = [*_in_digits(masked), *_in_words(masked)]
    return tuple(sorted(found, key=lambda quantity: quantity.start))


def find_codes(text: str) -> tuple[str, ...]:
    """Find the codes of a text: words of letters and digits that begin with a letter."""
    return tuple(match.group() for match in _CODE.finditer(text))


def _in_digits(text: str) -> Iterator[Quantity]:
    for match in _DIGITS.finditer(text):
        values = _readings(match.group())
        multiplied = _MULTIPLIER.match(text, match.end())
        if multiplied:
            values.append(values[0] * _MULTIPLIERS[multiplied.group().strip().casefold()])
        yield Quantity(values[0], tuple(values[1:]), match.start(), match.end(), match.group())


def _readings(digits: str) -> list[Decimal]:
    """Give what digits with separators can mean, the English reading first."""
    plain = re.sub(r"[’'\u00a0\u202f]", "", digits)  # noqa: RUF001
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        values = [Decimal(plain.replace(",", ""))]
        if plain.count(",") == 1 and "." not in plain:
            values.append(Decimal(plain.replace(",", ".")))
        return values
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?", plain) and (
        plain.count(".") > 1 or "," in plain
    ):
        return [Decimal(plain.replace(".", "").replace(",", "."))]
    if re.fullmatch(r"\d{1,3}\.\d{3}", plain):
        return [Decimal(plain), Decimal(plain.replace(".", ""))]
    if re.fullmatch(r"\d+[.,:]\d+", plain):
        return [Decimal(re.sub(r"[,:]", ".", plain))]
    return [Decimal(re.split(r"[.,:]", plain)[0])]


def _in_words(text: str) -> Iterator[Quantity]:
    for match in _SPELLED.finditer(text):
        words = re.split(r"[\s-]+", match.group().casefold())
        words = [word for word in words if word != "and"]
        if words == ["one"] or words[0] in _SCALES:
            continue
        total = current = 0
        for word in words:
            if word in _SCALES:
                current = max(current, 1) * _SCALES[word]
                if word == "thousand":
                    total, current = total + current, 0
            else:
                current += _SMALL[word]
        value = Decimal(total + current)
        multiplied = _MULTIPLIER.match(text, match.end())
        others: tuple[Decimal, ...] = ()
        if multiplied and multiplied["word"]:
            others = (value * _MULTIPLIERS[multiplied["word"].casefold()],)
        yield Quantity(value, others, match.start(), match.end(), match.group())
