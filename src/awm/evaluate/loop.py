"""The one loop over questions: episode, reading, judgement, each written down before the next.

Workers take questions from one iterator, so memory does not grow with their number; results live
in the run's journals. Whatever a run already holds is not done again: an episode without a reading
gets its reading, a reading without a score gets its score.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from awm.agent.episode import Episode, Setting, record_error, run_episode
from awm.agent.reader import Reading, read_memory
from awm.benchmarks import Benchmark, Example, load_benchmark
from awm.benchmarks.overlay import apply_overlay, read_overlay
from awm.documents import RenderCache
from awm.errors import DocumentError
from awm.evaluate.answer_score import score_answer
from awm.evaluate.further_readings import FurtherReadings
from awm.evaluate.progress import OnProgress, Progress
from awm.evaluate.provenance import make_manifest, record_example, record_session
from awm.evaluate.selection import choose_extraction_prompt, select_examples
from awm.evaluate.settings import EvalSettings
from awm.evaluate.shelf import DocumentShelf
from awm.evaluate.work import FailureStreak, work_through
from awm.models.build import build_model
from awm.models.chat import ChatModel, ModelSettings
from awm.retrieval import BM25Retriever, GoldPages, Retriever
from awm.runs import (
    AnswerScore,
    DocumentRecord,
    Journal,
    R,
    RunStore,
    ScoreRecord,
    create_or_resume,
)
from awm.scoring.extraction import ExtractionPrompt
from awm.scoring.outcome import outcome
from awm.scoring.score import Judge

_log = logging.getLogger(__name__)

_DRAWING_THREADS = 2
_SYNC_EVERY_S = 2.0


async def evaluate(
    settings: EvalSettings,
    *,
    benchmark: Benchmark | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """Run or resume an evaluation, and leave its results in `settings.run`.

    Args:
        settings: what to run.
        benchmark: an already loaded one, the overlay of `settings` is laid over it where it has
            none; None: load the one that `settings` names.
        on_progress: called at the start and after every question.

    Returns:
        The run folder.

    Raises:
        UserError: settings that cannot be used, or that are not those of the folder.
        DataError: the benchmark or the folder cannot be read.
        EndpointError: `max_failures_in_a_row` questions failed in a row; the run can be resumed.
    """
    if benchmark is None:
        benchmark = load_benchmark(
            settings.benchmark, settings.data, settings.overlay, settings.seed
        )
    elif settings.overlay is not None and benchmark.overlay is None:
        benchmark = apply_overlay(benchmark, read_overlay(settings.overlay))
    examples = select_examples(benchmark, settings)
    prompt = choose_extraction_prompt(settings, benchmark)
    manifest = make_manifest(settings, benchmark, examples, prompt)
    async with _open_models(settings) as models:
        with create_or_resume(
            settings.run, manifest, [record_example(e) for e in examples], record_session(settings)
        ) as store:
            evaluation = _Evaluation(settings, benchmark, examples, models, prompt, store)
            await evaluation.run(on_progress or (lambda _: None))
    return settings.run


@dataclass(frozen=True, slots=True)
class _Models:
    policy: ChatModel
    reader: ChatModel | None
    further_readers: tuple[ChatModel, ...]
    extractor: ChatModel | None

    @property
    def all_readers(self) -> tuple[ChatModel, ...]:
        return () if self.reader is None else (self.reader, *self.further_readers)


@contextlib.asynccontextmanager
async def _open_models(settings: EvalSettings) -> AsyncIterator[_Models]:
    async with contextlib.AsyncExitStack() as stack:

        def build(model: ModelSettings, role: str) -> ChatModel:
            built = build_model(model, role=role)
            stack.push_async_callback(built.aclose)
            return built

        yield _Models(
            policy=build(settings.model, "--model"),
            reader=build(settings.reader, "--reader") if settings.reader else None,
            further_readers=tuple(build(reader, "--reader") for reader in settings.readers),
            extractor=build(settings.extractor, "--extractor") if settings.extractor else None,
        )


class _Evaluation:
    """The work of one session on one run."""

    def __init__(
        self,
        settings: EvalSettings,
        benchmark: Benchmark,
        examples: Sequence[Example],
        models: _Models,
        prompt: ExtractionPrompt | None,
        store: RunStore,
    ) -> None:
        self._settings = settings
        self._judge: Judge = benchmark.judge
        self._read_prediction = benchmark.read_prediction
        self._examples = examples
        self._models = models
        self._prompt = prompt
        self._store = store
        self._shelf = DocumentShelf(benchmark)
        self._cache = RenderCache(settings.cache_dir)
        self._search = BM25Retriever()
        self._executor = ThreadPoolExecutor(_DRAWING_THREADS, thread_name_prefix="awm-pages")
        self._progress = Progress(n_questions=len(examples))
        self._episode_at = _offsets(store.episodes, lambda e: e.error is None)
        self._reading_at = _offsets(store.readings, lambda r: r.error is None)
        self._score_at: dict[str, int] = {}
        self._noted = {record.document_id for record in store.documents.read()}
        self._further = FurtherReadings(settings, models.all_readers, store, self._score)
        self._noting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, on_progress: OnProgress) -> None:
        """Do what the run does not hold yet."""
        done = self._count_done()
        on_progress(self._progress)
        undone = [e for e in self._examples if e.question.id not in done]
        # What failed before comes last, so that questions that always fail (a context that is too
        # long, say) cannot stop the run before the others had their turn.
        undone.sort(key=lambda example: example.question.id in self._score_at)
        syncing = asyncio.create_task(self._sync_now_and_then())
        streak = FailureStreak(self._settings.max_failures_in_a_row)

        async def work(example: Example) -> None:
            record = await self._answer(example)
            self._progress.add(record)
            on_progress(self._progress)
            if record.is_final or record.error is not None:
                streak.note(None if record.is_final else record.error)

        try:
            await work_through(undone, work, concurrency=self._settings.concurrency)
        finally:
            syncing.cancel()
            self._executor.shutdown(cancel_futures=True)
            self._shelf.close()

    def _count_done(self) -> set[str]:
        done: set[str] = set()
        latest: dict[str, ScoreRecord] = {}
        for offset, record in self._store.scores.read_with_offsets():
            self._score_at[record.question_id] = offset
            latest[record.question_id] = record
        for record in latest.values():
            if record.is_final and not self._lacks_readings(record):
                done.add(record.question_id)
                self._progress.add(record)
        self._progress.n_at_start = len(done)
        return done

    def _lacks_readings(self, record: ScoreRecord) -> bool:
        return record.memory is not None and bool(self._further.missing(record.question_id))

    async def _sync_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_EVERY_S)
            try:
                await asyncio.to_thread(self._store.sync)
            except OSError as error:
                _log.warning("%s cannot be synced to the disk: %s", self._store.path, error)

    async def _answer(self, example: Example) -> ScoreRecord:
        episode = await self._episode(example)
        reading = await self._reading(example, episode)
        previous = self._previous_score(example.question.id)
        if previous is not None and previous.is_final:
            record = previous
        else:
            record = await self._score_both(example, episode, reading, previous)
            self._store.scores.append(record)
        await self._further.read(example, episode)
        return record

    async def _score_both(
        self,
        example: Example,
        episode: Episode,
        reading: Reading | None,
        previous: ScoreRecord | None,
    ) -> ScoreRecord:
        final = await self._score_final(example, episode, previous)
        memory = await self._score_memory(example, episode, reading, previous)
        return ScoreRecord(
            question_id=example.question.id,
            document_id=example.question.document_id,
            final=final,
            memory=memory,
            outcome=outcome(final.score, memory.score if memory else None),
        )

    async def _episode(self, example: Example) -> Episode:
        offset = self._episode_at.get(example.question.id)
        if offset is not None:
            return self._store.episodes.read_at(offset)
        try:
            episode = await self._run_episode(example)
        except DocumentError as error:
            episode = _failed_episode(example, self._settings.setting, error)
        except Exception as error:  # noqa: BLE001 - a bad episode must not stop its siblings
            _log.exception("question %s: a fault of AWM or of an adapter", example.question.id)
            episode = _failed_episode(example, self._settings.setting, error)
        self._store.episodes.append(episode)
        self._progress.add_tokens(episode, None)
        return episode

    async def _run_episode(self, example: Example) -> Episode:
        document = self._shelf.take(example)
        await self._note_document(example.question.document_id)
        return await run_episode(
            example.question,
            document,
            self._models.policy,
            self._retriever(example),
            setting=self._settings.setting,
            settings=self._settings.agent,
            render=self._settings.render,
            cache=self._cache,
            executor=self._executor,
        )

    async def _note_document(self, document_id: str) -> None:
        """Record a document before its first episode, once.

        What it is, and which of its pages a search cannot find.
        """
        async with self._noting[document_id]:
            if document_id not in self._noted:
                await self._record_document(document_id)
                self._noted.add(document_id)

    async def _record_document(self, document_id: str) -> None:
        document = self._shelf.whole(document_id)
        without_text: tuple[int, ...] | None = None
        if self._settings.setting in ("agent", "rag"):
            loop = asyncio.get_running_loop()
            without_text = tuple(
                await loop.run_in_executor(self._executor, document.pages_without_text)
            )
        self._store.documents.append(
            DocumentRecord(
                document_id=document_id,
                digest=document.digest,
                page_count=document.page_count,
                pages_without_text=without_text,
            )
        )

    def _retriever(self, example: Example) -> Retriever:
        if self._settings.setting == "ep-given":
            return GoldPages(example.gold.evidence_pages)
        return self._search

    async def _reading(self, example: Example, episode: Episode) -> Reading | None:
        if episode.memory is None or self._models.reader is None:
            return None
        offset = self._reading_at.get(example.question.id)
        if offset is not None:
            return self._store.readings.read_at(offset)
        reading = await read_memory(
            example.question.id, example.question.text, episode.memory, self._models.reader
        )
        self._store.readings.append(reading)
        self._progress.add_tokens(None, reading)
        return reading

    def _previous_score(self, question_id: str) -> ScoreRecord | None:
        offset = self._score_at.get(question_id)
        if offset is None or question_id not in self._episode_at:
            return None  # never the score of an episode that is lost, beside a new one
        return self._store.scores.read_at(offset)

    async def _score_final(
        self, example: Example, episode: Episode, previous: ScoreRecord | None
    ) -> AnswerScore:
        if episode.error is not None:
            return AnswerScore(prediction=None, score=None, error=episode.error)
        if previous is not None and previous.final.score is not None:
            return previous.final
        return await self._score(example, episode.answer)

    async def _score_memory(
        self,
        example: Example,
        episode: Episode,
        reading: Reading | None,
        previous: ScoreRecord | None,
    ) -> AnswerScore | None:
        if self._models.reader is None or self._settings.setting in ("direct", "rag"):
            return None
        if reading is None or reading.error is not None:
            error = episode.error or (reading.error if reading else None)
            return AnswerScore(prediction=None, score=None, error=error)
        if previous is not None and previous.memory and previous.memory.score is not None:
            return previous.memory
        return await self._score(example, reading.answer)

    async def _score(self, example: Example, answer: str | None) -> AnswerScore:
        scored = await score_answer(
            example,
            answer,
            self._judge,
            self._models.extractor,
            self._prompt,
            self._read_prediction,
        )
        if scored.extraction is not None:
            self._progress.prompt_tokens += scored.extraction.prompt_tokens or 0
            self._progress.completion_tokens += scored.extraction.completion_tokens or 0
        return scored


def _offsets(journal: Journal[R], keep: Callable[[R], bool]) -> dict[str, int]:
    offsets: dict[str, int] = {}
    for offset, record in journal.read_with_offsets():
        if keep(record):
            offsets[record.question_id] = offset  # type: ignore[attr-defined]
    return offsets


def _failed_episode(example: Example, setting: Setting, error: Exception) -> Episode:
    return Episode(
        question_id=example.question.id,
        question=example.question.text,
        document_id=example.question.document_id,
        document_digest=None,
        setting=setting,
        stop_reason="error",
        answer=None,
        memory=None,
        error=record_error(error),
    )
