"""A run's answers with their official and repaired scores, one row per question of the run.

Questions that were not run yet have rows, too: their scores are None.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from awm.runs import AnswerScore, ExampleRecord, RunStore
from awm.scoring.literals import evaluate_concise_answer
from awm.scoring.metrics import ScoredRow
from awm.scoring.outcome import Outcome
from awm.scoring.repaired import repaired_score
from awm.scoring.score import Score

Answer = Literal["final", "memory"]


@dataclass(frozen=True, slots=True)
class RepairedAnswer:
    """An answer whose repaired score is not the official one."""

    question_id: str
    answer: Answer
    """The final answer, or the reader's from the memory alone."""
    gold: object
    answer_format: str
    prediction: str
    official: float
    repaired: float
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The columns of a run, in the order of its questions; None: not measured."""

    judge: str
    examples: tuple[ExampleRecord, ...]
    rows: tuple[ScoredRow, ...]
    """With the official score of the final answer, for the benchmark's metrics."""
    finals: tuple[float | None, ...]
    memories: tuple[float | None, ...]
    repaired_finals: tuple[float | None, ...]
    repaired_memories: tuple[float | None, ...]
    outcomes: tuple[Outcome | None, ...]
    differences: tuple[RepairedAnswer, ...]


def read_scored_run(store: RunStore) -> ScoredRun:
    """Read a run's scores and repair them.

    Raises:
        RunStoreError: a journal cannot be read.
    """
    judge = store.manifest.judge
    records = {record.question_id: record for record in store.final_scores()}
    examples = tuple(store.examples.read())
    differences: list[RepairedAnswer] = []
    columns: dict[Answer, list[tuple[float | None, float | None]]] = {"final": [], "memory": []}
    for example in examples:
        record = records.get(example.question_id)
        answers: Iterable[tuple[Answer, AnswerScore | None]] = (
            ("final", record.final if record else None),
            ("memory", record.memory if record else None),
        )
        for which, answer in answers:
            repaired = repair(example, answer, judge, which) if answer else None
            if repaired is not None:
                differences.append(repaired)
            official = answer.score if answer else None
            columns[which].append((official, repaired.repaired if repaired else official))
    found = [records.get(example.question_id) for example in examples]
    return ScoredRun(
        judge=judge,
        examples=examples,
        rows=tuple(
            _row(example, record.final if record else None)
            for example, record in zip(examples, found, strict=True)
        ),
        finals=tuple(official for official, _ in columns["final"]),
        memories=tuple(official for official, _ in columns["memory"]),
        repaired_finals=tuple(repaired for _, repaired in columns["final"]),
        repaired_memories=tuple(repaired for _, repaired in columns["memory"]),
        outcomes=tuple(record.outcome if record else None for record in found),
        differences=tuple(differences),
    )


def repair(
    example: ExampleRecord, answer: AnswerScore, judge: str, which: Answer
) -> RepairedAnswer | None:
    """Score an answer with the repairs; None where that changes nothing or there is no answer."""
    if answer.score is None or answer.prediction is None:
        return None
    judged: object = answer.prediction
    if judge == "longdocurl" and answer.extraction is not None:
        judged = evaluate_concise_answer(answer.prediction)  # as its pipeline, before judging
    repaired = repaired_score(
        judge,
        example.answer,
        judged,
        example.answer_format,
        Score(answer.score, answer.flags),
    )
    if not repaired.rules:
        return None
    return RepairedAnswer(
        question_id=example.question_id,
        answer=which,
        gold=example.answer,
        answer_format=example.answer_format,
        prediction=answer.prediction,
        official=answer.score,
        repaired=repaired.value,
        rules=repaired.rules,
    )


def _row(example: ExampleRecord, final: AnswerScore | None) -> ScoredRow:
    return ScoredRow(
        score=final.score if final else None,
        prediction=final.prediction if final else None,
        gold_answer=example.answer,
        answer_format=example.answer_format,
        evidence_pages=example.annotated_pages or example.evidence_pages,
        evidence_sources=example.evidence_sources,
        document_type=example.document_type,
        task_tag=example.task_tag,
        question_type=example.question_type,
    )
