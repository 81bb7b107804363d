"""The paper's training dynamics as a figure: what each reward does to answers and memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from awm.report.figures import (
    add_legend,
    check_figure_path,
    head_panel,
    new_figure,
    save_figure,
)
from awm.train.metrics import TrainingRecord
from awm.train.pocket_pool import Curve

_STYLES = {"answer_only": ("answer-only GRPO", "#D55E00", "s"), "awm": ("AWM-GRPO", "#009E73", "o")}
_PANELS: dict[str, Callable[[TrainingRecord], float | None]] = {
    "final-answer accuracy": lambda record: record.final_accuracy,
    "memory-only accuracy": lambda record: record.memory_accuracy,
    "P_mmc": lambda record: record.p_mmc,
}


def draw_training(curves: Sequence[Curve], path: Path) -> None:
    """Draw three figures over the step: a thin line for each seed, a thick one for their mean.

    Args:
        curves: of both rewards and every seed.
        path: file to write; its ending chooses the format.

    Raises:
        ConfigError: the file cannot be written, or has another ending.
        MissingExtraError: matplotlib is not installed.
    """
    check_figure_path(path)
    figure = new_figure(9.6, 3.4)
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for panel, (title, read) in zip(panels, _PANELS.items(), strict=True):
        head_panel(panel, title, "step")
        panel.set_ylim(0, 1)
        for arm in _STYLES:
            _draw_arm(panel, arm, [curve for curve in curves if curve.arm == arm], read)
    add_legend(figure, panels[0])
    save_figure(figure, path)


def _draw_arm(
    panel: Any, arm: str, curves: Sequence[Curve], read: Callable[[TrainingRecord], float | None]
) -> None:
    label, color, marker = _STYLES[arm]
    points: dict[int, list[float]] = {}
    for curve in curves:
        known = [(r.step, value) for r in curve.records if (value := read(r)) is not None]
        panel.plot(*zip(*known, strict=True), color=color, linewidth=0.8, alpha=0.45)
        for step, value in known:
            points.setdefault(step, []).append(value)
    means = [(step, fmean(values)) for step, values in sorted(points.items())]
    panel.plot(
        *zip(*means, strict=True),
        color=color,
        linewidth=2.2,
        marker=marker,
        markersize=4,
        label=label,
    )
