"""Append-only JSONL files that survive a kill at any byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from awm.errors import RunStoreError
from awm.faults import find_faults, reason

R = TypeVar("R", bound=BaseModel)


class Journal(Generic[R]):
    """An append-only JSONL file of records of one type.

    Args:
        path: the file; made when it is not there.
        record_type: what its lines are.
    """

    def __init__(self, path: Path, record_type: type[R]) -> None:
        self.path = path
        self._type = record_type
        self._fd: int | None = None
        self._n_bytes = 0
        """Length of the open file: nobody else writes it, and asking costs more than counting."""

    def open(self) -> None:
        """Open for appending; cut off a torn last line.

        Raises:
            RunStoreError: a line that is not the last one is damaged, or the file cannot be
                written.
        """
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunStoreError(
                f"{self.path} cannot be opened for writing: {reason(error)}"
            ) from error
        good_bytes = 0
        torn_at: int | None = None
        for offset, line in self._lines():
            if line.endswith(b"\n") and _is_json_object(line):
                if torn_at is not None:
                    raise RunStoreError(
                        f"{self.path}: the line at byte {torn_at} is damaged and others follow it; "
                        "remove that line, and what it held is done again"
                    )
                good_bytes = offset + len(line)
            elif torn_at is None:
                torn_at = offset
        if torn_at is not None:
            os.ftruncate(self._fd, good_bytes)
        self._n_bytes = good_bytes

    def append(self, record: R) -> None:
        """Write a record and hand it to the operating system at once.

        Raises:
            RunStoreError: it could not be written, e.g. because the disk is full; nothing of it
                is left in the file.
        """
        if self._fd is None:
            raise RunStoreError(f"{self.path} is not open for writing")
        line = _encode(record) + b"\n"
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            os.ftruncate(self._fd, self._n_bytes)
            raise RunStoreError(
                f"{self.path}: a record of {len(line)} bytes could not be written: "
                f"{reason(error)}. What is done is kept; make room and start the same command to "
                "resume."
            ) from error
        self._n_bytes += len(line)

    def sync(self) -> None:
        """Force what was written to the disk, against a loss of power."""
        fd = self._fd  # another thread may close the journal meanwhile
        if fd is not None:
            os.fsync(fd)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def read(self) -> Iterator[R]:
        """Read every whole record, in the order of writing.

        Raises:
            RunStoreError: a line that is not the last one cannot be read.
        """
        for _, record in self.read_with_offsets():
            yield record

    def read_with_offsets(self) -> Iterator[tuple[int, R]]:
        """Read every whole record with the byte offset of its line."""
        for offset, line in self._lines():
            if line.endswith(b"\n"):
                yield offset, self._parse(line, offset)

    def read_at(self, offset: int) -> R:
        """Read the record whose line begins at `offset`."""
        with self.path.open("rb") as file:
            file.seek(offset)
            return self._parse(file.readline(), offset)

    def _parse(self, line: bytes, offset: int) -> R:
        try:
            return self._type.model_validate_json(line)
        except ValidationError as error:
            fault = first_fault(error, self._type)
            raise RunStoreError(
                f"{self.path}: the line at byte {offset} is damaged ({fault}); "
                "remove that line, and what it held is done again"
            ) from error

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        if not self.path.exists():
            return
        offset = 0
        with self.path.open("rb") as file:
            for line in file:
                yield offset, line
                offset += len(line)


def first_fault(error: ValidationError, model: type[BaseModel]) -> str:
    """Say what is wrong first: where and what, without the input, which may be megabytes."""
    fault = find_faults(error, model, noun="field")[0]
    return f"{fault.place}: {fault.text}".removeprefix(": ")


def _encode(record: BaseModel) -> bytes:
    try:
        return record.__pydantic_serializer__.to_json(record)
    except PydanticSerializationError:
        # A lone surrogate, which a model can write as a JSON escape, is no text in UTF-8.
        return orjson.dumps(_without_surrogates(record.model_dump()))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(inner) for inner in value]
    return value


def _is_json_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file, or nothing of it, and force it to the disk."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
