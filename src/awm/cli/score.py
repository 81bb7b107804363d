"""`awm score`: judge answers that you already have, by a benchmark's official rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import orjson
import typer

from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.errors import ConfigError, DataError
from awm.scoring import JUDGES
from awm.scoring.repaired import RepairedScore, repaired_score
from awm.scoring.score import Judge

_FIELDS = ("gold", "pred", "format")


def score(
    cases: Annotated[
        Path, typer.Argument(help="JSONL: one object with gold, pred, format a line.")
    ],
    benchmark: Annotated[str, typer.Option(help=f"{', '.join(JUDGES)}.", metavar="NAME")],
    out: Annotated[
        Path | None, typer.Option(help="Where the scored rows go; default: stdout.")
    ] = None,
) -> None:
    """Add `score`, `repaired`, `repair_rules` and `flags` to rows of `gold`, `pred`, `format`.

    Other fields stay. `score` is the official one; `repaired` mends its known faults, by the rules
    in `repair_rules`, which are empty where the two agree. Nothing that a row holds is ever
    executed. A row that the official scorer crashes on gets 0.0 and a flag that names the
    exception.
    """
    stderr = open_console(stderr=True)
    with shown_errors(stderr):
        if benchmark not in JUDGES:
            raise ConfigError(f"benchmark {benchmark!r} is none of: {', '.join(JUDGES)}")
        with _open_cases(cases) as rows:
            if out is None:
                totals = _write(_read(rows, cases), JUDGES[benchmark], sys.stdout.buffer)
                sys.stdout.flush()
            else:
                totals = _write_file(_read(rows, cases), JUDGES[benchmark], out, cases)
        stderr.print(str(totals), highlight=False, soft_wrap=True)


@dataclass(slots=True)
class _Totals:
    """What was scored so far."""

    n: int = 0
    official: float = 0.0
    repaired: float = 0.0
    n_differ: int = 0

    def add(self, official: float, repaired: RepairedScore) -> None:
        """Count a row."""
        self.n += 1
        self.official += official
        self.repaired += repaired.value
        self.n_differ += bool(repaired.rules)

    def __str__(self) -> str:
        if not self.n:
            return "0 rows"
        return (
            f"{self.n} rows, mean score {self.official / self.n:.4f}; repaired "
            f"{self.repaired / self.n:.4f}, which differs on {self.n_differ} rows"
        )


def _open_cases(cases: Path) -> BinaryIO:
    try:
        return cases.open("rb")
    except OSError as error:
        raise DataError(f"{cases} cannot be read: {error}") from error


def _read(file: BinaryIO, cases: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise DataError(f"{cases}, line {number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise DataError(f"{cases}, line {number}: not a JSON object with gold, pred, format")
        missing = [key for key in _FIELDS if key not in row]
        if missing:
            raise DataError(f"{cases}, line {number}: no field {', '.join(missing)}")
        if not isinstance(row["format"], str | None):
            raise DataError(f"{cases}, line {number}: format must be text, not {row['format']!r}")
        yield row


def _write_file(rows: Iterator[dict[str, Any]], judge: Judge, out: Path, cases: Path) -> _Totals:
    if out.resolve() == cases.resolve():
        raise ConfigError("--out must be another file than the cases")
    try:
        with out.open("wb") as file:
            return _write(rows, judge, file)
    except OSError as error:
        raise ConfigError(f"--out {out}: {error}") from error


def _write(rows: Iterator[dict[str, Any]], judge: Judge, file: BinaryIO) -> _Totals:
    totals = _Totals()
    for row in rows:
        gold, prediction, answer_format = row["gold"], row["pred"], str(row["format"])
        official = judge.score(gold, prediction, answer_format)
        repaired = repaired_score(judge.name, gold, prediction, answer_format, official)
        scored = {
            **row,
            "score": official.value,
            "repaired": repaired.value,
            "repair_rules": list(repaired.rules),
            "flags": list(official.flags),
        }
        file.write(orjson.dumps(scored) + b"\n")
        totals.add(official.value, repaired)
    return totals
