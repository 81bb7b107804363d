"""The benchmarks that AWM can load, by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from awm.benchmarks.benchmark import Benchmark, DataProblem, Example, Gold
from awm.benchmarks.jsonl import load_demo, load_jsonl
from awm.benchmarks.longdocurl import load_longdocurl
from awm.benchmarks.mmlongbench_doc import load_mmlongbench_doc
from awm.benchmarks.overlay import apply_overlay, read_overlay
from awm.benchmarks.pocket import load_pocket
from awm.errors import ConfigError
from awm.faults import did_you_mean

__all__ = ["BENCHMARKS", "Benchmark", "DataProblem", "Example", "Gold", "load_benchmark"]

BENCHMARKS: dict[str, Callable[[Path], Benchmark]] = {
    "mmlongbench-doc": load_mmlongbench_doc,
    "longdocurl": load_longdocurl,
    "jsonl": load_jsonl,
}
"""Loaders that take the folder or file of `--data`; the others need none."""
GENERATED = ("pocket", "pocket-blank")
"""Benchmarks that are made from a seed."""
_NAMES = ("demo", *GENERATED, *BENCHMARKS)


def load_benchmark(
    name: str, data: Path | None, overlay: Path | None = None, seed: int | None = None
) -> Benchmark:
    """Load a benchmark by its name, with the corrections of an overlay file.

    Args:
        name: see `BENCHMARKS`; also demo, pocket and pocket-blank.
        data: the folder or file to read; not needed by those three.
        overlay: a file of corrections.
        seed: for a generated benchmark, which of them; None: 0.

    Raises:
        ConfigError: there is no such benchmark, `data` is missing, or it takes no data or no
            seed.
        BenchmarkError: its files or the overlay are not of the documented form.
    """
    benchmark = _load(name, data, seed)
    return benchmark if overlay is None else apply_overlay(benchmark, read_overlay(overlay))


def _load(name: str, data: Path | None, seed: int | None) -> Benchmark:
    if name not in _NAMES:
        hint = did_you_mean(name, _NAMES)
        raise ConfigError(f"benchmark {name!r} is none of: {', '.join(_NAMES)}{hint}")
    if data is not None and name not in BENCHMARKS:
        raise ConfigError(
            f"benchmark {name!r} comes with AWM and takes no --data; --data is for "
            f"{', '.join(BENCHMARKS)}"
        )
    if name in GENERATED:
        return load_pocket(seed, blank=name == "pocket-blank")
    if seed is not None:
        raise ConfigError(
            f"benchmark {name!r} is not generated and takes no seed; --seed is for "
            f"{', '.join(GENERATED)}"
        )
    if name == "demo":
        return load_demo()
    if data is None:
        raise ConfigError(f"benchmark {name!r} needs --data, the folder or file it is read from")
    return BENCHMARKS[name](data)
