"""How long a stage trains and at which learning rate, and what it has cost so far."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps and learning rate of a stage: up, level, and down to 2 %."""

    steps: int
    rate: float
    """The highest learning rate."""
    seed: int
    warm_up: int = 60
    """Steps until the rate is reached."""
    level_share: float = 0.6
    """Share of the steps after which the rate falls, on a line."""

    def rate_at(self, step: int) -> float:
        """Give the learning rate of a step, from 0."""
        share = step / self.steps
        falling = (1 - share) / (1 - self.level_share)
        return self.rate * min(1.0, (step + 1) / self.warm_up) * max(0.02, min(1.0, falling))


def set_rate(optimizer: Any, rate: float) -> None:
    """Set the learning rate of every group of an optimizer."""
    for group in optimizer.param_groups:
        group["lr"] = rate


class Stopwatch:
    """Wall and CPU time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of this process, all threads."""
        return time.process_time() - self._cpu

    @property
    def wall_s(self) -> float:
        """Seconds on the clock."""
        return time.monotonic() - self._wall

    def __str__(self) -> str:
        return f"{self.wall_s:.0f} s wall, {self.cpu_s:.0f} s CPU"
