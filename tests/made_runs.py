"""Runs written by hand, judged by the real judges, for tests of what reads runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awm.agent.episode import Episode, ErrorRecord
from awm.agent.reader import Reading
from awm.evaluate import EvalSettings
from awm.memory import Finding
from awm.models.chat import ModelSettings
from awm.runs import (
    AnswerScore,
    DatasetRecord,
    DocumentRecord,
    ExampleRecord,
    RunManifest,
    RunStore,
    ScoreRecord,
    SessionRecord,
    create_or_resume,
    open_run,
)
from awm.scoring import JUDGES
from awm.scoring.outcome import outcome

SESSION = SessionRecord(started_at="2026-01-01T00:00:00+00:00", versions={}, git_revision=None)
FAILED = "(failed)"
"""A prediction that stands for an answer without a measure."""


@dataclass(frozen=True, slots=True)
class Made:
    """A question of a made run, with its two short answers."""

    id: str
    document: str
    gold: Any
    final: str
    memory: str | None = None
    """None: the setting keeps no memory."""
    format: str = "Str"
    pages: tuple[int, ...] = (1,)
    sources: tuple[str, ...] = ()
    document_type: str | None = None
    task_tag: str | None = None
    question_type: str | None = None


def make_manifest(
    rows: Sequence[Made],
    *,
    judge: str = "mmlongbench-doc",
    model: dict[str, Any] | None = None,
    extractor: str | None = None,
    extraction_prompt: str | None = None,
    setting: str = "agent",
    dataset: dict[str, Any] | None = None,
) -> RunManifest:
    settings = EvalSettings(
        benchmark=judge,
        run=Path("run"),
        setting=setting,
        model=ModelSettings(spec="lexical", **(model or {})),
        reader=ModelSettings(spec="lexical"),
        extractor=ModelSettings(spec=extractor) if extractor else None,
    )
    record: dict[str, Any] = {
        "benchmark": judge,
        "dataset_hash": "d" * 64,
        "n_dataset": len(rows),
        "n_runnable": len(rows),
        "release": "made by hand",
    }
    return RunManifest(
        settings=settings.model_dump(mode="json"),
        prompt_version="1",
        prompt_hash="a" * 64,
        extraction_prompt=extraction_prompt,
        judge=judge,
        dataset=DatasetRecord(**(record | (dataset or {}))),
        question_ids_hash=" ".join(row.id for row in rows),
        n_questions=len(rows),
        versions={},
        git_revision=None,
        created_at="2026-01-01T00:00:00+00:00",
    )


def make_run(path: Path, rows: Sequence[Made], **manifest: Any) -> RunStore:
    """Write a run and open it for reading."""
    made = make_manifest(rows, **manifest)
    with create_or_resume(path, made, [_example(row) for row in rows], SESSION) as store:
        for document in dict.fromkeys(row.document for row in rows):
            store.documents.append(
                DocumentRecord(
                    document_id=document, digest=document, page_count=9, pages_without_text=()
                )
            )
        for row in rows:
            _write(store, row, made.judge)
    return open_run(path)


def _example(row: Made) -> ExampleRecord:
    return ExampleRecord(
        question_id=row.id,
        question=f"What is {row.id}?",
        document_id=row.document,
        answer=row.gold,
        answer_format=row.format,
        evidence_pages=row.pages,
        annotated_pages=row.pages,
        evidence_sources=row.sources,
        document_type=row.document_type,
        task_tag=row.task_tag,
        question_type=row.question_type,
    )


def _write(store: RunStore, row: Made, judge: str) -> None:
    store.episodes.append(
        Episode(
            question_id=row.id,
            question=f"What is {row.id}?",
            document_id=row.document,
            document_digest=row.document,
            setting="agent",
            stop_reason="answered",
            answer=f"The answer is {row.final}.",
            memory=(Finding(text="A finding.", page=1, turn=1),) if row.memory else None,
            pages_shown=(1, 2),
        )
    )
    if row.memory is not None:
        store.readings.append(
            Reading(question_id=row.id, memory="[p. 1] A finding.", answer=f"{row.memory}!")
        )
    final = _judge(row, row.final, judge)
    memory = _judge(row, row.memory, judge) if row.memory is not None else None
    store.scores.append(
        ScoreRecord(
            question_id=row.id,
            document_id=row.document,
            final=final,
            memory=memory,
            outcome=outcome(final.score, memory.score if memory else None),
        )
    )


def _judge(row: Made, prediction: str, judge: str) -> AnswerScore:
    if prediction == FAILED:
        error = ErrorRecord(type="EndpointTimeoutError", message="no answer in time")
        return AnswerScore(prediction=None, score=None, error=error)
    score = JUDGES[judge].score(row.gold, prediction, row.format)
    return AnswerScore(prediction=prediction, score=score.value, flags=score.flags)
