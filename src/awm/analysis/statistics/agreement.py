"""How far raters agree beyond chance: Cohen's kappa for two, Fleiss' for any fixed number.

Raters are judges, readers, or a person in an audit; labels are anything hashable, and None means
that a rater gave no label. A kappa divides by the disagreement that chance would leave. Where
all labels are one category chance leaves none, and the kappa is undefined: None, not 0 and not 1.

>>> cohen_kappa(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"]).kappa
0.5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of raters on a set of items."""

    kappa: float | None
    """(observed - expected) / (1 - expected); None without items or where expected is 1."""
    observed: float | None
    """Share of agreeing pairs of labels, in [0, 1]; None without items."""
    expected: float | None
    """The same share if labels were dealt out by chance; None without items."""
    n: int
    """Items that every rater labelled."""
    n_left_out: int
    """Items that lack a label of at least one rater."""


def cohen_kappa(labels_a: Sequence[Hashable], labels_b: Sequence[Hashable]) -> Agreement:
    """Measure the agreement of two raters, each with label frequencies of their own.

    Source: Cohen 1960, unweighted.
    """
    if len(labels_a) != len(labels_b):
        raise ValueError(
            f"{len(labels_a)} labels against {len(labels_b)}: give one per item from each rater"
        )
    pairs = [
        (a, b) for a, b in zip(labels_a, labels_b, strict=True) if a is not None and b is not None
    ]
    n, n_left_out = len(pairs), len(labels_a) - len(pairs)
    if not n:
        return Agreement(None, None, None, 0, n_left_out)
    n_equal = sum(a == b for a, b in pairs)
    counts_a, counts_b = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    n_by_chance = sum(count * counts_b[label] for label, count in counts_a.items())
    # In whole numbers until the last division, so that "expected is 1" is not a matter of
    # rounding.
    rest = n * n - n_by_chance
    kappa = (n_equal * n - n_by_chance) / rest if rest else None
    return Agreement(kappa, n_equal / n, n_by_chance / (n * n), n, n_left_out)


def fleiss_kappa(labels_by_item: Sequence[Sequence[Hashable]]) -> Agreement:
    """Measure the agreement of a fixed number of raters who share one label distribution.

    Args:
        labels_by_item: for each item, one label per rater (at least 2 raters, the same number
            for every item; None for a missing label).

    Source: Fleiss 1971.
    """
    n_raters_seen = {len(labels) for labels in labels_by_item}
    if len(n_raters_seen) > 1 or any(n_raters < 2 for n_raters in n_raters_seen):
        raise ValueError(
            f"items with {sorted(n_raters_seen)} labels: give every item one label per rater, "
            "from at least 2 raters, and None for a missing one"
        )
    complete = [labels for labels in labels_by_item if all(lb is not None for lb in labels)]
    n, n_left_out = len(complete), len(labels_by_item) - len(complete)
    if not n:
        return Agreement(None, None, None, 0, n_left_out)
    n_raters = n_raters_seen.pop()
    n_equal_pairs = sum(
        count * (count - 1) for labels in complete for count in Counter(labels).values()
    )
    n_pairs = n * n_raters * (n_raters - 1)
    totals = Counter(label for labels in complete for label in labels)
    by_chance, all_pairs = sum(c * c for c in totals.values()), (n * n_raters) ** 2
    rest = (all_pairs - by_chance) * n_pairs
    kappa = (n_equal_pairs * all_pairs - by_chance * n_pairs) / rest if rest else None
    return Agreement(kappa, n_equal_pairs / n_pairs, by_chance / all_pairs, n, n_left_out)
