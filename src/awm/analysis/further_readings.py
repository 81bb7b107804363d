"""The figures of a run with several readers, or several samples of a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from awm.analysis.readers import (
    ReaderComparison,
    RolloutFigures,
    compare_readers,
    summarize_rollouts,
)
from awm.analysis.statistics.bootstrap import ResamplingPlan
from awm.evaluate import EvalSettings
from awm.runs import AnswerScore, RunStore, ScoreRecord


@dataclass(frozen=True, slots=True)
class FurtherReadingFigures:
    """What further readings say."""

    comparison: ReaderComparison | None
    """None with one reader."""
    rollouts: tuple[RolloutFigures, ...]
    """By reader; empty with one sample."""
    n_unmeasured: int


def summarize_further_readings(
    store: RunStore, records: Sequence[ScoreRecord], plan: ResamplingPlan
) -> FurtherReadingFigures:
    """Summarize a run's further readings.

    Args:
        store: the run.
        records: its latest score records.
        plan: resamples of the documents of `records`.
    """
    settings = store.manifest.settings
    n_samples = int(settings.get("reader_samples", 1))
    if not settings.get("readers") and n_samples == 1:
        return FurtherReadingFigures(None, (), 0)
    names = EvalSettings.model_validate(settings).reader_names
    latest: dict[tuple[str, str, int], AnswerScore] = {
        (r.question_id, r.reader, r.sample): r.score for r in store.rereadings.read()
    }
    for record in records:
        if record.memory is not None:
            latest[record.question_id, names[0], 0] = record.memory

    def score_of(record: ScoreRecord, name: str, sample: int) -> float | None:
        answer = latest.get((record.question_id, name, sample))
        return answer.score if answer else None

    def answer_of(record: ScoreRecord, name: str, sample: int) -> str | None:
        answer = latest.get((record.question_id, name, sample))
        return answer.prediction if answer else None

    finals = [record.final.score for record in records]
    first = {name: [score_of(r, name, 0) for r in records] for name in names}
    rollouts = tuple(
        summarize_rollouts(
            name,
            [[score_of(r, name, k) for k in range(n_samples)] for r in records],
            [[answer_of(r, name, k) for k in range(n_samples)] for r in records],
            plan,
        )
        for name in names
        if n_samples > 1
    )
    wanted = [(r.question_id, name, k) for r in records for name in names for k in range(n_samples)]
    return FurtherReadingFigures(
        comparison=compare_readers(finals, first, plan) if len(names) > 1 else None,
        rollouts=rollouts,
        n_unmeasured=sum(
            latest.get(key) is None or latest[key].score is None
            for key in wanted
            if key[1:] != (names[0], 0)
        ),
    )
