"""`awm diagnose`: the memory of any system, from its log."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import typer
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from awm.analysis.controls import control_source
from awm.analysis.diagnosis.log_table import LogTable, log_memories, read_table, reading_source
from awm.analysis.diagnosis.logs import Converter, Log
from awm.analysis.diagnosis.message_logs import (
    DEFAULT_MEMORY_TOOL,
    langgraph_converter,
    smolagents_converter,
)
from awm.analysis.diagnosis.run import Diagnosis, diagnose
from awm.analysis.rereading import UNMEASURED as UNMEASURED_BY_SOURCE
from awm.analysis.rereading import Judging, Source, extraction_prompt, reread
from awm.analysis.summary import RunSummary, summarize
from awm.cli.async_run import run_async
from awm.cli.errors import UNMEASURED, shown_errors
from awm.cli.progress import ProgressBar
from awm.cli.settings import build_settings, merge, read_config
from awm.cli.terminal import open_console
from awm.counted import counted
from awm.errors import ConfigError
from awm.models.build import build_model
from awm.models.chat import ModelSettings
from awm.report.diagnosis_tables import print_diagnosis
from awm.runs import open_run

SourceFormat = Literal["rows", "langgraph", "smolagents"]


class DiagnoseSettings(BaseModel):
    """All that `awm diagnose` can be told, by flags or by a TOML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log: Path
    judge: Literal["mmlongbench-doc", "longdocurl"] = "mmlongbench-doc"
    source_format: SourceFormat = "rows"
    """How the log is written."""
    memory_tool: str = DEFAULT_MEMORY_TOOL
    """The note-taking tool of a message log."""
    memory_field: str | None = None
    """The field of a message log that holds the memory; None: what the tool's calls wrote."""
    reader: ModelSettings | None = None
    """Answers from the memory of rows that bring no memory-only answer."""
    extractor: ModelSettings | None = None
    """None: answers are judged as they are."""
    extraction_prompt: Path | None = None
    controls: tuple[Literal["question-only", "shuffled"], ...] = ()
    seed: int = Field(default=0, ge=0)
    """Of the shuffled control."""
    run: Path | None = None
    """Folder of what the models answered; None: runs/diagnose-NAME-HASH, by log, judge, models."""
    concurrency: int = Field(default=8, ge=1)


def diagnose_command(
    log: Annotated[Path, typer.Argument(help="JSONL: one object a line, see docs/diagnose.md.")],
    reader: Annotated[
        str | None,
        typer.Option(
            help="Answers from the memories of rows without an answer of a reader.", metavar="SPEC"
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="mmlongbench-doc (default) or longdocurl.", metavar="NAME")
    ] = None,
    extractor: Annotated[
        str | None, typer.Option(help="Shortens answers before they are judged.", metavar="SPEC")
    ] = None,
    extraction_prompt: Annotated[
        Path | None, typer.Option(help="The benchmark's own prompt file; default: AWM's.")
    ] = None,
    source_format: Annotated[
        str | None,
        typer.Option("--from", help="rows (default), langgraph or smolagents.", metavar="FORMAT"),
    ] = None,
    memory_tool: Annotated[
        str | None,
        typer.Option(
            help=f"Note-taking tool of a message log (default {DEFAULT_MEMORY_TOOL}).",
            metavar="NAME",
        ),
    ] = None,
    memory_field: Annotated[
        str | None,
        typer.Option(help="Field of a message log that holds the memory.", metavar="NAME"),
    ] = None,
    controls: Annotated[
        str | None,
        typer.Option(
            help="question-only,shuffled: the reader answers without its memory.", metavar="NAMES"
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the shuffled control (default 0).")] = None,
    run: Annotated[
        Path | None, typer.Option(help="Folder of the readings; resumed if it exists.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Rows under way at once (default 8).")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file; flags win over it.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, e.g. reader.temperature=0.", metavar="NAME=VALUE"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Measure what the memory of any system is worth, from a log of its answers and memories.

    A row that brings a reader's answer (memory_answer) or scores costs no model call. What a reader
    answers is kept in the run folder: the same command resumes, and retries what failed.
    """
    stderr = open_console(stderr=True)
    flags = {
        "log": log,
        "judge": judge,
        "reader": reader,
        "extractor": extractor,
        "extraction_prompt": extraction_prompt,
        "source_format": source_format,
        "memory_tool": memory_tool,
        "memory_field": memory_field,
        "controls": None if controls is None else tuple(filter(None, controls.split(","))),
        "seed": seed,
        "run": run,
        "concurrency": concurrency,
    }
    resume = "Interrupted. What is done is kept; start the same command again to resume."
    with shown_errors(stderr, interrupted=resume):
        values = merge(read_config(config), flags, assignments or ())
        found, n_failed = run_diagnosis(build_settings(DiagnoseSettings, values, flags), stderr)
    if json:
        typer.echo(orjson.dumps(found.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print_diagnosis(found, open_console())
    if n_failed:
        raise typer.Exit(UNMEASURED)


def run_diagnosis(settings: DiagnoseSettings, console: Console) -> tuple[Diagnosis, int]:
    """Diagnose a log.

    Returns:
        What was found, and how many readings failed.

    Raises:
        UserError: settings that cannot be used.
        DataError: the log cannot be used.
        EndpointError: the reader's endpoint is down.
    """
    if settings.extraction_prompt is not None and settings.extractor is None:
        raise ConfigError("an extraction prompt needs an extractor (--extractor)")
    if settings.controls and settings.reader is None:
        raise ConfigError(
            "--controls needs a --reader, the one that the log's memory_answer come from; or write "
            "question_only_answer and shuffled_answer into the rows"
        )
    log = Log(settings.log, settings.judge, _converter(settings))
    table = read_table(
        log,
        settings.judge,
        has_reader=settings.reader is not None,
        has_extractor=settings.extractor is not None,
    )
    folder = settings.run or _default_folder(settings, log.digest)
    summaries = _ask_models(settings, table, folder, console)
    spent = [summary.spent for summary in summaries]
    errors: dict[str, int] = {}
    for summary in summaries:
        for kind, count in summary.errors.items():
            if kind != UNMEASURED_BY_SOURCE.type:
                errors[kind] = errors.get(kind, 0) + count
    prompt = _prompt(settings)
    found = diagnose(
        table,
        reader=settings.reader.spec if settings.reader and summaries else None,
        extractor=settings.extractor.spec if settings.extractor else None,
        extraction_prompt=f"{prompt.source}:{prompt.digest}" if prompt else None,
        run=folder if summaries else None,
        errors=errors,
        spent={
            "prompt_tokens": sum(each.prompt_tokens for each in spent),
            "completion_tokens": sum(each.completion_tokens for each in spent),
            "calls": sum(each.calls for each in spent),
            "retries": sum(each.retries for each in spent),
        },
        notes=_notes(settings, table),
    )
    return found, sum(errors.values())


def _notes(settings: DiagnoseSettings, table: LogTable) -> list[str]:
    """Say where the reader's answers and the log's own stand side by side."""
    n_own = len(table.rows) - len(table.to_read) - len(table.unreadable)
    if settings.reader is None or settings.extractor is not None or not table.readers:
        return []
    if not table.to_read:
        return ["every row brings its memory-only answer, so the reader was not asked for them"]
    if not n_own:
        return []
    own = counted(n_own, "row", "rows")
    return [
        f"a memory-only answer of its own stands in {own}, and the reader gave the other "
        f"{len(table.to_read)}: the figures mix two readers unless they are the same"
    ]


def _ask_models(
    settings: DiagnoseSettings, table: LogTable, folder: Path, console: Console
) -> list[RunSummary]:
    """Let the models do what is left, each part into a run folder of its own."""
    summaries = []
    if table.to_read:
        _reread(settings, reading_source(table), folder, {}, console)
        store = open_run(folder)
        table.take_scores(store.final_scores())
        summaries.append(summarize(store))
    for control in settings.controls:
        source = control_source(log_memories(table), control, settings.seed)
        if not source.examples:
            raise ConfigError(
                f"--controls {control}: no two rows share a `document`, so there is no other "
                "question's memory to read; name the documents, or leave the control out"
            )
        named = {"control": control, "seed": settings.seed}
        _reread(settings, source, folder / control, named, console)
        store = open_run(folder / control)
        table.take_control(control, store.final_scores())
        summaries.append(summarize(store))
    return summaries


def _reread(
    settings: DiagnoseSettings,
    source: Source,
    folder: Path,
    named: dict[str, Any],
    console: Console,
) -> None:
    recorded = settings.model_dump(mode="json", exclude={"controls", "seed", "log"}) | named
    recorded |= {
        "data": str(settings.log),
        "setting": "diagnose",
        "model": {"spec": "log"},
    }

    async def work() -> None:
        reader = build_model(settings.reader, role="--reader") if settings.reader else None
        extractor = None
        if settings.extractor:
            extractor = build_model(settings.extractor, role="--extractor")
        judging = Judging(settings.judge, extractor, _prompt(settings))
        try:
            with ProgressBar(console) as bar:
                await reread(
                    source,
                    reader,
                    judging,
                    folder,
                    recorded,
                    concurrency=settings.concurrency,
                    on_progress=bar,
                )
        finally:
            for model in (reader, extractor):
                if model is not None:
                    await model.aclose()

    run_async(work())


def _prompt(settings: DiagnoseSettings) -> Any:
    if settings.extractor is None:
        return None
    return extraction_prompt(settings.judge, settings.extraction_prompt)


def _converter(settings: DiagnoseSettings) -> Converter | None:
    if settings.source_format == "rows":
        if settings.memory_field is not None:
            raise ConfigError("--memory-field is for message logs: name one with --from")
        return None
    make = {"langgraph": langgraph_converter, "smolagents": smolagents_converter}
    return make[settings.source_format](settings.memory_tool, settings.memory_field)


def _default_folder(settings: DiagnoseSettings, digest: str) -> Path:
    """Name a folder after all that decides its content, so that the same command finds it again."""
    prompt = _prompt(settings)
    decides = {
        "log": digest,
        "judge": settings.judge,
        "reader": _sampling(settings.reader),
        "extractor": _sampling(settings.extractor),
        "extraction_prompt": prompt.digest if prompt else None,
        "source": [settings.source_format, settings.memory_tool, settings.memory_field],
    }
    name = hashlib.sha256(orjson.dumps(decides, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    return Path("runs") / f"diagnose-{settings.log.stem}-{name}"


def _sampling(model: ModelSettings | None) -> dict[str, Any] | None:
    """Give a model's settings without those that say how it is reached."""
    how = {"timeout_s", "max_retries", "max_in_flight", "api_key_env"}
    return model.model_dump(mode="json", exclude=how) if model else None
