"""`awm intervene`: replace the memories of a finished run, and see what they are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from awm.analysis.interventions.figures import InterventionReport
from awm.analysis.interventions.log import read_intervention_log
from awm.analysis.interventions.records import ARMS, InterventionSettings
from awm.analysis.interventions.report import make_report, report_intervention
from awm.analysis.interventions.run import intervene
from awm.analysis.source_runs import open_source
from awm.cli.async_run import run_async
from awm.cli.errors import UNMEASURED, shown_errors
from awm.cli.eval import default_cache_dir
from awm.cli.progress import StepBar
from awm.cli.settings import build_settings, merge
from awm.cli.terminal import open_console
from awm.errors import ConfigError
from awm.report.intervention_tables import print_intervention


def intervene_command(
    source: Annotated[
        Path | None, typer.Argument(help="A finished run, of the setting ep-given.", metavar="RUN")
    ] = None,
    memory: Annotated[
        str, typer.Option(help="The memories to compare, with commas.", metavar="NAMES")
    ] = "empty,original,improved",
    writer: Annotated[
        str | None,
        typer.Option(help="Writes the improved memories from the gold pages.", metavar="SPEC"),
    ] = None,
    improved: Annotated[
        Path | None,
        typer.Option(help="Or a file of them: JSONL rows of question_id and findings."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder of the comparison; resumed if it exists.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="Instead of a run: JSONL rows of question_id, arm and both scores."),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(help="Gives the final answers (default: the run's agent).", metavar="SPEC"),
    ] = None,
    generator_sees_pages: Annotated[
        bool,
        typer.Option(
            "--generator-sees-pages",
            help="Show it the gold pages beside the memory: the other reading of the paper.",
        ),
    ] = False,
    reader: Annotated[
        str | None,
        typer.Option(help="The frozen reader (default: the run's own).", metavar="SPEC"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The benchmark's folder or file, where it has moved.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Answers under way at once.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, e.g. writer.temperature=0.", metavar="NAME=VALUE"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Compare empty, original and improved memories: same gold pages, generator, reader and judge.

    The generator answers from the question and the substituted memory alone. The folder keeps
    everything; the same command resumes, and retries what is unmeasured.
    """
    stderr = open_console(stderr=True)
    again = "Interrupted. What is done is kept; start the same command again to resume."
    with shown_errors(stderr, interrupted=again):
        if log is not None:
            if source is not None or run is not None:
                raise ConfigError("--log stands for itself: give no RUN and no --run with it")
            report = make_report(read_intervention_log(log), {"log": str(log)})
        else:
            flags = {
                "writer": writer,
                "improved": improved,
                "generator": generator,
                "generator_sees_pages": generator_sees_pages or None,
                "reader": reader,
                "data": data,
                "concurrency": concurrency,
            }
            settings = _settings(source, run, memory, flags, assignments or [])
            with StepBar(stderr, "answers") as bar:
                run_async(intervene(settings, on_done=bar))
            report = report_intervention(settings.run)
    _show(report, json)
    if log is None and report.n_unmeasured:
        raise typer.Exit(UNMEASURED)


def _settings(
    source: Path | None,
    run: Path | None,
    memory: str,
    flags: dict[str, Any],
    assignments: list[str],
) -> InterventionSettings:
    if source is None:
        raise ConfigError("name a finished run, or a log with --log FILE")
    if run is None:
        raise ConfigError("no --run: name the folder that keeps the comparison")
    arms = _arms(memory, has_improved=bool(flags["writer"] or flags["improved"]))
    own = open_source(source).settings
    base: dict[str, Any] = {
        "source": source,
        "run": run,
        "arms": arms,
        "render": own.render.model_dump(mode="json"),
        "cache_dir": default_cache_dir(),
        "extraction_prompt": own.extraction_prompt,
    }
    for role, model in (
        ("generator", own.model),
        ("reader", own.reader),
        ("extractor", own.extractor),
    ):
        # A model that a flag names is not sampled with the settings of the one it replaces.
        if model is not None and flags.get(role) is None:
            base[role] = model.model_dump(mode="json")
    values = merge(base, flags, assignments)
    if not isinstance(values.get("reader"), dict):
        raise ConfigError(
            f"{source} was made without a reader: name the model that reads memories (--reader)"
        )
    return build_settings(InterventionSettings, values)


def _arms(memory: str, *, has_improved: bool) -> list[str]:
    arms = [name.strip() for name in memory.split(",") if name.strip()]
    unknown = [arm for arm in arms if arm not in ARMS]
    if unknown or not arms:
        raise ConfigError(
            f"--memory {memory!r}: {repr(unknown[0]) if unknown else 'no name'} is none of "
            f"{', '.join(ARMS)}; name one or more, with commas"
        )
    if "improved" in arms and not has_improved:
        others = ",".join(arm for arm in arms if arm != "improved")
        raise ConfigError(
            "--memory improved needs a model that writes the improved memories (--writer SPEC) or "
            "a file that holds them (--improved FILE)"
            + (f"; to do without: --memory {others}" if others else "")
        )
    return arms


def _show(report: InterventionReport, json: bool) -> None:
    if json:
        typer.echo(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print_intervention(report, open_console())
