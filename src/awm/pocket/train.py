"""The whole training of the pocket models, from one seed: `awm pocket train`.

Vision, imitation, reader; then a folder with `policy` and `reader` that `--model pocket:FOLDER`,
transformers and vLLM load. The same seed and thread count give the same weights on one machine,
bit by bit (tested); elsewhere sums are rounded differently and the figures differ within their
noise. The shipped weights were made by the defaults, before the order of additions was fixed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field
from transformers import AutoConfig

from awm.errors import ConfigError
from awm.pocket.encoding import Encoder
from awm.pocket.imitation import Imitation, exact_turns
from awm.pocket.model import N_VISUAL, build_policy, count_parameters
from awm.pocket.reader import exact_readings, start_reader, train_reader
from awm.pocket.rows import GENERIC_SHARE
from awm.pocket.schedule import Schedule, Stopwatch
from awm.pocket.tokenizer import build_processor, build_tokenizer
from awm.pocket.vision import LabelHead, share_digits, train_vision

_log = logging.getLogger(__name__)


class PocketTraining(BaseModel):
    """All that decides the weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    vision_steps: int = Field(default=600, ge=1)
    imitation_steps: int = Field(default=2000, ge=1)
    reader_steps: int = Field(default=450, ge=1)
    generic_share: float = Field(default=GENERIC_SHARE, ge=0, le=1)
    """Of the teacher's episodes whose question has an answer: those with generic findings."""
    threads: int = Field(default=2, ge=1)

    def scaled(self, factor: float) -> PocketTraining:
        """Give settings with `factor` times the steps, at least one of each."""
        steps = ("vision_steps", "imitation_steps", "reader_steps")
        return self.model_copy(
            update={name: max(1, round(getattr(self, name) * factor)) for name in steps}
        )


OnStage = Callable[[str], None]


def train_pocket(
    settings: PocketTraining,
    out: Path,
    on_stage: OnStage | None = None,
    *,
    n_checked: int = 200,
) -> None:
    """Train both models and write them to `out/policy` and `out/reader`.

    Args:
        settings: what decides the weights.
        out: the folder, made where it is missing.
        on_stage: told what begins and what came out.
        n_checked: unseen cases of each of the checks at the end.
    """
    tell = on_stage or _log.info
    torch.set_num_threads(settings.threads)
    with _deterministic():
        _train(settings, out, tell, n_checked)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Have torch add in a fixed order: with two threads one training in four came out different."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _train(settings: PocketTraining, out: Path, tell: OnStage, n_checked: int) -> None:
    watch = Stopwatch()
    tokenizer = build_tokenizer()
    encoder = Encoder(tokenizer, N_VISUAL)
    policy = train_policy(settings, encoder, tell, n_checked=n_checked)
    save_policy(policy, out / "policy")
    tell(f"reader: {settings.reader_steps} steps ({watch})")
    torch.manual_seed(settings.seed)
    reader = start_reader(policy, tokenizer)
    train_reader(reader, encoder, Schedule(settings.reader_steps, 1.2e-3, settings.seed))
    save_reader(reader, out / "reader")
    tell(f"readings exactly right: {exact_readings(reader, encoder, n=n_checked)}")
    tell(f"{out}: {count_parameters(policy)} and {count_parameters(reader)} parameters ({watch})")


def train_policy(
    settings: PocketTraining, encoder: Encoder, tell: OnStage, *, n_checked: int = 200
) -> Any:
    """Train the policy: vision, then imitation."""
    torch.manual_seed(settings.seed)
    policy = build_policy(encoder.tokenizer)
    words = policy.get_input_embeddings().weight
    share_digits(encoder.tokenizer, words)
    head = LabelHead(encoder.tokenizer, words)
    watch = Stopwatch()
    tell(f"vision: {settings.vision_steps} steps")
    hits = train_vision(policy, head, Schedule(settings.vision_steps, 2e-3, settings.seed))
    tell(f"labels right: {min(hits):.3f} at least; imitation: {settings.imitation_steps} steps")
    schedule = Schedule(settings.imitation_steps, 1e-3, settings.seed)
    Imitation(policy, head, encoder, schedule, generic_share=settings.generic_share).run(
        check_every=500
    )
    tell(f"turns exactly right: {exact_turns(policy, encoder, n=n_checked)} ({watch})")
    return policy


def save_policy(policy: Any, folder: Path) -> None:
    """Write a policy as bfloat16 safetensors, with its processor."""
    _save(policy, folder)
    write_processor(folder)


def save_reader(reader: Any, folder: Path) -> None:
    """Write a reader as bfloat16 safetensors, with its tokenizer."""
    reader.generation_config.do_sample = False
    reader.generation_config.temperature = None
    reader.generation_config.top_p = None
    reader.generation_config.top_k = None
    _save(reader, folder)
    build_tokenizer().save_pretrained(folder)


def write_processor(folder: Path) -> None:
    """Write the processor of the present prompts beside a policy's weights."""
    build_processor().save_pretrained(folder)


def refresh_tokenizers(folder: Path) -> list[Path]:
    """Write the tokenizers of the present prompts into a folder of `train_pocket`.

    Raises:
        ConfigError: the vocabulary no longer has the size of the models' embeddings.
    """
    tokenizer = build_tokenizer()
    for role in ("policy", "reader"):
        config = AutoConfig.from_pretrained(folder / role)
        rows = config.get_text_config().vocab_size
        if rows != len(tokenizer):
            raise ConfigError(
                f"{folder / role} was trained with {rows} tokens, and the prompts now need "
                f"{len(tokenizer)}: train again with awm pocket train"
            )
    write_processor(folder / "policy")
    tokenizer.save_pretrained(folder / "reader")
    return [folder / "policy", folder / "reader"]


def _save(model: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    dtype = next(model.parameters()).dtype
    model.to(torch.bfloat16).save_pretrained(folder)
    model.to(dtype)
