"""Token rows of supervised fine-tuning: loss on what the policy says, nothing else.

A row has the pieces of a rollout (see `awm.train.rendering`), so imitation and GRPO train on the
same tokens in the same places.

Imports torch: import this module inside functions, after `awm._extras.require`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from awm.errors import DataError
from awm.models.chat import Message
from awm.rl.tokens import TokenTrajectory, check_image_places
from awm.train.rendering import ChatRenderer, Piece

IGNORED = -100
"""The label that has no loss."""


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation as model inputs."""

    ids: list[int]
    labels: list[int]
    """The id where the policy speaks, else `IGNORED`."""
    fields: dict[str, Any]
    """pixel_values and image_grid_thw of its images; empty without images."""
    n_images: int

    @property
    def n_trained(self) -> int:
        """Tokens with a loss."""
        return sum(label != IGNORED for label in self.labels)


def make_row(renderer: ChatRenderer, messages: Sequence[Message]) -> Row:
    """Write a conversation as a row.

    Raises:
        DataError: it holds no assistant turn.
        MissingImageError: image places and features differ.
    """
    first = next((i for i, m in enumerate(messages) if m.role == "assistant"), None)
    if first is None:
        raise DataError("a conversation without an assistant turn has nothing to learn from")
    prompt = renderer.prompt(messages[:first])
    pieces = [prompt]
    tokens = TokenTrajectory(prompt.ids)
    rest = list(messages[first:])
    while rest:
        tokens.add_sampled(renderer.turn(rest.pop(0)))
        observations: list[Message] = []
        while rest and rest[0].role != "assistant":
            observations.append(rest.pop(0))
        if observations:
            piece = renderer.observation(observations, turn_ended=True)
            tokens.add_observation(piece.ids, len(piece.images))
            pieces.append(piece)
    fields = _join(pieces)
    n_images = sum(len(piece.images) for piece in pieces)
    features = renderer.n_features(fields)
    check_image_places(tokens.ids, renderer.image_token_id, features, n_images, "in a row")
    labels = [IGNORED] * len(tokens.prompt_ids) + [
        token if sampled else IGNORED
        for token, sampled in zip(tokens.completion_ids, tokens.completion_mask, strict=True)
    ]
    return Row(tokens.ids, labels, fields, n_images)


def _join(pieces: Sequence[Piece]) -> dict[str, Any]:
    joined: dict[str, list[Any]] = {}
    for piece in pieces:
        for name, value in piece.fields.items():
            joined.setdefault(name, []).append(value)
    return {name: torch.cat(values) for name, values in joined.items()}


class Collator:
    """Makes batches of rows. The stock one passes no tools and refuses images in tool messages.

    Args:
        renderer: the policy's.
        row: gives the row of an index.
    """

    def __init__(self, renderer: ChatRenderer, row: Callable[[int], Row]) -> None:
        self._renderer = renderer
        self._row = row

    def __call__(self, features: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Pad rows on the right and join their images."""
        rows = [self._row(feature["row"]) for feature in features]
        return batch_rows(self._renderer, rows)


def batch_rows(renderer: ChatRenderer, rows: Sequence[Row]) -> dict[str, Any]:
    """Stack rows, padded on the right.

    Raises:
        MissingImageError: the batch's image places and features differ.
    """
    width = max(len(row.ids) for row in rows)
    pad = renderer.tokenizer.pad_token_id
    ids = torch.full((len(rows), width), pad)
    labels = torch.full((len(rows), width), IGNORED)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        n = len(row.ids)
        ids[i, :n] = torch.tensor(row.ids)
        labels[i, :n] = torch.tensor(row.labels)
        mask[i, :n] = 1
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    with_images = [row.fields for row in rows if row.fields]
    for name in ("pixel_values", "image_grid_thw"):
        if with_images:
            batch[name] = torch.cat([fields[name] for fields in with_images])
    if with_images:
        batch["mm_token_type_ids"] = (ids == renderer.image_token_id).long()
    check_image_places(
        ids.flatten().tolist(),
        renderer.image_token_id,
        renderer.n_features(batch),
        sum(row.n_images for row in rows),
        "in a batch",
    )
    return batch
