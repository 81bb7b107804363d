"""From a model spec to a model: `openai:…`, `transformers:…`, `scripted:…`, `pocket`, `lexical`.

Local models import torch when they are made, not before.
"""

from __future__ import annotations

from collections.abc import Callable

from awm.errors import ConfigError
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


def build_model(settings: ModelSettings) -> ChatModel:
    """Make the model that a spec names.

    Raises:
        ConfigError: the spec is not one of the documented forms, or its file or key is missing.
    """
    kind = settings.spec.partition(":")[0]
    if kind not in _KINDS:
        raise ConfigError(
            f"a model spec begins with {kind!r}; the part before the first ':' must be one of "
            f"{', '.join(_KINDS)}; for example lexical, scripted:replies.jsonl or "
            "openai:Qwen/Qwen3-VL-4B-Instruct@http://localhost:8000/v1"
        )
    return _KINDS[kind](settings)
