"""A run folder: made, resumed, locked and read."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from awm.agent.episode import Episode
from awm.agent.reader import Reading
from awm.errors import RunMismatchError, RunStoreError
from awm.faults import reason
from awm.runs.journal import Journal, write_atomically
from awm.runs.manifest import RunManifest, compare_manifests, only_extends, read_manifest
from awm.runs.records import (
    DocumentRecord,
    ExampleRecord,
    RereadingRecord,
    ScoreRecord,
    SessionRecord,
)


class RunStore:
    """A run folder. Make one with `create_or_resume` (to write) or `open_run` (to read)."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.examples = Journal(path / "examples.jsonl", ExampleRecord)
        self.documents = Journal(path / "documents.jsonl", DocumentRecord)
        self.episodes = Journal(path / "episodes.jsonl", Episode)
        self.readings = Journal(path / "readings.jsonl", Reading)
        self.scores = Journal(path / "scores.jsonl", ScoreRecord)
        self.rereadings = Journal(path / "rereadings.jsonl", RereadingRecord)
        self.sessions = Journal(path / "sessions.jsonl", SessionRecord)
        self._lock_fd: int | None = None

    @property
    def _written(
        self,
    ) -> tuple[
        Journal[DocumentRecord],
        Journal[Episode],
        Journal[Reading],
        Journal[ScoreRecord],
        Journal[RereadingRecord],
        Journal[SessionRecord],
    ]:
        return (
            self.documents,
            self.episodes,
            self.readings,
            self.scores,
            self.rereadings,
            self.sessions,
        )

    def final_scores(self) -> Iterator[ScoreRecord]:
        """Give the latest score record of each question, in the order of the run's questions."""
        latest = {record.question_id: record for record in self.scores.read()}
        for example in self.examples.read():
            if example.question_id in latest:
                yield latest[example.question_id]

    def sync(self) -> None:
        """Force every journal to the disk."""
        for journal in self._written:
            journal.sync()

    def close(self) -> None:
        """Sync, close the journals and release the lock."""
        with contextlib.suppress(OSError):
            self.sync()
        for journal in self._written:
            journal.close()
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _acquire(self) -> None:
        self._lock_fd = lock_folder(self.path)


def lock_folder(path: Path) -> int:
    """Lock a run folder for writing, until the file descriptor that this gives is closed.

    Raises:
        RunMismatchError: another process writes it.
    """
    fd = os.open(path / "run.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise RunMismatchError(
            f"another process is writing {path}; wait for it, or choose another --run"
        ) from error
    return fd


def create_or_resume(
    path: Path, manifest: RunManifest, examples: list[ExampleRecord], session: SessionRecord
) -> RunStore:
    """Open a run folder for writing: a new one, or one that was made with the same settings.

    Args:
        path: the folder; made when it is not there.
        manifest: what this evaluation is.
        examples: its questions with their gold.
        session: a line for sessions.jsonl.

    Raises:
        RunMismatchError: the folder holds another run, or another process writes it.
        RunStoreError: the folder is damaged, or cannot be made.
    """
    store = RunStore(path, manifest)
    try:
        path.mkdir(parents=True, exist_ok=True)
        _refuse_foreign_folder(store)  # before the lock, whose file would stay in it
        store._acquire()  # the store's own constructor function
    except OSError as error:
        raise RunStoreError(
            f"{path} cannot be used as a run folder: {reason(error)}; choose another --run"
        ) from error
    try:
        if (path / "manifest.json").exists():
            old = read_manifest(path)
            differences = compare_manifests(old, manifest)
            if differences and _extends(store, old, manifest, examples):
                _write_questions(
                    path, manifest.model_copy(update={"created_at": old.created_at}), examples
                )
            elif differences:
                raise RunMismatchError(
                    f"{path} was made with other settings (the run's -> those given now):\n  "
                    + "\n  ".join(differences)
                    + "\nChoose another --run, or the same settings to resume."
                )
            else:
                store.manifest = old
        else:
            _write_questions(path, manifest, examples)
        for journal in store._written:
            journal.open()
        store.sessions.append(session)
    except OSError as error:
        store.close()
        raise RunStoreError(f"{path} cannot be written: {reason(error)}") from error
    except BaseException:
        store.close()
        raise
    return store


def _extends(
    store: RunStore, old: RunManifest, new: RunManifest, examples: list[ExampleRecord]
) -> bool:
    """Say whether the run's questions all stand among `examples`, unchanged, with new ones."""
    if not only_extends(old, new):
        return False
    asked = {example.question_id: example for example in examples}
    return all(asked.get(known.question_id) == known for known in store.examples.read())


def _write_questions(path: Path, manifest: RunManifest, examples: list[ExampleRecord]) -> None:
    lines = b"".join(example.model_dump_json().encode() + b"\n" for example in examples)
    write_atomically(path / "examples.jsonl", lines)
    write_atomically(path / "manifest.json", manifest.model_dump_json(indent=2).encode() + b"\n")


def _refuse_foreign_folder(store: RunStore) -> None:
    """Refuse a folder that holds neither a run nor just what one begun and never finished leaves.

    It is looked at once: another process may be making a run in it, manifest first.
    """
    path, names = store.path, {entry.name for entry in store.path.iterdir()}
    if "manifest.json" in names:
        return
    if any(journal.path.name in names for journal in store._written):
        raise RunStoreError(
            f"{path} holds journals and no manifest.json, so nothing says what they are; "
            "restore the manifest, or choose another --run"
        )
    ours = {"run.lock", "examples.jsonl", "manifest.json"}
    foreign = sorted(name for name in names if name.removesuffix(".part") not in ours)
    if foreign:
        raise RunMismatchError(
            f"{path} is no run folder and not empty (it holds {foreign[0]!r}); choose another --run"
        )


def open_run(path: Path) -> RunStore:
    """Open a run folder for reading; also while another process writes it.

    Raises:
        RunStoreError: it is not a run folder.
    """
    return RunStore(path, read_manifest(path))
