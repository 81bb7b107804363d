"""Let a reader answer from many memories, into a run of its own: concurrent, journaled, resumable.

Used by `awm diagnose` (the memories of a log) and by the controls of `awm audit memory`, where the
memory is empty, or another question's. The result is a run folder as `awm eval` writes it, with
examples, readings and scores, and without episodes: nothing was retrieved or shown here. What a
folder holds already is not done again.

The reader gets what `read_memory` gives it: the question and the memory's text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awm.agent.episode import ErrorRecord
from awm.agent.prompt import PROMPT_VERSION, prompt_hash
from awm.agent.reader import Reading, read_memory
from awm.benchmarks import Example
from awm.benchmarks.benchmark import read_as_text
from awm.errors import ConfigError
from awm.evaluate import (
    FailureStreak,
    OnProgress,
    Progress,
    git_revision,
    package_versions,
    score_answer,
    utc_now,
    work_through,
)
from awm.models.chat import ChatModel
from awm.runs import (
    OPERATIONAL_SETTINGS,
    AnswerScore,
    DatasetRecord,
    ExampleRecord,
    RunManifest,
    RunStore,
    ScoreRecord,
    SessionRecord,
    create_or_resume,
)
from awm.scoring import JUDGES
from awm.scoring.extraction import ExtractionPrompt, ReplyForm
from awm.scoring.literals import evaluate_concise_answer
from awm.scoring.outcome import outcome

MAX_FAILURES_IN_A_ROW = 25
"""Stop when so many questions in a row failed: the endpoint is down."""
UNMEASURED = ErrorRecord(type="NotMeasured", message="the source holds no score for it")
"""What is not measured because the source lacks it: its type tells it from what failed."""
_FORMS: dict[str, ReplyForm] = {"mmlongbench-doc": "labelled", "longdocurl": "tagged"}
_READ_PREDICTION: dict[str, Callable[[str], object]] = {
    "mmlongbench-doc": read_as_text,
    "longdocurl": evaluate_concise_answer,
}
"""By judge: from an extracted answer to what it gets."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that is known, to be judged."""

    text: str


@dataclass(frozen=True, slots=True)
class Task:
    """One question: what the reader gets, and what is known already."""

    example: Example
    memory: str | None
    """Rendered; None: nothing to read, so the memory-only answer is unmeasured."""
    final: AnswerScore | Answered
    memory_answer: AnswerScore | Answered | None = None
    """None: ask the reader."""


@dataclass(frozen=True, slots=True)
class Source:
    """Many tasks, each loaded when its turn comes."""

    examples: Sequence[ExampleRecord]
    load: Callable[[int], Task]
    """From the index of an example to its task."""
    dataset: DatasetRecord


@dataclass(frozen=True, slots=True)
class Judging:
    """How answers are judged."""

    judge: str
    extractor: ChatModel | None = None
    prompt: ExtractionPrompt | None = None

    async def score(self, example: Example, answer: str) -> AnswerScore:
        """Judge one answer, extracted first where there is an extractor."""
        return await score_answer(
            example,
            answer,
            JUDGES[self.judge],
            self.extractor,
            self.prompt,
            _READ_PREDICTION[self.judge],
        )


def extraction_prompt(judge: str, path: Path | None) -> ExtractionPrompt:
    """Give the prompt of an extractor: the user's copy, or AWM's.

    Raises:
        ConfigError: the file cannot be read.
    """
    form = _FORMS[judge]
    return ExtractionPrompt.from_file(path, form) if path else ExtractionPrompt.own(form)


def make_manifest(settings: dict[str, Any], judging: Judging, source: Source) -> RunManifest:
    """Write down everything that decides the run's numbers."""
    ids = "\n".join(example.question_id for example in source.examples)
    prompt = judging.prompt
    return RunManifest(
        settings=settings,
        prompt_version=PROMPT_VERSION,
        prompt_hash=prompt_hash(),
        extraction_prompt=f"{prompt.source}:{prompt.digest}" if prompt else None,
        judge=judging.judge,
        dataset=source.dataset,
        question_ids_hash=hashlib.sha256(ids.encode()).hexdigest(),
        n_questions=len(source.examples),
        versions=package_versions(),
        git_revision=git_revision(),
        created_at=utc_now(),
    )


async def reread(
    source: Source,
    reader: ChatModel | None,
    judging: Judging,
    run: Path,
    settings: dict[str, Any],
    *,
    concurrency: int = 8,
    on_progress: OnProgress | None = None,
) -> Path:
    """Read and judge every task of `source` into the folder `run`, or finish one begun.

    Args:
        source: what to read.
        reader: None where every task brings its memory-only answer.
        judging: how answers are judged.
        run: the folder.
        settings: what decides the numbers; part of the manifest. Those of
            `runs.OPERATIONAL_SETTINGS` may change on resume.
        concurrency: questions under way at once.
        on_progress: called at the start and after every question.

    Raises:
        UserError: the folder was made with other settings.
        DataError: the folder is damaged.
        EndpointError: `MAX_FAILURES_IN_A_ROW` questions failed in a row; it can be resumed.
    """
    if concurrency < 1:
        raise ConfigError(f"--concurrency {concurrency}: give at least 1")
    session = SessionRecord(
        started_at=utc_now(),
        versions=package_versions(),
        git_revision=git_revision(),
        settings={k: v for k, v in settings.items() if k in OPERATIONAL_SETTINGS},
    )
    manifest = make_manifest(settings, judging, source)
    with create_or_resume(run, manifest, list(source.examples), session) as store:
        work = _Rereading(source, reader, judging, store)
        await work.run(concurrency, on_progress or (lambda _: None))
    return run


class _Rereading:
    """The work of one session."""

    def __init__(
        self, source: Source, reader: ChatModel | None, judging: Judging, store: RunStore
    ) -> None:
        self._source = source
        self._reader = reader
        self._judging = judging
        self._store = store
        self._progress = Progress(n_questions=len(source.examples))
        self._reading_at = {
            reading.question_id: offset
            for offset, reading in store.readings.read_with_offsets()
            if reading.error is None
        }

    async def run(self, concurrency: int, on_progress: OnProgress) -> None:
        """Do what the run does not hold yet."""
        done: set[str] = set()
        for record in {r.question_id: r for r in self._store.scores.read()}.values():
            if _is_settled(record):
                done.add(record.question_id)
                self._progress.add(record)
        self._progress.n_at_start = len(done)
        on_progress(self._progress)
        undone = [i for i, each in enumerate(self._source.examples) if each.question_id not in done]
        streak = FailureStreak(MAX_FAILURES_IN_A_ROW)

        async def work(index: int) -> None:
            task = self._source.load(index)
            record = await self._do(task)
            self._store.scores.append(record)
            self._progress.add(record)
            on_progress(self._progress)
            streak.note(_new_error(task, record))

        await work_through(undone, work, concurrency=concurrency)

    async def _do(self, task: Task) -> ScoreRecord:
        final = await self._score(task.example, task.final)
        memory = await self._score_memory(task)
        return ScoreRecord(
            question_id=task.example.question.id,
            document_id=task.example.question.document_id,
            final=final,
            memory=memory,
            outcome=outcome(final.score, memory.score),
        )

    async def _score_memory(self, task: Task) -> AnswerScore:
        if task.memory_answer is not None:
            return await self._score(task.example, task.memory_answer)
        if task.memory is None or self._reader is None:
            return AnswerScore(prediction=None, score=None, error=UNMEASURED)
        reading = await self._read(task, task.memory)
        if reading.answer is None:
            return AnswerScore(prediction=None, score=None, error=reading.error or UNMEASURED)
        return await self._judging.score(task.example, reading.answer)

    async def _read(self, task: Task, memory: str) -> Reading:
        question = task.example.question
        offset = self._reading_at.get(question.id)
        if offset is not None:
            return self._store.readings.read_at(offset)
        assert self._reader is not None
        reading = await read_memory(question.id, question.text, memory, self._reader)
        self._store.readings.append(reading)
        self._progress.add_tokens(None, reading)
        return reading

    async def _score(self, example: Example, known: AnswerScore | Answered) -> AnswerScore:
        if isinstance(known, AnswerScore):
            return known
        return await self._judging.score(example, known.text)


def _is_settled(record: ScoreRecord) -> bool:
    """Say whether trying again could measure nothing more: only the source's own gaps are left."""
    answers = (record.final, record.memory)
    errors = [answer.error for answer in answers if answer is not None and answer.error is not None]
    return record.is_final or all(error.type == UNMEASURED.type for error in errors)


def _new_error(task: Task, record: ScoreRecord) -> ErrorRecord | None:
    """Give the error of this session's calls; one that was known before says nothing of them."""
    error = record.memory.error if record.memory else None
    if error is None and isinstance(task.final, Answered):
        error = record.final.error
    return error
