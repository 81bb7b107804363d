"""`awm ask`: one question over one document."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import BaseModel, ConfigDict
from rich.console import Console

from awm.agent.environment import AgentSettings
from awm.agent.episode import Episode, run_episode, short_answer
from awm.agent.reader import Reading, read_memory
from awm.cli.async_run import run_async
from awm.cli.errors import ENDPOINT_ERROR, shown_errors
from awm.cli.eval import default_cache_dir
from awm.cli.settings import build_settings, merge, read_config
from awm.cli.terminal import open_console, plain, plain_markup
from awm.counted import counted
from awm.documents import RenderCache, RenderSettings, open_document
from awm.errors import ConfigError
from awm.evaluate import EvalSettings
from awm.models.build import build_model
from awm.models.chat import ModelSettings
from awm.question import Question
from awm.retrieval import BM25Retriever


def ask(
    document: Annotated[Path, typer.Argument(help="A PDF, an image, or a folder of page images.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="The agent (default: lexical, which needs no weights and sees no images).",
            metavar="SPEC",
        ),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            help="The reader (default: the agent's model); 'none' asks no reader.", metavar="SPEC"
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file as of `awm eval`; model, reader, agent and render count."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, e.g. model.temperature=0.", metavar="NAME=VALUE"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Answer a question over a document, and show what the memory alone can answer."""
    stderr = open_console(stderr=True)
    with shown_errors(stderr):
        if not question.strip():
            raise ConfigError("the question is empty: write it after the document, in quotes")
        values = merge(read_config(config), {"model": model, "reader": reader}, assignments or ())
        settings = _ask_settings(values)
        asked = run_async(_ask(document, question, settings))
    episode, reading = asked.episode, asked.reading
    if json:
        typer.echo(orjson.dumps(_as_json(asked), option=orjson.OPT_INDENT_2).decode())
    else:
        _print(asked, open_console())
    failed = [
        f"{who}: {error.type}: {error.message}"
        for who, error in (("agent", episode.error), ("reader", reading.error if reading else None))
        if error is not None
    ]
    for line in failed:
        stderr.print(f"[bold red]Error:[/bold red] {plain_markup(line)}", soft_wrap=True)
    if failed:
        raise typer.Exit(ENDPOINT_ERROR)


class AskSettings(BaseModel):
    """The part of `awm eval`'s settings that one question needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelSettings = ModelSettings(spec="lexical")
    """The agent's policy."""
    reader: ModelSettings | None
    """None: the memory is not read."""
    agent: AgentSettings = AgentSettings()
    render: RenderSettings = RenderSettings()


@dataclass(frozen=True, slots=True)
class _Asked:
    settings: AskSettings
    episode: Episode
    reading: Reading | None
    page_count: int
    pages_without_text: list[int]

    @property
    def model(self) -> str:
        """The agent's spec."""
        return self.settings.model.spec

    @property
    def reader(self) -> str | None:
        """The reader's spec; None: the memory was not read."""
        return None if self.settings.reader is None else self.settings.reader.spec


def _ask_settings(values: dict[str, Any]) -> AskSettings:
    values = {"reader": values.get("model", {"spec": "lexical"}), **values}
    other = EvalSettings.model_fields.keys() - AskSettings.model_fields.keys()
    known = {k: v for k, v in values.items() if k not in other}
    return build_settings(AskSettings, known, ("model", "reader"))


async def _ask(path: Path, text: str, settings: AskSettings) -> _Asked:
    async with contextlib.AsyncExitStack() as stack:
        policy = build_model(settings.model, role="--model")
        stack.push_async_callback(policy.aclose)
        reader = None
        if settings.reader is not None:
            reader = build_model(settings.reader, role="--reader")
            stack.push_async_callback(reader.aclose)
        document = stack.enter_context(open_document(path))
        question = Question(id="ask", text=text, document_id=document.id)
        episode = await run_episode(
            question,
            document,
            policy,
            BM25Retriever(),
            settings=settings.agent,
            render=settings.render,
            cache=RenderCache(default_cache_dir()),
        )
        reading = None
        if episode.memory is not None and reader is not None:
            reading = await read_memory(question.id, text, episode.memory, reader)
        return _Asked(
            settings, episode, reading, document.page_count, document.pages_without_text()
        )


def _as_json(asked: _Asked) -> dict[str, object]:
    episode, reading = asked.episode, asked.reading
    return {
        "model": asked.model,
        "reader": asked.reader,
        "answer": None if episode.answer is None else short_answer(episode.answer),
        "memory": None if episode.memory is None else [f.model_dump() for f in episode.memory],
        "memory_answer": None
        if reading is None or reading.answer is None
        else short_answer(reading.answer),
        "pages_shown": episode.pages_shown,
        "pages_without_text": asked.pages_without_text,
        "stop_reason": episode.stop_reason,
        "turns": episode.turns,
        "error": episode.error.model_dump() if episode.error else None,
        "reader_error": reading.error.model_dump() if reading and reading.error else None,
    }


def _print(asked: _Asked, console: Console) -> None:
    episode, reading = asked.episode, asked.reading
    if episode.error is not None:
        return
    answer = "(no answer: the turn limit was reached)"
    if episode.answer is not None:
        answer = short_answer(episode.answer)
    console.print(f"[bold]Answer[/bold]   {plain_markup(answer)}", highlight=False)
    if episode.answer is None and episode.refusals:
        last = episode.refusals[-1]
        calls = counted(len(episode.refusals), "call", "calls")
        console.print(
            f"[bold]Refused[/bold]  {calls}; the last, in turn {last.turn + 1}: "
            f"{plain_markup(last.message)}",
            highlight=False,
        )
    pages = ", ".join(map(str, episode.pages_shown)) or "none"
    console.print(f"[bold]Memory[/bold]   ({episode.turns} turns; pages shown: {pages})")
    for finding in episode.memory or ():
        console.print(plain(f"  {finding.render()}"), markup=False, highlight=False)
    if not episode.memory:
        console.print("  (empty)")
    if reading is not None and reading.error is None:
        from_memory = short_answer(reading.answer or "") or "(nothing)"
        console.print(
            f"[bold]Reader[/bold]   {plain_markup(from_memory)}  "
            "[dim](from the memory alone)[/dim]",
            highlight=False,
        )
    models = f"{asked.model}; reader {asked.reader or 'none'}"
    console.print(f"[bold]Model[/bold]    {plain_markup(models)}", highlight=False)
    if asked.pages_without_text:
        console.print(_tell_pages_without_text(asked), highlight=False)


def _tell_pages_without_text(asked: _Asked) -> str:
    """Say, as markup, who could not find or read the pages without a text layer."""
    without = asked.pages_without_text
    told = f"[yellow]{len(without)} of {asked.page_count} pages have no text layer[/yellow]"
    if set(without) <= set(asked.episode.pages_shown):
        told += ": the agent was shown them as images alone."
    else:
        told += (
            ": a lexical search cannot find them. An OCR tool that writes a text layer, e.g. "
            "ocrmypdf, mends that."
        )
    if asked.model == "lexical":
        told += (
            " The model lexical reads text layers alone; to read images, name a vision model with "
            "--model."
        )
    return told
