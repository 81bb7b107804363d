"""One question of a run for a terminal: the episode turn by turn, the memory, both answers."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.rule import Rule

from awm.agent.episode import Episode, ErrorRecord, MessageRecord
from awm.agent.reader import Reading
from awm.cli.terminal import plain, plain_markup
from awm.report.cells import CELL_TITLES
from awm.runs import AnswerScore, ExampleRecord, RunStore, ScoreRecord

MAX_SYSTEM_CHARS = 50
"""Of the system prompt that is shown unless all of it is asked for."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that a run holds of one question; the latest record of each kind."""

    number: int
    """In the run's list, from 1."""
    example: ExampleRecord
    episode: Episode | None
    """None: not run yet, or a run of readings alone, as `awm diagnose` makes."""
    reading: Reading | None
    score: ScoreRecord | None

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "number": self.number,
            "example": self.example.model_dump(mode="json"),
            "episode": self.episode and self.episode.model_dump(mode="json"),
            "reading": self.reading and self.reading.model_dump(mode="json"),
            "score": self.score and self.score.model_dump(mode="json"),
        }


def find_records(store: RunStore, number: int, example: ExampleRecord) -> Found:
    """Read what the run holds of a question.

    Raises:
        RunStoreError: a journal cannot be read.
    """
    id_ = example.question_id
    episode, reading, score = None, None, None
    for episode_record in store.episodes.read():
        episode = episode_record if episode_record.question_id == id_ else episode
    for reading_record in store.readings.read():
        reading = reading_record if reading_record.question_id == id_ else reading
    for score_record in store.scores.read():
        score = score_record if score_record.question_id == id_ else score
    return Found(number, example, episode, reading, score)


def print_question(found: Found, console: Console, *, full: bool) -> None:
    """Print a question with all that the run holds of it.

    Args:
        found: the records.
        console: where to.
        full: whether to print the whole system prompt.
    """
    _print_heading(found, console)
    if found.episode is not None:
        _print_episode(found.episode, console, full=full)
    elif found.reading is None and found.score is None:
        console.print("This question has not been run yet.")
        return
    console.print(Rule("result", align="left", style="dim"))
    if found.episode is not None:
        _print_end(found.episode, console)
    elif found.reading is not None:
        console.print(
            "memory, as the reader saw it:" + ("" if found.reading.memory else " (empty)")
        )
        for line in plain(found.reading.memory).splitlines():
            console.print(f"  {line}", markup=False, highlight=False)
    _print_scores(found, console)


def _print_heading(found: Found, console: Console) -> None:
    example = found.example
    console.print(f"[bold]{found.number}. {plain_markup(example.question)}[/bold]", highlight=False)
    pages = ", ".join(map(str, example.evidence_pages)) or "none"
    for name, value in (
        ("id", example.question_id),
        ("document", example.document_id),
        ("gold", f"{example.answer} ({example.answer_format}, evidence pages: {pages})"),
    ):
        console.print(f"[dim]{name}[/dim] {plain_markup(value)}", highlight=False, soft_wrap=True)


def _print_episode(episode: Episode, console: Console, *, full: bool) -> None:
    turn = 0
    for message in episode.messages:
        if message.role == "assistant":
            turn += 1
            console.print(Rule(f"turn {turn}", align="left", style="dim"))
        _print_message(message, console, full=full)


def _print_message(message: MessageRecord, console: Console, *, full: bool) -> None:
    style = {"assistant": "cyan", "tool": "green", "user": "green"}.get(message.role, "dim")
    if message.reasoning:
        console.print(f"[dim]thinks: {plain_markup(message.reasoning)}[/dim]", highlight=False)
    for block in message.content:
        if block.image is not None:
            text = f"[image of page {block.page}, {block.width} x {block.height} px]"
        else:
            text = block.text or ""
        if message.role == "system" and not full:
            text = _first_line(text)
        console.print(f"[{style}]{message.role}[/{style}] {plain_markup(text)}", highlight=False)
    for call in message.tool_calls:
        console.print(
            f"[{style}]{message.role}[/{style}] calls [bold]{plain_markup(call.name)}[/bold] "
            f"{plain_markup(call.arguments)}",
            highlight=False,
        )


def _first_line(text: str) -> str:
    first = textwrap.shorten(text.strip().partition("\n")[0], MAX_SYSTEM_CHARS, placeholder="")
    return f"{first} … (--full prints it)"


def _print_end(episode: Episode, console: Console) -> None:
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


def _print_scores(found: Found, console: Console) -> None:
    score, episode, reading = found.score, found.episode, found.reading
    if score is None:
        console.print("This answer has not been judged yet.")
        return
    _print_answer("answer", episode.answer if episode else None, score.final, console)
    if score.memory is not None:
        from_memory = reading.answer if reading else None
        _print_answer("reader, from the memory alone", from_memory, score.memory, console)
    if score.outcome is not None:
        console.print(f"outcome: {CELL_TITLES[score.outcome]}")


def _print_answer(name: str, answer: str | None, judged: AnswerScore, console: Console) -> None:
    text = judged.prediction if judged.prediction is not None else answer or "(none)"
    flags = f"   {', '.join(judged.flags)}" if judged.flags else ""
    score = "-" if judged.score is None else f"{judged.score:.2f}"
    console.print(
        f"{name}: [bold]{plain_markup(text)}[/bold]   score {score}{plain_markup(flags)}",
        highlight=False,
    )
    if judged.error is not None:
        _print_error(f"{name}: unmeasured", judged.error, console)


def _print_error(what: str, error: ErrorRecord, console: Console) -> None:
    console.print(f"{what}: [red]{error.type}[/red]: {plain_markup(error.message)}")
