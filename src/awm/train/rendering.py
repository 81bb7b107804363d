"""From messages to the token ids that a policy is trained on, by its own chat template.

A conversation is written piece by piece, in the pieces of a rollout: the prompt up to the first
turn, each turn as it was sampled, and each observation. The pieces meet at special tokens, so their
ids are those of the conversation rendered as a whole (`check_rendering` compares the text).
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from awm.documents.image import PageImage
from awm.errors import ConfigError, MissingImageError
from awm.models.chat import ImageBlock, Message, count_images, text_message
from awm.models.template import template_message

KEPT_PIECES = 32
"""Processed observations in memory; three pages of a million pixels are 25 MB a piece."""
_USER = text_message("user", "?")
_ASSISTANT = text_message("assistant", "!")


def open_image(image: PageImage) -> Image.Image:
    """Decode a page image as RGB."""
    with Image.open(io.BytesIO(image.data)) as opened:
        return opened.convert("RGB")


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids with the images that belong to their image places."""

    ids: list[int]
    images: list[Image.Image] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    """What the image processor made of them: pixel_values, image_grid_thw."""


class ChatRenderer:
    """Writes the pieces of a conversation for one policy.

    Args:
        processor: the policy's processor (tokenizer and image processor).
        tools: the schemas of the agent's tools.
        chat_template: used in place of the tokenizer's own.
    """

    def __init__(
        self,
        processor: Any,
        tools: Sequence[dict[str, Any]],
        chat_template: str | None = None,
    ) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.tools = list(tools)
        self._template = chat_template
        self.eos: str = self.tokenizer.eos_token
        self.eos_id: int = self.tokenizer.eos_token_id
        self.image_token_id: int = self.tokenizer.convert_tokens_to_ids(processor.image_token)
        self._merge = getattr(processor.image_processor, "merge_size", 1) ** 2
        self._pieces: OrderedDict[tuple[str, ...], Piece] = OrderedDict()

    def text(
        self, messages: Sequence[Message], *, for_turn: bool = False, tools: bool = True
    ) -> str:
        """Write a conversation with the chat template; `for_turn` opens the policy's turn."""
        written: str = self.tokenizer.apply_chat_template(
            [template_message(message) for message in messages],
            tools=self.tools if tools and self.tools else None,
            chat_template=self._template,
            tokenize=False,
            add_generation_prompt=for_turn,
        )
        return written

    def prompt(self, messages: Sequence[Message]) -> Piece:
        """Give the conversation up to the policy's first turn."""
        return self._piece(self.text(messages, for_turn=True), messages)

    def turn(self, message: Message) -> list[int]:
        """Give an assistant turn of a record as the policy would have sampled it."""
        ids: list[int] = self.tokenizer(self.turn_text(message), add_special_tokens=False)[
            "input_ids"
        ]
        return ids

    def turn_text(self, message: Message) -> str:
        """Write an assistant turn, from behind the turn's opening to its end token."""
        opening = self.text([_USER], for_turn=True, tools=False)
        whole = self.text([_USER, message], tools=False)
        return self._after(opening, whole).rpartition(self.eos)[0] + self.eos

    def observation(self, observations: Sequence[Message], *, turn_ended: bool) -> Piece:
        """Give what follows a turn, up to the opening of the next one.

        Args:
            observations: the messages that answer the turn.
            turn_ended: whether the turn's own ids hold its end token; if not, the piece begins
                with it.
        """
        text = self.observation_text(observations)
        return self._piece(text if turn_ended else self.eos + text, observations)

    def observation_text(self, observations: Sequence[Message]) -> str:
        """Write the observations, from behind the turn's end token."""
        before = self.text([_USER, _ASSISTANT], tools=False)
        before = before[: before.rindex(self.eos) + len(self.eos)]
        whole = self.text([_USER, _ASSISTANT, *observations], for_turn=True, tools=False)
        return self._after(before, whole)

    def decode(self, ids: Sequence[int]) -> str:
        """Give a sampled turn's text as evaluation reads it: up to its end, no special tokens."""
        ids = list(ids)
        end = ids.index(self.eos_id) if self.eos_id in ids else len(ids)
        text: str = self.tokenizer.decode(ids[:end], skip_special_tokens=True)
        return text

    def n_features(self, fields: dict[str, Any]) -> int:
        """Count the features that the vision tower gives for processed images."""
        grid = fields.get("image_grid_thw")
        return 0 if grid is None else int(grid.prod(-1).sum()) // self._merge

    def _after(self, before: str, whole: str) -> str:
        if not whole.startswith(before):
            raise ConfigError(
                "the chat template changes what it wrote before when a message follows, so a "
                "conversation cannot be trained on turn by turn; use the model's instruct variant, "
                "or a template that only appends"
            )
        return whole[len(before) :]

    def _piece(self, text: str, messages: Sequence[Message]) -> Piece:
        """Give the piece of a text with its images; the latest are kept.

        The rollouts of a group mostly see the same pages, and processing them is slow.
        """
        shown = [block.image for message in messages for block in message.images]
        key = (text, *(image.digest for image in shown))
        piece = self._pieces.pop(key, None) or self._make_piece(text, messages)
        self._pieces[key] = piece
        while len(self._pieces) > KEPT_PIECES:
            self._pieces.popitem(last=False)
        return piece

    def _make_piece(self, text: str, messages: Sequence[Message]) -> Piece:
        images = [
            open_image(block.image)
            for message in messages
            for block in message.content
            if isinstance(block, ImageBlock)
        ]
        if not images:
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            return Piece(list(ids))
        try:
            written = self.processor(
                text=[text], images=images, return_tensors="pt", add_special_tokens=False
            )
        except ValueError as error:
            raise MissingImageError(
                f"the processor does not take {len(images)} images with their text ({error})"
            ) from error
        grid = written.get("image_grid_thw")
        if count_images(messages) != len(images) or grid is None or len(grid) != len(images):
            raise MissingImageError(
                f"{len(images)} images were given to the processor and "
                f"{0 if grid is None else len(grid)} came back"
            )
        fields = {key: written[key] for key in ("pixel_values", "image_grid_thw")}
        return Piece(written["input_ids"][0].tolist(), images, fields)


def check_rendering(renderer: ChatRenderer, messages: Sequence[Message]) -> None:
    """Compare a conversation written in pieces with the template's own writing of the whole.

    Raises:
        ConfigError: they differ, so training and serving would not see the same text.
    """
    opening = list(messages[: _first_turn(messages)])
    text = renderer.text(opening, for_turn=True)
    rest = list(messages[len(opening) :])
    while rest:
        text += renderer.turn_text(rest.pop(0))
        observations = []
        while rest and rest[0].role != "assistant":
            observations.append(rest.pop(0))
        if observations:
            text += renderer.observation_text(observations)
    whole = renderer.text(messages)
    if whole.rstrip("\n") != text.rstrip("\n"):
        at = next(
            (i for i, (a, b) in enumerate(zip(whole, text, strict=False)) if a != b),
            min(len(whole), len(text)),
        )
        raise ConfigError(
            f"the chat template writes this conversation differently as a whole and turn by turn, "
            f"first at character {at}: {whole[at : at + 60]!r} against {text[at : at + 60]!r}; it "
            "cannot be trained on with this template"
        )


def _first_turn(messages: Sequence[Message]) -> int:
    for index, message in enumerate(messages):
        if message.role == "assistant":
            return index
    return len(messages)
