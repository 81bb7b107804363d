"""`awm pocket`: train the pocket models, and keep their tokenizers in step with the prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from awm._extras import require
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console

pocket_app = typer.Typer(
    help="The world that fits into a laptop: a tiny model that really reads pages.",
    no_args_is_help=True,
)

_INTERRUPTED = (
    "Interrupted. Nothing is kept before the end of a stage: the policy is written before the "
    "reader is trained. The same command begins anew."
)


@pocket_app.command("train")
def train(
    out: Annotated[Path, typer.Option(help="Folder for the two models.")] = Path(
        "runs/pocket-weights"
    ),
    seed: Annotated[int, typer.Option(help="Of the weights and of the training documents.")] = 0,
    generic: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of the teacher's findings that state nothing."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of torch.")] = 2,
    scale: Annotated[
        float, typer.Option(min=0.001, help="Of the number of steps; 0.01 is a smoke test.")
    ] = 1.0,
) -> None:
    """Train the policy and the reader from nothing, on the CPU.

    Use them with --model pocket:FOLDER --reader pocket:FOLDER.
    """
    console = open_console(stderr=True)
    with shown_errors(console, interrupted=_INTERRUPTED):
        require("torch", "local")
        require("transformers", "local")
        from awm.pocket.train import PocketTraining, train_pocket

        settings = PocketTraining(seed=seed, threads=threads).scaled(scale)
        if generic is not None:
            settings = settings.model_copy(update={"generic_share": generic})

        def tell(line: str) -> None:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

        train_pocket(settings, out, tell, n_checked=max(4, round(200 * min(1.0, scale))))


@pocket_app.command("tokenizer")
def tokenizer(
    folder: Annotated[Path, typer.Argument(help="A folder of `awm pocket train`.")],
) -> None:
    """Write the tokenizers anew after a change of the prompts; the weights stay."""
    console = open_console(stderr=True)
    with shown_errors(console):
        require("torch", "local")
        require("transformers", "local")
        from awm.pocket.train import refresh_tokenizers

        for path in refresh_tokenizers(folder):
            console.print(f"written: {path}", markup=False, soft_wrap=True)
