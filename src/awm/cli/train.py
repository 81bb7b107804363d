"""`awm train`: fine-tune a policy on trajectories, train it with GRPO, check and export."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.console import Console

from awm._extras import require
from awm.cli.errors import shown_errors
from awm.cli.settings import build_settings, merge, read_config
from awm.cli.terminal import open_console
from awm.errors import ConfigError
from awm.train.config import GRPOSettings, SFTSettings, TrainSettings

train_app = typer.Typer(
    help="Train a policy: imitation of trajectories, GRPO, and the checks before both.",
    no_args_is_help=True,
)
S = TypeVar("S", bound=TrainSettings)

Config = Annotated[
    str | None,
    typer.Option(help="A TOML file, or the name of a recipe; flags win over it.", metavar="FILE"),
]
Model = Annotated[
    str | None, typer.Option(help="The policy to start from: a folder or a hub name.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder of checkpoints and results; resumed if it exists.")
]
Seed = Annotated[int | None, typer.Option(help="Of the training.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any setting, e.g. policy.lora.rank=64; the value is TOML.",
        metavar="NAME=VALUE",
    ),
]
_RESUME = "Interrupted. Checkpoints are kept; start the same command again to resume."


@train_app.command("sft")
def sft(
    runs: Annotated[
        list[Path] | None,
        typer.Option("--from", help="A run folder to imitate; may be given several times."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="An outcome cell to keep (default: memory_supported_correct)."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the runs' benchmark lies now, if it moved.")
    ] = None,
    config: Config = None,
    model: Model = None,
    out: Out = None,
    seed: Seed = None,
    steps: Annotated[int | None, typer.Option(help="Stop after so many updates.")] = None,
    assignments: Assignments = None,
) -> None:
    """Imitate the trajectories of runs: loss on what the agent said, images drawn again."""
    console = open_console(stderr=True)
    flags = {
        "runs": [str(path) for path in runs] if runs else None,
        "keep": keep or None,
        "data": data,
        "steps": steps,
    }
    with shown_errors(console, interrupted=_RESUME):
        settings = _settings(SFTSettings, config, model, out, seed, flags, assignments)
        _require_training()
        from awm.train.sft import run_sft

        console.print(f"exported: {run_sft(settings, _teller(console))}", markup=False)


@train_app.command("grpo")
def grpo(
    config: Config = None,
    model: Model = None,
    out: Out = None,
    reader: Annotated[
        str | None, typer.Option(help="The frozen reader of the memory.", metavar="SPEC")
    ] = None,
    seed: Seed = None,
    steps: Annotated[int | None, typer.Option(help="Updates.")] = None,
    assignments: Assignments = None,
) -> None:
    """Train with GRPO on rewards of the final answer and of the memory."""
    console = open_console(stderr=True)
    flags = {"reader": reader, "steps": steps}
    with shown_errors(console, interrupted=_RESUME):
        settings = _settings(GRPOSettings, config, model, out, seed, flags, assignments)
        _require_training()
        from awm.train.grpo import run_grpo

        console.print(f"exported: {run_grpo(settings, _teller(console))}", markup=False)


@train_app.command("preflight")
def preflight(
    config: Config = None,
    stage: Annotated[
        Literal["grpo", "sft"], typer.Option(help="Which training the settings are of.")
    ] = "grpo",
    model: Model = None,
    out: Out = None,
    seed: Seed = None,
    assignments: Assignments = None,
) -> None:
    """Run the checks that every training begins with, and train nothing."""
    console = open_console(stderr=True)
    with shown_errors(console):
        kind: type[TrainSettings] = GRPOSettings if stage == "grpo" else SFTSettings
        settings = _settings(kind, config, model, out, seed, {}, assignments)
        _require_training()
        from awm.train.preflight import preflight as run_checks
        from awm.train.preflight import stop_on_failure

        stop_on_failure(run_checks(settings), _teller(console))


@train_app.command("export")
def export(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint's folder.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    base: Annotated[
        str | None, typer.Option(help="The model that was trained, if the folder does not say it.")
    ] = None,
) -> None:
    """Write a folder that transformers and vLLM load, and ask it once."""
    console = open_console(stderr=True)
    with shown_errors(console):
        _require_training()
        from awm.train.export import export_checkpoint

        console.print(f"exported: {export_checkpoint(checkpoint, out, base)}", markup=False)


def recipe_path(name: str) -> Path:
    """Give the file of a config: a path, or the name of a recipe that ships with AWM.

    Raises:
        ConfigError: there is neither.
    """
    path = Path(name)
    if path.exists():
        return path
    recipe = _recipe_folder() / f"{name.removesuffix('.toml')}.toml"
    if path.name == name and recipe.is_file():
        return recipe
    raise ConfigError(f"config {name!r} is no file, and no recipe; the recipes are: {_recipes()}")


def _recipe_folder() -> Path:
    return Path(str(resources.files("awm.train"))) / "recipes"


def _recipes() -> str:
    return ", ".join(sorted(file.stem for file in _recipe_folder().glob("*.toml")))


def _settings(
    kind: type[S],
    config: str | None,
    model: str | None,
    out: Path | None,
    seed: int | None,
    flags: dict[str, Any],
    assignments: Sequence[str] | None,
) -> S:
    named = {"policy.path": model, "out": out, "seed": seed, **flags}
    merged = merge(read_config(recipe_path(config) if config else None), named, assignments or ())
    try:
        return build_settings(kind, merged, named)
    except ConfigError as error:
        if config is not None:
            raise
        raise ConfigError(
            f"{error}\nSettings may come from --config, too: a TOML file, or a recipe "
            f"({_recipes()})"
        ) from error


def _require_training() -> None:
    # On machines with shared cores, threads that wait actively take the cores from those that work.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    require("torch", "local")
    require("transformers", "local")
    for module in ("datasets", "accelerate", "peft", "trl"):
        require(module, "train")


def _teller(console: Console) -> Callable[[str], None]:
    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    return tell
