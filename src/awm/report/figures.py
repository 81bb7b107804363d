"""Figures, drawn with matplotlib (extra `figures`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from awm._extras import require
from awm.analysis.simulation import Crossing, Simulated
from awm.errors import ConfigError
from awm.faults import reason
from awm.scoring.outcome import Outcome

FIGURE_FORMATS = (".svg", ".png", ".pdf")

# Colour-blind safe (Okabe and Ito), and told apart by the marker where colour is lost.
_CELL_STYLES = {
    Outcome.MEMORY_SUPPORTED_CORRECT: ("(1,1) memory-supported correct", "#009E73", "o"),
    Outcome.MEMORY_MISSING_CORRECT: ("(1,0) memory-missing correct", "#D55E00", "s"),
    Outcome.ANSWERING_ERROR: ("(0,1) answering error", "#0072B2", "^"),
    Outcome.UNRESOLVED_ERROR: ("(0,0) unresolved error", "#555555", "D"),
}
_PANEL_TITLES = {"awm": "AWM reward", "answer_only": "Answer-only reward"}


def check_figure_path(path: Path) -> None:
    """Refuse a file name of a format that cannot be drawn.

    Raises:
        ConfigError: another ending than those of `FIGURE_FORMATS`.
    """
    if path.suffix.lower() not in FIGURE_FORMATS:
        raise ConfigError(
            f"figure {str(path)!r} ends in {path.suffix!r}; use one of: {', '.join(FIGURE_FORMATS)}"
        )


def draw_simulation(
    curves: Sequence[Simulated], points: Sequence[Simulated], crossing: Crossing, path: Path
) -> None:
    """Draw the advantage of each cell over p11, one panel a reward, and write the file.

    Args:
        curves: exact results, drawn as lines, in the order of p11.
        points: Monte Carlo results, drawn as markers with bars of 4 standard errors.
        crossing: where the (1, 0) cell turns negative under the AWM reward.
        path: file to write; its ending chooses the format.

    Raises:
        ConfigError: the file cannot be written, or has another ending.
        MissingExtraError: matplotlib is not installed.
    """
    check_figure_path(path)
    figure = new_figure(9.6, 4.4)
    panels = figure.subplots(1, len(_PANEL_TITLES), sharey=True)
    for panel, (reward, title) in zip(panels, _PANEL_TITLES.items(), strict=True):
        head_panel(panel, title, "p11, share of memory-supported correct trajectories")
        panel.set_xlim(0, 1)
        panel.axhline(0, color="black", linewidth=0.8)
        _draw_cells(
            panel,
            [curve for curve in curves if curve.reward == reward],
            [point for point in points if point.reward == reward],
        )
    panels[0].set_ylabel(f"expected advantage, G = {crossing.group_size}")
    if crossing.mixture is not None:
        _mark_crossing(panels[0], crossing.mixture.p11)
    add_legend(figure, panels[0])
    save_figure(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Make an empty figure, sizes in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require("matplotlib", "figures")
    module = require("matplotlib.figure", "figures")
    return module.Figure(figsize=(width, height), layout="constrained")


def head_panel(panel: Any, title: str, x_label: str) -> None:
    """Give a panel its title and its x label, and take away the upper and the right line."""
    panel.set_title(title, fontsize=11)
    panel.set_xlabel(x_label)
    for spine in ("top", "right"):
        panel.spines[spine].set_visible(False)


def add_legend(figure: Any, panel: Any) -> None:
    """Put what a panel shows into one line below the panels."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
        fontsize=9,
    )


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; the same numbers give the same file.

    Raises:
        ConfigError: the file cannot be written.
    """
    matplotlib = require("matplotlib", "figures")
    settings = {"svg.hashsalt": "awm", "svg.fonttype": "none"}
    date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    try:
        with matplotlib.rc_context(settings):
            figure.savefig(path, dpi=150, metadata=date)
    except OSError as error:
        raise ConfigError(f"figure {path} cannot be written: {reason(error)}") from error


def _draw_cells(panel: Any, curves: Sequence[Simulated], points: Sequence[Simulated]) -> None:
    answer_only = any(curve.reward == "answer_only" for curve in curves)
    for cell, (label, color, marker) in _CELL_STYLES.items():
        # Answer-only merges two cells each: the second is dashed, so that the first shows through.
        second = cell in (Outcome.MEMORY_MISSING_CORRECT, Outcome.UNRESOLVED_ERROR)
        known = [(c.mixture.p11, c.advantages[cell.value]) for c in curves]
        line = [(p11, value) for p11, value in known if value is not None]
        panel.plot(
            [p11 for p11, _ in line],
            [value for _, value in line],
            color=color,
            linewidth=1.8,
            linestyle=(0, (4, 4)) if answer_only and second else "-",
            label=None if points else label,
        )
        drawn = [
            (point.mixture.p11, point.advantages[cell.value], point.standard_errors[cell.value])
            for point in points
            if point.standard_errors is not None
        ]
        panel.errorbar(
            [p11 for p11, value, _ in drawn if value is not None],
            [value for _, value, _ in drawn if value is not None],
            yerr=[4 * (error or 0.0) for _, value, error in drawn if value is not None],
            color=color,
            marker=marker,
            markersize=4,
            linestyle="none",
            elinewidth=1,
            label=label if points else None,
        )


def _mark_crossing(panel: Any, p11: float) -> None:
    panel.axvline(p11, color="#D55E00", linewidth=0.8, linestyle=":")
    panel.annotate(
        f"(1,0) turns negative\nat p11 = {p11:.3f}",
        (p11, 0),
        xytext=(8, 46),
        textcoords="offset points",
        fontsize=9,
        color="#D55E00",
    )
