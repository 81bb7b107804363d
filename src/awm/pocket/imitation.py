"""Stage 2: the whole policy learns to act as the teacher does, and to look facts up.

Rows of two sorts fill a batch. A *trajectory* is a whole episode of the teacher, trained on the
assistant's tokens. A *reading drill* shows one to three pages and asks for many facts at once,
"cost of Acme page 3 is 4172": many look-ups for the price of one context. Drills dominate at
first, trajectories later.

Two things beside the tokens are trained, because the look-up forms late or not at all without them
(after 800 steps every page number was right, and no value). Probes on the first language layer say
which subject and kind of fact is asked for (at the tokens that must know), and which page number an
image has (on its visual tokens). And one head of the second layer is told where to look: at the
patch, or the token of the model's own finding, that holds what is written next. Both are dropped
afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch.nn import functional

from awm.pocket.encoding import UNKNOWN, Encoder, Row
from awm.pocket.model import HEAD_DIM, HIDDEN, N_VISUAL, image_inputs, pad_rows, page_pixels
from awm.pocket.schedule import Schedule, Stopwatch, set_rate
from awm.pocket.teacher import play
from awm.pocket.tokenizer import IMAGE_END, IMAGE_PAD, IMAGE_START
from awm.pocket.vision import PAIRS, LabelHead
from awm.pocket.world import (
    COLUMNS,
    KEYS,
    MAX_PAGES,
    NAMES,
    NOT_ANSWERABLE,
    PocketCase,
    PocketPage,
    training_cases,
)
from awm.retrieval import BM25Retriever

_log = logging.getLogger(__name__)

GENERIC_SHARE = 0.58
"""Of the teacher's episodes whose question has an answer: those with generic findings."""
GUIDED_LAYER, GUIDED_HEAD = 1, 0
"""The attention head that is told where to look."""
FACT_WEIGHT = 4.0
"""Weight of a token that states what only the pages tell, against 1 of the call's JSON."""
_KEY_ID = {key: i for i, key in enumerate(KEYS)}
_NAME_ID = {name: i for i, name in enumerate(NAMES)}


@dataclass(slots=True)
class TrainingRow:
    """Tokens with their labels; every list is as long as `ids`."""

    ids: list[int]
    weights: list[float]
    """Of the loss on each token; 0 where the policy does not write."""
    asked_names: list[int]
    asked_keys: list[int]
    sources: dict[int, list[int]] = field(default_factory=dict)
    """For some of the tokens: the places before it that hold what it says."""
    pages: list[PocketPage] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The page number of each page."""


class RowMaker:
    """Makes training rows from cases.

    Args:
        encoder: for the pocket tokenizer.
        random: what chooses.
        generic_share: see `GENERIC_SHARE`.
    """

    def __init__(
        self, encoder: Encoder, random: Random, generic_share: float = GENERIC_SHARE
    ) -> None:
        self._encoder = encoder
        self._random = random
        self._generic_share = generic_share
        self._retriever = BM25Retriever(max_indexes=1)
        self._pairs = set(encoder.tokenizer.convert_tokens_to_ids(PAIRS))

    def trajectory(self, case: PocketCase, generic: bool | None = None) -> TrainingRow:
        """Make the row of an episode."""
        if generic is None:
            generic = self._random.random() < self._generic_share
        episode = play(case, generic, retriever=self._retriever)
        row = self._encoder.conversation(episode.messages)
        facts = self._fact_tokens()
        last = max(row.turn_of)
        weights = [
            0.0 if turn < 0 else FACT_WEIGHT if token in facts or turn == last else 1.0
            for token, turn in zip(row.ids, row.turn_of, strict=True)
        ]
        names, keys = _asked(case, row)
        numbers = list(episode.pages_shown)
        pages = [case.pages[n - 1] for n in numbers]
        made = TrainingRow(row.ids, weights, names, keys, {}, pages, numbers)
        if case.subjects:
            self._point_to_values(case, row, made)
        return made

    def _point_to_values(self, case: PocketCase, row: Row, made: TrainingRow) -> None:
        """Note where the values of findings, and of a look-up's answer, can be read."""
        patches = self._value_patches(made)
        last = max(row.turn_of)
        found: list[int] = []
        for i in range(1, len(row.ids)):
            turn = row.turn_of[i]
            is_value = row.ids[i - 1] in self._pairs and row.ids[i] in self._pairs
            if not is_value or turn < 1 or (turn == last and case.kind != "lookup"):
                continue
            subject = case.subjects[min(turn, len(case.subjects)) - 1]
            for place, at in enumerate((i - 1, i)):
                patch = patches[subject, case.key, place]
                made.sources[at] = [patch, *(j + place for j in found if turn == last)]
            found.append(i - 1)

    def _value_patches(self, row: TrainingRow) -> dict[tuple[str, str, int], int]:
        """Give the visual token of each half of each value, by subject and kind of fact."""
        images = [i for i, token in enumerate(row.ids) if token == self._encoder.image]
        return {
            (page.subject, key, place): images[n * N_VISUAL + line * COLUMNS + COLUMNS - 2 + place]
            for n, page in enumerate(row.pages)
            for line, (key, _) in enumerate(page.facts, start=1)
            for place in (0, 1)
        }

    def _fact_tokens(self) -> set[int]:
        token = self._encoder.tokenizer.convert_tokens_to_ids
        pieces = [f"{n:02d}" for n in range(100)] + [str(n) for n in range(10)]
        pieces += [NOT_ANSWERABLE, "The ", "The page lists the ", "No page lists the "]
        return set(map(token, pieces)) | set(map(token, NAMES))

    def drill(self, case: PocketCase, n_items: int = 12) -> TrainingRow:
        """Make a reading drill on some of the pages of a case."""
        random, encoder = self._random, self._encoder
        wanted = random.choice((1, 2, 3, 3))
        pool = list(case.pages_with_key())
        others = [n for n in range(1, len(case.pages) + 1) if n not in pool]
        numbers = (pool + random.sample(others, 3))[:wanted]
        random.shuffle(numbers)
        pages = [case.pages[n - 1] for n in numbers]
        image = f"{IMAGE_START}{IMAGE_PAD}{IMAGE_END}"
        shown = "".join(f"page {n} of {len(case.pages)}:{image}" for n in numbers)
        ids = encoder.text(f"<|im_start|>user\n<tool_response>\n{shown}\n</tool_response>")
        row = TrainingRow(ids, [0.0] * len(ids), [], [], {}, pages, numbers)
        patches = self._value_patches(row)
        row.asked_names += [UNKNOWN] * len(ids)
        row.asked_keys += [UNKNOWN] * len(ids)
        facts = [
            (page.subject, key, f"page {n} is {value}")
            for n, page in zip(numbers, pages, strict=True)
            for key, value in page.facts
        ]
        there = {(name, key) for name, key, _ in facts}
        items = random.sample(facts, min(n_items, len(facts)))
        for i, (name, key, _) in enumerate(items):
            if random.random() < 0.25:
                # Either another page's fact, or a subject that is not shown at all.
                name = random.choice([page.subject for page in pages] + [random.choice(NAMES)])
                if (name, key) not in there:
                    items[i] = (name, key, NOT_ANSWERABLE)
        for name, key, reply in items:
            question, answer = encoder.text(f"{key} of {name}"), [*encoder.text(reply), encoder.end]
            if (name, key) in there:
                for place in (0, 1):  # the value stands before the end of the item
                    at = len(row.ids) + len(question) + len(answer) - 3 + place
                    row.sources[at] = [patches[name, key, place]]
            row.ids += question + answer
            row.weights += [0.0] * len(question) + [1.0] * len(answer)
            row.asked_names += [UNKNOWN] * len(question) + [_NAME_ID[name]] * len(answer)
            row.asked_keys += [UNKNOWN] * len(question) + [_KEY_ID[key]] * len(answer)
        return row


def _asked(case: PocketCase, row: Row) -> tuple[list[int], list[int]]:
    """Tell for each token of the policy which subject and kind of fact it is about.

    In a comparison the subject follows from what was written before, which a first layer cannot
    know: it has no label.
    """
    name = _NAME_ID[case.subjects[0]] if len(case.subjects) == 1 else UNKNOWN
    key = _KEY_ID[case.key]
    names = [name if turn >= 0 else UNKNOWN for turn in row.turn_of]
    return names, [key if turn >= 0 else UNKNOWN for turn in row.turn_of]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as tensors."""

    inputs: dict[str, torch.Tensor]
    weights_BT: torch.Tensor
    names_BT: torch.Tensor
    keys_BT: torch.Tensor
    numbers_BT: torch.Tensor
    """On visual tokens: the page number; `UNKNOWN` elsewhere."""
    sources: list[tuple[int, int, list[int]]]
    """Row, token, and the places that hold what the token says."""
    pages: list[PocketPage]


def make_batch(rows: Sequence[TrainingRow], encoder: Encoder) -> Batch:
    """Stack rows.

    Raises:
        ValueError: a row's image places and images differ in number.
    """
    # Padding is on the right, where no token looks: without a mask attention is twice as fast.
    ids, _ = pad_rows([row.ids for row in rows], encoder.pad)
    is_image = ids == encoder.image
    pages = [page for row in rows for page in row.pages]
    numbers = [n for row in rows for n in row.numbers]
    if int(is_image.sum()) != encoder.n_visual * len(pages):
        raise ValueError(f"{int(is_image.sum())} image places for {len(pages)} images")
    numbers_BT = torch.full(ids.shape, UNKNOWN)
    numbers_BT[is_image] = torch.tensor(numbers).repeat_interleave(encoder.n_visual)

    def stack(lists: list[list[Any]], fill: float, dtype: torch.dtype) -> torch.Tensor:
        out = torch.full(ids.shape, fill, dtype=dtype)
        for i, values in enumerate(lists):
            out[i, : len(values)] = torch.tensor(values, dtype=dtype)
        return out

    inputs = {
        "input_ids": ids,
        "mm_token_type_ids": is_image.int(),
        **image_inputs([page_pixels(page) for page in pages]),
    }
    return Batch(
        inputs,
        stack([row.weights for row in rows], 0.0, torch.float32),
        stack([row.asked_names for row in rows], UNKNOWN, torch.long),
        stack([row.asked_keys for row in rows], UNKNOWN, torch.long),
        numbers_BT,
        [(i, at, wanted) for i, row in enumerate(rows) for at, wanted in row.sources.items()],
        pages,
    )


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


@dataclass(frozen=True, slots=True)
class Mix:
    """What a batch holds as training goes on."""

    n_rows: int = 16
    drills_first: int = 12
    drills_later: int = 4
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
        rows = [
            self._maker.drill(next(self._cases))
            if i < n_drills
            else self._maker.trajectory(next(self._cases))
            for i in range(mix.n_rows)
        ]
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
    token = encoder.tokenizer.convert_tokens_to_ids
    forks = {token("The "), token("The page lists the "), token("Pages with the ")}
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
                    if turn in wanted and row.ids[j] not in forks
                )
                out.setdefault(f"{case.kind} {sort} {name}", []).append(ok)
    policy.train()
    return {name: round(sum(hits) / len(hits), 2) for name, hits in sorted(out.items())}
