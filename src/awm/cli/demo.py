"""`awm demo`: the main job on the corpus that ships with AWM."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.markup import escape

from awm.benchmarks import load_benchmark
from awm.cli.errors import shown_errors
from awm.cli.eval import default_cache_dir, run_evaluation
from awm.cli.terminal import open_console
from awm.evaluate import EvalSettings
from awm.models.chat import ModelSettings
from awm.report.tables import print_summary


def _program() -> str:
    """Give the command that reaches this program from here: a venv's may not be on the path."""
    started = Path(sys.argv[0])
    if shutil.which("awm") is None and started.name == "awm" and started.exists():
        return shlex.quote(os.path.relpath(started))
    return "awm"


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
    show = escape(f"{_program()} show {shlex.quote(str(folder))}")
    console.print(
        f"\nNext: [bold]{show}[/bold] lists the questions, "
        f"[bold]{show} 1[/bold] walks through the first episode.",
        highlight=False,
        soft_wrap=True,
    )
