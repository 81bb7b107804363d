"""What helps a look-up to form, and is dropped after training.

Without it the look-up forms late or not at all: after 800 steps every page number was right, and
no value. Probes on the first language layer say which subject and kind of fact is asked for (at
the tokens that must know), and which page number an image has (on its visual tokens). And one
head of the second layer is told where to look: at the patch, or the token of the model's own
finding, that holds what is written next.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from awm.benchmarks.pocket_world import KEYS, MAX_PAGES, NAMES
from awm.pocket.encoding import UNKNOWN
from awm.pocket.model import HEAD_DIM, HIDDEN
from awm.pocket.rows import Batch

GUIDED_LAYER, GUIDED_HEAD = 1, 0
"""The attention head that is told where to look."""


class Probes:
    """What is read off the first language layer while training."""

    def __init__(self) -> None:
        self.asked = torch.nn.Linear(HIDDEN, len(NAMES) + len(KEYS))
        self.number = torch.nn.Linear(HIDDEN, MAX_PAGES + 1)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Give what an optimizer trains."""
        return [*self.asked.parameters(), *self.number.parameters()]

    def loss(self, hidden_BTH: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Give the sum of the probes' cross-entropies."""
        # The token at t + 1 is written from the state at t.
        is_written = batch.weights_BT[:, 1:] > 0
        asked = self.asked(hidden_BTH[:, :-1][is_written]).split([len(NAMES), len(KEYS)], -1)
        total = functional.cross_entropy(
            self.number(hidden_BTH).flatten(0, 1), batch.numbers_BT.flatten(), ignore_index=UNKNOWN
        )
        for scores, labels in zip(asked, (batch.names_BT, batch.keys_BT), strict=True):
            wanted = labels[:, 1:][is_written]
            total = total + functional.cross_entropy(scores, wanted, ignore_index=UNKNOWN)
        return total


def gaze_loss(
    attention: Any,
    hidden_BTH: torch.Tensor,
    rotary: tuple[torch.Tensor, torch.Tensor],
    batch: Batch,
) -> torch.Tensor:
    """Give the cross-entropy of the guided head: it should look at what is written next.

    The head's attention is computed again, for the few tokens that have a known source.

    Args:
        attention: the guided layer's attention module.
        hidden_BTH: what went into it.
        rotary: cosines and sines of the positions, each of shape (rows, tokens, head_dim).
        batch: names the places.
    """
    if not batch.sources:
        return torch.zeros(())
    rows = torch.tensor([row for row, _, _ in batch.sources])
    queries = torch.tensor([at - 1 for _, at, _ in batch.sources])
    head = slice(GUIDED_HEAD * HEAD_DIM, (GUIDED_HEAD + 1) * HEAD_DIM)
    cosines, sines = rotary

    def turned(projection: Any, norm: Any) -> torch.Tensor:
        vectors = norm(functional.linear(hidden_BTH, projection.weight[head]))
        left, right = vectors.chunk(2, -1)
        return vectors * cosines + torch.cat([-right, left], -1) * sines

    asked_ND = turned(attention.q_proj, attention.q_norm)[rows, queries]
    keys_NTD = turned(attention.k_proj, attention.k_norm)[rows]
    scores_NT = torch.einsum("nd,ntd->nt", asked_ND, keys_NTD) * attention.scaling
    is_later = torch.arange(scores_NT.shape[1]) > queries[:, None]
    shares_NT = scores_NT.masked_fill(is_later, float("-inf")).softmax(-1)
    is_source = torch.zeros(shares_NT.shape, dtype=torch.bool)
    for n, (_, _, places) in enumerate(batch.sources):
        is_source[n, places] = True
    return -(shares_NT * is_source).sum(-1).clamp_min(1e-6).log().mean()
