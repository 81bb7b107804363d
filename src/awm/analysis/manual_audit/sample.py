"""The sample of a manual audit: drawn by outcome cell, with all that a person needs to judge.

Each cell gets as equal a number of rows as its size allows: rare cells are what an audit is for.
The sheet keeps each cell's size in the run, so that `manual_audit` can weight the sample back.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from awm.agent.episode import Episode
from awm.agent.reader import Reading
from awm.analysis.manual_audit.sheet import write_sheet
from awm.analysis.scored_answers import repair
from awm.errors import ConfigError
from awm.memory import render_findings
from awm.runs import AnswerScore, ExampleRecord, RunStore, ScoreRecord

FILLED = ("final_correct", "memory_correct", "memory_supports", "kind", "note")
"""Columns that a person fills in: three verdicts, the kind of disagreement, free text."""
_SHOWN = (
    "row",
    "question_id",
    "document",
    "question",
    "gold",
    "gold_format",
    "evidence_pages",
    "pages_shown",
    "final_answer",
    "final_short",
    "memory",
    "memory_answer",
    "memory_short",
)
SCORE_COLUMNS = ("final_official", "final_repaired", "memory_official", "memory_repaired")
STRATUM_COLUMNS = ("cell", "cell_size")
COLUMNS = (*_SHOWN, *FILLED, *SCORE_COLUMNS, *STRATUM_COLUMNS)
"""The sheet's columns. The scores stand behind the columns to fill in, to be looked at later."""


@dataclass(frozen=True, slots=True)
class AuditSample:
    """What was drawn."""

    n_drawn: dict[str, int]
    """By cell."""
    n_in_run: dict[str, int]
    """By cell: what it was drawn from."""
    n_unmeasured: int
    """Questions of the run without all of their scores: they cannot be drawn."""


def allocate(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Share `n` rows among cells as equally as their sizes allow.

    >>> allocate({"a": 2, "b": 50, "c": 50}, 20)
    {'a': 2, 'b': 9, 'c': 9}
    """
    drawn = dict.fromkeys(sizes, 0)
    open_cells = [name for name, size in sizes.items() if size]
    left = min(n, sum(sizes.values()))
    while left:
        # Whole rounds first; what is left over goes to the first cells with room.
        for name in open_cells[:left]:
            drawn[name] += 1
        left -= min(left, len(open_cells))
        open_cells = [name for name in open_cells if drawn[name] < sizes[name]]
    return drawn


def draw_sample(store: RunStore, n: int, seed: int, out: Path) -> AuditSample:
    """Draw a sample of a run and write its sheet, the rows in random order.

    Args:
        store: a run, finished or not.
        n: rows; all there are, if fewer.
        seed: the same seed draws the same rows of the same run.
        out: the file to write; it must not be there.

    Raises:
        ConfigError: nothing is measured, or the file cannot be written.
    """
    if n < 1:
        raise ConfigError(f"a sample of {n} rows: ask for at least 1")
    records = {record.question_id: record for record in store.final_scores() if record.is_final}
    if not records:
        raise ConfigError(f"{store.path} has no question with all of its scores to draw from")
    by_cell: dict[str, list[str]] = defaultdict(list)
    for id_, record in sorted(records.items()):
        by_cell[_cell(record)].append(id_)
    sizes = {cell: len(ids) for cell, ids in sorted(by_cell.items())}
    drawn = allocate(sizes, n)
    chosen: list[str] = []
    for cell, ids in sorted(by_cell.items()):
        chosen += random.Random(f"{seed}:{cell}").sample(ids, drawn[cell])
    random.Random(f"{seed}:order").shuffle(chosen)
    rows = _sheet_rows(store, [records[id_] for id_ in chosen], sizes)
    write_sheet(out, COLUMNS, rows)
    return AuditSample(drawn, sizes, store.manifest.n_questions - len(records))


def _cell(record: ScoreRecord) -> str:
    if record.outcome is not None:
        return record.outcome.value
    return "right" if record.final.score else "wrong"


def _sheet_rows(
    store: RunStore, records: Sequence[ScoreRecord], sizes: Mapping[str, int]
) -> list[dict[str, str | float]]:
    wanted = {record.question_id for record in records}
    examples = {e.question_id: e for e in store.examples.read() if e.question_id in wanted}
    episodes = {e.question_id: e for e in store.episodes.read() if e.question_id in wanted}
    readings = {r.question_id: r for r in store.readings.read() if r.question_id in wanted}
    judge = store.manifest.judge
    rows: list[dict[str, str | float]] = []
    for number, record in enumerate(records, start=1):
        id_ = record.question_id
        example = examples[id_]
        rows.append(
            {
                "row": number,
                **_describe(example, record, episodes.get(id_), readings.get(id_)),
                **dict.fromkeys(FILLED, ""),
                **_scores(example, record, judge),
                "cell": _cell(record),
                "cell_size": sizes[_cell(record)],
            }
        )
    return rows


def _describe(
    example: ExampleRecord, record: ScoreRecord, episode: Episode | None, reading: Reading | None
) -> dict[str, str]:
    memory = episode.memory if episode else None
    return {
        "question_id": example.question_id,
        "document": example.document_id,
        "question": example.question,
        "gold": example.answer if isinstance(example.answer, str) else repr(example.answer),
        "gold_format": example.answer_format,
        "evidence_pages": _pages(example.annotated_pages or example.evidence_pages),
        "pages_shown": _pages(episode.pages_shown if episode else ()),
        "final_answer": (episode.answer if episode else None) or "",
        "final_short": record.final.prediction or "",
        "memory": "" if memory is None else render_findings(memory),
        "memory_answer": (reading.answer if reading else None) or "",
        "memory_short": (record.memory.prediction if record.memory else None) or "",
    }


def _pages(pages: Sequence[int]) -> str:
    return "; ".join(f"p. {page}" for page in sorted(set(pages)))


def _scores(example: ExampleRecord, record: ScoreRecord, judge: str) -> dict[str, str | float]:
    cells: dict[str, str | float] = {}
    answers: tuple[tuple[Literal["final", "memory"], AnswerScore | None], ...] = (
        ("final", record.final),
        ("memory", record.memory),
    )
    for which, answer in answers:
        official = answer.score if answer else None
        repaired = repair(example, answer, judge, which) if answer else None
        changed = repaired.repaired if repaired else official
        cells[f"{which}_official"] = "" if official is None else official
        cells[f"{which}_repaired"] = "" if changed is None else changed
    return cells
