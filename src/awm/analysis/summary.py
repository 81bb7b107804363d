"""The summary of a run: the figures with their n and intervals, and everything that limits them.

Read from the run store alone. Accuracies are mean official scores over the measured questions;
cells and P_mmc binarise them at > 0. A figure that cannot be computed is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awm.analysis.further_readings import summarize_further_readings
from awm.analysis.readers import ReaderComparison, RolloutFigures
from awm.analysis.statistics.bootstrap import bootstrap_weights, estimate
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import mean_ratio, p_mmc_ratio
from awm.runs import DocumentRecord, RunManifest, RunStore, ScoreRecord
from awm.scoring.extraction import Extraction
from awm.scoring.outcome import OutcomeCounts, count_outcomes


@dataclass(frozen=True, slots=True)
class Routing:
    """Whether every episode read its own question's document."""

    n_checked: int
    mismatched: tuple[str, ...]
    """Ids of questions whose episode read another document, or another version of it."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What the run's episodes, readings and extractions took, failed attempts included."""

    prompt_tokens: int
    completion_tokens: int
    calls: int
    retries: int
    refusals: int
    """Tool calls and answers that were refused."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What `awm eval` prints."""

    path: Path
    manifest: RunManifest
    n: int
    """Questions for which everything that was asked for is measured."""
    n_unmeasured: int
    """The rest of the run's questions: failed, or not yet run."""
    final_accuracy: Estimate
    memory_accuracy: Estimate
    p_mmc: Estimate
    outcomes: OutcomeCounts | None
    """None where the setting keeps no memory, or no reader was asked for."""
    stop_reasons: dict[str, int]
    errors: dict[str, int]
    """Kinds of failure of the unmeasured questions."""
    error_sample: str | None
    """One failure in its own words."""
    n_without_pages: int | None
    """Episodes of an agent that ended without having looked at a page; None for a baseline."""
    routing: Routing
    spent: Spent
    documents: tuple[DocumentRecord, ...]
    readers: ReaderComparison | None = None
    """Several readers of the same memories; None with one."""
    rollouts: tuple[RolloutFigures, ...] = ()
    """Repeated readings, by reader; empty with one sample."""
    n_unmeasured_rereadings: int = 0
    """Further readings that failed or are still to do."""

    @property
    def n_questions(self) -> int:
        """Questions of the run."""
        return self.manifest.n_questions

    @property
    def pages_without_text(self) -> dict[str, tuple[int, ...]]:
        """By document: the pages that a lexical search cannot find."""
        return {d.document_id: d.pages_without_text for d in self.documents if d.pages_without_text}

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints; every key is always there."""
        settings = self.manifest.settings
        dataset = self.manifest.dataset
        return {
            "run": str(self.path),
            "benchmark": dataset.benchmark,
            "setting": settings["setting"],
            "model": settings["model"]["spec"],
            "reader": settings["reader"] and settings["reader"]["spec"],
            "extractor": settings["extractor"] and settings["extractor"]["spec"],
            "extraction_prompt": self.manifest.extraction_prompt,
            "judge": self.manifest.judge,
            "n_questions": self.n_questions,
            "n": self.n,
            "n_unmeasured": self.n_unmeasured,
            "final_accuracy": self.final_accuracy.value,
            "memory_accuracy": self.memory_accuracy.value,
            "p_mmc": self.p_mmc.value,
            "cells": self.outcomes.as_dict() if self.outcomes else None,
            "estimates": {
                "final_accuracy": self.final_accuracy.as_json(),
                "memory_accuracy": self.memory_accuracy.as_json(),
                "p_mmc": self.p_mmc.as_json(),
            },
            "readers": self.readers.as_json() if self.readers else None,
            "rollouts": [figures.as_json() for figures in self.rollouts],
            "n_unmeasured_rereadings": self.n_unmeasured_rereadings,
            "stop_reasons": self.stop_reasons,
            "errors": self.errors,
            "error_sample": self.error_sample,
            "n_without_pages": self.n_without_pages,
            "dataset_hash": dataset.dataset_hash,
            "n_dataset": dataset.n_dataset,
            "n_excluded": dataset.n_excluded,
            "subset": dataset.subset.model_dump(mode="json") if dataset.subset else None,
            "missing_documents": list(dataset.missing_documents),
            "data_problems": list(dataset.problems),
            "pages_without_text": {k: list(v) for k, v in self.pages_without_text.items()},
            "routing": {
                "n_checked": self.routing.n_checked,
                "mismatched": list(self.routing.mismatched),
            },
            "spent": {
                "prompt_tokens": self.spent.prompt_tokens,
                "completion_tokens": self.spent.completion_tokens,
                "calls": self.spent.calls,
                "retries": self.spent.retries,
                "refusals": self.spent.refusals,
            },
        }


def summarize(store: RunStore) -> RunSummary:
    """Summarize a run, finished or not.

    Raises:
        RunStoreError: a journal cannot be read.
    """
    records = list(store.final_scores())
    measured = [record for record in records if record.is_final]
    plan = bootstrap_weights([record.document_id for record in records])
    finals = [record.final.score for record in records]
    memories = [record.memory.score if record.memory else None for record in records]
    documents = tuple(store.documents.read())
    episodes = _read_episodes(store, documents)
    keeps_memory = any(record.memory is not None for record in records)
    further = summarize_further_readings(store, records, plan)
    return RunSummary(
        path=store.path,
        manifest=store.manifest,
        n=len(measured),
        n_unmeasured=store.manifest.n_questions - len(measured),
        final_accuracy=estimate(mean_ratio(finals), plan),
        memory_accuracy=estimate(mean_ratio(memories), plan),
        p_mmc=estimate(p_mmc_ratio(finals, memories), plan),
        outcomes=count_outcomes(record.outcome for record in records) if keeps_memory else None,
        stop_reasons=episodes.stop_reasons,
        errors=_errors(records),
        error_sample=next((r.error.message for r in records if r.error is not None), None),
        n_without_pages=episodes.n_without_pages,
        routing=episodes.routing,
        spent=episodes.spent,
        documents=documents,
        readers=further.comparison,
        rollouts=further.rollouts,
        n_unmeasured_rereadings=further.n_unmeasured,
    )


def _errors(records: list[ScoreRecord]) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for record in records:
        if record.error is not None:
            kinds[record.error.type] += 1
    return dict(sorted(kinds.items()))


@dataclass(frozen=True, slots=True)
class _Episodes:
    stop_reasons: dict[str, int]
    routing: Routing
    spent: Spent
    n_without_pages: int | None


def _read_episodes(store: RunStore, documents: tuple[DocumentRecord, ...]) -> _Episodes:
    """Go through the journals once, one record in memory at a time."""
    asked = {example.question_id: example.document_id for example in store.examples.read()}
    digests = {document.document_id: document.digest for document in documents}
    latest: dict[str, str] = {}
    mismatched: dict[str, None] = {}
    blind: set[str] = set()
    n_checked = prompt = completion = calls = retries = refusals = 0
    for episode in store.episodes.read():
        latest[episode.question_id] = episode.stop_reason
        refusals += len(episode.refusals)
        if episode.memory is not None and not episode.images_shown:
            blind.add(episode.question_id)
        if episode.document_digest is not None:
            n_checked += 1
            expected = digests.get(asked.get(episode.question_id, ""))
            if episode.document_digest != expected:
                mismatched[episode.question_id] = None
        for call in episode.calls:
            calls += 1
            retries += call.retries
            prompt += call.prompt_tokens or 0
            completion += call.completion_tokens or 0
    for reading in store.readings.read():
        if reading.call is not None:
            calls += 1
            retries += reading.call.retries
            prompt += reading.call.prompt_tokens or 0
            completion += reading.call.completion_tokens or 0
    for extraction in _extractions(store):
        calls += 1
        prompt += extraction.prompt_tokens or 0
        completion += extraction.completion_tokens or 0
    works_with_tools = store.manifest.settings["setting"] in ("agent", "ep-given")
    return _Episodes(
        stop_reasons=dict(sorted(Counter(latest.values()).items())),
        routing=Routing(n_checked, tuple(mismatched)),
        spent=Spent(prompt, completion, calls, retries, refusals),
        n_without_pages=len(blind) if works_with_tools else None,
    )


def _extractions(store: RunStore) -> Iterator[Extraction]:
    """Give every extraction once: a record that redoes one half repeats the other's."""
    measured: set[tuple[str, str]] = set()
    for record in store.scores.read():
        for half, answer in (("final", record.final), ("memory", record.memory)):
            key = (record.question_id, half)
            if answer is None or answer.extraction is None or key in measured:
                continue
            if answer.score is not None:
                measured.add(key)
            yield answer.extraction
