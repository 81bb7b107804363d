"""What a run was made with: its manifest, its sessions, and versions."""

from __future__ import annotations

import contextlib
import hashlib
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib import metadata

from awm.agent.prompt import PROMPT_VERSION, prompt_hash
from awm.benchmarks import Benchmark, Example
from awm.benchmarks.releases import describe_release
from awm.benchmarks.subsets import load_subset
from awm.evaluate.selection import can_ask, in_subset
from awm.evaluate.settings import EvalSettings
from awm.models.chat import ModelSettings
from awm.runs import (
    OPERATIONAL_SETTINGS,
    DatasetRecord,
    ExampleRecord,
    OverlayRecord,
    RunManifest,
    SessionRecord,
    SubsetRecord,
)
from awm.scoring.extraction import ExtractionPrompt

_PACKAGES = [
    "awm",
    "aiohttp",
    "bm25s",
    "numpy",
    "orjson",
    "pillow",
    "pybase64",
    "pydantic",
    "pypdfium2",
    "rapidfuzz",
    "simplejpeg",
]


def make_manifest(
    settings: EvalSettings,
    benchmark: Benchmark,
    examples: Sequence[Example],
    prompt: ExtractionPrompt | None,
) -> RunManifest:
    """Write down everything that decides the run's numbers."""
    runnable = in_subset(benchmark, settings)
    n_askable = sum(can_ask(example, settings.setting) for example in runnable)
    ids = "\n".join(example.question.id for example in examples)
    return RunManifest(
        settings=settings.model_dump(mode="json"),
        prompt_version=PROMPT_VERSION,
        prompt_hash=prompt_hash(),
        extraction_prompt=f"{prompt.source}:{prompt.digest}" if prompt else None,
        judge=benchmark.judge.name,
        dataset=DatasetRecord(
            benchmark=benchmark.name,
            dataset_hash=benchmark.dataset_hash,
            n_dataset=benchmark.n_dataset,
            n_runnable=len(benchmark.examples),
            n_excluded=len(runnable) - n_askable,
            missing_documents=tuple(benchmark.missing_documents),
            problems=tuple(f"{p.kind}: {p.message}" for p in benchmark.problems),
            release=describe_release(benchmark.name, benchmark.dataset_hash, benchmark.n_dataset),
            overlay=OverlayRecord(**asdict(benchmark.overlay)) if benchmark.overlay else None,
            subset=_record_subset(benchmark, settings),
        ),
        question_ids_hash=hashlib.sha256(ids.encode()).hexdigest(),
        n_questions=len(examples),
        versions=package_versions(),
        git_revision=git_revision(),
        created_at=utc_now(),
    )


def _record_subset(benchmark: Benchmark, settings: EvalSettings) -> SubsetRecord | None:
    if settings.subset is None:
        return None
    subset = load_subset(settings.subset, benchmark)
    askable = [e for e in subset.pick(benchmark.examples) if can_ask(e, settings.setting)]
    return SubsetRecord(
        name=subset.name,
        n=len(subset.ids),
        n_runnable=len(askable),
        missing=subset.missing(askable),
    )


def record_example(example: Example) -> ExampleRecord:
    """Turn an example into the record that analysis and display read."""
    question, gold = example.question, example.gold
    return ExampleRecord(
        question_id=question.id,
        question=question.text,
        document_id=question.document_id,
        page_window=question.page_window,
        answer=gold.answer,
        answer_format=gold.answer_format,
        evidence_pages=gold.evidence_pages,
        annotated_pages=gold.annotated_pages,
        evidence_sources=gold.evidence_sources,
        document_type=gold.document_type,
        task_tag=gold.task_tag,
        question_type=gold.question_type,
        sub_tasks=gold.sub_tasks,
    )


def _all_models(settings: EvalSettings) -> list[ModelSettings]:
    further = [settings.extractor] if settings.extractor else []
    return [settings.model, *settings.all_readers, *further]


def record_session(settings: EvalSettings) -> SessionRecord:
    """Say when and with what this process works on the run."""
    return SessionRecord(
        started_at=utc_now(),
        versions=package_versions(),
        git_revision=git_revision(),
        settings=settings.model_dump(mode="json", include=set(OPERATIONAL_SETTINGS))
        | {"specs": [model.spec for model in _all_models(settings)]},
    )


def utc_now() -> str:
    """Give the time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def package_versions() -> dict[str, str]:
    """Give the versions of Python and of the packages that can move a number."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


@cache
def git_revision() -> str | None:
    """Give the revision of the working folder's checkout; None outside of one."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
