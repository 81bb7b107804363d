"""Export: a folder that transformers and vLLM load, loaded once and asked once after writing.

A checkpoint that a server cannot load is found here, not after the training's machine is gone.

Imports torch and transformers: import this module inside functions, after
`awm._extras.require`.
"""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from pathlib import Path
from typing import Any

from PIL import Image

from awm.agent.tools import retrieve_schema, update_memory_schema
from awm.documents.render import RenderSettings, encode_rgb
from awm.errors import ConfigError, DataError, EndpointError
from awm.models.chat import (
    ImageBlock,
    Message,
    ModelSettings,
    TextBlock,
    count_images,
    text_message,
)
from awm.models.transformers import TransformersModel
from awm.train.config import PolicySettings
from awm.train.policy import load_policy

_SERVER_FILES = ("preprocessor_config.json", "video_preprocessor_config.json", "merges.txt")
"""Files of the base model that a server may want and that our processor does not write."""
_OWN_CLASS, _STOCK_CLASS = "ImageOnlyProcessor", "Qwen3VLProcessor"


def export_checkpoint(checkpoint: Path, out: Path, base: str | None = None) -> Path:
    """Export a checkpoint of `awm train`, with a LoRA merged into its base.

    Args:
        checkpoint: a checkpoint's folder.
        out: the folder to write.
        base: the model that was trained; None: what the training's settings or the adapter name.

    Raises:
        ConfigError: the checkpoint or its base cannot be loaded.
        DataError: the written folder does not pass the smoke test.
    """
    adapter = checkpoint / "adapter_config.json"
    named = base or _base_of(checkpoint)
    if adapter.is_file():
        from peft import PeftModel

        if named is None:
            raise ConfigError(f"{adapter} names no base model; give --base")
        model, processor = load_policy(PolicySettings(path=named, freeze_vision=False))
        model = PeftModel.from_pretrained(model, str(checkpoint))
    else:
        source = named if named and not (checkpoint / "tokenizer.json").is_file() else None
        model, processor = load_policy(PolicySettings(path=str(checkpoint), freeze_vision=False))
        if source is not None:
            _, processor = load_policy(PolicySettings(path=source, freeze_vision=False))
    return write_policy(model, processor, named, out)


def write_policy(model: Any, processor: Any, base: str | None, out: Path) -> Path:
    """Write a policy in bfloat16 with its processor, and test what was written."""
    import torch

    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(out)
    processor.save_pretrained(out)
    _name_the_stock_class(out)
    if base is not None:
        for name in _SERVER_FILES:
            source = Path(base) / name
            if source.is_file() and not (out / name).exists():
                shutil.copy(source, out / name)
    smoke_test(out)
    return out


def smoke_test(folder: Path) -> str:
    """Load a folder as evaluation does, show it a page in a tool message, and let it speak.

    Returns:
        What it said.

    Raises:
        DataError: it cannot be loaded, does not take the image, or fails to generate.
    """
    return asyncio.run(_ask(folder))


async def _ask(folder: Path) -> str:
    settings = ModelSettings(spec=f"transformers:{folder}", temperature=0.0, max_tokens=8)
    try:
        model = TransformersModel(settings)
    except Exception as error:  # every library that loads has errors of its own
        raise DataError(f"the exported model in {folder} cannot be loaded: {error}") from error
    page = encode_rgb(Image.new("RGB", (80, 96), "white"), RenderSettings())
    messages = [
        text_message("user", "What is on the page?"),
        text_message(
            "assistant", '<tool_call>\n{"name": "retrieve", "arguments": {}}\n</tool_call>'
        ),
        Message(role="tool", name="retrieve", content=(TextBlock("page 1:"), ImageBlock(page, 1))),
    ]
    try:
        completion = await model.complete(
            messages, tools=[retrieve_schema(3), update_memory_schema()]
        )
    except EndpointError as error:
        raise DataError(f"the exported model in {folder} cannot generate: {error}") from error
    finally:
        await model.aclose()
    if completion.images_sent != count_images(messages):
        raise DataError(f"the exported model in {folder} was sent an image and did not take it")
    return completion.message.text


def _name_the_stock_class(folder: Path) -> None:
    """Name transformers' own processor class: servers do not know ours."""
    for name in ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            if _OWN_CLASS in text:
                path.write_text(text.replace(_OWN_CLASS, _STOCK_CLASS), encoding="utf-8")


def _base_of(checkpoint: Path) -> str | None:
    adapter = checkpoint / "adapter_config.json"
    settings = checkpoint.parent / "settings.json"
    for path, keys in ((settings, ("policy", "path")), (adapter, ("base_model_name_or_path",))):
        if path.is_file():
            value: Any = json.loads(io.BytesIO(path.read_bytes()).read())
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, str):
                return value
    return None
