"""Generation with a model on this machine: template, images, batch, sampling.

`awm.models.transformers` collects the requests; this module turns a batch of them into turns. It
runs in a worker thread.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from awm._extras import require
from awm.errors import ConfigError, EndpointReplyError, MissingImageError
from awm.models.chat import (
    Completion,
    ImageBlock,
    Message,
    ModelSettings,
    Usage,
    text_message,
)
from awm.models.template import template_message
from awm.models.wire import lay_out

_DEFAULT_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """A conversation to continue."""

    text: str
    """As the chat template writes it."""
    images: tuple[Image.Image, ...]
    seed: int | None


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A loaded model with its processor."""

    path: str
    model: Any
    processor: Any
    tokenizer: Any
    sees: bool
    end_ids: frozenset[int]
    forbidden: list[int]
    lock: threading.Lock

    def render(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], settings: ModelSettings
    ) -> tuple[str, tuple[Image.Image, ...]]:
        """Write a conversation with the chat template, and collect its images in order.

        Raises:
            MissingImageError: the model has no eyes.
            EndpointReplyError: the template refuses the conversation.
        """
        laid_out: Sequence[Message] = messages
        native = tools
        if settings.tool_format == "text":
            laid_out = lay_out(messages, tools=tools, tool_format="text")
            native = ()
        images = tuple(
            block.image
            for message in laid_out
            for block in message.content
            if isinstance(block, ImageBlock)
        )
        if images and not self.sees:
            raise MissingImageError(
                f"{self.path!r} is a text model, and the conversation holds {len(images)} images"
            )
        try:
            text = self.tokenizer.apply_chat_template(
                [template_message(message, self.sees) for message in laid_out],
                tools=list(native) or None,
                tokenize=False,
                add_generation_prompt=True,
                **settings.extra_body.get("chat_template_kwargs", {}),
            )
        except Exception as error:  # jinja templates raise what they like
            raise EndpointReplyError(
                f"the chat template of {self.path!r} cannot write this conversation ({error}); "
                "try tool_format = 'text'"
            ) from error
        return text, tuple(_decode(image.data) for image in images)

    def generate(self, batch: Sequence[LocalRequest], settings: ModelSettings) -> list[Completion]:
        """Generate a turn for each request, in a worker thread.

        Raises:
            MissingImageError: image places and images differ in number.
            EndpointReplyError: the model failed, for lack of memory for example.
        """
        torch = require("torch", "local")
        began = time.monotonic()
        inputs = self._inputs(batch)
        width = inputs["input_ids"].shape[1]
        with self.lock, torch.inference_mode():
            try:
                out = self.model.generate(
                    **inputs.to(self.model.device),
                    generation_config=self._config(settings),
                    logits_processor=self._sampling(batch, inputs, settings),
                )
            except (RuntimeError, ValueError, IndexError) as error:
                raise EndpointReplyError(f"{self.path!r} failed to generate: {error}") from error
        seconds = time.monotonic() - began
        lengths = inputs["attention_mask"].sum(1).tolist()
        return [
            self._completion(request, row, int(length), seconds)
            for request, row, length in zip(batch, out[:, width:].tolist(), lengths, strict=True)
        ]

    def _inputs(self, batch: Sequence[LocalRequest]) -> Any:
        texts = [request.text for request in batch]
        if not self.sees:
            return self.tokenizer(
                texts, padding=True, return_tensors="pt", add_special_tokens=False
            )
        images = [list(request.images) for request in batch]
        try:
            inputs = self.processor(
                text=texts,
                images=images if any(images) else None,
                padding=True,
                return_tensors="pt",
                add_special_tokens=False,
            )
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise EndpointReplyError(
                f"the processor of {self.path!r} cannot prepare this conversation: {error}"
            ) from error
        self._check_images(inputs, sum(map(len, images)))
        return inputs

    def _check_images(self, inputs: Any, n_images: int) -> None:
        grid = inputs.get("image_grid_thw")
        token = getattr(self.model.config, "image_token_id", None)
        if grid is None:
            if n_images and "pixel_values" not in inputs:
                raise MissingImageError(
                    f"the processor of {self.path!r} dropped {n_images} images from the request"
                )
            return
        merge = getattr(self.processor.image_processor, "merge_size", 1) ** 2
        features = int(grid.prod(-1).sum()) // merge
        places = int((inputs["input_ids"] == token).sum())
        if len(grid) != n_images or places != features:
            raise MissingImageError(
                f"{n_images} images were given, {len(grid)} arrived, with {features} features for "
                f"{places} image places: {self.path!r} would not see what it is asked about"
            )

    def _config(self, settings: ModelSettings) -> Any:
        transformers = require("transformers", "local")
        own = self.model.generation_config
        return transformers.GenerationConfig(
            do_sample=False,  # `_GumbelNoise` samples; the defaults keep the model's own values out
            temperature=1.0,
            top_p=1.0,
            top_k=50,
            max_new_tokens=settings.max_tokens or own.max_new_tokens or _DEFAULT_MAX_TOKENS,
            eos_token_id=sorted(self.end_ids),
            pad_token_id=self.tokenizer.pad_token_id,
            suppress_tokens=self.forbidden or None,
        )

    def _sampling(self, batch: Sequence[LocalRequest], inputs: Any, settings: ModelSettings) -> Any:
        """Give what makes the greedy choice a sample, or nothing at temperature 0."""
        own = self.model.generation_config
        temperature = settings.temperature
        if temperature is None:
            temperature = (own.temperature or 1.0) if own.do_sample else 0.0
        top_p = settings.top_p if settings.top_p is not None else (own.top_p or 1.0)
        transformers = require("transformers", "local")
        if temperature == 0:
            return transformers.LogitsProcessorList()
        seeds = [_stream_seed(request) for request in batch]
        noise = _GumbelNoise(temperature, top_p if temperature else 1.0, seeds)
        return transformers.LogitsProcessorList([noise])

    def _completion(
        self, request: LocalRequest, ids: list[int], n_prompt: int, seconds: float
    ) -> Completion:
        end = next((i for i, token in enumerate(ids) if token in self.end_ids), None)
        written = ids if end is None else ids[:end]
        text = self.tokenizer.decode(written, skip_special_tokens=True)
        return Completion(
            message=text_message("assistant", text),
            images_sent=len(request.images),
            finish_reason="length" if end is None else "stop",
            usage=Usage(n_prompt, len(written) + (end is not None)),
            latency_s=seconds,
        )


class _GumbelNoise:
    """Turns the greedy choice into a sample: argmax(logits / T + Gumbel noise) ~ softmax.

    Each row draws from a generator of its own, so that a sample depends on its seed and its
    prompt, and not on who else is in the batch.
    """

    def __init__(self, temperature: float, top_p: float, seeds: Sequence[int]) -> None:
        self._temperature, self._top_p = temperature, top_p
        torch = require("torch", "local")
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, ids_BT: Any, logits_BV: Any) -> Any:
        torch = require("torch", "local")
        logits = logits_BV.float() / self._temperature
        if self._top_p < 1.0:
            logits = _keep_top_p(torch, logits, self._top_p)
        uniform = torch.stack(
            [torch.rand(logits.shape[1], generator=generator) for generator in self._generators]
        ).to(logits.device)
        return logits - torch.log(-torch.log(uniform.clamp(1e-20, 1.0 - 1e-7)))


def _keep_top_p(torch: Any, logits_BV: Any, top_p: float) -> Any:
    ordered, order = logits_BV.sort(descending=True)
    shares = ordered.softmax(-1)
    is_tail = shares.cumsum(-1) - shares >= top_p
    return logits_BV.masked_fill(is_tail.scatter(1, order, is_tail), float("-inf"))


def _stream_seed(request: LocalRequest) -> int:
    if request.seed is None:
        return secrets.randbits(63)
    digest = hashlib.sha256(f"{request.seed}\0{request.text}".encode(errors="replace"))
    for image in request.images:
        digest.update(image.tobytes())
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def _decode(data: bytes) -> Image.Image:
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def refuse_missing_folder(path: str) -> None:
    """Refuse the path of a folder that is not there, which transformers would take for a hub name.

    Raises:
        ConfigError: there is nothing at `path`, and it does not look like OWNER/NAME.
    """
    is_local = path.startswith(("runs/", ".", "/", "~")) or path.count("/") > 1
    if is_local and not Path(path).exists():
        raise ConfigError(
            f"there is no usable model at {path!r}: the folder does not exist; train it first "
            "(awm train sft), or name another model, in awm train with --model"
        )


def load_local_model(path: str, settings: ModelSettings) -> LocalModel:
    """Load a model with its processor.

    Args:
        path: a folder, or a model's name.
        settings: `extra_body` may name `device` and `dtype`.

    Raises:
        ConfigError: there is no usable model.
        MissingExtraError: torch or transformers is not installed.
    """
    refuse_missing_folder(path)
    torch = require("torch", "local")
    transformers = require("transformers", "local")
    from awm.models.local_processor import load_processor

    damaged = require("safetensors", "local").SafetensorError
    transformers.utils.logging.disable_progress_bar()

    try:
        config = transformers.AutoConfig.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"there is no usable model at {path!r} ({error})") from error
    processor, sees = load_processor(path, config.model_type)
    tokenizer = processor.tokenizer if sees else processor
    if not tokenizer.chat_template:
        raise ConfigError(f"the tokenizer of {path!r} has no chat template")
    tokenizer.padding_side = "left"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    device = settings.extra_body.get("device", "cuda" if torch.cuda.is_available() else "cpu")
    dtype = settings.extra_body.get("dtype", "float32" if device == "cpu" else "bfloat16")
    kind = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    try:
        model = kind.from_pretrained(path, dtype=getattr(torch, dtype)).to(device).eval()
    except (OSError, ValueError, RuntimeError, AttributeError, damaged) as error:
        raise ConfigError(f"the model at {path!r} cannot be loaded ({error})") from error
    ends = _end_ids(model, tokenizer)
    forbidden = model.generation_config.suppress_tokens
    if forbidden is None:
        # A sampled placeholder (<|image_pad|>, <|video_pad|>) would crash the next turn.
        forbidden = sorted(set(tokenizer.all_special_ids) - ends)
    return LocalModel(
        path, model, processor, tokenizer, sees, frozenset(ends), list(forbidden), threading.Lock()
    )


def _end_ids(model: Any, tokenizer: Any) -> set[int]:
    ends = model.generation_config.eos_token_id
    ids = set(ends) if isinstance(ends, list) else {ends}
    return {token for token in (*ids, tokenizer.eos_token_id) if token is not None}
