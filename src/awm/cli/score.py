"""`awm score`: judge answers that you already have, by a benchmark's official rules."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import orjson
import typer

from awm.analysis.diagnosis.log_rows import FORMATS
from awm.cli.errors import shown_errors
from awm.cli.terminal import open_console
from awm.counted import counted
from awm.errors import ConfigError, DataError
from awm.faults import MAX_FAULTS, did_you_mean, faulty_rows, kind_of, none_of, reason, row_hint
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
    in `repair_rules`, which are empty where the two agree. A `pred` of null was not measured: its
    scores are null. Nothing that a row holds is ever executed. A row that the official scorer
    crashes on gets 0.0 and a flag that names the exception.
    """
    stderr = open_console(stderr=True)
    with shown_errors(stderr):
        if benchmark not in JUDGES:
            hint = did_you_mean(benchmark, JUDGES)
            raise ConfigError(f"benchmark {benchmark!r} is none of: {', '.join(JUDGES)}{hint}")
        rows = _read(cases, FORMATS[benchmark])
        if out is None:
            totals = _write(rows, JUDGES[benchmark], sys.stdout.buffer)
            sys.stdout.flush()
        else:
            totals = _write_file(rows, JUDGES[benchmark], out, cases)
        stderr.print(str(totals), highlight=False, soft_wrap=True)


@dataclass(slots=True)
class _Totals:
    """What was scored so far."""

    n: int = 0
    n_unmeasured: int = 0
    """Rows whose `pred` is null; `n` leaves them out."""
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
        unmeasured = f"{self.n_unmeasured} unmeasured (pred is null)" if self.n_unmeasured else ""
        if not self.n:
            return f"0 rows, and {unmeasured}" if unmeasured else "0 rows"
        differing = counted(self.n_differ, "row", "rows")
        return (
            f"{counted(self.n, 'row', 'rows')}, mean score {self.official / self.n:.4f}; repaired "
            f"{self.repaired / self.n:.4f}, which differs on {differing}"
        ) + (f"; not among them: {unmeasured}" if unmeasured else "")


def _read(cases: Path, formats: tuple[str, ...]) -> list[dict[str, Any]]:
    """Read all rows, before any is scored: a file with a fault gives no half of a result."""
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    try:
        with cases.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    rows += _parse(line, number, formats, faults)
                if len(faults) >= MAX_FAULTS:
                    break
    except OSError as error:
        raise DataError(f"{cases} cannot be read: {reason(error)}") from error
    if faults:
        raise DataError(faulty_rows(cases, faults))
    return rows


def _parse(
    line: bytes, number: int, formats: tuple[str, ...], faults: list[str]
) -> list[dict[str, Any]]:
    """Give the row of a line; none where it is at fault, which is added to `faults`."""
    try:
        row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
    except orjson.JSONDecodeError as error:
        faults.append(f"line {number}: not JSON: {error}{row_hint(line)}")
        return []
    if not isinstance(row, dict):
        hint = row_hint(line)
        faults.append(f"line {number}: {kind_of(row)}, not an object with gold, pred, format{hint}")
        return []
    found = [f"{key}: missing" for key in _FIELDS if key not in row]
    answer_format = row.get("format")
    if isinstance(answer_format, str):
        if answer_format not in formats:
            found.append(f"format: {none_of(answer_format, formats)}")
    elif answer_format is not None:
        found.append(f"format: {answer_format!r} is {kind_of(answer_format)}, not text")
    faults += [f"line {number}, {fault}" for fault in found]
    return [] if found else [row]


def _write_file(rows: Iterable[dict[str, Any]], judge: Judge, out: Path, cases: Path) -> _Totals:
    if out.resolve() == cases.resolve():
        raise ConfigError("--out must be another file than the cases")
    try:
        with out.open("wb") as file:
            return _write(rows, judge, file)
    except OSError as error:
        raise ConfigError(f"--out {out}: {error}") from error


def _write(rows: Iterable[dict[str, Any]], judge: Judge, file: BinaryIO) -> _Totals:
    totals = _Totals()
    for row in rows:
        gold, prediction, answer_format = row["gold"], row["pred"], str(row["format"])
        scored = {**row, "score": None, "repaired": None, "repair_rules": [], "flags": []}
        if prediction is None:
            totals.n_unmeasured += 1
        else:
            official = judge.score(gold, prediction, answer_format)
            repaired = repaired_score(judge.name, gold, prediction, answer_format, official)
            scored |= {
                "score": official.value,
                "repaired": repaired.value,
                "repair_rules": list(repaired.rules),
                "flags": list(official.flags),
            }
            totals.add(official.value, repaired)
        file.write(orjson.dumps(scored) + b"\n")
    return totals
