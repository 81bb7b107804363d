"""`awm pocket reproduce` and `awm pocket pool`: the paper's comparison, on a laptop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from awm._extras import require
from awm.analysis.statistics.intervals import Estimate
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.pocket.grpo import N_TEST, STEPS
from awm.report.figures import check_figure_path
from awm.report.training_figure import draw_training
from awm.train.pocket_pool import FIGURES, PocketPool, pool_reproductions

_ARM_TITLES = {"before": "before", "answer_only": "answer-only", "awm": "AWM"}
_FIGURE_TITLES = {
    "accuracy": "final-answer\naccuracy",
    "memory_accuracy": "memory-only\naccuracy",
    "p_mmc": "P_mmc",
}


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


def pool_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more folders that `awm pocket reproduce --seed S --out FOLDER` finished "
            "(without --out: runs/pocket-S), each of another seed."
        ),
    ],
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the training curves: .svg, .png or .pdf (extra: figures)."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Pool the pairs of several seeds, with intervals over seeds and documents.

    Differences are AWM-GRPO minus answer-only GRPO, paired by document.
    """
    console = open_console(stderr=True)
    with shown_errors(console):
        if figure is not None:
            check_figure_path(figure)
        pool = pool_reproductions(folders)
        if figure is not None:
            draw_training(pool.curves, figure)
            console.print(f"written: {figure}", markup=False, soft_wrap=True)
    if as_json:
        typer.echo(orjson.dumps(pool.as_json(), option=orjson.OPT_INDENT_2))
        return
    _print_pool(pool, open_console())


def _print_pool(pool: PocketPool, console: Console) -> None:
    seeds = ", ".join(map(str, pool.seeds))
    table = Table(title=f"Seeds {seeds}, {pool.steps} steps each", title_justify="left")
    table.add_column("")
    for arm in pool.arms:
        table.add_column(_ARM_TITLES[arm.name], justify="right")
    table.add_column("difference", justify="right")
    for name in FIGURES:
        cells = [_cell(arm.figures[name]) for arm in pool.arms]
        table.add_row(_FIGURE_TITLES[name], *cells, _cell(pool.differences[name], "+.3f"))
    signals = [arm.groups_with_signal for arm in pool.arms]
    table.add_row(
        "groups with\nsignal a step", *("" if n is None else f"{n:.1f}" for n in signals), ""
    )
    console.print(table)
    gaps = ", ".join(
        f"{seed}: {'unmeasured' if gap is None else f'{gap:+.3f}'}"
        for seed, gap in pool.gaps.items()
    )
    console.print(f"P_mmc, AWM minus answer-only, by seed: {gaps}", highlight=False)
    if len(pool.seeds) == 2:
        console.print("Two seeds say little about others: the intervals are wide. Add a third.")
    console.print(
        "Brackets: 95 % intervals over documents and seeds. A group has signal where two of its "
        "rewards differ.",
        highlight=False,
    )


def _cell(figure: Estimate, form: str = ".3f") -> str:
    if figure.value is None:
        return "unmeasured"
    interval = figure.interval
    tail = "" if interval is None else f"\n[{interval.low:{form}}, {interval.high:{form}}]"
    return f"{figure.value:{form}}{tail}"
