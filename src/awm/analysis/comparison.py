"""Two runs compared question by question, and whether they may be compared at all.

Scores of two datasets, two judges or two extractors are different measurements: a difference
between such runs is refused unless the caller says to cross that line. Every other setting may
differ (that is what a comparison is for) and is named. All differences are B minus A.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from awm.analysis.result_name import ResultName, result_name
from awm.analysis.scored_answers import read_scored_run
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.paired import (
    McNemar,
    ScoredQuestion,
    compare_runs,
    match_by_id,
    mcnemar,
)
from awm.analysis.statistics.ratios import Ratio, mean_ratio, p_mmc_ratio
from awm.errors import RunMismatchError
from awm.runs import RunManifest, RunStore, compare_manifests
from awm.scoring.outcome import Outcome

Line = Literal["datasets", "judges", "extractors"]
"""What a comparison crosses only where it is told to."""
LINES: tuple[Line, ...] = get_args(Line)

_LINE_OF_SETTING: dict[str, Line] = {
    "benchmark": "datasets",
    "dataset_hash": "datasets",
    "overlay_hash": "datasets",
    "judge": "judges",
    "extraction_prompt": "extractors",
}
_QUESTIONS = frozenset({"limit", "questions", "question_ids_hash", "n_questions"})
"""Settings that only choose questions: the unmatched ones are named instead."""

Cell = Outcome | None
"""None: without a cell, because a score is missing."""


@dataclass(frozen=True, slots=True)
class FigureDifference:
    """One figure in both runs, over the questions that both measured."""

    key: str
    title: str
    a: float | None
    b: float | None
    difference: Estimate
    """B minus A."""

    def as_json(self) -> dict[str, Any]:
        """Give the fields as a JSON object."""
        return {"a": self.a, "b": self.b, "difference_b_minus_a": self.difference.as_json()}


@dataclass(frozen=True, slots=True)
class RunComparison:
    """What `awm compare` says."""

    path_a: Path
    path_b: Path
    name_a: ResultName
    name_b: ResultName
    crossed: dict[Line, tuple[str, ...]]
    """Lines that were crossed on demand, each with what differs: "name: A -> B"."""
    settings: tuple[str, ...]
    """Whatever else differs between the runs and decides numbers: "name: A -> B"."""
    n_pairs: int
    """Questions in both runs."""
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    n_answer_unmeasured: int
    """Pairs without a final score in A or in B."""
    n_memory_unmeasured: int
    figures: tuple[FigureDifference, ...]
    tests: dict[str, McNemar]
    """McNemar's test of s_ans, s_mem, and of each cell against the rest."""
    transitions: dict[tuple[Cell, Cell], int]
    """How many questions went from a cell of A to a cell of B."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "a": {"run": str(self.path_a), "name": str(self.name_a)},
            "b": {"run": str(self.path_b), "name": str(self.name_b)},
            "crossed": {line: list(what) for line, what in self.crossed.items()},
            "settings": list(self.settings),
            "n_pairs": self.n_pairs,
            "only_in_a": list(self.only_in_a),
            "only_in_b": list(self.only_in_b),
            "n_answer_unmeasured": self.n_answer_unmeasured,
            "n_memory_unmeasured": self.n_memory_unmeasured,
            "figures": {figure.key: figure.as_json() for figure in self.figures},
            "mcnemar": {name: asdict(test) for name, test in self.tests.items()},
            "transitions": [
                {"a": a and a.value, "b": b and b.value, "n": n}
                for (a, b), n in self.transitions.items()
            ],
        }


def compare_run_stores(a: RunStore, b: RunStore, *, across: Collection[Line] = ()) -> RunComparison:
    """Compare two runs over the questions that they share, matched by id.

    Args:
        a: the run to start from, e.g. the baseline.
        b: the other one.
        across: lines that may be crossed.

    Raises:
        RunMismatchError: the runs lie across a line that is not in `across`, or share no question.
        RunStoreError: a journal cannot be read.
    """
    crossed, settings = _sort_differences(a.manifest, b.manifest)
    refused = {line: what for line, what in crossed.items() if line not in across}
    if refused:
        raise RunMismatchError(_refusal(a, b, refused))
    questions_a, cells_a = _read(a)
    questions_b, cells_b = _read(b)
    try:
        matching = match_by_id(questions_a, questions_b)
        paired = compare_runs(questions_b, questions_a)
    except ValueError as error:
        raise RunMismatchError(f"{a.path} and {b.path} cannot be compared: {error}") from error
    if not matching.pairs:
        raise RunMismatchError(f"{a.path} and {b.path} have no question in common")
    ids = [question.id for question, _ in matching.pairs]
    return RunComparison(
        path_a=a.path,
        path_b=b.path,
        name_a=result_name(a.manifest),
        name_b=result_name(b.manifest),
        crossed=crossed,
        settings=tuple(settings),
        n_pairs=len(ids),
        only_in_a=matching.only_in_a,
        only_in_b=matching.only_in_b,
        n_answer_unmeasured=paired.n_answer_unmeasured,
        n_memory_unmeasured=paired.n_memory_unmeasured,
        figures=_figures(
            matching.pairs,
            (
                paired.answer_difference,
                paired.memory_difference,
                paired.p_mmc_difference,
            ),
        ),
        tests=_tests(matching.pairs, [cells_a[id_] for id_ in ids], [cells_b[id_] for id_ in ids]),
        transitions=_transitions([(cells_a[id_], cells_b[id_]) for id_ in ids]),
    )


def _sort_differences(
    a: RunManifest, b: RunManifest
) -> tuple[dict[Line, tuple[str, ...]], list[str]]:
    lines: dict[Line, list[str]] = {}
    settings = []
    for difference in _differences(a, b):
        key = difference.partition(": ")[0]
        if key == "extractor" or key.startswith("extractor."):
            line: Line | None = "extractors"
        else:
            line = _LINE_OF_SETTING.get(key)
        if line is not None:
            lines.setdefault(line, []).append(difference)
        elif key not in _QUESTIONS:
            settings.append(difference)
    return {line: tuple(lines[line]) for line in LINES if line in lines}, settings


def _differences(a: RunManifest, b: RunManifest) -> Iterator[str]:
    """Name what differs; a model that only one run has is one difference, not one a setting."""
    lonely = [
        r for r in ("reader", "extractor") if (a.settings[r] is None) != (b.settings[r] is None)
    ]
    for role in lonely:
        spec_a, spec_b = (m.settings[role] and m.settings[role]["spec"] for m in (a, b))
        yield f"{role}: {spec_a!r} -> {spec_b!r}"
    for difference in compare_manifests(a, b):
        key = difference.partition(": ")[0]
        if key.partition(".")[0] not in lonely:
            yield difference


def _refusal(a: RunStore, b: RunStore, refused: dict[Line, tuple[str, ...]]) -> str:
    parts = [f"{a.path} and {b.path} are different measurements:"]
    for line, differences in refused.items():
        parts.append(f"  other {line}:")
        parts.extend(f"    {difference}" for difference in differences)
    flags = " ".join(f"--across-{line}" for line in refused)
    parts.append(f"To compare them all the same, say so: {flags}")
    return "\n".join(parts)


def _read(store: RunStore) -> tuple[list[ScoredQuestion], dict[str, Cell]]:
    run = read_scored_run(store)
    questions = [
        ScoredQuestion(example.question_id, example.document_id, final, memory)
        for example, final, memory in zip(run.examples, run.finals, run.memories, strict=True)
    ]
    ids = (example.question_id for example in run.examples)
    return questions, dict(zip(ids, run.outcomes, strict=True))


Pairs = Sequence[tuple[ScoredQuestion, ScoredQuestion]]


def _figures(
    pairs: Pairs, differences: tuple[Estimate, Estimate, Estimate]
) -> tuple[FigureDifference, ...]:
    answered = [p for p in pairs if None not in (p[0].answer_score, p[1].answer_score)]
    read = [p for p in pairs if None not in (p[0].memory_score, p[1].memory_score)]
    both = [p for p in read if None not in (p[0].answer_score, p[1].answer_score)]
    answer, memory, p_mmc = differences
    return (
        _figure("accuracy", "final accuracy", answered, _answer_ratio, answer),
        _figure("memory_accuracy", "memory-only accuracy", read, _memory_ratio, memory),
        _figure("p_mmc", "P_mmc", both, _p_mmc_ratio, p_mmc),
    )


def _figure(
    key: str,
    title: str,
    pairs: Pairs,
    ratio: Callable[[Sequence[ScoredQuestion]], Ratio],
    difference: Estimate,
) -> FigureDifference:
    a, b = (ratio([pair[side] for pair in pairs]).value for side in (0, 1))
    return FigureDifference(key, title, a, b, difference)


def _answer_ratio(questions: Sequence[ScoredQuestion]) -> Ratio:
    return mean_ratio([question.answer_score for question in questions])


def _memory_ratio(questions: Sequence[ScoredQuestion]) -> Ratio:
    return mean_ratio([question.memory_score for question in questions])


def _p_mmc_ratio(questions: Sequence[ScoredQuestion]) -> Ratio:
    return p_mmc_ratio(
        [question.answer_score for question in questions],
        [question.memory_score for question in questions],
    )


def _tests(pairs: Pairs, cells_a: Sequence[Cell], cells_b: Sequence[Cell]) -> dict[str, McNemar]:
    tests = {
        "s_ans": mcnemar(
            [_is_right(a.answer_score) for a, _ in pairs],
            [_is_right(b.answer_score) for _, b in pairs],
        ),
        "s_mem": mcnemar(
            [_is_right(a.memory_score) for a, _ in pairs],
            [_is_right(b.memory_score) for _, b in pairs],
        ),
    }
    for cell in Outcome:
        tests[cell.value] = mcnemar(
            [None if a is None else a is cell for a in cells_a],
            [None if b is None else b is cell for b in cells_b],
        )
    return tests


def _is_right(score: float | None) -> bool | None:
    return None if score is None else score > 0


def _transitions(moves: Sequence[tuple[Cell, Cell]]) -> dict[tuple[Cell, Cell], int]:
    counts = Counter(moves)
    cells: tuple[Cell, ...] = (*Outcome, None)
    return {(a, b): counts[a, b] for a in cells for b in cells if counts[a, b]}
