"""From flags and a TOML file to settings: flags win, and every setting has both ways.

A setting without a flag of its own is reached by `--set`, whose value is TOML:
`--set reader.extra_body.chat_template_kwargs.enable_thinking=false`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from awm.errors import ConfigError
from awm.faults import find_faults, reason

S = TypeVar("S", bound=BaseModel)
_MODELS = ("model", "reader", "extractor", "generator", "writer", "verifier")
_OTHER_FLAGS = {"policy.path": "--model", "runs": "--from", "source_format": "--from"}
"""Flags whose name is not the setting's."""


def read_config(path: Path | None) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config {path} cannot be read: {reason(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config {path} is not TOML: {error}") from error


def merge(
    config: Mapping[str, Any], flags: Mapping[str, Any], assignments: Sequence[str]
) -> dict[str, Any]:
    """Lay flags and `--set` assignments over a config.

    Args:
        config: the TOML file's content; a model may be a table or just its spec.
        flags: by setting name, dotted for a nested one; None where a flag was not given.
        assignments: "dotted.name=TOML value".

    Raises:
        ConfigError: an assignment is not of that form.
    """
    merged = _copy(config)
    _expand_specs(merged)
    for name, value in flags.items():
        if value is not None:
            _assign(merged, f"{name}.spec" if name in _MODELS else name, value)
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set {assignment!r}: write name=value")
        _assign(merged, name.strip(), _toml_value(text.strip(), assignment))
    _expand_specs(merged)
    for name in ("reader", "extractor"):
        if isinstance(merged.get(name), dict) and merged[name].get("spec") == "none":
            merged[name] = None
    return merged


def build_settings(
    kind: type[S],
    values: Mapping[str, Any],
    flags: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
) -> S:
    """Check settings.

    Args:
        kind: the settings' model.
        values: what was given.
        flags: the settings that have a flag of their own, to be named where one is missing.
        missing: settings that the caller misses although `kind` has a default, and what they are.

    Raises:
        ConfigError: settings are missing, unknown or out of range; the message names each.
    """
    lines = [f"{name}: {_missing(name, flags)}; {what}" for name, what in (missing or {}).items()]
    try:
        settings = kind.model_validate(values)
    except ValidationError as error:
        found = [
            f"{fault.place}: {_missing(fault.place, flags)}"
            if fault.type == "missing"
            else f"{fault.place}: {fault.text}".removeprefix(": ")
            for fault in find_faults(error, kind, noun="setting")
        ]
        raise ConfigError(_unusable(found + lines)) from error
    if lines:
        raise ConfigError(_unusable(lines))
    return settings


def _unusable(lines: Sequence[str]) -> str:
    return "settings that cannot be used:\n  " + "\n  ".join(lines)


def _missing(name: str, flags: Collection[str]) -> str:
    # A flag may stand for the one setting that a table needs: `policy` is given by --model.
    name = next((flag for flag in flags if flag.startswith(f"{name}.")), name)
    outer = name.removesuffix(".spec")
    flag = _OTHER_FLAGS.get(name, f"--{outer.replace('_', '-')}")
    in_file = f"{outer} = … in the TOML file"
    return f"missing (give {flag} or {in_file})" if outer in flags else f"missing (give {in_file})"


def _copy(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _copy(value) if isinstance(value, Mapping) else value for key, value in config.items()
    }


def _expand_specs(values: dict[str, Any]) -> None:
    for name in _MODELS:
        if isinstance(values.get(name), str):
            values[name] = {"spec": values[name]}


def _assign(target: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for key in path:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{name}: {key} is {inner!r} and has no settings of its own")
        target = inner
    target[last] = value


def _toml_value(text: str, assignment: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if text and not any(mark in text for mark in "\"'[]{}\n"):
            return text
        raise ConfigError(f"--set {assignment!r}: {text!r} is not a TOML value") from None
