r"""Whether a memory holds the gold answer word for word.

Exact: the answer's own characters, not within a longer word or number ("5" is not in "2015").
Normalised: case and accents folded, punctuation dropped, numbers brought to one form (1,200 =
1200 = 1.2 thousand), currency and percent signs and the units behind numbers dropped. An echo is
no fault: a specific finding often is the answer. It says how much of a memory-only accuracy could
come from a memory that holds the answer and nothing to check it by.

>>> find_echo("Sales rose to $1.2 million in 2020.", 1_200_000)
Echo(exact=False, normalised=True, share=0.16666666666666666)
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

UNANSWERABLE = frozenset({"not answerable", "fail to answer"})
"""Golds that no memory can hold."""
_SCALES = {"thousand": 3, "million": 6, "millions": 6, "billion": 9, "billions": 9, "trillion": 12}
_UNIT_WORDS = """percent pct percentage points usd eur gbp dollar dollars euro euros pound pounds
    cent cents km m cm mm kg g mg t ton tons tonne tonnes mile miles meter meters metre metres foot
    feet inch inches acre acres hectare hectares second seconds minute minutes hour hours day days
    week weeks month months year years kwh mwh gwh twh mw gw"""
_UNITS = frozenset(_UNIT_WORDS.split())
_TOKEN = re.compile(r"(?<!\d)\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?|[^\W\d_]+")
_THIN_SPACE_IN_NUMBER = re.compile(r"(?<=\d)[\u00a0\u202f\u2009](?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class Echo:
    """How a memory holds the gold answer."""

    exact: bool
    normalised: bool
    share: float | None
    """Words of the answer / words of the memory, normalised; None where `normalised` is False."""


def is_answerable(gold: object) -> bool | None:
    """Tell whether a gold answer is one; None where there is no gold answer."""
    if gold is None:
        return None
    return not (isinstance(gold, str) and gold.strip().casefold() in UNANSWERABLE)


def gold_items(gold: object) -> list[str]:
    """Give the texts that an answer consists of; none where it is unanswerable or empty.

    A list written as text, as MMLongBench-Doc does it, counts as a list.
    """
    if isinstance(gold, str) and gold[:1] == "[" and gold[-1:] == "]":
        inner = gold[1:-1]
        quoted = re.findall(r"'([^']*)'|\"([^\"]*)\"", inner)
        items = [a or b for a, b in quoted] if quoted else inner.split(",")
    elif isinstance(gold, list | tuple):
        items = [str(item) for item in gold]
    else:
        items = [] if gold is None else [str(gold)]
    texts = [item.strip() for item in items if item.strip()]
    return [] if any(text.casefold() in UNANSWERABLE for text in texts) else texts


def find_echo(memory: str, gold: object) -> Echo | None:
    """Look for the answer; of a list, for every item.

    Returns:
        None where the gold holds nothing to look for.
    """
    items = gold_items(gold)
    sequences = [normal_tokens(item) for item in items]
    if not items or not all(sequences):
        return None
    exact = all(_occurs(item, memory) for item in items)
    tokens = normal_tokens(memory)
    normalised = all(_holds(tokens, sequence) for sequence in sequences)
    share = None
    if normalised:
        share = min(1.0, sum(map(len, sequences)) / len(tokens))
    return Echo(exact, normalised, share)


def _occurs(item: str, memory: str) -> bool:
    start = memory.find(item)
    while start >= 0:
        end = start + len(item)
        before = memory[start - 1 : start] if item[0].isalnum() else ""
        after = memory[end : end + 1] if item[-1].isalnum() else ""
        inside_number = _is_digit_join(memory, start - 1, -1, item[0]) or _is_digit_join(
            memory, end, 1, item[-1]
        )
        if not before.isalnum() and not after.isalnum() and not inside_number:
            return True
        start = memory.find(item, start + 1)
    return False


def _is_digit_join(memory: str, at: int, step: int, edge: str) -> bool:
    """Tell whether a point or comma at `at` joins a digit at the item's edge to another digit."""
    beyond = at + step
    return (
        edge.isdigit()
        and 0 <= beyond < len(memory)
        and memory[at] in ".,"
        and memory[beyond].isdigit()
    )


def normal_tokens(text: str) -> list[str]:
    """Cut a text into normalised words and numbers.

    >>> normal_tokens("About 1,200.50 EUR (4.70 %)")
    ['about', '1200.5', '4.7']
    """
    if text.isascii():
        folded = text.lower()
    else:
        text = _THIN_SPACE_IN_NUMBER.sub(",", text)
        decomposed = unicodedata.normalize("NFKD", text.casefold())
        folded = "".join(c for c in decomposed if not unicodedata.combining(c))
    tokens: list[str] = []
    number: str | None = None
    for token in _TOKEN.findall(folded):
        if token[0].isdecimal():
            number = _plain_number(token)
            tokens.append(number)
        elif number is not None and token in _SCALES:
            number = tokens[-1] = _plain_number(number, _SCALES[token])
        elif token not in _UNITS or number is None:
            tokens.append(token)
            number = None
    return tokens


def _plain_number(text: str, exponent: int = 0) -> str:
    if not exponent and text.isdecimal():
        return text.lstrip("0") or "0"
    digits = re.sub(r"[,\s]", "", text)
    try:
        value = Decimal(digits).scaleb(exponent)
    except InvalidOperation:
        return digits
    plain = format(value, "f")
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return plain.lstrip("0") or "0" if "." not in plain else plain


def _holds(tokens: list[str], sequence: list[str]) -> bool:
    first, length = sequence[0], len(sequence)
    return any(
        token == first and tokens[i : i + length] == sequence for i, token in enumerate(tokens)
    )
