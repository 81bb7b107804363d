"""The commands of `awm`, put together."""

from __future__ import annotations

import inspect
import logging
from importlib import metadata
from typing import Annotated

import typer

from awm.cli.ask import ask
from awm.cli.audit import audit_app
from awm.cli.check import check
from awm.cli.compare import compare
from awm.cli.demo import demo
from awm.cli.diagnose import diagnose_command
from awm.cli.eval import evaluate_command
from awm.cli.ground import ground_command
from awm.cli.intervene import intervene_command
from awm.cli.pocket import pocket_app
from awm.cli.report import report
from awm.cli.reproduce import pool_command, reproduce_command
from awm.cli.runs import runs_app
from awm.cli.score import score
from awm.cli.show import show
from awm.cli.simulate import simulate
from awm.cli.train import train_app

app = typer.Typer(
    name="awm",
    help="Answerable working memory: can a frozen reader answer from an agent's memory alone?",
    epilog=(
        "Exit codes: 0 done; 1 a fault of AWM itself; 2 the command line or a setting cannot be "
        "used; 3 a document, benchmark or run folder cannot be used; 4 a model server gave no "
        "usable answer; 5 the run is done and some questions are unmeasured; 6 awm check found an "
        "overlap; 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("ask")(ask)
app.command("eval")(evaluate_command)
app.command("check")(check)
app.command("show")(show)
app.command("score")(score)
app.command("report")(report)
app.command("compare")(compare)
app.command("simulate")(simulate)
app.command("diagnose")(diagnose_command)
app.command("intervene")(intervene_command)
app.command("ground")(ground_command)
app.add_typer(audit_app, name="audit")
app.add_typer(runs_app, name="runs")
pocket_app.command("reproduce")(reproduce_command)
pocket_app.command("pool")(pool_command)
app.add_typer(pocket_app, name="pocket")
app.add_typer(train_app, name="train")
app.command("demo")(demo)


def _let_paragraphs_flow(commands: typer.Typer) -> None:
    """Join the lines of each docstring paragraph: the terminal's width breaks them, not ours."""
    for command in commands.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _let_paragraphs_flow(group.typer_instance)


_let_paragraphs_flow(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"awm {metadata.version('awm')}")
        raise typer.Exit


@app.callback()
def _root(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log retries and warnings.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    # The level stands on the handler: a library may set its own logger's level lower.
    handler = logging.StreamHandler()
    handler.setLevel(logging.INFO if verbose else logging.ERROR)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", handlers=[handler])
