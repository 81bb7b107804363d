"""Evaluation: questions in, a run folder out."""

from __future__ import annotations

from awm.evaluate.answer_score import score_answer
from awm.evaluate.loop import evaluate
from awm.evaluate.progress import OnProgress, Progress
from awm.evaluate.provenance import (
    git_revision,
    make_manifest,
    package_versions,
    record_example,
    utc_now,
)
from awm.evaluate.selection import choose_extraction_prompt, select_examples
from awm.evaluate.settings import EvalSettings
from awm.evaluate.shelf import DocumentShelf
from awm.evaluate.work import FailureStreak, work_through

__all__ = [
    "DocumentShelf",
    "EvalSettings",
    "FailureStreak",
    "OnProgress",
    "Progress",
    "choose_extraction_prompt",
    "evaluate",
    "git_revision",
    "make_manifest",
    "package_versions",
    "record_example",
    "score_answer",
    "select_examples",
    "utc_now",
    "work_through",
]
