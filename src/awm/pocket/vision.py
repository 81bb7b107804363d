"""Stage 1: the vision tower alone learns to read a page, without a language model.

Every visual token is asked what the renderer knows about its patch: the two characters, the pair
of digits, the kind of fact of its row, its place in the value, and the page's subject. The last
one makes each row carry whose fact it is, which is what a question asks. The labels serve as an
auxiliary loss in stage 2 too. Nothing but the pixels goes into the model.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from awm.benchmarks.pocket_world import COLUMNS, KEYS, NAMES, ROWS, PocketPage, make_pages
from awm.pocket.model import HIDDEN, image_inputs, page_pixels
from awm.pocket.schedule import Schedule, Stopwatch, set_rate

_log = logging.getLogger(__name__)

N_CHARACTERS = 96
"""Printable ASCII from 1; 0 is none."""
N_PLACES = 3
PAIRS = [f"{number:02d}" for number in range(100)]
LABEL_SIZES = [N_CHARACTERS, N_CHARACTERS, len(KEYS) + 1, N_PLACES, len(NAMES), len(PAIRS) + 1]
"""Left character, right character, kind of fact, place in the value, subject, pair of digits."""
_KEY_ID = {key: i for i, key in enumerate(KEYS)}
_NAME_ID = {name: i for i, name in enumerate(NAMES)}
_NO_KEY, _NO_PLACE, _NO_PAIR = len(KEYS), 2, 100


def patch_labels(page: PocketPage) -> NDArray[np.int64]:
    """Give what stands in each patch, shape (30, 6), in the order of `LABEL_SIZES`."""
    labels = np.zeros((ROWS, COLUMNS, len(LABEL_SIZES)), np.int64)
    labels[:, :, 2:] = (_NO_KEY, _NO_PLACE, _NAME_ID[page.subject], _NO_PAIR)
    for row, line in enumerate(page.lines()):
        for cell, character in enumerate(line):
            labels[row, cell // 2, cell % 2] = ord(character) - 31
        if row:
            key, value = page.facts[row - 1]
            labels[row, :, 2] = _KEY_ID[key]
            for place in (0, 1):
                labels[row, COLUMNS - 2 + place, 3] = place
                labels[row, COLUMNS - 2 + place, 5] = int(value[2 * place : 2 * place + 2])
    return labels.reshape(ROWS * COLUMNS, len(LABEL_SIZES))


class LabelHead:
    """Answers for every label; dropped after training.

    Subjects, kinds of fact and pairs of digits are compared with the embeddings of their own
    tokens. A visual token so comes to hold the very vectors that the language model has for these
    words, and copying from a page is like copying from text. Characters and places have a layer
    of their own.

    Args:
        tokenizer: the pocket tokenizer.
        embedding_VH: the language model's embedding, trained along.
    """

    def __init__(self, tokenizer: Any, embedding_VH: torch.nn.Parameter) -> None:
        self._embedding_VH = embedding_VH
        self._ids = {
            "key": torch.tensor(tokenizer.convert_tokens_to_ids(KEYS)),
            "subject": torch.tensor(tokenizer.convert_tokens_to_ids(NAMES)),
            "pair": torch.tensor(tokenizer.convert_tokens_to_ids(PAIRS)),
        }
        self._plain = torch.nn.Linear(HIDDEN, 2 * N_CHARACTERS + N_PLACES)
        self._none = torch.nn.Parameter(torch.zeros(2, HIDDEN))
        self._scale = torch.nn.Parameter(torch.tensor(2.0))

    def parameters(self) -> list[torch.nn.Parameter]:
        """Give what an optimizer trains, without the embedding."""
        return [*self._plain.parameters(), self._none, self._scale]

    def logits(self, features_NH: torch.Tensor) -> list[torch.Tensor]:
        """Score every label, in the order of `LABEL_SIZES`."""
        features = features_NH.float()
        left, right, place = self._plain(features).split([N_CHARACTERS, N_CHARACTERS, N_PLACES], -1)
        size = features.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()
        unit = features / size * self._scale

        def compare(name: str, none: torch.Tensor | None) -> torch.Tensor:
            rows = self._embedding_VH[self._ids[name]]
            return unit @ (rows if none is None else torch.cat([rows, none[None]])).T

        key, pair = compare("key", self._none[0]), compare("pair", self._none[1])
        return [left, right, key, place, compare("subject", None), pair]

    def losses(
        self, features_NH: torch.Tensor, pages: Sequence[PocketPage]
    ) -> tuple[torch.Tensor, list[float]]:
        """Compare the tokens of some pages with their labels.

        Returns:
            The sum of the cross-entropies, and the accuracy of each label.
        """
        labels = torch.from_numpy(np.concatenate([patch_labels(page) for page in pages]))
        total, hits = torch.zeros(()), []
        for k, scores in enumerate(self.logits(features_NH)):
            total = total + functional.cross_entropy(scores, labels[:, k])
            hits.append(float((scores.argmax(-1) == labels[:, k]).float().mean()))
        return total, hits


def share_digits(tokenizer: Any, embedding_VH: torch.nn.Parameter) -> None:
    """Start the pairs of digits as sums of a left and a right digit, in place.

    What is learned about one pair then serves the nineteen that share a digit with it.
    """
    deviation = float(embedding_VH.detach().std())
    left, right = torch.randn(2, 10, embedding_VH.shape[1]) * deviation
    with torch.no_grad():
        for number, token in enumerate(tokenizer.convert_tokens_to_ids(PAIRS)):
            embedding_VH[token] = left[number // 10] + right[number % 10]


def endless_pages(random: Random) -> Iterator[PocketPage]:
    """Give pages of training documents."""
    while True:
        yield from make_pages(random, "train")


def train_vision(
    policy: Any, head: LabelHead, schedule: Schedule, *, n_pages: int = 32
) -> list[float]:
    """Train the vision tower in place, and the embeddings of the words that it reads.

    Args:
        policy: the whole model.
        head: answers for the labels.
        schedule: steps, learning rate and seed.
        n_pages: pages of a step.

    Returns:
        The last step's accuracies, in the order of `LABEL_SIZES`.
    """
    tower = policy.model.visual
    kept: dict[str, torch.Tensor] = {}
    hook = tower.merger.register_forward_hook(lambda *call: kept.update(features=call[2]))
    words = policy.get_input_embeddings().weight
    weights = [*tower.parameters(), *head.parameters(), words]
    optimizer = torch.optim.AdamW(weights, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01)
    pages_of_train = endless_pages(Random(schedule.seed))
    watch = Stopwatch()
    hits: list[float] = []
    for step in range(schedule.steps):
        set_rate(optimizer, schedule.rate_at(step))
        pages = [next(pages_of_train) for _ in range(n_pages)]
        inputs = image_inputs([page_pixels(page) for page in pages])
        tower(inputs["pixel_values"], grid_thw=inputs["image_grid_thw"])
        total, hits = head.losses(kept["features"], pages)
        total.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 50 == 0:
            _log.info(
                "vision %d %s loss %.3f hits %s",
                step + 1,
                watch,
                float(total.detach()),
                rounded(hits),
            )
    hook.remove()
    return hits


def rounded(numbers: Sequence[float]) -> list[float]:
    """Round for a log line."""
    return [round(number, 3) for number in numbers]
