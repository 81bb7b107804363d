"""A finished run as the source of another one: its questions, memories, scores and documents."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from awm.benchmarks import Benchmark, Example, Gold, load_benchmark
from awm.errors import RunMismatchError, RunStoreError
from awm.evaluate import EvalSettings
from awm.memory import Finding
from awm.question import Question
from awm.runs import ExampleRecord, RunStore, ScoreRecord, open_run
from awm.scoring.outcome import Outcome

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class SourceRecord(BaseModel):
    """The run that another one was made from."""

    model_config = _FROZEN

    path: str
    """As it was given; not part of the identity, a run may be moved."""
    manifest_hash: str
    """SHA-256 of its manifest.json."""
    setting: str
    model: str
    """Spec of its policy."""
    n_questions: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a source run says about one question."""

    example: ExampleRecord
    memory: tuple[Finding, ...] | None
    """The terminal memory of the latest episode; None where it failed or keeps none."""
    document_digest: str | None
    score: ScoreRecord | None

    @property
    def outcome(self) -> Outcome | None:
        """The outcome cell; None where either answer is unmeasured."""
        return self.score.outcome if self.score else None


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A run to be looked at again."""

    store: RunStore
    settings: EvalSettings
    manifest_hash: str

    @property
    def record(self) -> SourceRecord:
        """What the manifest of a derived run says about it."""
        return SourceRecord(
            path=str(self.store.path),
            manifest_hash=self.manifest_hash,
            setting=self.settings.setting,
            model=self.settings.model.spec,
            n_questions=self.store.manifest.n_questions,
        )

    def attempts(self) -> list[Attempt]:
        """Give every question with its latest episode and scores, in the run's order."""
        memories: dict[str, tuple[tuple[Finding, ...] | None, str | None]] = {}
        for episode in self.store.episodes.read():
            memories[episode.question_id] = (episode.memory, episode.document_digest)
        scores = {record.question_id: record for record in self.store.final_scores()}
        return [
            Attempt(
                example,
                *memories.get(example.question_id, (None, None)),
                scores.get(example.question_id),
            )
            for example in self.store.examples.read()
        ]

    def load_benchmark(self, data: Path | None) -> Benchmark:
        """Load the run's benchmark again, from `data` where it has moved.

        Raises:
            RunMismatchError: it is not the dataset that the run was made with.
        """
        settings = self.settings
        benchmark = load_benchmark(
            settings.benchmark, data or settings.data, settings.overlay, settings.seed
        )
        made_with = self.store.manifest.dataset.dataset_hash
        if benchmark.dataset_hash != made_with:
            raise RunMismatchError(
                f"{self.store.path} was made with the dataset {made_with[:12]}…, and "
                f"{data or settings.data} is {benchmark.dataset_hash[:12]}…; name the run's own "
                "dataset with --data"
            )
        return benchmark


def open_source(path: Path) -> SourceRun:
    """Open a run folder as a source.

    Raises:
        RunStoreError: it is no run folder, or its settings cannot be read by this AWM.
    """
    store = open_run(path)
    try:
        settings = EvalSettings.model_validate(store.manifest.settings)
    except ValidationError as error:
        raise RunStoreError(
            f"{path / 'manifest.json'} holds settings that this AWM does not know: {error}"
        ) from error
    digest = hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
    return SourceRun(store, settings, digest)


def as_example(record: ExampleRecord) -> Example:
    """Turn the record of a question back into what it was."""
    return Example(
        Question(
            id=record.question_id,
            text=record.question,
            document_id=record.document_id,
            page_window=record.page_window,
        ),
        Gold(
            answer=record.answer,
            answer_format=record.answer_format,
            evidence_pages=record.evidence_pages,
            annotated_pages=record.annotated_pages,
            evidence_sources=record.evidence_sources,
            document_type=record.document_type,
            task_tag=record.task_tag,
            question_type=record.question_type,
            sub_tasks=record.sub_tasks,
        ),
    )
