"""Stage 3: a frozen reader of a million parameters, that believes only what the memory states.

It learns the task of `awm.agent.reader` on generated memories (`awm.pocket.memories`): the answer
where the findings state it, and "Not answerable" where they do not, whatever they promise.

It starts from the policy's language model, which has just learned to copy what it looks up, and
trains all of it; from random weights it said "Not answerable" to everything for 650 steps. As in
imitation, the look-up is helped along: by drills that ask a page of notes for many facts, by
probes that say whose value a value token is and what is asked, and by one head that is told where
to look.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch.nn import functional

from awm.benchmarks.pocket_world import KEYS, NAMES, training_cases
from awm.pocket.encoding import UNKNOWN, Encoder
from awm.pocket.guidance import GUIDED_LAYER, gaze_loss
from awm.pocket.memories import SORTS, MemoryMaker
from awm.pocket.model import HIDDEN, build_reader
from awm.pocket.reading_rows import ReadingRows
from awm.pocket.rows import Batch, make_batch
from awm.pocket.schedule import Schedule, Stopwatch, set_rate

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Aids:
    """What helps the reader to learn, and is dropped afterwards."""

    reader: Any
    probe: torch.nn.Linear
    kept: dict[str, Any]

    @classmethod
    def attach(cls, reader: Any) -> _Aids:
        """Listen to the first two layers of a reader."""
        aids = cls(reader, torch.nn.Linear(HIDDEN, len(NAMES) + len(KEYS)), {})
        layers = reader.model.layers
        layers[0].register_forward_hook(lambda *call: aids.kept.update(hidden=call[2]))
        layers[GUIDED_LAYER].self_attn.register_forward_pre_hook(
            lambda *call: aids.kept.update(into=call[2]), with_kwargs=True
        )
        return aids

    def loss(self, batch: Batch) -> torch.Tensor:
        """Give the probe's and the guided head's loss after a forward pass."""
        hidden = self.kept["hidden"]
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        scores = self.probe(hidden).split([len(NAMES), len(KEYS)], -1)
        into = self.kept["into"]
        total = gaze_loss(
            self.reader.model.layers[GUIDED_LAYER].self_attn,
            into["hidden_states"],
            into["position_embeddings"],
            batch,
        )
        for score, labels in zip(scores, (batch.names_BT, batch.keys_BT), strict=True):
            total = total + functional.cross_entropy(
                score.flatten(0, 1), labels.flatten(), ignore_index=UNKNOWN
            )
        return total


def start_reader(policy: Any, tokenizer: Any) -> Any:
    """Make a reader whose weights are those of the policy's language model.

    For text alone the positions of Qwen3-VL are those of Qwen3, so the layers fit as they are.
    """
    source = policy.model.language_model
    reader = build_reader(tokenizer, layers=len(source.layers))
    reader.model.load_state_dict(source.state_dict())
    return reader


def train_reader(
    reader: Any,
    encoder: Encoder,
    schedule: Schedule,
    *,
    n_rows: int = 28,
    n_drills: int = 8,
    check_every: int = 100,
) -> None:
    """Train the reader in place.

    Args:
        reader: see `start_reader`.
        encoder: for the pocket tokenizer.
        schedule: steps, learning rate and seed.
        n_rows: readings of a step.
        n_drills: drills of a step.
        check_every: steps between two measurements that are logged.
    """
    random = Random(schedule.seed)
    maker, rows = MemoryMaker(random), ReadingRows(encoder)
    cases = training_cases(schedule.seed + 1)
    aids = _Aids.attach(reader)
    weights = [*reader.parameters(), *aids.probe.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01)
    watch = Stopwatch()
    for step in range(schedule.steps):
        set_rate(optimizer, schedule.rate_at(step))
        drills = [rows.drill(random) for _ in range(n_drills)]
        readings = [rows.row(maker.make(next(cases))) for _ in range(n_rows)]
        batch = make_batch([*drills, *readings], encoder)
        tokens = _reading_loss(reader, batch, n_drills)
        aid = aids.loss(batch)
        (tokens + 0.3 * aid).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % 50 == 0:
            told = (round(float(part.detach()), 4) for part in (tokens, aid))
            _log.info("reader %d %s loss %s aids %s", step + 1, watch, *told)
        if (step + 1) % check_every == 0:
            _log.info("  %s", exact_readings(reader, encoder))


def _reading_loss(reader: Any, batch: Batch, n_drills: int) -> torch.Tensor:
    """Give the loss of both sorts of rows, each with its own mean."""
    ids = batch.inputs["input_ids"]
    hidden = reader.model(input_ids=ids).last_hidden_state[:, :-1]
    chosen = batch.weights_BT[:, 1:] > 0
    logits = reader.lm_head(hidden[chosen]).float()
    entropy = functional.cross_entropy(logits, ids[:, 1:][chosen], reduction="none")
    is_drill = (torch.arange(len(ids))[:, None] < n_drills).expand_as(chosen)[chosen]
    return entropy[is_drill].mean() + entropy[~is_drill].mean()


def exact_readings(
    reader: Any, encoder: Encoder, *, n: int = 32, seed: int = 2_000_003
) -> dict[str, float]:
    """Measure which share of readings is exactly right, by sort of memory.

    An answer counts when each of its tokens is the likeliest after the right ones before it, which
    is what greedy decoding gives.
    """
    reader.eval()
    maker, cases = MemoryMaker(Random(seed)), training_cases(seed)
    rows = ReadingRows(encoder)
    hits: dict[str, list[bool]] = defaultdict(list)
    for sort in SORTS:
        made = [rows.row(maker.make(next(cases), sort)) for _ in range(n)]
        batch = make_batch(made, encoder)
        ids = batch.inputs["input_ids"]
        with torch.no_grad():
            likeliest = reader(input_ids=ids).logits.argmax(-1)
        is_wrong = (likeliest[:, :-1] != ids[:, 1:]) & (batch.weights_BT[:, 1:] > 0)
        hits[sort] += (~is_wrong.any(1)).tolist()
    reader.train()
    return {sort: round(sum(values) / len(values), 3) for sort, values in hits.items()}
