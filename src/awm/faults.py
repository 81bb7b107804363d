"""How faults of files and settings are worded: all at once, each by its place, in plain words.

Someone who mends a file wants every fault in one go, and words that say what to write instead of
those of the library that found it.

    >>> did_you_mean("documnet", ["question", "document"]), did_you_mean("Integer", ["Int", "Str"])
    ("; did you mean 'document'?", "; did you mean 'Int'?")
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

MAX_FAULTS = 10
"""Faults of a file that are named before reading stops."""
MAX_SHOWN_CHARS = 60
"""Longest value that a message quotes whole."""
_MIN_STEM_CHARS = 3
"""Shortest beginning of a name that is taken for it, such as "doc"."""

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "{table}",
    "model_type": "{table} with fields",
    "model_attributes_type": "{table} with fields",
}
"""What was wanted, by pydantic's names of errors."""
_RANGES = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that pydantic found."""

    place: str
    """Dotted name of the field, e.g. "agent.top_k" or "evidence_pages[0]"; "" is the whole."""
    type: str
    """Pydantic's name of the error."""
    text: str
    """In plain words."""


def find_faults(
    error: ValidationError, model: type[BaseModel], *, noun: Literal["field", "setting"]
) -> list[Fault]:
    """Word every fault of a validation, without quoting what may hold a secret.

    Args:
        error: what `model` raised.
        model: tells which names there are.
        noun: what a name stands for: a field of a JSON object or a setting of a TOML table.
    """
    return [
        Fault(_place(problem["loc"]), problem["type"], _words(problem, model, noun))
        for problem in error.errors(include_url=False)
    ]


def kind_of(value: object) -> str:
    """Name the type of a JSON value, with its article."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "an object")


def shown(value: object) -> str:
    """Quote a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "…"


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Give "; did you mean 'x'?" where a known word is close, and "" where none is."""
    by_folded = {name.casefold(): name for name in sorted(known)}
    folded = word.casefold()
    near = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    if not near and len(folded) >= _MIN_STEM_CHARS:
        stems = [n for n in by_folded if n.startswith(folded) or folded.startswith(n)]
        near = sorted(stems, key=len)[:1]
    return f"; did you mean {by_folded[near[0]]!r}?" if near else ""


def none_of(word: str, known: Collection[str]) -> str:
    """Say that a word is none of those that may stand there, and which one may be meant."""
    return f"{word!r} is none of {', '.join(known)}{did_you_mean(word, known)}"


def reason(error: Exception) -> str:
    """Say why a file cannot be read or written; its name stands in the sentence around."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text: byte {error.object[error.start]:#04x} at {error.start}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def row_hint(line: bytes) -> str:
    """Say what usually is the matter with a line of a JSONL file that holds no row."""
    if line.lstrip()[:1] == b"[":
        return "; of a JSON array write each element on a line of its own"
    return "; NaN is not JSON, null stands for unmeasured" if b"NaN" in line else ""


def faulty_rows(path: Path, faults: Sequence[str]) -> str:
    """Write the message about a file with faulty rows; reading stops at `MAX_FAULTS`."""
    more = f" (reading stopped after {MAX_FAULTS} faults)" if len(faults) >= MAX_FAULTS else ""
    return f"{path} has rows that cannot be used{more}:\n  " + "\n  ".join(faults[:MAX_FAULTS])


def _place(loc: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def _words(problem: ErrorDetails, model: type[BaseModel], noun: str) -> str:
    kind, value, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind == "missing":
        return "missing"
    if kind == "extra_forbidden":
        return _unknown(problem["loc"], model, noun)
    if kind in ("literal_error", "enum"):
        known = re.findall(r"'([^']*)'", context["expected"])
        if isinstance(value, str):
            return none_of(value, known)
        return _not_of_kind(value, f"one of {', '.join(known)}", noun)
    if kind in _WANTED:
        return _not_of_kind(value, _WANTED[kind], noun)
    if kind in _RANGES:
        name, words = _RANGES[kind]
        return f"{shown(value)} is out of range: it must be {words} {context[name]}"
    if kind in ("string_too_short", "too_short"):
        least = context["min_length"]
        return "is empty" if not value else f"is too short: it must hold at least {least}"
    if kind == "json_invalid":
        return "not JSON: " + str(context["error"]).replace(" at line 1 column", " at column")
    # The texts of our own validators.
    return problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _not_of_kind(value: object, wanted: str, noun: str) -> str:
    table = "an object" if noun == "field" else "a table"
    wanted = wanted.replace("{table}", table)
    if value is None or isinstance(value, dict | list | tuple):
        # Not quoted: long, and among settings a place for keys that should not be shown.
        return f"is {table if isinstance(value, dict) else kind_of(value)}, not {wanted}"
    return f"{shown(value)} is {kind_of(value)}, not {wanted}"


def _unknown(loc: tuple[int | str, ...], model: type[BaseModel], noun: str) -> str:
    name = str(loc[-1])
    parent: type[BaseModel] | None = model
    for part in loc[:-1]:
        if isinstance(part, str) and parent is not None:
            field = parent.model_fields.get(part)
            parent = None if field is None else _model_in(field.annotation)
    if parent is None:
        return f"no such {noun}"
    elsewhere = [path for path in _nested_names(parent) if path.endswith(f".{name}")]
    if elsewhere:
        return f"no such {noun}; did you mean {' or '.join(elsewhere)}?"
    hint = did_you_mean(name, parent.model_fields)
    return f"no such {noun}{hint or '; there are ' + ', '.join(parent.model_fields)}"


def _nested_names(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from (f"{name}.{each}" for each in inner.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Find the model within `Model | None`, `tuple[Model, ...]` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)
