"""`awm simulate`: the advantage that each outcome cell can expect under a reward."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from awm.analysis.simulation import (
    P11_ROWS,
    TRADE_OFF,
    Crossing,
    Experiment,
    Mixture,
    RestShares,
    Simulated,
    exact,
    find_crossing,
    find_sensitivity,
    monte_carlo,
)
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.errors import ConfigError
from awm.report.figures import check_figure_path, draw_simulation
from awm.rl.reward import RewardSettings
from awm.scoring.outcome import Outcome

S = TypeVar("S", bound=BaseModel)
_CURVE_P11 = tuple(step / 200 for step in range(1, 200))
_CELL_LABELS = dict(zip(Outcome, ("(1,1)", "(1,0)", "(0,1)", "(0,0)"), strict=True))
_REWARD_LABELS = {"awm": "AWM", "answer_only": "answer-only"}


class MethodChoice(StrEnum):
    """Which method computes."""

    BOTH = "both"
    EXACT = "exact"
    MONTE_CARLO = "monte_carlo"


def simulate(
    mixture: Annotated[
        str | None,
        typer.Option(
            help="One mixture instead of the rows that raise p11.", metavar="P11,P10,P01,P00"
        ),
    ] = None,
    rest: Annotated[
        str | None,
        typer.Option(
            help="How the other three cells share 1 - p11 in the rows (default: 2,1,3).",
            metavar="P10,P01,P00",
        ),
    ] = None,
    rewards: Annotated[
        str, typer.Option(help="The AWM reward of each cell.", metavar="R11,R10,R01,R00")
    ] = "1.0,0.7,0.2,0.0",
    group_size: Annotated[int, typer.Option(help="G: trajectories of a group, 2 to 64.")] = 8,
    groups: Annotated[int, typer.Option(help="Groups that Monte Carlo draws a mixture.")] = 15_000,
    seed: Annotated[int, typer.Option(help="Seed of Monte Carlo.")] = 0,
    ddof: Annotated[
        int, typer.Option(help="0: population standard deviation; 1: sample, as TRL and verl.")
    ] = 0,
    method: Annotated[MethodChoice, typer.Option(help="What to compute.")] = MethodChoice.BOTH,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Instead: where (1,0) turns negative for other group sizes and rewards.",
        ),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the rows: .svg, .png or .pdf (extra: figures)."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON list on stdout, nothing else.")
    ] = False,
) -> None:
    """Tell what advantage each outcome cell can expect, under the AWM reward and answer-only.

    A cell's figure is the mean advantage of its trajectories when groups of G are drawn from a
    mixture of the four cells (answer right?, answer in the memory?), by summing over every
    composition of a group and by Monte Carlo.
    """
    with shown_errors(open_console(stderr=True)):
        if mixture is not None and (rest is not None or sensitivity or figure is not None):
            raise ConfigError(
                "--mixture is a single point; --rest, --sensitivity and --figure need the rows: "
                "leave one or the other out"
            )
        if sensitivity and figure is not None:
            raise ConfigError("--sensitivity is a table of its own: leave out --figure")
        if figure is not None:
            check_figure_path(figure)
        experiments = _experiments(rewards, group_size, groups, seed, ddof)
        shares = TRADE_OFF if rest is None else _read("--rest", RestShares, rest)
        if sensitivity:
            _show_sensitivity(find_sensitivity(shares, experiments[0]), as_json=json)
            return
        rows = [shares.mix(p11) for p11 in P11_ROWS]
        if mixture is not None:
            rows = [_read("--mixture", Mixture, mixture)]
        results = _simulate(rows, experiments, method)
        if figure is not None:
            _draw(shares, experiments, results, figure)
        if json:
            _print_json(results)
        elif mixture is not None:
            _print_one(results, open_console())
        else:
            _print_rows(results, open_console())
            if shares.p10 > 0:
                _print_crossing(find_crossing(shares, experiments[0]), open_console())


def _experiments(
    rewards: str, group_size: int, n_groups: int, seed: int, ddof: int
) -> list[Experiment]:
    settings = _read("--rewards", RewardSettings, rewards, ("r11", "r10", "r01", "r00"))
    shared = {"group_size": group_size, "n_groups": n_groups, "seed": seed, "ddof": ddof}
    flags = {"n_groups": "--groups", "group_size": "--group-size"}
    return [
        _build(Experiment, {**shared, "settings": each}, flags)
        for each in (settings, RewardSettings(kind="answer_only"))
    ]


def _read(option: str, kind: type[S], text: str, names: Sequence[str] = ()) -> S:
    """Read comma-separated numbers into the fields of `kind`."""
    names = names or tuple(kind.model_fields)
    parts = text.split(",")
    if len(parts) != len(names):
        raise ConfigError(
            f"{option} {text!r} has {len(parts)} values; give {len(names)}, separated by commas: "
            f"{','.join(names)}"
        )
    try:
        values = {name: float(part) for name, part in zip(names, parts, strict=True)}
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: {error}; give numbers such as 0.25") from error
    return _build(kind, values, {"": f"{option} {text!r}"})


def _build(kind: type[S], values: dict[str, Any], flags: dict[str, str]) -> S:
    """Check values; `flags` translates field names for the message, "" stands before all."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_url=False):
            field = str(problem["loc"][0]) if problem["loc"] else ""
            name = flags.get(field, f"--{field}" if "" not in flags else field)
            where = ", ".join(part for part in (flags.get(""), name if field else "") if part)
            text = problem["msg"].removeprefix("Value error, ")
            got = f" (got {problem['input']!r})" if field else ""
            lines.append(f"{where}: {text}{got}")
        raise ConfigError("; ".join(lines)) from error


def _simulate(
    rows: Sequence[Mixture], experiments: Sequence[Experiment], method: MethodChoice
) -> list[Simulated]:
    methods = {
        MethodChoice.BOTH: (exact, monte_carlo),
        MethodChoice.EXACT: (exact,),
        MethodChoice.MONTE_CARLO: (monte_carlo,),
    }[method]
    return [
        compute(row, experiment)
        for row in rows
        for experiment in experiments
        for compute in methods
    ]


def _draw(
    shares: RestShares,
    experiments: Sequence[Experiment],
    results: Sequence[Simulated],
    path: Path,
) -> None:
    curve = [shares.mix(p11) for p11 in _CURVE_P11]
    draw_simulation(
        _simulate(curve, experiments, MethodChoice.EXACT),
        [result for result in results if result.method == "monte_carlo"],
        find_crossing(shares, experiments[0]),
        path,
    )
    open_console(stderr=True).print(f"figure: {path}", markup=False, soft_wrap=True)


def _print_json(objects: Sequence[BaseModel]) -> None:
    rows = [each.model_dump(mode="json") for each in objects]
    typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())


def _show_sensitivity(crossings: Sequence[Crossing], *, as_json: bool) -> None:
    if as_json:
        _print_json(crossings)
        return
    table = _table("G", "r11", "r10", "r01", "r00", "(1,0) < 0 from p11")
    for crossing in crossings:
        p11 = "never" if crossing.mixture is None else f"{crossing.mixture.p11:.4f}"
        values = (f"{value:g}" for value in crossing.rewards.values())
        table.add_row(str(crossing.group_size), *values, p11)
    open_console().print(table)


def _print_rows(results: Sequence[Simulated], console: Console) -> None:
    """One line a mixture, exact where that was computed; then how far Monte Carlo is off."""
    method = "exact" if any(result.method == "exact" for result in results) else "monte_carlo"
    lines = [result for result in results if result.method == method]
    table = _table(
        "p11",
        *(f"AWM\n\n{label}" for label in (*_CELL_LABELS.values(), "signal")),
        *(f"answer\nonly\n{label}" for label in ("right", "wrong", "signal")),
    )
    for awm, answer_only in zip(lines[::2], lines[1::2], strict=True):
        table.add_row(
            f"{awm.mixture.p11:.2f}",
            *(_number(value) for value in awm.advantages.values()),
            f"{awm.groups_with_signal:.3f}",
            *(_number(value) for value in _merge_by_answer(answer_only)),
            f"{answer_only.groups_with_signal:.3f}",
        )
    console.print(
        f"Expected advantage, G = {lines[0].group_size}, {method.replace('_', ' ')}; signal: share "
        "of groups with unequal rewards",
        highlight=False,
        soft_wrap=True,
    )
    console.print(table)
    distance = _largest_distance(results)
    if distance is not None:
        console.print(
            f"Monte Carlo ({results[1].n_groups} groups a row) is at most {distance:.1f} standard "
            "errors off.",
            highlight=False,
            soft_wrap=True,
        )


def _merge_by_answer(result: Simulated) -> list[float | None]:
    """Average over the cells with the same answer score, which answer-only cannot tell apart."""
    weights = result.mixture.model_dump().values()
    cells = list(zip(weights, result.advantages.values(), strict=True))
    merged: list[float | None] = []
    for pair in (cells[:2], cells[2:]):
        known = [(weight, value) for weight, value in pair if value is not None]
        total = sum(weight for weight, _ in known)
        merged.append(sum(weight * value for weight, value in known) / total if known else None)
    return merged


def _print_one(results: Sequence[Simulated], console: Console) -> None:
    """One line a reward and method; under Monte Carlo a line of its standard errors."""
    first = results[0]
    console.print(
        f"Expected advantage, G = {first.group_size}; signal: share of groups with unequal rewards",
        highlight=False,
        soft_wrap=True,
    )
    table = _table("reward", "method", *_CELL_LABELS.values(), "signal", n_left=2)
    for result in results:
        table.add_row(
            _REWARD_LABELS[result.reward],
            result.method.replace("_", " "),
            *(_number(value) for value in result.advantages.values()),
            f"{result.groups_with_signal:.3f}",
        )
        if result.standard_errors is not None:
            errors = result.standard_errors.values()
            table.add_row("", "± error", *("" if e is None else f"{e:.3f}" for e in errors), "")
    console.print(table)


def _print_crossing(crossing: Crossing, console: Console) -> None:
    text = (
        "Under the AWM reward the (1,0) cell never turns negative on these rows."
        if crossing.mixture is None
        else f"Under the AWM reward the (1,0) cell turns negative at p11 = "
        f"{crossing.mixture.p11:.4f}."
    )
    console.print(text, highlight=False, soft_wrap=True)


def _largest_distance(results: Sequence[Simulated]) -> float | None:
    """Give the largest |Monte Carlo - exact| in standard errors; None without both methods."""
    distances = [
        abs(value - reference) / error
        for known, drawn in pairwise(results)
        if (known.method, drawn.method) == ("exact", "monte_carlo")
        for value, reference, error in zip(
            drawn.advantages.values(),
            known.advantages.values(),
            (drawn.standard_errors or {}).values(),
            strict=True,
        )
        if value is not None and reference is not None and error
    ]
    return max(distances, default=None)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _table(*names: str, n_left: int = 0) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(names):
        justify: Literal["left", "right"] = "left" if number < n_left else "right"
        table.add_column(name, justify=justify, no_wrap=True, vertical="bottom")
    return table
