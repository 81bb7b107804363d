"""Claim-level grounding: every finding of a run against the page that it cites.

A verdict speaks of one finding. A memory is *grounded* where all its findings are supported,
*partly* where some are, *ungrounded* where none is and at least one was found wrong or missing,
*empty* without findings, and *unchecked* where only unreadable pages or failed checks stand between
it and a verdict. Crossed with memory-only answerability this tells apart two faults that one rate
hides: memories that the reader answers from though the pages do not say so (unsupported guesses),
and memories that say nothing wrong and omit what is needed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from awm.agent.environment import DrawnPages
from awm.agent.episode import CallRecord, ErrorRecord, record_error
from awm.analysis.derived_runs import (
    DerivedRun,
    OnDone,
    create_or_resume_derived,
    make_manifest,
    open_derived,
    opened_models,
    work_and_report,
)
from awm.analysis.grounding.text_verifier import Verdict
from awm.analysis.grounding.verifiers import (
    TEXT_VERIFIER,
    Checked,
    ModelVerifier,
    TextVerifier,
    Verifier,
    check_verifier_spec,
    verifier_hash,
)
from awm.analysis.source_runs import Attempt, as_example, open_source
from awm.documents import RenderCache, RenderSettings
from awm.errors import AwmError, ConfigError, DocumentError
from awm.evaluate import DocumentShelf
from awm.memory import Finding
from awm.models.chat import ModelSettings
from awm.runs import ExampleRecord
from awm.scoring.outcome import Outcome

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class GroundingSettings(BaseModel):
    """All that `awm ground` can be told."""

    model_config = _FROZEN

    source: Path
    """The run whose findings are checked."""
    run: Path
    """The folder of the verdicts."""
    data: Path | None = None
    """Where the benchmark is now; None: where the source run read it."""
    verifier: ModelSettings = ModelSettings(spec=TEXT_VERIFIER)
    render: RenderSettings = RenderSettings()
    concurrency: int = Field(default=8, ge=1)
    cache_dir: Path | None = None
    max_failures_in_a_row: int = Field(default=25, ge=1)


class GroundingItem(BaseModel):
    """One memory, as taken from the source run."""

    model_config = _FROZEN

    example: ExampleRecord
    findings: tuple[Finding, ...]
    document_digest: str | None
    final_score: float | None
    memory_score: float | None
    outcome: Outcome | None


class FindingVerdict(BaseModel):
    """The record of one check."""

    model_config = _FROZEN

    question_id: str
    index: int
    """Position of the finding in its memory, from 0."""
    finding: Finding
    verdict: Verdict | None
    """None: unmeasured."""
    evidence: str | None
    """Words of the page that decide it."""
    reason: str
    call: CallRecord | None = None
    error: ErrorRecord | None = None
    """Set exactly where `verdict` is None."""


def take_memories(attempts: Iterable[Attempt]) -> tuple[list[GroundingItem], dict[str, int]]:
    """Take the memories of a run, and count the questions without one by reason."""
    items = []
    left_out: Counter[str] = Counter()
    for attempt in attempts:
        if attempt.memory is None:
            left_out["no finished episode with a memory"] += 1
            continue
        score = attempt.score
        items.append(
            GroundingItem(
                example=attempt.example,
                findings=attempt.memory,
                document_digest=attempt.document_digest,
                final_score=score.final.score if score else None,
                memory_score=score.memory.score if score and score.memory else None,
                outcome=attempt.outcome,
            )
        )
    return items, dict(left_out)


async def ground(settings: GroundingSettings, *, on_done: OnDone | None = None) -> Path:
    """Check every finding of a run, or the rest of them, and leave the verdicts in `settings.run`.

    Raises:
        UserError: settings that cannot be used, or that are not those of the folder.
        DataError: the source or the benchmark cannot be read.
        EndpointError: too many checks in a row failed; the work can be resumed.
    """
    check_verifier_spec(settings.verifier)
    source = open_source(settings.source)
    if settings.run.resolve() == settings.source.resolve():
        raise ConfigError("--run must be another folder than the run that is looked at")
    items, left_out = take_memories(source.attempts())
    if not items:
        raise ConfigError(f"{settings.source} holds no memory: {left_out or 'it has no question'}")
    benchmark = source.load_benchmark(settings.data)
    manifest = make_manifest(
        "grounding",
        settings,
        source,
        items,
        n_left_out=left_out,
        prompt_hash=verifier_hash(settings.verifier),
    )
    is_text = settings.verifier.spec == TEXT_VERIFIER
    executor = ThreadPoolExecutor(2, thread_name_prefix="awm-pages")
    shelf = DocumentShelf(benchmark)
    try:
        async with opened_models(None if is_text else settings.verifier) as (model,):
            verifier: Verifier = (
                TextVerifier(executor) if model is None else ModelVerifier(model, executor)
            )
            with create_or_resume_derived(settings.run, manifest, items, GroundingItem) as run:
                await _Checking(settings, verifier, shelf, run).run(
                    items, on_done or (lambda *_: None)
                )
    finally:
        executor.shutdown(cancel_futures=True)
        shelf.close()
    return settings.run


class _Checking:
    """The work of one session."""

    def __init__(
        self,
        settings: GroundingSettings,
        verifier: Verifier,
        shelf: DocumentShelf,
        run: DerivedRun[GroundingItem],
    ) -> None:
        self._settings = settings
        self._verifier = verifier
        self._shelf = shelf
        self._cache = RenderCache(settings.cache_dir)
        self._verdicts = run.journal("verdicts", FindingVerdict)

    async def run(self, items: list[GroundingItem], on_done: OnDone) -> None:
        """Check what has no verdict yet."""
        latest = {(v.question_id, v.index): v for v in self._verdicts.read()}
        jobs = [(item, index) for item in items for index in range(len(item.findings))]
        pending = [job for job in jobs if not _is_measured(latest.get(_key(job)))]
        # What failed before comes last, so that it cannot stop the run before the others' turn.
        pending.sort(key=lambda job: _key(job) in latest)
        await work_and_report(
            pending,
            self._check,
            n_done=len(jobs) - len(pending),
            concurrency=self._settings.concurrency,
            max_failures_in_a_row=self._settings.max_failures_in_a_row,
            on_done=on_done,
        )

    async def _check(self, job: tuple[GroundingItem, int]) -> ErrorRecord | None:
        item, index = job
        finding = item.findings[index]
        try:
            source = self._open(item)
        except AwmError as error:
            checked = Checked(None, error=record_error(error))
        else:
            checked = await self._verifier.check(finding.text, finding.page, source)
        judgement = checked.judgement
        self._verdicts.append(
            FindingVerdict(
                question_id=item.example.question_id,
                index=index,
                finding=finding,
                verdict=judgement.verdict if judgement else None,
                evidence=judgement.evidence if judgement else None,
                reason=judgement.reason if judgement else "",
                call=checked.call,
                error=checked.error,
            )
        )
        return checked.error

    def _open(self, item: GroundingItem) -> DrawnPages:
        document = self._shelf.take(as_example(item.example))
        if item.document_digest is not None and document.digest != item.document_digest:
            raise DocumentError(
                f"{item.example.document_id!r} is not the file that the source run read: its "
                f"SHA-256 is {document.digest[:12]}…, and that was {item.document_digest[:12]}…"
            )
        return DrawnPages(document, self._settings.render, self._cache)


def _key(job: tuple[GroundingItem, int]) -> tuple[str, int]:
    return job[0].example.question_id, job[1]


def _is_measured(verdict: FindingVerdict | None) -> bool:
    return verdict is not None and verdict.error is None


def read_verdicts(
    path: Path,
) -> tuple[DerivedRun[GroundingItem], list[tuple[GroundingItem, list[FindingVerdict | None]]]]:
    """Read a folder of verdicts, finished or not: each memory with a verdict for each finding.

    Raises:
        RunStoreError: it is none, or is damaged.
    """
    run = open_derived(path, "grounding", GroundingItem)
    latest: defaultdict[str, dict[int, FindingVerdict]] = defaultdict(dict)
    for verdict in run.journal("verdicts", FindingVerdict).read():
        latest[verdict.question_id][verdict.index] = verdict
    rows = []
    for item in run.items.read():
        found = latest[item.example.question_id]
        rows.append((item, [found.get(index) for index in range(len(item.findings))]))
    return run, rows
