"""The log of any system, one JSON object a line: what `awm diagnose` reads.

| field | type | meaning |
|---|---|---|
| `question` | text | needed where a reader or an extractor is asked |
| `answer` | text, number, list | the final answer; "" or null: the system gave none, a measured 0 |
| `gold` | text, number, list | the gold answer |
| `format` (`answer_format`) | text | the gold's format, by the judge's names, e.g. "Int" |
| `memory` | text, or list of texts or {text, page} | [] or "": empty; null: not recorded |
| `id`, `document` | text | default `line-N`; without `document` each row is a cluster of its own |
| `evidence_pages`, `pages_shown` | list of 1-based pages | gold pages; pages the system saw |
| `evidence_sources`, `document_type` | list of texts; text | for the breakdowns |
| `page_count`, `refused_writes` | number | pages of the document; writes that were refused |
| `error` | text | the system failed here: its answer and memory are unmeasured, never 0 |
| `final_score`, `memory_score`, … | number in [0, 1] | a score of your own; null: unmeasured |
| `memory_answer`, `question_only_answer`, `shuffled_answer` | text | what a reader answered |
| `memory_answers`, `memory_scores` | {reader: value or list} | several readers; a list: rollouts |

Of a reader, "" is an answer that says nothing (0) and null an answer that is missing (unmeasured).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from awm.analysis.diagnosis.log_rows import FIELDS, FORMATS, LogRow, RowReader
from awm.counted import counted
from awm.errors import DataError
from awm.faults import MAX_FAULTS, did_you_mean, faulty_rows, kind_of, reason, row_hint

Converter = Callable[[dict[str, Any]], dict[str, Any]]
"""From an object of a foreign log to a row; raises `ValueError` with "field: what is wrong"."""


class Log:
    """A log file that is read row by row, and reread by offset.

    Args:
        path: the JSONL file.
        judge: the judge's name: it decides which formats there are.
        convert: makes rows out of foreign objects; None: they are rows.
    """

    def __init__(self, path: Path, judge: str, convert: Converter | None = None) -> None:
        self.path = path
        self.digest = ""
        """SHA-256 of the file, once it is read to the end."""
        self.dataset_hash = ""
        """SHA-256 over the questions with document, gold and format: the same for every system."""
        self.unknown_fields: Counter[str] = Counter()
        self._formats = FORMATS[judge]
        self._judge = judge
        self._convert = convert

    def rows(self) -> Iterator[LogRow]:
        """Read every row in order.

        Raises:
            DataError: the file cannot be read, is empty, or holds rows that cannot be used; up to
                `MAX_FAULTS` faults are named by line and field. Raised at the end or at the
                last fault that is named, so rows come before it.
        """
        problems: list[str] = []
        seen: dict[str, int] = {}
        file_hash, dataset_hash = hashlib.sha256(), hashlib.sha256()
        n_rows = 0
        for number, offset, line in self._lines():
            file_hash.update(line)
            if not line.strip():
                continue
            n_rows += 1
            row = self._parse(line, number, offset, problems)
            if row is not None and seen.setdefault(row.id, number) != number:
                problems.append(f"line {number}, id: {row.id!r} stands in line {seen[row.id]} too")
            if len(problems) >= MAX_FAULTS:
                break
            if row is not None:
                dataset_hash.update(
                    orjson.dumps([row.question, row.document, row.gold, row.answer_format]) + b"\n"
                )
                yield row
        if problems:
            raise DataError(faulty_rows(self.path, problems))
        if not n_rows:
            raise DataError(f"{self.path} is empty: write one JSON object a line, a row each")
        self.digest, self.dataset_hash = file_hash.hexdigest(), dataset_hash.hexdigest()

    def row_at(self, offset: int, number: int) -> LogRow:
        """Reread the row whose line begins at `offset`."""
        problems: list[str] = []
        with self.path.open("rb") as file:
            file.seek(offset)
            row = self._parse(file.readline(), number, offset, problems)
        if row is None:
            raise DataError(f"{self.path} has changed while it was read: {problems[0]}")
        return row

    def warnings(self) -> list[str]:
        """Say which fields were ignored."""
        found = []
        for name, count in sorted(self.unknown_fields.items()):
            hint = did_you_mean(name, FIELDS)
            rows = counted(count, "row", "rows")
            found.append(f"the field {name!r} is not known and was ignored ({rows}{hint})")
        return found

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        offset = 0
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    yield number, offset, line
                    offset += len(line)
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {reason(error)}") from error

    def _parse(self, line: bytes, number: int, offset: int, problems: list[str]) -> LogRow | None:
        start = f"line {number}"
        try:
            raw = orjson.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
        except orjson.JSONDecodeError as error:
            problems.append(f"{start}: not JSON: {error}{row_hint(line)}")
            return None
        if not isinstance(raw, dict):
            problems.append(f"{start}: {kind_of(raw)}, not an object with fields{row_hint(line)}")
            return None
        if self._convert is not None:
            try:
                raw = self._convert(raw)
            except ValueError as error:
                problems.append(f"{start}, {error}")
                return None
        self.unknown_fields.update(raw.keys() - FIELDS)
        fields = RowReader(raw, start)
        row = fields.row(number, offset, self._formats, self._judge)
        problems += fields.problems
        return None if fields.problems else row
