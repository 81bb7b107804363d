"""Stage 2: the whole policy learns to act as the teacher does, and to look facts up.

Trajectories and reading drills (`awm.pocket.rows`) fill a batch: drills dominate at first,
trajectories later. `awm.pocket.guidance` helps the look-up to form.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch.nn import functional

from awm.benchmarks.pocket_world import PocketCase, training_cases
from awm.pocket.encoding import Encoder
from awm.pocket.guidance import GUIDED_LAYER, Probes, gaze_loss
from awm.pocket.rows import GENERIC_SHARE, Batch, RowMaker, make_batch
from awm.pocket.schedule import Schedule, Stopwatch, set_rate
from awm.pocket.vision import LabelHead

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mix:
    """What a batch holds as training goes on."""

    n_rows: int = 16
    drills_first: int = 12
    drills_later: int = 4
    comparisons: int = 2
    """Of the drills: those without pages."""
    switch: float = 0.3
    """Share of the steps with `drills_first` drills a batch."""
    label_weight: float = 0.5
    probe_weight: float = 0.5
    gaze_weight: float = 0.5


class Imitation:
    """The training of stage 2, in place.

    Args:
        policy: whose vision tower has been through stage 1.
        head: that of stage 1.
        encoder: for the pocket tokenizer.
        schedule: steps, learning rate and seed.
        mix: see `Mix`.
        generic_share: see `GENERIC_SHARE`.
    """

    def __init__(
        self,
        policy: Any,
        head: LabelHead,
        encoder: Encoder,
        schedule: Schedule,
        mix: Mix | None = None,
        generic_share: float = GENERIC_SHARE,
    ) -> None:
        self.policy, self._head, self._encoder = policy, head, encoder
        self._schedule, self._mix = schedule, mix or Mix()
        self._probes = Probes()
        self._maker = RowMaker(encoder, Random(schedule.seed), generic_share)
        self._cases: Iterator[PocketCase] = training_cases(schedule.seed)
        self._weights = [*policy.parameters(), *head.parameters(), *self._probes.parameters()]
        self._optimizer = torch.optim.AdamW(
            self._weights, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        self._guided = policy.model.language_model.layers[GUIDED_LAYER].self_attn
        self._kept: dict[str, Any] = {}
        self._means: dict[str, float] = {}

    def run(self, every: int = 50, check_every: int = 0) -> None:
        """Train to the end of the schedule."""
        model = self.policy.model
        hooks = [
            model.visual.merger.register_forward_hook(
                lambda *call: self._kept.update(features=call[2])
            ),
            model.language_model.layers[0].register_forward_hook(
                lambda *call: self._kept.update(hidden=_tensor(call[2]))
            ),
            self._guided.register_forward_pre_hook(
                lambda *call: self._kept.update(guided=call[2]), with_kwargs=True
            ),
        ]
        watch = Stopwatch()
        for step in range(self._schedule.steps):
            losses = self._step(step)
            if (step + 1) % every == 0:
                _log.info("imitation %d %s %s %s", step + 1, watch, losses, self._rounded_means())
            if check_every and (step + 1) % check_every == 0:
                _log.info("  %s", exact_turns(self.policy, self._encoder))
        for hook in hooks:
            hook.remove()

    def _rounded_means(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in self._means.items()}

    def _step(self, step: int) -> dict[str, float]:
        mix, share = self._mix, step / self._schedule.steps
        set_rate(self._optimizer, self._schedule.rate_at(step))
        n_drills = mix.drills_first if share < mix.switch else mix.drills_later
        rows = [self._maker.comparison_drill() for _ in range(mix.comparisons)]
        rows += [self._maker.drill(next(self._cases)) for _ in range(n_drills - mix.comparisons)]
        rows += [self._maker.trajectory(next(self._cases)) for _ in range(mix.n_rows - n_drills)]
        batch = make_batch(rows, self._encoder)
        token_loss = self._token_loss(batch, n_drills)
        fading = max(0.1, 1 - share)
        probe_loss = self._probes.loss(self._kept["hidden"], batch)
        label_loss, _ = self._head.losses(self._kept["features"], batch.pages)
        into = self._kept["guided"]
        gaze = gaze_loss(self._guided, into["hidden_states"], into["position_embeddings"], batch)
        loss = token_loss + fading * (
            mix.label_weight * label_loss + mix.probe_weight * probe_loss + mix.gaze_weight * gaze
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._weights, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        named = {"tokens": token_loss, "labels": label_loss, "probes": probe_loss, "gaze": gaze}
        return {name: round(float(value.detach()), 3) for name, value in named.items()}

    def _token_loss(self, batch: Batch, n_drills: int) -> torch.Tensor:
        """Give the loss of both sorts of rows, each with its own mean."""
        hidden = self.policy.model(**batch.inputs).last_hidden_state[:, :-1]
        weights = batch.weights_BT[:, 1:]
        is_written = weights > 0
        targets = batch.inputs["input_ids"][:, 1:][is_written]
        logits = self.policy.lm_head(hidden[is_written]).float()
        entropy = functional.cross_entropy(logits, targets, reduction="none")
        is_right = (logits.argmax(-1) == targets).float()
        is_drill = (torch.arange(len(weights))[:, None] < n_drills).expand_as(weights)[is_written]
        weight = weights[is_written]
        loss = torch.zeros(())
        for name, rows in (("drill", is_drill), ("trajectory", ~is_drill)):
            if rows.any():
                loss = loss + (entropy * weight)[rows].sum() / weight[rows].sum()
                facts = rows & (weight > 1.0) if name == "trajectory" else rows
                hit = float(is_right[facts].mean())
                self._means[name] = 0.95 * self._means.get(name, hit) + 0.05 * hit
        return loss


def _tensor(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


def exact_turns(
    policy: Any, encoder: Encoder, *, n: int = 64, seed: int = 1_000_003
) -> dict[str, float]:
    """Measure on unseen training documents which shares of turns are right, given the right past.

    A turn counts when every token is the likeliest, the choice between specific and generic apart.

    Returns:
        By kind of question and sort of finding: "findings" and "answer".
    """
    policy.eval()
    maker = RowMaker(encoder, Random(seed))
    cases = training_cases(seed)
    listed = [next(cases) for _ in range(n)]
    out: dict[str, list[int]] = {}
    # The first token of a finding chooses its sort, which is no error.
    fork = encoder.tokenizer.convert_tokens_to_ids('": "')
    for generic in (False, True):
        rows = [maker.trajectory(case, generic) for case in listed]
        batch = make_batch(rows, encoder)
        with torch.no_grad():
            right = policy(**batch.inputs).logits.argmax(-1)[:, :-1]
        ids = batch.inputs["input_ids"]
        hits_BT = right == ids[:, 1:]
        for i, (case, row) in enumerate(zip(listed, rows, strict=True)):
            turns = encoder._turns(row.ids)
            last = max(turns)
            sort = "generic" if generic else "specific"
            for name, wanted in (("findings", range(1, last)), ("answer", range(last, last + 1))):
                ok = all(
                    bool(hits_BT[i, j - 1])
                    for j, turn in enumerate(turns)
                    if turn in wanted and row.ids[j - 1] != fork
                )
                out.setdefault(f"{case.kind} {sort} {name}", []).append(ok)
    policy.train()
    return {name: round(sum(hits) / len(hits), 2) for name, hits in sorted(out.items())}
