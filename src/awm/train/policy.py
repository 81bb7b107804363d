"""Load the policy that is trained, and decide which of its weights move.

Imports torch and transformers: import this module inside functions, after
`awm._extras.require`.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from awm.errors import ConfigError
from awm.models.local_generation import refuse_missing_folder
from awm.models.local_processor import load_processor
from awm.train.config import PolicySettings

VISION_PARTS = ("visual", "vision_tower", "vision_model")
"""Names of the vision tower in the models of transformers."""


def load_policy(settings: PolicySettings) -> tuple[Any, Any]:
    """Load a vision-language model and its processor.

    Raises:
        ConfigError: there is none at the path, or it has no eyes.
    """
    path = settings.path
    refuse_missing_folder(path)
    try:
        model_type = AutoConfig.from_pretrained(path).model_type
    except (OSError, ValueError) as error:
        raise ConfigError(f"there is no usable model at {path!r} ({error})") from error
    processor, sees = load_processor(path, model_type)
    if not sees:
        raise ConfigError(f"{path!r} is a text model; the policy must see page images")
    processor.tokenizer.padding_side = "left"
    try:
        model = AutoModelForImageTextToText.from_pretrained(
            path, dtype=getattr(torch, settings.dtype)
        )
    except Exception as error:  # every library that loads has errors of its own
        raise ConfigError(f"the model at {path!r} cannot be loaded ({error})") from error
    if settings.freeze_vision:
        vision_part(model).requires_grad_(False)
    return model, processor


def vision_part(model: Any) -> Any:
    """Give the vision tower, with its merger.

    Raises:
        ConfigError: it has none of the known names.
    """
    inner = getattr(model, "model", model)
    for name in VISION_PARTS:
        part = getattr(inner, name, None) or getattr(model, name, None)
        if part is not None:
            return part
    raise ConfigError(
        f"{type(model).__name__} has no part named {', '.join(VISION_PARTS)}, so its vision tower "
        "cannot be frozen; set policy.freeze_vision = false"
    )


def lora_config(settings: PolicySettings) -> Any:
    """Give the LoRA of the language model's linear layers; None where all weights are trained."""
    if settings.lora is None:
        return None
    from peft import LoraConfig

    vision = "|".join(VISION_PARTS)
    return LoraConfig(
        r=settings.lora.rank,
        lora_alpha=settings.lora.alpha,
        lora_dropout=settings.lora.dropout,
        target_modules="all-linear",
        exclude_modules=rf".*\b({vision})\b.*" if settings.freeze_vision else None,
        task_type="CAUSAL_LM",
    )


def forbidden_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Give the ids that must not be sampled: every special token but the ends.

    TRL suppresses `<|image_pad|>` alone; a sampled `<|video_pad|>` crashes the next forward pass.
    A model whose generation config names its own (`suppress_tokens`) keeps them.
    """
    own = model.generation_config.suppress_tokens or ()
    ends = model.generation_config.eos_token_id
    ends = set(ends) if isinstance(ends, list) else {ends}
    return sorted(({*own, *tokenizer.all_special_ids}) - ends - {tokenizer.eos_token_id})


def count_parameters(model: Any) -> tuple[int, int]:
    """Count all parameters, and those that training moves."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(n for n, _ in sizes), sum(n for n, trains in sizes if trains)
