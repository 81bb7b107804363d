"""ANLS, the normalised edit similarity that both benchmarks score text with, in bounded time.

ANLS (arXiv 1905.13648) is 1 - distance / length, and 0 where that is at most 0.5. Both
benchmarks take the length of the *upper-cased* texts, which differs from the length of the
texts where a letter has no single capital ("ß" becomes "SS"); so do we.

Only distances under half the length matter, so everything that is provably beyond is left out
early. Two texts of a megabyte have 10^12 cells: such a pair is scored where its common ends,
its letter counts or a narrow band settle it, and is `None` (not computed) otherwise.

    >>> anls("less well-off", "less well off")
    0.9230769230769231
    >>> anls("chile", "peru")
    0.0
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

MAX_CELLS = 400_000_000
"""Largest product of two lengths that is computed in full: about 5 ms."""
_NARROW_BAND = 63
"""Largest distance looked for in texts beyond `MAX_CELLS`: one machine word a character."""


def anls(gold: str, prediction: str) -> float | None:
    """Score two cleaned texts.

    Returns:
        0, or a value in (0.5, 1]; None where the texts are too long to compute it.
    """
    if gold == prediction:
        return 1.0
    n_gold = len(gold) if gold.isascii() else len(gold.upper())
    n_prediction = len(prediction) if prediction.isascii() else len(prediction.upper())
    length = n_gold if n_gold > n_prediction else n_prediction
    limit = (length - 1) // 2  # the largest distance under half the length
    if abs(len(gold) - len(prediction)) > limit:
        return 0.0
    if len(gold) * len(prediction) <= MAX_CELLS:
        distance = Levenshtein.distance(gold, prediction, score_cutoff=limit)
    else:
        settled = _settle_long_distance(gold, prediction, limit)
        if settled is None:
            return None
        distance = settled
    return 0.0 if distance > limit else 1.0 - distance / length


def _settle_long_distance(left: str, right: str, limit: int) -> int | None:
    """Return the distance, `limit + 1` where it is provably over, or None where it is open."""
    start = _common_prefix_length(left, right)
    left, right = left[start:], right[start:]
    end = _common_prefix_length(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    if len(left) * len(right) <= MAX_CELLS:
        return Levenshtein.distance(left, right, score_cutoff=limit)
    at_least = _letter_count_bound(left, right)
    if at_least > limit:
        return limit + 1
    if at_least > _NARROW_BAND:
        return None
    distance = Levenshtein.distance(left, right, score_cutoff=_NARROW_BAND)
    return distance if distance <= _NARROW_BAND else None


def _common_prefix_length(left: str, right: str) -> int:
    """Halve the open interval: each step is one comparison of slices, not of characters."""
    known, open_end = 0, min(len(left), len(right))
    while known < open_end:
        middle = (known + open_end + 1) // 2
        if left[known:middle] == right[known:middle]:
            known = middle
        else:
            open_end = middle - 1
    return known


def _letter_count_bound(left: str, right: str) -> int:
    """Return a lower bound of the distance: letters of the longer text without a partner."""
    left_counts, right_counts = _letter_counts(left), _letter_counts(right)
    n_shared = min(len(left_counts), len(right_counts))
    shared = np.minimum(left_counts[:n_shared], right_counts[:n_shared]).sum()
    return max(len(left), len(right)) - int(shared)


def _letter_counts(text: str) -> NDArray[np.intp]:
    code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.bincount(code_points)
