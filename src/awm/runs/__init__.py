"""A run on disk: a manifest, the examples, and append-only journals.

```
RUN/
  manifest.json    every setting, prompt hash, dataset hash, version and revision
  examples.jsonl   the questions of this run with their gold
  documents.jsonl  the documents that were opened: hash, pages, pages without text
  episodes.jsonl   one record an attempt: the whole conversation, images as hashes
  readings.jsonl   what the reader answered from the memory alone
  rereadings.jsonl further readers and samples, with their scores
  scores.jsonl     both answers judged, and the outcome cell
  sessions.jsonl   when and with what versions the run was started and resumed
  run.lock         held while a process writes
```

A record is one line, written by one `write` to a file opened for appending, so a killed process
leaves at most one torn line, at the end; opening the run for writing cuts it off. Failed attempts
stay in the journals as history. A question has exactly one final record in each: the one whose
parts are all measured; what is not measured is redone on resume.
"""

from __future__ import annotations

from awm.runs.journal import Journal, R, write_atomically
from awm.runs.manifest import (
    OPERATIONAL_SETTINGS,
    RUN_VERSION,
    DatasetRecord,
    OverlayRecord,
    RunManifest,
    SubsetRecord,
    compare_manifests,
    flatten_settings,
    model_identity,
    name_differences,
    read_manifest,
)
from awm.runs.records import (
    AnswerScore,
    DocumentRecord,
    ExampleRecord,
    RereadingRecord,
    ScoreRecord,
    SessionRecord,
)
from awm.runs.store import RunStore, create_or_resume, lock_folder, open_run

__all__ = [
    "OPERATIONAL_SETTINGS",
    "RUN_VERSION",
    "AnswerScore",
    "DatasetRecord",
    "DocumentRecord",
    "ExampleRecord",
    "Journal",
    "OverlayRecord",
    "R",
    "RereadingRecord",
    "RunManifest",
    "RunStore",
    "ScoreRecord",
    "SessionRecord",
    "SubsetRecord",
    "compare_manifests",
    "create_or_resume",
    "flatten_settings",
    "lock_folder",
    "model_identity",
    "name_differences",
    "open_run",
    "read_manifest",
    "write_atomically",
]
