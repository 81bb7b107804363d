"""The pocket models: a Qwen3-VL of 1.5 million parameters, and a text reader of half of that.

Both are the stock classes of transformers with small numbers in their configs, so that every tool
which loads Qwen3-VL or Qwen3 loads them. The vision tower has one token for each patch
(`spatial_merge_size` 1): a patch holds two characters.

Imports torch and transformers: import this module inside functions, after
`awm._extras.require("transformers", "local")`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import (
    GenerationConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from awm.benchmarks.pocket_world import COLUMNS, PATCH_PX, ROWS, PocketPage, draw_page
from awm.documents import RenderSettings
from awm.documents.render import encode_rgb
from awm.pocket.tokenizer import (
    END_OF_TEXT,
    END_OF_TURN,
    IMAGE_END,
    IMAGE_PAD,
    IMAGE_START,
    VIDEO_PAD,
    never_sampled,
)

N_VISUAL = COLUMNS * ROWS
"""Visual tokens of a page."""
HIDDEN, HEADS, HEAD_DIM, WIDE = 128, 4, 64, 384
ROPE_THETA = 5_000_000.0
"""That of Qwen3-VL: most of a head's dimensions then compare content, not distance."""
MAX_POSITIONS = 8192


def build_policy(tokenizer: Any, *, layers: int = 4, vision_layers: int = 3) -> Any:
    """Make an untrained policy."""
    token = tokenizer.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config={
            **_text_config(tokenizer, layers),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": ROPE_THETA,
                "mrope_section": [12, 10, 10],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": vision_layers,
            "hidden_size": HIDDEN,
            "intermediate_size": WIDE,
            "num_heads": HEADS,
            "in_channels": 3,
            "patch_size": PATCH_PX,
            "spatial_merge_size": 1,
            "temporal_patch_size": 2,
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [],
        },
        image_token_id=token(IMAGE_PAD),
        video_token_id=token(VIDEO_PAD),
        vision_start_token_id=token(IMAGE_START),
        vision_end_token_id=token(IMAGE_END),
        tie_word_embeddings=True,
    )
    return _finish(Qwen3VLForConditionalGeneration(config), tokenizer)


def build_reader(tokenizer: Any, *, layers: int = 3) -> Any:
    """Make an untrained reader: a Qwen3 language model without eyes."""
    config = Qwen3Config(
        **_text_config(tokenizer, layers),
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
    )
    return _finish(Qwen3ForCausalLM(config), tokenizer)


def _text_config(tokenizer: Any, layers: int) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": HIDDEN,
        "intermediate_size": WIDE,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.convert_tokens_to_ids(END_OF_TEXT),
        "eos_token_id": tokenizer.convert_tokens_to_ids(END_OF_TURN),
    }


def _finish(model: Any, tokenizer: Any) -> Any:
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.convert_tokens_to_ids(END_OF_TURN),
        pad_token_id=tokenizer.convert_tokens_to_ids(END_OF_TEXT),
        max_new_tokens=48,
        suppress_tokens=never_sampled(tokenizer),
    )
    return model


def count_parameters(model: Any) -> int:
    """Count the parameters, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def page_pixels(page: PocketPage | None, settings: RenderSettings | None = None) -> Image.Image:
    """Draw a page as evaluation sends it: through the encoder of page images."""
    encoded = encode_rgb(draw_page(page), settings or RenderSettings())
    with Image.open(io.BytesIO(encoded.data)) as image:
        return image.convert("RGB")


def patches(image: Image.Image) -> NDArray[np.float32]:
    """Give what the image processor makes of a page, shape (30, 3 * 2 * 16 * 16), only faster."""
    x = (np.asarray(image, np.float32) / 255.0 - 1.0) / 0.25
    grid = x.reshape(ROWS, PATCH_PX, COLUMNS, PATCH_PX, 3).transpose(0, 2, 4, 1, 3)
    doubled = np.repeat(grid[:, :, :, None], 2, axis=3)
    return np.ascontiguousarray(doubled.reshape(N_VISUAL, -1))


def image_inputs(images: Sequence[Image.Image]) -> dict[str, torch.Tensor]:
    """Give the model's inputs for some pages."""
    return {
        "pixel_values": torch.from_numpy(np.concatenate([patches(image) for image in images])),
        "image_grid_thw": torch.tensor([[1, ROWS, COLUMNS]] * len(images)),
    }


def pad_rows(rows: Iterable[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Stack rows of token ids, padded on the right.

    Returns:
        Ids and attention mask, shape (rows, longest row).
    """
    listed = [list(row) for row in rows]
    width = max(map(len, listed))
    ids = torch.full((len(listed), width), pad)
    mask = torch.zeros((len(listed), width), dtype=torch.long)
    for i, row in enumerate(listed):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return ids, mask
