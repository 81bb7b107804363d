"""`awm runs`: what can be done with run folders as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from awm.analysis.export import FORMATS, export_run
from awm.cli.errors import shown_errors
from awm.cli.eval import default_cache_dir
from awm.cli.terminal import open_console, plain
from awm.errors import ConfigError

runs_app = typer.Typer(help="Work with run folders.", no_args_is_help=True)


@runs_app.command("export")
def export_command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option(help=f"{', '.join(FORMATS)}.", metavar="FORMAT")],
    out: Annotated[Path, typer.Option(help="A folder that is not there yet.")],
    images: Annotated[bool, typer.Option("--images", help="Copy the page images in, too.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="The benchmark's folder, for images, where it has moved.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Write a run's trajectories as a data set with a data card.

    jsonl needs nothing else; parquet and hf need pyarrow (extra `export`). A folder written with
    hf is read by datasets.load_dataset(DIR). The content is the benchmark's: mind its licence.
    """
    with shown_errors(open_console(stderr=True)):
        chosen = next((name for name in FORMATS if name == to), None)
        if chosen is None:
            raise ConfigError(f"--to {to!r} is none of: {', '.join(FORMATS)}")
        done = export_run(run, chosen, out, images=images, data=data, cache_dir=default_cache_dir())
    if json:
        facts = {
            "folder": str(done.folder),
            "file": str(done.file),
            "n_rows": done.n_rows,
            "n_left_out": done.n_left_out,
            "n_images": done.n_images,
            "image_problems": done.image_problems,
        }
        typer.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
        return
    left_out = "; ".join(f"{n}: {reason}" for reason, n in done.n_left_out.items())
    lines = [
        f"{done.n_rows} trajectories in {done.file}" + (f" (left out: {left_out})" * bool(left_out))
    ]
    if done.n_images is not None:
        problems = ", ".join(f"{n} {kind}" for kind, n in done.image_problems.items())
        lines.append(f"{done.n_images} images" + (f"; not written: {problems}" if problems else ""))
    lines.append(f"The content is the benchmark's: read {done.folder / 'README.md'} first.")
    console = open_console()
    for line in lines:
        console.print(plain(line), markup=False, highlight=False, soft_wrap=True)
