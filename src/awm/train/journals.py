"""The journals of a training, and how they stay in step with its checkpoints.

```
OUT/
  settings.json      everything the training was told
  steps.jsonl        one record a logged step: cells, rewards, advantages, groups with signal
  curve.jsonl        one record an evaluation inside training
  checkpoint-N/      TRL's checkpoints, with optimizer, random states and log history
  final/             the exported model
```

A checkpoint may be older than the last line. On resume, lines of later steps are cut off, so the
resumed training writes the curve that an uninterrupted one would have written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from awm.errors import RunMismatchError, RunStoreError
from awm.runs import Journal, flatten_settings, name_differences, write_atomically
from awm.train.metrics import TrainingRecord

_OPERATIONAL = frozenset(
    {"out", "steps", "save_every", "keep_checkpoints", "log_to", "score_timeout_s"}
)
"""Settings that may change on resume."""
_OPERATIONAL_OF_MODELS = ("timeout_s", "max_retries", "max_in_flight", "api_key_env")


class TrainingJournals:
    """Opens the folder of a training, new or to be resumed.

    Args:
        folder: made where it is missing.
        settings: what the training was told.

    Raises:
        RunMismatchError: the folder was made with other settings; the message names them.
    """

    def __init__(self, folder: Path, settings: BaseModel) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        settle_settings(folder / "settings.json", settings)
        self.checkpoint = newest_checkpoint(folder)
        self._journals = {
            "train": Journal(folder / "steps.jsonl", TrainingRecord),
            "eval": Journal(folder / "curve.jsonl", TrainingRecord),
        }
        step = checkpoint_step(self.checkpoint) if self.checkpoint else -1
        for journal in self._journals.values():
            _cut_after(journal, step)
            journal.open()

    def append(self, mode: str, record: TrainingRecord) -> None:
        """Write a record of "train" or "eval"."""
        self._journals[mode].append(record)

    def read(self, mode: str) -> list[TrainingRecord]:
        """Read the records of "train" or "eval"."""
        return list(self._journals[mode].read())

    def close(self) -> None:
        """Close the files."""
        for journal in self._journals.values():
            journal.close()


def newest_checkpoint(folder: Path) -> Path | None:
    """Give the newest whole checkpoint; one whose writing was interrupted does not count."""
    whole = [
        path for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").is_file()
    ]
    return max(whole, key=checkpoint_step, default=None)


def checkpoint_step(path: Path) -> int:
    """Give the number of updates behind a checkpoint."""
    found = re.fullmatch(r"checkpoint-(\d+)", path.name)
    return int(found[1]) if found else -1


def settle_settings(path: Path, settings: BaseModel) -> None:
    """Write the settings beside the results, or compare them with those that are there.

    Raises:
        RunMismatchError: the folder was trained with other settings; the message names them.
        RunStoreError: the file is damaged.
    """
    new = settings.model_dump(mode="json")
    if path.exists():
        try:
            old = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunStoreError(f"{path} is damaged ({error}); choose another --out") from error
        different = name_differences(_identity(old), _identity(new))
        if different:
            raise RunMismatchError(
                f"{path.parent} was trained with other settings:\n  "
                + "\n  ".join(different)
                + "\nName the same settings to resume, or another --out"
            )
    write_atomically(path, json.dumps(new, indent=2).encode() + b"\n")


def _identity(settings: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in settings.items() if key not in _OPERATIONAL}
    return {
        name: value
        for name, value in flatten_settings(kept)
        if name.rpartition(".")[2] not in _OPERATIONAL_OF_MODELS
    }


def _cut_after(journal: Journal[TrainingRecord], step: int) -> None:
    """Drop the records of steps that the checkpoint does not hold."""
    if not journal.path.exists():
        return
    kept = [record for record in journal.read() if record.step <= step]
    lines = "".join(record.model_dump_json() + "\n" for record in kept)
    write_atomically(journal.path, lines.encode())
