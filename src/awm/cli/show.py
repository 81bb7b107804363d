"""`awm show`: the list of a run's questions, and one of them turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from awm.cli.errors import shown_errors
from awm.cli.show_question import find_records, print_question
from awm.cli.terminal import one_line, open_console
from awm.errors import ConfigError
from awm.faults import did_you_mean
from awm.report.cells import CELL_LEGEND, CELL_TITLES, SHORT_CELL_TITLES
from awm.runs import ExampleRecord, RunStore, ScoreRecord, open_run
from awm.scoring.outcome import Outcome

_CELL_WORDS = tuple(title.split()[0] for title in SHORT_CELL_TITLES.values())
"""What `--cell` is given: a word that only one cell has."""


def show(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    question: Annotated[
        str | None,
        typer.Argument(help="A question: its number in the list, its id, or the id's beginning."),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Option(
            help=f"List one outcome cell: {', '.join(_CELL_WORDS)}.",
            metavar="CELL",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print the whole system prompt of an episode.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the list, or the question with its records, as JSON."),
    ] = False,
) -> None:
    """List a run's questions, or walk through one episode."""
    console = open_console()
    with shown_errors(open_console(stderr=True)):
        store = open_run(run)
        examples = list(store.examples.read())
        if question is not None:
            if cell is not None:
                raise ConfigError("--cell filters the list: give it without a question")
            number = _find(examples, question)
            found = find_records(store, number, examples[number - 1])
            if json:
                _print_json(found.as_json())
            else:
                print_question(found, console, full=full)
            return
        wanted = None if cell is None else _read_cell(cell)
        rows = [row for row in _rows(store, examples) if wanted in (None, row.outcome)]
        if json:
            _print_json([row.as_json() for row in rows])
        elif wanted is not None and not rows:
            console.print(f"No question of {len(examples)} is {CELL_TITLES[wanted]}.", markup=False)
        else:
            _print_list(rows, len(examples), console)


@dataclass(frozen=True, slots=True)
class _Row:
    """One question in the list."""

    number: int
    example: ExampleRecord
    record: ScoreRecord | None

    @property
    def outcome(self) -> Outcome | None:
        return self.record.outcome if self.record else None

    @property
    def answer(self) -> str | None:
        return self.record.final.prediction if self.record else None

    @property
    def state(self) -> str:
        """Say in short how the question ended."""
        if self.record is None:
            return "not run"
        if not self.record.is_final or self.record.final.score is None:
            return "unmeasured"
        if self.record.outcome is not None:
            return SHORT_CELL_TITLES[self.record.outcome]
        return "right" if self.record.final.score > 0 else "wrong"

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        record = self.record
        return {
            "number": self.number,
            "question_id": self.example.question_id,
            "document_id": self.example.document_id,
            "question": self.example.question,
            "gold": self.example.answer,
            "format": self.example.answer_format,
            "answer": self.answer,
            "memory_answer": record.memory.prediction if record and record.memory else None,
            "score": record.final.score if record else None,
            "memory_score": record.memory.score if record and record.memory else None,
            "outcome": self.outcome,
            "is_run": record is not None,
        }


def _rows(store: RunStore, examples: Sequence[ExampleRecord]) -> list[_Row]:
    scores = {record.question_id: record for record in store.final_scores()}
    return [
        _Row(number, example, scores.get(example.question_id))
        for number, example in enumerate(examples, start=1)
    ]


def _find(examples: Sequence[ExampleRecord], wanted: str) -> int:
    """Give the number, from 1, of the question that `wanted` names."""
    ids = [example.question_id for example in examples]
    if wanted in ids:
        return ids.index(wanted) + 1
    if wanted.isdecimal() and 1 <= int(wanted) <= len(ids):
        return int(wanted)
    found = [number for number, id_ in enumerate(ids, start=1) if id_.startswith(wanted)]
    if len(found) != 1:
        what = "no question" if not found else f"{len(found)} questions"
        raise ConfigError(
            f"{what} of this run's {len(ids)} have the number or an id that begins with "
            f"{wanted!r}; `awm show RUN` lists them"
        )
    return found[0]


def _read_cell(text: str) -> Outcome:
    """Give the cell that a name, or a part of one, means."""
    wanted = text.strip().lower().replace("-", "_").replace(" ", "_")
    found = [cell for cell in Outcome if wanted and wanted in cell.value]
    if len(found) != 1:
        what = "no cell" if not found else f"{len(found)} cells"
        hint = "" if found else did_you_mean(wanted, _CELL_WORDS)
        raise ConfigError(
            f"--cell {text!r} names {what}; give one of: {', '.join(_CELL_WORDS)}{hint}"
        )
    return found[0]


def _print_list(rows: Sequence[_Row], n_questions: int, console: Console) -> None:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True, min_width=len(str(n_questions)))
    table.add_column(
        "outcome", no_wrap=True, min_width=max((len(row.state) for row in rows), default=0)
    )
    for name, ratio in (("answer", 1), ("gold", 1), ("question", 2)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        example = row.example
        cells = (row.state, row.answer or "-", str(example.answer), example.question)
        table.add_row(str(row.number), *(Text(one_line(cell)) for cell in cells))
    console.print(table)
    if any(row.outcome is not None for row in rows):
        console.print(CELL_LEGEND, style="dim", highlight=False, soft_wrap=True)


def _print_json(value: object) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
