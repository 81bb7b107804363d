"""Processors of local vision-language models, without torchvision.

`Qwen3VLProcessor` wants a video processor, and that wants torchvision, which nothing here needs:
pages are images. Imports transformers: import this module inside functions, after
`awm._extras.require("transformers", "local")`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import AutoProcessor, AutoTokenizer, Qwen3VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.processing_utils import ProcessorMixin

from awm.errors import ConfigError

__all__ = [
    "ImageOnlyProcessor",
    "Qwen2VLImageProcessorPil",
    "load_processor",
    "load_qwen3_vl_processor",
]

_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}


class ImageOnlyProcessor(Qwen3VLProcessor):  # type: ignore[misc]
    """Qwen3-VL's processor for text and images."""

    def __init__(
        self,
        image_processor: Any = None,
        tokenizer: Any = None,
        chat_template: str | None = None,
        **_: Any,
    ) -> None:
        for name, token in _TOKENS.items():
            setattr(self, name, token)
            setattr(self, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)


def load_qwen3_vl_processor(folder: Path | str) -> ImageOnlyProcessor:
    """Load the processor of a Qwen3-VL folder.

    Through the classes, because `AutoProcessor` gives back a bare tokenizer where the video
    processor cannot be made.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    images = Qwen2VLImageProcessorPil.from_pretrained(folder)
    return ImageOnlyProcessor(images, tokenizer, chat_template=tokenizer.chat_template)


def load_processor(folder: str, model_type: str) -> tuple[Any, bool]:
    """Load what prepares the inputs of a model.

    Args:
        folder: a local folder or a model's name.
        model_type: as its config says.

    Returns:
        A processor and True for a vision-language model, a tokenizer and False for a text model.

    Raises:
        ConfigError: the folder holds no usable processor.
    """
    try:
        if model_type == "qwen3_vl":
            return load_qwen3_vl_processor(folder), True
        loaded = AutoProcessor.from_pretrained(folder)
    except (OSError, ValueError, ImportError, json.JSONDecodeError) as error:
        raise ConfigError(
            f"the processor of {folder!r} cannot be loaded ({error}); the folder needs a tokenizer "
            "and, for a model that sees, preprocessor_config.json"
        ) from error
    return loaded, getattr(loaded, "image_processor", None) is not None
