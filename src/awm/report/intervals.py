"""Notes on intervals that are bounds, and on figures that have none."""

from __future__ import annotations

from collections.abc import Iterable

from awm.analysis.statistics.bootstrap import UNANIMOUS_METHOD
from awm.analysis.statistics.intervals import Estimate

_N_NAMED = 3
"""Figures that a note names; of more it gives the number."""


def interval_notes(
    figures: Iterable[tuple[str, Estimate]], unanimous: str = "every document shows the same"
) -> list[str]:
    """Say which intervals are bounds from unanimous documents, and which figures have none.

    Args:
        figures: titles and estimates.
        unanimous: what all documents agree on, in words.
    """
    bounds: dict[int, list[str]] = {}
    alone: list[str] = []
    for title, estimate in figures:
        if is_bound(estimate):
            bounds.setdefault(estimate.n_clusters, []).append(title)
        elif estimate.value is not None and estimate.interval is None and estimate.n_clusters == 1:
            alone.append(title)
    notes = [
        f"{_named(titles)}: {unanimous}, so the interval is a bound from {n} documents."
        for n, titles in bounds.items()
    ]
    return notes + ([f"{_named(alone)}: one document: no interval."] if alone else [])


def is_bound(estimate: Estimate) -> bool:
    """Say whether the interval is a bound from unanimous documents, not from resampling."""
    return estimate.interval is not None and estimate.method == UNANIMOUS_METHOD


def _named(titles: list[str]) -> str:
    return ", ".join(titles) if len(titles) <= _N_NAMED else f"{len(titles)} of these figures"
