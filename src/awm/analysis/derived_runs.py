"""A run made from a finished run: a folder of its own, with its source on record.

```
OUT/
  manifest.json    the settings, the source's path and hash, prompt hashes, versions
  items.jsonl      what was taken from the source: questions, gold, memories, outcomes
  *.jsonl          append-only journals of the model calls and their scores
  sessions.jsonl   when and with what versions it was started and resumed
  run.lock         held while a process writes
```

The rules are those of `awm.runs`: what is measured is kept, what failed is retried on resume, and
another source or other settings are refused with the differences named.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from awm.agent.episode import ErrorRecord
from awm.analysis.source_runs import SourceRecord, SourceRun
from awm.errors import ConfigError, RunMismatchError, RunStoreError
from awm.evaluate import FailureStreak, git_revision, package_versions, utc_now, work_through
from awm.faults import reason
from awm.models.build import build_model
from awm.models.chat import ChatModel, ModelSettings
from awm.runs import (
    DatasetRecord,
    Journal,
    SessionRecord,
    flatten_settings,
    lock_folder,
    model_identity,
    name_differences,
    write_atomically,
)

DERIVED_VERSION = 1
Kind = Literal["intervention", "grounding"]
OPERATIONAL = frozenset(
    {
        "source",
        "run",
        "data",
        "concurrency",
        "cache_dir",
        "improved",
        "extraction_prompt",
        "max_failures_in_a_row",
    }
)
"""Settings that may change on resume; hashes stand for the source and for files. How a model is
reached may change as well, as in a run of `awm eval`."""
_FROZEN = ConfigDict(frozen=True, extra="forbid")

T = TypeVar("T")
I = TypeVar("I", bound=BaseModel)  # noqa: E741 (an item)
J = TypeVar("J", bound=BaseModel)


class DerivedManifest(BaseModel):
    """Everything that decides the numbers of a derived run, and what it was made with."""

    model_config = _FROZEN

    derived_version: int = DERIVED_VERSION
    kind: Kind
    settings: dict[str, Any]
    source: SourceRecord
    items_hash: str
    """SHA-256 of items.jsonl: the questions and memories that were taken from the source."""
    n_items: int
    n_left_out: dict[str, int]
    """Questions of the source that were not taken, by reason."""
    prompt_hash: str
    """Of every text that this AWM says to the models of this run."""
    extraction_prompt: str | None
    judge: str
    dataset: DatasetRecord
    files: dict[str, str] = {}
    """SHA-256 of the files that the settings name, e.g. of `improved`."""
    versions: dict[str, str]
    git_revision: str | None
    created_at: str
    """UTC, ISO 8601."""


def hash_records(records: Iterable[BaseModel]) -> str:
    """Hash records as they stand in a journal."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(record.model_dump_json().encode() + b"\n")
    return digest.hexdigest()


def make_manifest(
    kind: Kind,
    settings: BaseModel,
    source: SourceRun,
    items: Sequence[BaseModel],
    *,
    n_left_out: dict[str, int],
    prompt_hash: str,
    files: dict[str, str] | None = None,
) -> DerivedManifest:
    """Write down everything that decides the numbers of a derived run."""
    manifest = source.store.manifest
    return DerivedManifest(
        kind=kind,
        settings=settings.model_dump(mode="json"),
        source=source.record,
        items_hash=hash_records(items),
        n_items=len(items),
        n_left_out=n_left_out,
        prompt_hash=prompt_hash,
        extraction_prompt=manifest.extraction_prompt,
        judge=manifest.judge,
        dataset=manifest.dataset,
        files=files or {},
        versions=package_versions(),
        git_revision=git_revision(),
        created_at=utc_now(),
    )


class DerivedRun(Generic[I]):
    """A derived run's folder. Make one with `create_or_resume_derived` or `open_derived`."""

    def __init__(self, path: Path, manifest: DerivedManifest, item_type: type[I]) -> None:
        self.path = path
        self.manifest = manifest
        self.items = Journal(path / "items.jsonl", item_type)
        self._open: list[Journal[Any]] = []
        self._lock_fd: int | None = None

    def journal(self, name: str, record_type: type[J]) -> Journal[J]:
        """Give one of its journals; open for writing where the run is."""
        journal = Journal(self.path / f"{name}.jsonl", record_type)
        if self._lock_fd is not None:
            journal.open()
            self._open.append(journal)
        return journal

    def close(self) -> None:
        """Force the journals to the disk, close them and release the lock."""
        for journal in self._open:
            with contextlib.suppress(OSError):
                journal.sync()
            journal.close()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def create_or_resume_derived(
    path: Path, manifest: DerivedManifest, items: Sequence[I], item_type: type[I]
) -> DerivedRun[I]:
    """Open a derived run's folder for writing: a new one, or one of the same settings.

    Raises:
        RunMismatchError: the folder holds another run, or another process writes it.
        RunStoreError: the folder is damaged, or cannot be made.
    """
    run = DerivedRun(path, manifest, item_type)
    try:
        path.mkdir(parents=True, exist_ok=True)
        run._lock_fd = lock_folder(path)  # this is the run's own constructor function
        if (path / "manifest.json").exists():
            run.manifest = _same_manifest(path, manifest)
        elif any(path.glob("*.jsonl")):
            raise RunStoreError(
                f"{path} holds journals and no manifest.json, so nothing says what they are; "
                "restore the manifest, or choose another --run"
            )
        else:
            lines = b"".join(item.model_dump_json().encode() + b"\n" for item in items)
            write_atomically(path / "items.jsonl", lines)
            text = manifest.model_dump_json(indent=2).encode() + b"\n"
            write_atomically(path / "manifest.json", text)
        sessions = run.journal("sessions", SessionRecord)
        sessions.append(_session(manifest))
    except OSError as error:
        run.close()
        raise RunStoreError(
            f"{path} cannot be used as a run folder: {reason(error)}; choose another --run"
        ) from error
    except BaseException:
        run.close()
        raise
    return run


def open_derived(path: Path, kind: Kind, item_type: type[I]) -> DerivedRun[I]:
    """Open a derived run's folder for reading.

    Raises:
        RunStoreError: it is no run of this kind.
    """
    manifest = _read_manifest(path)
    if manifest.kind != kind:
        raise RunStoreError(f"{path} is a run of kind {manifest.kind!r}, not {kind!r}")
    return DerivedRun(path, manifest, item_type)


def _read_manifest(path: Path) -> DerivedManifest:
    file = path / "manifest.json"
    try:
        manifest = DerivedManifest.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunStoreError(f"{path} is not a run: it has no manifest.json") from error
    except OSError as error:
        raise RunStoreError(f"{file} cannot be read: {reason(error)}") from error
    except ValidationError as error:
        raise RunMismatchError(
            f"{path} holds a run of another kind or version (not one that was made from a run); "
            "choose another --run"
        ) from error
    if manifest.derived_version != DERIVED_VERSION:
        raise RunStoreError(
            f"{file} is of version {manifest.derived_version}, and this AWM reads version "
            f"{DERIVED_VERSION}; choose another --run"
        )
    return manifest


def _same_manifest(path: Path, new: DerivedManifest) -> DerivedManifest:
    old = _read_manifest(path)
    if old.kind != new.kind:
        raise RunMismatchError(
            f"{path} holds a run of kind {old.kind!r}, and this is one of kind {new.kind!r}; "
            "choose another --run"
        )
    differences = name_differences(_identity(old), _identity(new))
    if differences:
        raise RunMismatchError(
            f"{path} was made with other settings or from another source:\n  "
            + "\n  ".join(differences)
            + "\nChoose another --run, or the same settings to resume."
        )
    return old


def _identity(manifest: DerivedManifest) -> dict[str, Any]:
    settings = {
        name: model_identity(value) if isinstance(value, dict) and "spec" in value else value
        for name, value in manifest.settings.items()
        if name not in OPERATIONAL
    }
    return dict(flatten_settings(settings)) | {
        "kind": manifest.kind,
        "source manifest": manifest.source.manifest_hash,
        "source memories": manifest.items_hash,
        "prompt_hash": manifest.prompt_hash,
        "extraction_prompt": manifest.extraction_prompt,
        "judge": manifest.judge,
        **{f"file {name}": digest for name, digest in manifest.files.items()},
    }


def _session(manifest: DerivedManifest) -> SessionRecord:
    return SessionRecord(
        started_at=utc_now(),
        versions=package_versions(),
        git_revision=git_revision(),
        settings={k: v for k, v in manifest.settings.items() if k in OPERATIONAL},
    )


@contextlib.asynccontextmanager
async def opened_models(*settings: ModelSettings | None) -> AsyncIterator[list[ChatModel | None]]:
    """Make models, None for None, and close them at the end."""
    async with contextlib.AsyncExitStack() as stack:
        models: list[ChatModel | None] = []
        for each in settings:
            model = build_model(each) if each is not None else None
            if model is not None:
                stack.push_async_callback(model.aclose)
            models.append(model)
        yield models


OnDone = Callable[[int, int, int], None]
"""Called with the items done, all of them, and the unmeasured ones."""


async def work_and_report(
    items: Sequence[T],
    work: Callable[[T], Awaitable[ErrorRecord | None]],
    *,
    n_done: int,
    concurrency: int,
    max_failures_in_a_row: int,
    on_done: OnDone,
) -> None:
    """Do `work` for every item, some at once, and stop where an endpoint is down.

    Args:
        items: what is left to do.
        work: gives the error where something stays unmeasured.
        n_done: items that were done before.
        concurrency: items under way at once.
        max_failures_in_a_row: so many failures of an endpoint in a row end the work.
        on_done: told the progress, also at the start.

    Raises:
        EndpointError: the endpoint is down; what is done is kept.
    """
    if concurrency < 1:
        raise ConfigError(f"concurrency {concurrency}: give at least 1")
    total, done, unmeasured = len(items) + n_done, n_done, 0
    on_done(done, total, unmeasured)
    streak = FailureStreak(max_failures_in_a_row, "items")

    async def work_and_count(item: T) -> None:
        nonlocal done, unmeasured
        error = await work(item)
        done += 1
        unmeasured += error is not None
        on_done(done, total, unmeasured)
        streak.note(error)

    await work_through(items, work_and_count, concurrency=min(concurrency, max(1, len(items))))
