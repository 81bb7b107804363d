"""Diagnose the memory of any system from its log: everything that the log allows to compute.

The log is read once, row by row (`logs`); of each row the scores and a few facts are kept. Rows
that bring no memory-only answer are read by a reader into a run folder, which can be resumed
(`rereading`). What was measured then goes through the same figures as a run of AWM.

What is not measured stays out of every figure and is counted: a row with an `error`, a null score,
a null answer of a reader, a memory that is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awm.analysis.audits import AuditSummary
from awm.analysis.breakdowns import (
    Breakdown,
    Failures,
    break_down,
    count_failures,
    plan_resampling,
)
from awm.analysis.controls import Control, Lift, measure_lift
from awm.analysis.diagnosis.log_table import LogTable
from awm.analysis.readers import (
    ReaderComparison,
    RolloutFigures,
    compare_readers,
    summarize_rollouts,
)
from awm.analysis.statistics.bootstrap import ResamplingPlan, estimate
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import mean_ratio, p_mmc_ratio
from awm.counted import counted
from awm.scoring.outcome import OutcomeCounts, count_outcomes, outcome


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `awm diagnose` prints."""

    log: Path
    judge: str
    reader: str | None
    extractor: str | None
    extraction_prompt: str | None
    run: Path | None
    dataset_hash: str
    log_hash: str
    n_questions: int
    final_accuracy: Estimate
    memory_accuracy: Estimate
    p_mmc: Estimate
    outcomes: OutcomeCounts
    n_documents: int
    breakdowns: tuple[Breakdown, ...]
    failures: Failures | None
    audits: AuditSummary | None
    lifts: tuple[Lift, ...]
    readers: ReaderComparison | None
    rollouts: tuple[RolloutFigures, ...]
    errors: dict[str, int]
    spent: dict[str, int]
    warnings: tuple[str, ...]

    @property
    def n(self) -> int:
        """Rows with both scores."""
        return self.outcomes.n

    @property
    def n_unmeasured(self) -> int:
        """The rest of the rows."""
        return self.outcomes.n_unmeasured

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints: the keys of `awm eval --json`, and more."""
        return {
            "run": str(self.run) if self.run else None,
            "benchmark": str(self.log),
            "setting": "diagnose",
            "subset": None,
            "n_unmeasured_rereadings": 0,
            "error_sample": None,
            "n_without_pages": None,
            "model": None,
            "reader": self.reader,
            "extractor": self.extractor,
            "extraction_prompt": self.extraction_prompt,
            "judge": self.judge,
            "n_questions": self.n_questions,
            "n": self.n,
            "n_unmeasured": self.n_unmeasured,
            "final_accuracy": self.final_accuracy.value,
            "memory_accuracy": self.memory_accuracy.value,
            "p_mmc": self.p_mmc.value,
            "cells": self.outcomes.as_dict(),
            "estimates": {
                "final_accuracy": self.final_accuracy.as_json(),
                "memory_accuracy": self.memory_accuracy.as_json(),
                "p_mmc": self.p_mmc.as_json(),
            },
            "stop_reasons": {},
            "errors": self.errors,
            "dataset_hash": self.dataset_hash,
            "n_dataset": self.n_questions,
            "n_excluded": 0,
            "missing_documents": [],
            "data_problems": list(self.warnings),
            "pages_without_text": {},
            "routing": {"n_checked": 0, "mismatched": []},
            "spent": self.spent,
            "log_hash": self.log_hash,
            "n_documents": self.n_documents,
            "breakdowns": {
                each.by: {
                    "groups": [group.as_json() for group in each.groups],
                    "n_unknown": each.n_unknown,
                }
                for each in self.breakdowns
            },
            "failures": self.failures.as_json() if self.failures else None,
            "audits": self.audits.as_json() if self.audits else None,
            "lift": {each.control: each.as_json() for each in self.lifts},
            "readers": self.readers.as_json() if self.readers else None,
            "rollouts": [each.as_json() for each in self.rollouts],
        }


def diagnose(
    table: LogTable,
    *,
    reader: str | None = None,
    extractor: str | None = None,
    extraction_prompt: str | None = None,
    run: Path | None = None,
    errors: Mapping[str, int] | None = None,
    spent: Mapping[str, int] | None = None,
    notes: Sequence[str] = (),
) -> Diagnosis:
    """Compute everything that a log allows.

    Args:
        table: the log, with what models added to it.
        reader: the reader's spec, where one was asked.
        extractor: the extractor's spec.
        extraction_prompt: its source and hash.
        run: the folder of the readings.
        errors: kinds of failure of the readings.
        spent: what the readings took.
        notes: further warnings.
    """
    results = table.results()
    plan = plan_resampling(table.clusters())
    failures = count_failures(results)
    audits = table.audit.summarize(plan, table.memories)
    return Diagnosis(
        log=table.log.path,
        judge=table.judge,
        reader=reader,
        extractor=extractor,
        extraction_prompt=extraction_prompt,
        run=run,
        dataset_hash=table.log.dataset_hash,
        log_hash=table.log.digest,
        n_questions=len(table.rows),
        final_accuracy=estimate(mean_ratio(table.finals), plan),
        memory_accuracy=estimate(mean_ratio(table.memories), plan),
        p_mmc=estimate(p_mmc_ratio(table.finals, table.memories), plan),
        outcomes=count_outcomes(map(outcome, table.finals, table.memories)),
        n_documents=len(set(table.clusters())),
        breakdowns=break_down(results, plan),
        failures=failures if failures.n_unknown < len(results) else None,
        audits=audits if audits.n_memories else None,
        lifts=_lifts(table, plan),
        readers=_compare_readers(table, plan),
        rollouts=_rollouts(table, plan),
        errors=dict(errors or {}) | ({"log": table.n_errors} if table.n_errors else {}),
        spent={
            name: (spent or {}).get(name, 0)
            for name in ("prompt_tokens", "completion_tokens", "calls", "retries", "refusals")
        },
        warnings=(*_warnings(table), *notes),
    )


def _lifts(table: LogTable, plan: ResamplingPlan) -> tuple[Lift, ...]:
    answerable = [row.facts.is_answerable for row in table.rows]
    columns: list[tuple[Control, Sequence[float | None]]] = [
        ("question-only", table.question_only),
        ("shuffled", table.shuffled),
    ]
    return tuple(
        measure_lift(control, table.memories, scores, answerable, plan)
        for control, scores in columns
        if any(score is not None for score in scores)
    )


def _compare_readers(table: LogTable, plan: ResamplingPlan) -> ReaderComparison | None:
    if len(table.readers) < 2:
        return None
    first = {
        name: [each[0] if each else None for each in _padded(rollouts, len(table.rows))]
        for name, rollouts in table.readers.items()
    }
    return compare_readers(table.finals, first, plan)


def _rollouts(table: LogTable, plan: ResamplingPlan) -> tuple[RolloutFigures, ...]:
    n = len(table.rows)
    return tuple(
        summarize_rollouts(name, _padded(scores, n), _padded(table.answers[name], n), plan)
        for name, scores in table.readers.items()
        if any(len(each) > 1 for each in scores)
    )


def _padded(rows: list[Any], n: int) -> list[Any]:
    return rows + [()] * (n - len(rows))


def _warnings(table: LogTable) -> list[str]:
    found = table.log.warnings()
    n_alone = sum(row.document is None for row in table.rows)
    if n_alone:
        found.append(
            f"{n_alone} of {counted(len(table.rows), 'row names', 'rows name')} no `document`: "
            "each counts as a document of its own, and where questions share one the intervals are "
            "too narrow"
        )
    n_ran = len(table.rows) - table.n_errors
    n_without = sum(not row.has_memory for row in table.rows) - table.n_errors
    if n_without and n_without < n_ran:
        others = "rows without an `error`" if table.n_errors else "rows"
        found.append(f"{n_without} of the {n_ran} {others} record no memory")
    if table.n_errors:
        found.append(f"rows with an `error`, unmeasured and not wrong: {table.n_errors}")
    return found
