"""The controlled memory comparison of the paper (arXiv 2608.25618): only the memory differs.

For every question of a finished run the gold pages, the answer generator, the reader and the judge
are fixed, and the terminal memory is replaced: `empty`, the agent's `original`, or `improved`,
written by another model from the gold pages or read from a file.

The generator is asked for its final answer from the question and the substituted memory. It does
not see the pages: with an empty memory the paper's final answers are near zero, so its generator
cannot have seen them. `generator_sees_pages` is the other reading, and is labelled in every output.

The reader's answer from the original memory is the source run's own where reader and extractor are
the source's: it is the same question to the same model, and the paper's "original" figure is that
of the run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from awm.agent.environment import DrawnPages, page_message
from awm.agent.episode import ErrorRecord, record_error
from awm.agent.prompt import prompt_hash
from awm.agent.reader import read_memory
from awm.analysis.derived_runs import (
    DerivedRun,
    OnDone,
    create_or_resume_derived,
    make_manifest,
    opened_models,
    work_and_report,
)
from awm.analysis.interventions import answer_generator, memory_writer
from awm.analysis.interventions.answer_generator import GeneratedAnswer, generate_answer
from awm.analysis.interventions.memory_writer import MemoryWrite, read_improved_file, write_memory
from awm.analysis.interventions.records import (
    Arm,
    ArmReading,
    ArmScore,
    InterventionItem,
    InterventionSettings,
    take_items,
)
from awm.analysis.rereading import Judging, extraction_prompt
from awm.analysis.source_runs import SourceRun, as_example, open_source
from awm.benchmarks import Benchmark
from awm.documents import RenderCache
from awm.errors import AwmError, ConfigError, DocumentError
from awm.evaluate import DocumentShelf
from awm.memory import Finding, render_findings
from awm.models.chat import ChatModel, Message, ModelSettings, count_images
from awm.runs import AnswerScore


def intervention_prompt_hash() -> str:
    """Hash every text that the models of a comparison are told: the first 16 hex digits."""
    texts = [
        prompt_hash(),
        answer_generator.GENERATOR_SYSTEM,
        answer_generator.GENERATOR_WITH_PAGES_SYSTEM,
        answer_generator.GENERATOR_USER,
        memory_writer.WRITER_SYSTEM,
        memory_writer.WRITER_USER,
        memory_writer.WRITER_AGAIN,
        str(memory_writer.MAX_FINDINGS),
        str(memory_writer.MAX_ATTEMPTS),
    ]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


async def intervene(settings: InterventionSettings, *, on_done: OnDone | None = None) -> Path:
    """Run or resume a controlled comparison, and leave its results in `settings.run`.

    Raises:
        UserError: settings that cannot be used, or that are not those of the folder.
        DataError: the source, the benchmark or a file cannot be read.
        EndpointError: too many questions in a row failed; the comparison can be resumed.
    """
    source = open_source(settings.source)
    if source.settings.setting in ("direct", "rag"):
        raise ConfigError(
            f"{settings.source} is a run of the setting {source.settings.setting!r}, which keeps "
            "no memory; take one of ep-given or agent"
        )
    if settings.run.resolve() == settings.source.resolve():
        raise ConfigError("--run must be another folder than the run that is looked at")
    items, left_out = take_items(source.attempts())
    if not items:
        reasons = "; ".join(f"{n} have {reason}" for reason, n in left_out.items())
        raise ConfigError(f"no question of {settings.source} can be compared: {reasons}")
    needs_pages = settings.writer is not None or settings.generator_sees_pages
    benchmark = source.load_benchmark(settings.data) if needs_pages else None
    files, improved = _read_improved(settings, source, items)
    manifest = make_manifest(
        "intervention",
        settings,
        source,
        items,
        n_left_out=left_out,
        prompt_hash=intervention_prompt_hash(),
        files=files,
    )
    specs = (settings.writer, settings.generator, settings.reader, settings.extractor)
    async with opened_models(*specs) as (writer, generator, reader, extractor):
        assert generator is not None
        assert reader is not None
        prompt = None
        if extractor is not None:
            prompt = extraction_prompt(manifest.judge, settings.extraction_prompt)
            digest = f"{prompt.source}:{prompt.digest}"
            manifest = manifest.model_copy(update={"extraction_prompt": digest})
        else:
            manifest = manifest.model_copy(update={"extraction_prompt": None})
        judging = Judging(manifest.judge, extractor, prompt)
        with create_or_resume_derived(settings.run, manifest, items, InterventionItem) as run:
            work = _Comparison(
                settings, source, benchmark, _Models(writer, generator, reader), judging, run
            )
            await work.run(items, improved, on_done or (lambda *_: None))
    return settings.run


def _read_improved(
    settings: InterventionSettings, source: SourceRun, items: Sequence[InterventionItem]
) -> tuple[dict[str, str], dict[str, MemoryWrite] | None]:
    if settings.improved is None:
        return {}, None
    pages = {d.document_id: d.page_count for d in source.store.documents.read()}
    counts = {item.example.question_id: pages.get(item.example.document_id) for item in items}
    improved = read_improved_file(settings.improved, counts)
    missing = [id_ for id_ in counts if id_ not in improved]
    if missing:
        raise ConfigError(
            f"{settings.improved} lacks the memories of {len(missing)} of {len(counts)} "
            f"questions, the first: {missing[0]!r}; write an empty list where there is none"
        )
    digest = hashlib.sha256(settings.improved.read_bytes()).hexdigest()
    return {"improved": digest}, improved


@dataclass(frozen=True, slots=True)
class _Models:
    writer: ChatModel | None
    generator: ChatModel
    reader: ChatModel


_Key = tuple[str, Arm]


class _Comparison:
    """The work of one session."""

    def __init__(
        self,
        settings: InterventionSettings,
        source: SourceRun,
        benchmark: Benchmark | None,
        models: _Models,
        judging: Judging,
        run: DerivedRun[InterventionItem],
    ) -> None:
        self._settings = settings
        self._models = models
        self._judging = judging
        self._shelf = DocumentShelf(benchmark) if benchmark is not None else None
        self._cache = RenderCache(settings.cache_dir)
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="awm-pages")
        self._keeps_readings = _same_model(settings.reader, source.settings.reader) and _same_model(
            settings.extractor, source.settings.extractor
        )
        self._memories = run.journal("memories", MemoryWrite)
        self._answers = run.journal("answers", GeneratedAnswer)
        self._readings = run.journal("readings", ArmReading)
        self._scores = run.journal("scores", ArmScore)
        self._written = {r.question_id: r for r in self._memories.read() if r.error is None}
        self._answered: dict[_Key, GeneratedAnswer] = {
            (r.question_id, r.arm): r for r in self._answers.read() if r.error is None
        }
        self._read: dict[_Key, ArmReading] = {
            (r.question_id, r.arm): r for r in self._readings.read() if r.reading.error is None
        }

    async def run(
        self,
        items: Sequence[InterventionItem],
        improved: dict[str, MemoryWrite] | None,
        on_done: OnDone,
    ) -> None:
        """Do what the run does not hold yet."""
        self._given = improved
        latest = {(r.question_id, r.arm): r for r in self._scores.read()}
        done = {key for key, record in latest.items() if record.error is None}
        jobs = [(item, arm) for item in items for arm in self._settings.arms]
        pending = [job for job in jobs if (job[0].example.question_id, job[1]) not in done]
        # What failed before comes last, so that it cannot stop the run before the others' turn.
        pending.sort(key=lambda job: (job[0].example.question_id, job[1]) in latest)
        try:
            await work_and_report(
                pending,
                self._compare,
                n_done=len(jobs) - len(pending),
                concurrency=self._settings.concurrency,
                max_failures_in_a_row=self._settings.max_failures_in_a_row,
                on_done=on_done,
            )
        finally:
            self._executor.shutdown(cancel_futures=True)
            if self._shelf is not None:
                self._shelf.close()

    async def _compare(self, job: tuple[InterventionItem, Arm]) -> ErrorRecord | None:
        item, arm = job
        findings, error = await self._findings(item, arm)
        if findings is None:
            failed = AnswerScore(prediction=None, score=None, error=error)
            record = self._record(item, arm, None, failed, failed)
        else:
            final = await self._final(item, arm, findings)
            memory, is_kept = await self._memory_only(item, arm, findings)
            record = self._record(item, arm, findings, final, memory, is_kept)
        self._scores.append(record)
        return record.error

    def _record(
        self,
        item: InterventionItem,
        arm: Arm,
        findings: tuple[Finding, ...] | None,
        final: AnswerScore,
        memory: AnswerScore,
        is_kept: bool = False,
    ) -> ArmScore:
        return ArmScore(
            question_id=item.example.question_id,
            document_id=item.example.document_id,
            arm=arm,
            findings=findings,
            final=final,
            memory=memory,
            memory_from_source=is_kept,
        )

    async def _findings(
        self, item: InterventionItem, arm: Arm
    ) -> tuple[tuple[Finding, ...] | None, ErrorRecord | None]:
        if arm == "empty":
            return (), None
        if arm == "original":
            return item.original, None
        id_ = item.example.question_id
        write = self._written.get(id_)
        if write is None:
            write = self._given[id_] if self._given is not None else await self._write(item)
            self._memories.append(write)
        return (None, write.error) if write.error is not None else (write.findings, None)

    async def _write(self, item: InterventionItem) -> MemoryWrite:
        assert self._models.writer is not None
        example = item.example
        try:
            pages = await self._pages(item)
        except AwmError as error:
            return MemoryWrite(
                question_id=example.question_id, findings=(), error=record_error(error)
            )
        return await write_memory(
            example.question_id,
            example.question,
            pages,
            example.evidence_pages,
            self._models.writer,
        )

    async def _pages(self, item: InterventionItem) -> Message:
        """Draw the gold pages of a question.

        Raises:
            DocumentError: they cannot be shown, or the document is not the one that was read.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._draw_pages, item
        )

    def _draw_pages(self, item: InterventionItem) -> Message:
        assert self._shelf is not None
        document = self._shelf.take(as_example(item.example))
        if item.document_digest is not None and document.digest != item.document_digest:
            raise DocumentError(
                f"{item.example.document_id!r} is not the file that the source run read: its "
                f"SHA-256 is {document.digest[:12]}…, and that was {item.document_digest[:12]}…"
            )
        source = DrawnPages(document, self._settings.render, self._cache)
        message = page_message(source, list(item.example.evidence_pages), "user")
        if count_images([message]) != len(item.example.evidence_pages):
            raise DocumentError(
                f"a gold page of question {item.example.question_id!r} cannot be drawn"
            )
        return message

    async def _final(
        self, item: InterventionItem, arm: Arm, findings: tuple[Finding, ...]
    ) -> AnswerScore:
        key = (item.example.question_id, arm)
        answer = self._answered.get(key)
        if answer is None:
            answer = await self._generate(item, arm, findings)
            self._answers.append(answer)
        if answer.error is not None:
            return AnswerScore(prediction=None, score=None, error=answer.error)
        return await self._judging.score(as_example(item.example), answer.answer or "")

    async def _generate(
        self, item: InterventionItem, arm: Arm, findings: tuple[Finding, ...]
    ) -> GeneratedAnswer:
        example = item.example
        try:
            pages = await self._pages(item) if self._settings.generator_sees_pages else None
        except AwmError as error:
            return GeneratedAnswer(
                question_id=example.question_id,
                arm=arm,
                memory=render_findings(findings),
                images_shown=0,
                answer=None,
                error=record_error(error),
            )
        return await generate_answer(
            example.question_id, arm, example.question, findings, pages, self._models.generator
        )

    async def _memory_only(
        self, item: InterventionItem, arm: Arm, findings: tuple[Finding, ...]
    ) -> tuple[AnswerScore, bool]:
        """Give the memory-only score, and whether it is the source run's own."""
        kept = item.memory if arm == "original" and self._keeps_readings else None
        if kept is not None and kept.score is not None:
            return kept, True
        key = (item.example.question_id, arm)
        record = self._read.get(key)
        if record is None:
            reading = await read_memory(
                item.example.question_id, item.example.question, findings, self._models.reader
            )
            record = ArmReading(question_id=key[0], arm=arm, reading=reading)
            self._readings.append(record)
        if record.reading.error is not None:
            return AnswerScore(prediction=None, score=None, error=record.reading.error), False
        answer = record.reading.answer or ""
        return await self._judging.score(as_example(item.example), answer), False


def _same_model(a: ModelSettings | None, b: ModelSettings | None) -> bool:
    """Tell whether two models answer alike: same settings but for time-outs and the like."""
    how = {"timeout_s", "max_retries", "max_in_flight", "api_key_env"}
    if a is None or b is None:
        return a is b
    return a.model_dump(exclude=how) == b.model_dump(exclude=how)
