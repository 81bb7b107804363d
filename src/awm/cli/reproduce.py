"""`awm pocket reproduce`: the paper's comparison, on a laptop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from awm._extras import require
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.pocket.grpo import N_TEST, STEPS


def reproduce_command(
    seed: Annotated[int, typer.Option(help="Of the trainings and their questions.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of everything; resumed if it exists.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="A folder of `awm pocket train`; default: the shipped models."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Updates of each training.")] = STEPS,
    questions: Annotated[int, typer.Option(min=1, help="Unseen questions of the test.")] = N_TEST,
    threads: Annotated[int, typer.Option(min=1, help="Of torch.")] = 1,
) -> None:
    """Train answer-only GRPO and AWM-GRPO from one checkpoint, and compare them.

    Both answer the same unseen questions at temperature 1.
    """
    console = open_console(stderr=True)
    resume = "Interrupted. What is done is kept; start the same command again to resume."
    with shown_errors(console, interrupted=resume):
        # Before torch is imported: its worker threads take the number from here alone, and threads
        # that wait actively take the cores from those that work.
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        require("torch", "local")
        require("trl", "train")
        from awm.train.pocket import describe, reproduce

        def tell(line: str) -> None:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

        folder = out or Path(f"runs/pocket-{seed}")
        result = reproduce(
            seed,
            folder,
            weights=weights,
            steps=steps,
            n_test=questions,
            threads=threads,
            tell=tell,
        )
    for arm in result.arms:
        typer.echo(describe(arm))
