from __future__ import annotations

import random
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.scoring.anls import anls


def plain_anls(gold: str, prediction: str) -> float:
    """ANLS from a textbook edit distance, without any early way out."""
    previous = list(range(len(prediction) + 1))
    for row, letter in enumerate(gold, start=1):
        current = [row]
        for column, other in enumerate(prediction, start=1):
            replaced = previous[column - 1] + (letter != other)
            current.append(min(previous[column] + 1, current[-1] + 1, replaced))
        previous = current
    length = max(len(gold.upper()), len(prediction.upper()))
    value = 1.0 - (previous[-1] / length if length else 0.0)
    return value if value > 0.5 else 0.0


@pytest.mark.parametrize(
    ("gold", "prediction", "expected"),
    [
        ("", "", 1.0),
        ("a", "", 0.0),
        ("a", "b", 0.0),
        ("ab", "ac", 0.0),  # 1 - 1/2 is not over the threshold
        ("abc", "abd", 1 - 1 / 3),
        ("chile", "china", 0.6),
        ("less well-off", "less well off", 1 - 1 / 13),
        ("not answerable", "unanswerable", 1 - 4 / 14),
        ("straße", "strase", 1 - 1 / 7),  # seven capitals: STRASSE
    ],
)
def test_anls_has_hand_computed_values(gold: str, prediction: str, expected: float) -> None:
    assert anls(gold, prediction) == pytest.approx(expected, abs=1e-12)


@given(st.text(alphabet="abß (", max_size=12), st.text(alphabet="abß (", max_size=12))
def test_anls_equals_the_textbook_computation(gold: str, prediction: str) -> None:
    assert anls(gold, prediction) == plain_anls(gold, prediction)


@given(st.text(max_size=20), st.text(max_size=20))
def test_anls_is_symmetric_and_stays_in_its_range(gold: str, prediction: str) -> None:
    value = anls(gold, prediction)

    assert value == anls(prediction, gold)
    assert value == 0.0 or (value is not None and 0.5 < value <= 1.0)


def test_texts_of_a_megabyte_are_exact_where_their_difference_is_small() -> None:
    letters = random.Random(3).choices(string.ascii_lowercase, k=1_000_000)
    gold = "".join(letters)
    for position in (5, 400_000, 999_990):
        letters[position] = "X"

    assert anls(gold, "".join(letters)) == 1 - 3 / 1_000_000
    assert anls(gold, gold[:500_000] + gold[500_010:]) == 1 - 10 / 1_000_000


def test_texts_of_a_megabyte_with_other_letters_score_zero() -> None:
    assert anls("ab" * 500_000, "cd" * 500_000) == 0.0
    assert anls("a" * 1_000_000, "a" * 500_000) == 0.0


def test_a_distance_too_large_to_compute_is_none_in_bounded_time() -> None:
    rng = random.Random(4)
    gold = "".join(rng.choices("ab", k=1_000_000))
    prediction = "".join(rng.choices("ab", k=1_000_000))

    started = time.process_time()
    value = anls(gold, prediction)

    assert value is None
    assert time.process_time() - started < 0.05
