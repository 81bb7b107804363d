"""`awm ground`: check every finding of a run against the page that it cites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from awm.analysis.grounding.report import report_grounding
from awm.analysis.grounding.run import GroundingSettings, ground
from awm.analysis.source_runs import open_source
from awm.cli.async_run import run_async
from awm.cli.errors import UNMEASURED, shown_errors
from awm.cli.eval import default_cache_dir
from awm.cli.progress import StepBar
from awm.cli.settings import build_settings, merge
from awm.cli.terminal import open_console
from awm.report.grounding_tables import print_grounding


def ground_command(
    source: Annotated[
        Path, typer.Argument(help="A run whose agent keeps a memory.", metavar="RUN")
    ],
    run: Annotated[Path, typer.Option(help="The folder of the verdicts; resumed if it exists.")],
    verifier: Annotated[
        str,
        typer.Option(
            help="text: the page's text layer (embedded); or a model that sees the page.",
            metavar="SPEC",
        ),
    ] = "text",
    data: Annotated[
        Path | None, typer.Option(help="The benchmark's folder or file, where it has moved.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(help="Checks under way at once.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any setting, e.g. verifier.temperature=0.", metavar="NAME=VALUE"
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Check every finding against its page: supported, contradicted, not found or unreadable.

    The folder keeps every verdict with the evidence quoted; the same command resumes, and retries
    what is unmeasured.
    """
    stderr = open_console(stderr=True)
    again = "Interrupted. What is done is kept; start the same command again to resume."
    with shown_errors(stderr, interrupted=again):
        own = open_source(source).settings
        base: dict[str, Any] = {
            "source": source,
            "run": run,
            "render": own.render.model_dump(mode="json"),
            "cache_dir": default_cache_dir(),
        }
        flags = {"verifier": verifier, "data": data, "concurrency": concurrency}
        settings = build_settings(GroundingSettings, merge(base, flags, assignments or ()))
        with StepBar(stderr, "findings") as bar:
            run_async(ground(settings, on_done=bar))
        report = report_grounding(settings.run)
    if json:
        typer.echo(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print_grounding(report, open_console())
    if report.n_unmeasured:
        raise typer.Exit(UNMEASURED)
