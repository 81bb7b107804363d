"""`awm demo`: the main job on the corpus that ships with AWM."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer

from awm.benchmarks import load_benchmark
from awm.cli.errors import shown_errors
from awm.cli.eval import default_cache_dir, print_next, run_evaluation
from awm.cli.terminal import open_console
from awm.evaluate import EvalSettings
from awm.models.chat import ModelSettings
from awm.report.tables import print_summary


def demo(
    run: Annotated[
        Path | None, typer.Option(help="The run folder (default: runs/demo-TIME).")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Evaluate the embedded lexical model on the demo corpus: no key, no GPU, no network."""
    folder = run or Path("runs") / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    stderr = open_console(stderr=True)
    again = f"Interrupted. Resume with: awm demo --run {shlex.quote(str(folder))}"
    with shown_errors(stderr, interrupted=again):
        settings = EvalSettings(
            benchmark="demo",
            run=folder,
            model=ModelSettings(spec="lexical"),
            reader=ModelSettings(spec="lexical"),
            cache_dir=default_cache_dir(),
        )
        summary = run_evaluation(settings, load_benchmark("demo", None), stderr)
    if json:
        typer.echo(orjson.dumps(summary.as_json(), option=orjson.OPT_INDENT_2).decode())
        return
    console = open_console()
    print_summary(summary, console)
    print_next(folder, console)
