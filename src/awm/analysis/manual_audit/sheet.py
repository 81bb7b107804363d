"""The spreadsheet of a manual audit: CSV that Excel and LibreOffice open, and that reads back.

Answers come from documents and models, so a cell may hold anything. A text that a spreadsheet
would run as a formula, or turn into another number or a date ("=1+1", "-5", "12-5", "007"), gets
an apostrophe in front; `unprotect` takes it off. Cells are UTF-8 with a byte-order mark, without
control characters, and short enough for a spreadsheet.

>>> protect("=HYPERLINK(A1)"), protect("12-5"), protect("12"), protect("Oslo")
("'=HYPERLINK(A1)", "'12-5", '12', 'Oslo')
>>> unprotect(protect("'=x"))
"'=x"
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from awm.errors import ConfigError, DataError
from awm.faults import reason

MAX_CELL_CHARS = 30_000
"""A spreadsheet cell holds 32,767 characters at most."""
DELIMITERS = ",;\t"
"""What spreadsheets write between cells, depending on the country."""
_FORMULA_STARTS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""With the full-width forms, which some spreadsheets read like the others."""
_PLAIN_NUMBER = re.compile(r"(?:0|[1-9]\d{0,14})")
_LIKE_A_NUMBER = re.compile(r"[\d\s.,:/%$€£()eE+-]{1,40}")
_HIDDEN = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\t\n"
}


def protect(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would change or run."""
    return "'" + text if _needs_protection(text.lstrip("'")) else text


def unprotect(text: str) -> str:
    """Take off the apostrophe that `protect` put there."""
    return text[1:] if text[:1] == "'" and _needs_protection(text.lstrip("'")) else text


def _needs_protection(text: str) -> bool:
    if text[:1] and text[0] in _FORMULA_STARTS:
        return True
    if _PLAIN_NUMBER.fullmatch(text) or not any(letter.isdigit() for letter in text[:41]):
        return False
    return _LIKE_A_NUMBER.fullmatch(text) is not None


def clean_cell(text: str) -> str:
    """Make a text fit for a cell: no control characters, not too long, protected."""
    text = text.replace("\r\n", "\n").translate(_HIDDEN)
    text = text.encode("utf-8", "replace").decode()
    if len(text) > MAX_CELL_CHARS:
        text = f"{text[:MAX_CELL_CHARS]} … ({len(text) - MAX_CELL_CHARS} more characters)"
    return protect(text)


def write_sheet(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str | float]]
) -> None:
    """Write a sheet; every text is cleaned, numbers stay numbers.

    Raises:
        ConfigError: the file is there already, or cannot be written. A half-filled audit is hours
            of work and never overwritten.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    for row in rows:
        cells = [row[column] for column in columns]
        writer.writerow([clean_cell(c) if isinstance(c, str) else f"{c:.6g}" for c in cells])
    try:
        with path.open("x", encoding="utf-8-sig", newline="") as file:
            file.write(buffer.getvalue())
    except FileExistsError as error:
        raise ConfigError(
            f"{path} is there already and may be filled in; name another file"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {reason(error)}") from error


def read_sheet(path: Path, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Read a sheet as a spreadsheet saved it: comma, semicolon or tab between the cells.

    Columns may have been moved, and others added.

    Returns:
        The row's number in the spreadsheet (the header is row 1), and its cells, for every row
        that is not empty.

    Raises:
        DataError: the file cannot be read, or lacks a needed column.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f'{path} is not UTF-8 ({error}); save it as "CSV UTF-8" (Excel) or choose the '
            "character set Unicode (UTF-8) (LibreOffice)"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from error
    header_line = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=header_line.count)
    table = _parse(path, text, delimiter)
    if not table:
        raise DataError(f"{path} is empty")
    header = [name.strip().lower() for name in table[0]]
    missing = [name for name in needed if name not in header]
    if missing:
        raise DataError(
            f"{path} has no column {', '.join(missing)}; its header is {', '.join(header)!r:.200}"
        )
    twice = [name for name in needed if header.count(name) > 1]
    if twice:
        raise DataError(f"{path} has the column {twice[0]} more than once")
    rows = []
    for number, cells in enumerate(table[1:], start=2):
        if any(cell.strip() for cell in cells):
            padded = [*cells, *[""] * (len(header) - len(cells))]
            rows.append((number, {n: unprotect(c) for n, c in zip(header, padded, strict=False)}))
    return rows


def _parse(path: Path, text: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return list(reader)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV: {error}") from error
