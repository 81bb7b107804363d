"""`awm show`: read a run's episodes, turn by turn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from awm.agent.episode import Episode, ErrorRecord, MessageRecord
from awm.agent.reader import Reading
from awm.cli.errors import shown_errors
from awm.cli.terminal import one_line, open_console, plain, plain_markup
from awm.errors import ConfigError
from awm.runs import AnswerScore, ExampleRecord, RunStore, ScoreRecord, open_run
from awm.scoring.outcome import Outcome

T = TypeVar("T")

_SHORT_OUTCOMES = {
    Outcome.MEMORY_SUPPORTED_CORRECT: "supported",
    Outcome.MEMORY_MISSING_CORRECT: "missing",
    Outcome.ANSWERING_ERROR: "answering",
    Outcome.UNRESOLVED_ERROR: "unresolved",
}
_LEGEND = """\
supported: answer and memory right     missing: answer right, memory wrong (MMC)
answering: answer wrong, memory right  unresolved: both wrong"""


def show(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    question: Annotated[
        str | None,
        typer.Argument(help="A question: its number in the list, its id, or the id's beginning."),
    ] = None,
) -> None:
    """List a run's questions, or walk through one episode."""
    console = open_console()
    with shown_errors(open_console(stderr=True)):
        store = open_run(run)
        examples = list(store.examples.read())
        if question is None:
            _list(store, examples, console)
        else:
            number = _find(examples, question)
            _walk(store, number, examples[number - 1], console)


def _find(examples: list[ExampleRecord], wanted: str) -> int:
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


def _list(store: RunStore, examples: list[ExampleRecord], console: Console) -> None:
    scores = {record.question_id: record for record in store.final_scores()}
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True, min_width=len(str(len(examples))))
    table.add_column("outcome", no_wrap=True, min_width=len("unmeasured"))
    for name, ratio in (("answer", 1), ("gold", 1), ("question", 2)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for number, example in enumerate(examples, start=1):
        record = scores.get(example.question_id)
        cells = (
            str(number),
            _short_outcome(record),
            (record.final.prediction if record else None) or "-",
            str(example.answer),
            example.question,
        )
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    console.print(table)
    if any(record.outcome is not None for record in scores.values()):
        console.print(_LEGEND, style="dim", highlight=False, soft_wrap=True)


def _short_outcome(record: ScoreRecord | None) -> str:
    if record is None:
        return "not run"
    if not record.is_final or record.final.score is None:
        return "unmeasured"
    if record.outcome is not None:
        return _SHORT_OUTCOMES[record.outcome]
    return "right" if record.final.score > 0 else "wrong"


def _score(answer: AnswerScore | None) -> str:
    return "-" if answer is None or answer.score is None else f"{answer.score:.2f}"


def _walk(store: RunStore, number: int, example: ExampleRecord, console: Console) -> None:
    id_ = example.question_id
    episode = _last(e for e in store.episodes.read() if e.question_id == id_)
    reading = _last(r for r in store.readings.read() if r.question_id == id_)
    record = _last(s for s in store.scores.read() if s.question_id == id_)
    console.print(f"[bold]{number}. {plain_markup(example.question)}[/bold]", highlight=False)
    pages = ", ".join(map(str, example.evidence_pages)) or "none"
    for name, value in (
        ("id", id_),
        ("document", example.document_id),
        ("gold", f"{example.answer} ({example.answer_format}, evidence pages: {pages})"),
    ):
        console.print(f"[dim]{name}[/dim] {plain_markup(value)}", highlight=False, soft_wrap=True)
    if episode is None:
        console.print("This question has not been run yet.")
        return
    _print_episode(episode, console)
    _print_result(episode, reading, record, console)


def _last(records: Iterable[T]) -> T | None:
    last = None
    for record in records:
        last = record
    return last


def _print_episode(episode: Episode, console: Console) -> None:
    turn = 0
    for message in episode.messages:
        if message.role == "assistant":
            turn += 1
            console.print(Rule(f"turn {turn}", align="left", style="dim"))
        _print_message(message, console)


def _print_message(message: MessageRecord, console: Console) -> None:
    style = {"assistant": "cyan", "tool": "green", "user": "green"}.get(message.role, "dim")
    if message.reasoning:
        console.print(f"[dim]thinks: {plain_markup(message.reasoning)}[/dim]", highlight=False)
    for block in message.content:
        if block.image is not None:
            text = f"[image of page {block.page}, {block.width} x {block.height} px]"
        else:
            text = block.text or ""
        console.print(f"[{style}]{message.role}[/{style}] {plain_markup(text)}", highlight=False)
    for call in message.tool_calls:
        console.print(
            f"[{style}]{message.role}[/{style}] calls [bold]{plain_markup(call.name)}[/bold] "
            f"{plain_markup(call.arguments)}",
            highlight=False,
        )


def _print_result(
    episode: Episode, reading: Reading | None, record: ScoreRecord | None, console: Console
) -> None:
    console.print(Rule("result", align="left", style="dim"))
    if episode.error is not None:
        _print_error("episode", episode.error, console)
    for refusal in episode.refusals:
        console.print(
            f"refused in turn {refusal.turn + 1}: {plain_markup(refusal.message)}", highlight=False
        )
    if episode.memory is not None:
        console.print("memory:" + ("" if episode.memory else " (empty)"))
        for finding in episode.memory:
            console.print(plain(f"  {finding.render()}"), markup=False, highlight=False)
    if record is None:
        console.print("This answer has not been judged yet.")
        return
    _print_answer("answer", episode.answer, record.final, console)
    if record.memory is not None:
        from_memory = reading.answer if reading else None
        _print_answer("reader, from the memory alone", from_memory, record.memory, console)
    if record.outcome is not None:
        console.print(f"outcome: {record.outcome.value.replace('_', ' ')}")


def _print_answer(name: str, answer: str | None, judged: AnswerScore, console: Console) -> None:
    text = judged.prediction if judged.prediction is not None else answer or "(none)"
    flags = f"   {', '.join(judged.flags)}" if judged.flags else ""
    console.print(
        f"{name}: [bold]{plain_markup(text)}[/bold]   score {_score(judged)}{plain_markup(flags)}",
        highlight=False,
    )
    if judged.error is not None:
        _print_error(f"{name}: unmeasured", judged.error, console)


def _print_error(what: str, error: ErrorRecord, console: Console) -> None:
    console.print(f"{what}: [red]{error.type}[/red]: {plain_markup(error.message)}")
