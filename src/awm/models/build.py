"""From a model spec to a model: `openai:…`, `transformers:…`, `scripted:…`, `pocket`, `lexical`.

Local models import torch when they are made, not before.
"""

from __future__ import annotations

from collections.abc import Callable

from awm.errors import ConfigError
from awm.faults import did_you_mean
from awm.models.chat import ChatModel, ModelSettings
from awm.models.lexical import LexicalModel
from awm.models.openai import OpenAIModel
from awm.models.pocket import PocketModel
from awm.models.scripted import ScriptedModel
from awm.models.transformers import TransformersModel

_KINDS: dict[str, Callable[[ModelSettings], ChatModel]] = {
    "openai": OpenAIModel,
    "scripted": ScriptedModel.from_settings,
    "lexical": LexicalModel,
    "pocket": PocketModel,
    "transformers": TransformersModel,
}

_FORMS = (
    "lexical                     a program that needs no model",
    "pocket[:FOLDER]             the tiny vision-language model that AWM trains itself",
    "openai:MODEL[@BASE_URL]     a server, e.g. openai:NAME@http://localhost:8000/v1",
    "transformers:FOLDER         a Qwen3-VL on this machine (extra local)",
    "scripted:FILE               replies from a file, for tests",
)


def build_model(settings: ModelSettings, *, role: str | None = None) -> ChatModel:
    """Make the model that a spec names.

    Args:
        settings: its spec and how it is asked.
        role: what it is for, e.g. "--reader"; a refusal begins with it.

    Raises:
        ConfigError: the spec is not one of the documented forms, or its file or key is missing.
    """
    kind = settings.spec.partition(":")[0]
    try:
        if kind not in _KINDS:
            raise ConfigError(_unknown(settings.spec))
        return _KINDS[kind](settings)
    except ConfigError as error:
        if role is None:
            raise
        raise ConfigError(f"{role}: {error}") from error


def _unknown(spec: str) -> str:
    """Word the refusal of a spec; what follows its first ':' or '@' may hold a password."""
    kind, colon, _ = spec.partition(":")
    name, at, _ = kind.partition("@")
    hint = did_you_mean(name, _KINDS)
    if not hint and name.startswith(("/", "./", "../", "~")):
        hint = f"; did you mean transformers:{name}?"
    elif not hint and name.strip() and (at or not colon):
        hint = f"; did you mean openai:{name}{'@…' if at else ''}?"
    forms = "\n  ".join(_FORMS)
    return f"unknown model {name!r}{hint or '.'} A model is given as one of:\n  {forms}"
