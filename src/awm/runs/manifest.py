"""The manifest of a run: everything that decides its numbers, and what makes two runs one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from awm.errors import RunStoreError
from awm.faults import reason
from awm.runs.journal import first_fault

RUN_VERSION = 1
"""Version of the layout; a run of another version is refused."""

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class OverlayRecord(BaseModel):
    """The corrections of annotations that a run was made with."""

    model_config = _FROZEN

    name: str
    """The file's name."""
    digest: str
    """SHA-256 over the corrections."""
    n_applied: int
    n_unused: int
    """Corrections of questions that cannot run."""
    n_answers: int
    """Applied corrections of an answer or its format: with any, no score is official."""


class SubsetRecord(BaseModel):
    """The fixed subset that a run is limited to."""

    model_config = _FROZEN

    name: str
    n: int
    """Questions of the subset."""
    n_runnable: int
    """Of them, those that this run's data and setting can ask."""
    missing: tuple[str, ...] = ()
    """Ids of the others: their documents are not there, or the dataset does not hold them."""


class DatasetRecord(BaseModel):
    """What was asked, and what of it could not run."""

    model_config = _FROZEN

    benchmark: str
    dataset_hash: str
    n_dataset: int
    """Questions of the dataset."""
    n_runnable: int
    """Questions whose document can be read."""
    n_excluded: int = 0
    """Runnable questions that the setting cannot ask, e.g. EP-given without a gold page."""
    missing_documents: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Every fault of the data, as a sentence."""
    release: str | None = None
    """The published release that it is, in words; None: made before releases were told."""
    overlay: OverlayRecord | None = None
    subset: SubsetRecord | None = None


class RunManifest(BaseModel):
    """Everything that decides a run's numbers, and what it was made with."""

    model_config = _FROZEN

    run_version: int = RUN_VERSION
    settings: dict[str, Any]
    """The evaluation's settings, defaults filled in."""
    prompt_version: str
    prompt_hash: str
    extraction_prompt: str | None
    """Source and hash of the extraction prompt; None without an extractor."""
    judge: str
    dataset: DatasetRecord
    question_ids_hash: str
    """SHA-256 over the ids of the run's questions."""
    n_questions: int
    versions: dict[str, str]
    """Package versions at creation; each session's own stand in sessions.jsonl."""
    git_revision: str | None
    """Of the folder the command was started in; None outside a checkout."""
    created_at: str
    """UTC, ISO 8601."""


OPERATIONAL_SETTINGS = frozenset(
    {
        "run",
        "concurrency",
        "cache_dir",
        "data",
        "overlay",
        "extraction_prompt",
        "max_failures_in_a_row",
    }
)
"""Settings that may change on resume: they decide how, not what. The hashes of dataset and overlay
stand for their paths. A model's base URL may change too; each session's stands in sessions.jsonl.
"""
_MODEL_ROLES = ("model", "reader", "extractor")
_OPERATIONAL_MODEL_SETTINGS = ("timeout_s", "max_retries", "max_in_flight", "api_key_env")
_BASE_URL = re.compile(r"@https?://.*$", re.DOTALL)
EXTENDED_BY = frozenset({"limit", "questions", "n_questions", "question_ids_hash"})
"""What differs between a run and one that asks the same questions and further ones."""
_NOT_SET = "(not set)"
_MOST_RUNS = 5
"""Most runs that are named where their folder is taken for one."""


def _no_run(path: Path) -> str:
    """Say why a path without a manifest is no run, and what to name instead."""
    if not path.exists():
        return f"{path} is not a run: it does not exist; `awm eval … --run {path}` makes one"
    if not path.is_dir():
        return f"{path} is not a run: it is a file; name the run's folder"
    runs = sorted(str(file.parent) for file in path.glob("*/manifest.json"))
    if not runs:
        return f"{path} is not a run: it has no manifest.json; `awm eval … --run {path}` makes one"
    more = f" and {len(runs) - _MOST_RUNS} more" if len(runs) > _MOST_RUNS else ""
    return (
        f"{path} is not a run, but a folder of runs; name one of them: "
        f"{', '.join(runs[:_MOST_RUNS])}{more}"
    )


def read_manifest(path: Path) -> RunManifest:
    """Read a run's manifest.

    Raises:
        RunStoreError: there is none, or it is of another version.
    """
    file = path / "manifest.json"
    try:
        manifest = RunManifest.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunStoreError(_no_run(path)) from error
    except OSError as error:
        raise RunStoreError(f"{file} cannot be read: {reason(error)}") from error
    except ValidationError as error:
        if any(e["type"] == "extra_forbidden" and e["loc"] == ("kind",) for e in error.errors()):
            raise RunStoreError(
                f"{path} is what was made from a run, e.g. by `awm intervene` or `awm ground`; "
                "name the run itself (its path stands in manifest.json under source)"
            ) from error
        raise RunStoreError(
            f"{file} is damaged, or no manifest of version {RUN_VERSION} "
            f"({first_fault(error, RunManifest)}); restore it, or choose another --run"
        ) from error
    if manifest.run_version != RUN_VERSION:
        raise RunStoreError(
            f"{file} is of version {manifest.run_version}, and this AWM reads version "
            f"{RUN_VERSION}; use the AWM that made it, or choose another --run"
        )
    return manifest


def only_extends(old: RunManifest, new: RunManifest) -> bool:
    """Say whether two manifests differ at most in which questions they ask."""
    before, after = _identity(old), _identity(new)
    return all(before.get(key) == after.get(key) or key in EXTENDED_BY for key in before | after)


def compare_manifests(old: RunManifest, new: RunManifest) -> list[str]:
    """Name what differs between two manifests and decides numbers: "name: old -> new"."""
    before, after = _identity(old), _identity(new)
    if before["question_ids_hash"] != after["question_ids_hash"]:
        # Most often because documents came or went: hashes alone would not say so.
        before["n_missing_documents"] = len(old.dataset.missing_documents)
        after["n_missing_documents"] = len(new.dataset.missing_documents)
    return name_differences(before, after)


def name_differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Name what differs between two flat sets of settings: "name: old -> new", hashes last."""
    return [
        f"{key}: {_say(before, key)} -> {_say(after, key)}"
        for key in sorted(before.keys() | after.keys(), key=lambda key: ("hash" in key, key))
        if before.get(key, _NOT_SET) != after.get(key, _NOT_SET)
    ]


def _say(values: dict[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else _NOT_SET


def _identity(manifest: RunManifest) -> dict[str, Any]:
    settings = {k: v for k, v in manifest.settings.items() if k not in OPERATIONAL_SETTINGS}
    for role in _MODEL_ROLES:
        if isinstance(settings.get(role), dict):
            settings[role] = model_identity(settings[role])
    if "readers" in settings:
        settings["readers"] = [model_identity(reader) for reader in settings["readers"]]
    flat = dict(flatten_settings(settings)) | {
        "run_version": manifest.run_version,
        "prompt_version": manifest.prompt_version,
        "prompt_hash": manifest.prompt_hash,
        "extraction_prompt": manifest.extraction_prompt,
        "judge": manifest.judge,
        "dataset_hash": manifest.dataset.dataset_hash,
        "overlay_hash": manifest.dataset.overlay.digest if manifest.dataset.overlay else None,
        "question_ids_hash": manifest.question_ids_hash,
        "n_questions": manifest.n_questions,
    }
    # Runs made before these settings existed have no such keys.
    for name, default in (("subset", None), ("readers", []), ("reader_samples", 1)):
        flat.setdefault(name, default)
    return flat


def model_identity(settings: dict[str, Any]) -> dict[str, Any]:
    """Leave out how a model is reached: its server moves with every job of a cluster."""
    kept = {k: v for k, v in settings.items() if k not in _OPERATIONAL_MODEL_SETTINGS}
    return kept | {"spec": _BASE_URL.sub("", settings["spec"])}


def flatten_settings(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give the settings of nested tables under dotted names."""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from flatten_settings(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner
