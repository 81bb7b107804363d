"""Measures how many answers a second the two official judges score on one core.

The rows are the recorded cases of both benchmarks, and made-up pairs of 1,000 characters a
side. Beside ours stands the same judge with a textbook edit distance in pure Python in place
of rapidfuzz. Nothing is cached between rows or passes: neither judge keeps any state.

    python bench/scoring.py --cases shared/scoring
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from awm.scoring import anls
from awm.scoring.longdocurl import LongDocURLJudge
from awm.scoring.mmlongbench_doc import MMLongBenchDocJudge
from awm.scoring.score import Judge

Row = tuple[object, object, str]

DEFAULT_CASES = Path(__file__).resolve().parents[1].parent / "shared" / "scoring"
JUDGES: tuple[tuple[Judge, str, str], ...] = (
    (MMLongBenchDocJudge(), "mmlongbench_doc_cases.jsonl", "Str"),
    (LongDocURLJudge(), "longdocurl_cases.jsonl", "String"),
)


class PlainLevenshtein:
    """The edit distance as a textbook writes it, with rapidfuzz's signature."""

    @staticmethod
    def distance(left: str, right: str, *, score_cutoff: int) -> int:
        previous = list(range(len(right) + 1))
        for row, letter in enumerate(left, start=1):
            current = [row]
            for column, other in enumerate(right, start=1):
                replaced = previous[column - 1] + (letter != other)
                current.append(min(previous[column] + 1, current[-1] + 1, replaced))
            previous = current
        return min(previous[-1], score_cutoff + 1)


@contextmanager
def plain_distance() -> Iterator[None]:
    anls.Levenshtein = PlainLevenshtein  # type: ignore[attr-defined,assignment]
    try:
        yield
    finally:
        anls.Levenshtein = Levenshtein  # type: ignore[attr-defined]


def read_cases(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(case["gold"], case["pred"], case["format"]) for case in map(json.loads, lines)]


def make_long_rows(answer_format: str, n_rows: int, seed: int = 0) -> list[Row]:
    """Pairs of 1,000 characters, from a few typing errors apart to unrelated."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz     "
    rows: list[Row] = []
    for row in range(n_rows):
        gold = "a" + "".join(rng.choices(letters, k=998)) + "z"
        prediction = list(gold)
        for position in rng.sample(range(1, 999), k=998 * row // n_rows):
            prediction[position] = rng.choice(letters)
        rows.append((gold, "".join(prediction), answer_format))
    return rows


def rows_per_second(judge: Judge, rows: list[Row], n_passes: int) -> tuple[float, float]:
    """Return the median and the best of `n_passes` passes."""
    rates = []
    for _ in range(n_passes):
        started = time.perf_counter()
        for gold, prediction, answer_format in rows:
            judge.score(gold, prediction, answer_format)
        rates.append(len(rows) / (time.perf_counter() - started))
    return statistics.median(rates), max(rates)


def measure(label: str, judge: Judge, rows: list[Row], n_passes: int, n_plain: int) -> None:
    median, best = rows_per_second(judge, rows, n_passes)
    with plain_distance():
        plain, _ = rows_per_second(judge, rows[:: max(1, len(rows) // n_plain)], 1)
    print(
        f"{label:<34}{len(rows):>6}{median:>12,.0f}{best:>12,.0f}{plain:>12,.0f}"
        f"{median / plain:>9,.1f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=Path, default=DEFAULT_CASES, metavar="DIR")
    parser.add_argument("--passes", type=int, default=20)
    arguments = parser.parse_args()

    header = f"{'rows a second, one core':<34}{'rows':>6}{'median':>12}{'best':>12}"
    print(f"{header}{'plain':>12}{'faster':>10}")
    for judge, file_name, text_format in JUDGES:
        path = arguments.cases / file_name
        if path.is_file():
            rows = read_cases(path)
            measure(f"{judge.name}, recorded", judge, rows, arguments.passes, len(rows))
        else:
            print(f"{judge.name}: no recorded cases at {path}; pass --cases DIR", file=sys.stderr)
        long_rows = make_long_rows(text_format, 500)
        measure(f"{judge.name}, 1,000 characters", judge, long_rows, arguments.passes, 7)


if __name__ == "__main__":
    main()
