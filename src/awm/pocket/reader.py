"""Stage 3: a frozen reader of a million parameters, that believes only what the memory states.

It learns the task of `awm.agent.reader` on generated memories: the answer where the findings state
it, and "Not answerable" where they do not, whatever they promise. What it must not fall for makes
up half of its training: generic findings, findings about another subject or another kind of fact,
one half of a comparison, findings cut short or scrambled, and an empty memory. A finding with a
wrong number gives that wrong number.

It starts from the policy's language model, which has just learned to copy what it looks up, and
trains all of it; from random weights it said "Not answerable" to everything for 650 steps. As in
imitation, the look-up is helped along: by drills that ask a page of notes for many facts, by
probes that say whose value a value token is and what is asked, and by one head that is told where
to look.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch.nn import functional

from awm.agent import prompt
from awm.agent.reader import reader_messages
from awm.memory import Finding
from awm.models.chat import text_message
from awm.pocket.encoding import UNKNOWN, Encoder
from awm.pocket.guidance import GUIDED_LAYER, gaze_loss
from awm.pocket.model import HIDDEN, build_reader
from awm.pocket.rows import Batch, TrainingRow, make_batch
from awm.pocket.schedule import Schedule, Stopwatch, set_rate
from awm.pocket.teacher import generic_finding, missing_finding, specific_finding
from awm.pocket.vision import PAIRS
from awm.pocket.world import (
    KEYS,
    MAX_PAGES,
    MIN_LEAD,
    NAMES,
    NOT_ANSWERABLE,
    PocketCase,
    belongs_to,
    training_cases,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory with what a reader should answer from it."""

    sort: str
    """How it was made; one of `SORTS`."""
    case: PocketCase
    findings: tuple[Finding, ...]
    answer: str


class MemoryMaker:
    """Makes memories of cases, good ones and deceptive ones.

    Args:
        random: what chooses.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def make(self, case: PocketCase, sort: str | None = None) -> Memory:
        """Make a memory of a case.

        Args:
            case: gives the question and the facts.
            sort: one of `SORTS`; None: any, the good ones most often.
        """
        chosen = sort or self._random.choices(list(_SORTS), [w for _, w in _SORTS.values()])[0]
        texts, answer = _SORTS[chosen][0](self, case)
        return Memory(chosen, case, self._as_findings(texts), answer)

    def _as_findings(self, texts: list[str]) -> tuple[Finding, ...]:
        page = self._random.randint(1, MAX_PAGES)
        findings = []
        for turn, text in enumerate(texts):
            if self._random.random() < 0.7:
                page = self._random.randint(1, MAX_PAGES)
            findings.append(Finding(text=text, page=page, turn=turn + 1))
        return tuple(findings)

    def _good(self, case: PocketCase) -> tuple[list[str], str]:
        return self._specific(case), case.answer

    def _good_in_a_crowd(self, case: PocketCase) -> tuple[list[str], str]:
        texts = self._specific(case) + self._distractors(case, self._random.randint(1, 3))
        self._random.shuffle(texts)
        return texts, case.answer

    def _wrong_number(self, case: PocketCase) -> tuple[list[str], str]:
        if case.kind == "unanswerable":
            return self._good(case)
        if case.kind == "count":
            number = str(self._random.randint(1, 9))
            return [f"Pages with the {case.key}: {number}."], number
        values = self._values(case.subjects)
        texts = [self._fact(case.key, s, v) for s, v in zip(case.subjects, values, strict=True)]
        if self._random.random() < 0.3:
            texts += self._distractors(case, 1)
        self._random.shuffle(texts)
        if case.kind == "larger_subject":
            return texts, case.subjects[values.index(max(values))]
        return texts, max(values)

    def _generic(self, case: PocketCase) -> tuple[list[str], str]:
        texts = [generic_finding(case, i) for i in range(max(1, len(case.subjects)))]
        return texts[: self._random.randint(1, 2)], NOT_ANSWERABLE

    def _generic_in_a_crowd(self, case: PocketCase) -> tuple[list[str], str]:
        texts, answer = self._generic(case)
        texts += self._distractors(case, self._random.randint(1, 2))
        self._random.shuffle(texts)
        return texts, answer

    def _nothing_but_distractors(self, case: PocketCase) -> tuple[list[str], str]:
        return self._distractors(case, self._random.randint(1, 3)), NOT_ANSWERABLE

    def _half(self, case: PocketCase) -> tuple[list[str], str]:
        if len(case.subjects) < 2:
            return self._nothing_but_distractors(case)
        i = self._random.randrange(2)
        value = self._values((case.subjects[i],))[0]
        texts = [self._fact(case.key, case.subjects[i], value)]
        if self._random.random() < 0.5:
            texts.append(generic_finding(case, 1 - i))
        if self._random.random() < 0.3:
            texts += self._distractors(case, 1)
        self._random.shuffle(texts)
        return texts, NOT_ANSWERABLE

    def _broken(self, case: PocketCase) -> tuple[list[str], str]:
        if case.kind in ("count", "unanswerable"):
            return self._generic(case)
        value = self._values((case.subjects[0],))[0]
        words = self._fact(case.key, case.subjects[0], value).split()
        way = self._random.randrange(3)
        if way == 0:
            words = words[: self._random.randint(1, 5)]
        elif way == 1:
            words = [word for word in words if word != case.subjects[0]]
        else:
            words = [word for word in words if word != case.key]
        return [" ".join(words)], NOT_ANSWERABLE

    def _empty(self, case: PocketCase) -> tuple[list[str], str]:
        return [], NOT_ANSWERABLE

    def _specific(self, case: PocketCase) -> list[str]:
        n = len(case.subjects) if case.kind != "count" else 1
        return [specific_finding(case, i) for i in range(n)]

    def _distractors(self, case: PocketCase, n: int) -> list[str]:
        """Write findings that look like the asked fact and are about something else."""
        random = self._random
        texts = []
        others = [name for name in NAMES if name not in case.subjects]
        for _ in range(n):
            way = random.random()
            other_key = random.choice([key for key in KEYS if key != case.key])
            if way < 0.45:
                name, key = random.choice(others), case.key
            elif way < 0.8:
                name, key = random.choice(case.subjects or others), other_key
            else:
                name, key = random.choice(others), other_key
            if case.kind == "count" and way < 0.45:
                texts.append(f"Pages with the {other_key}: {random.randint(1, 9)}.")
            elif random.random() < 0.15:
                texts.append(missing_finding(key, name))
            else:
                texts.append(self._fact(key, name, self._values((name,))[0]))
        return texts

    def _fact(self, key: str, name: str, value: str) -> str:
        return f"The {key} of {name} is {value}."

    def _values(self, names: tuple[str, ...]) -> list[str]:
        values: list[str] = []
        for name in names:
            while True:
                value = str(self._random.randint(1000, 9999))
                clear = all(abs(int(value[:2]) - int(v[:2])) >= MIN_LEAD for v in values)
                if clear and belongs_to(name, value) == "train":
                    break
            values.append(value)
        return values


_SORTS: dict[str, tuple[Callable[[MemoryMaker, PocketCase], tuple[list[str], str]], float]] = {
    "good": (MemoryMaker._good, 0.15),
    "good_in_a_crowd": (MemoryMaker._good_in_a_crowd, 0.2),
    "wrong_number": (MemoryMaker._wrong_number, 0.15),
    "generic": (MemoryMaker._generic, 0.09),
    "generic_in_a_crowd": (MemoryMaker._generic_in_a_crowd, 0.06),
    "nothing_but_distractors": (MemoryMaker._nothing_but_distractors, 0.17),
    "half": (MemoryMaker._half, 0.08),
    "broken": (MemoryMaker._broken, 0.08),
    "empty": (MemoryMaker._empty, 0.02),
}
SORTS = tuple(_SORTS)


class ReadingRows:
    """Makes training rows of memories.

    Args:
        encoder: for the pocket tokenizer.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        ids = encoder.tokenizer.convert_tokens_to_ids
        self._names = {token: i for i, token in enumerate(ids(NAMES))}
        self._keys = {token: i for i, token in enumerate(ids(KEYS))}
        self._pairs = set(ids(PAIRS))

    def row(self, memory: Memory) -> TrainingRow:
        """Encode a reading, with what the probes and the guided head should know."""
        messages = [
            *reader_messages(memory.case.question, memory.findings),
            text_message("assistant", memory.answer),
        ]
        encoded = self.encoder.conversation(messages, tools=False)
        ids, case = encoded.ids, memory.case
        weights = [float(turn >= 0) for turn in encoded.turn_of]
        row = TrainingRow(ids, weights, [UNKNOWN] * len(ids), [UNKNOWN] * len(ids))
        facts = self._label_facts(row)
        first = weights.index(1.0)
        asked, key = [NAMES.index(subject) for subject in case.subjects], KEYS.index(case.key)
        for i in range(first, len(ids)):
            if weights[i]:  # the state before a token writes it
                row.asked_names[i - 1] = asked[0] if len(asked) == 1 else UNKNOWN
                row.asked_keys[i - 1] = key
        if memory.answer != NOT_ANSWERABLE and asked:
            values = [facts[name, key] for name in asked if (name, key) in facts]
            row.sources[first] = values
            if case.kind != "larger_subject":
                row.sources[first + 1] = [i + 1 for i in values if ids[i] == ids[first]]
        return row

    def drill(self, random: Random, n_items: int = 10) -> TrainingRow:
        """Make a drill: a memory of many facts, and short questions to all of it."""
        encoder = self.encoder
        names, keys = random.sample(NAMES, 3), random.sample(KEYS, 3)
        pairs = [(name, key) for name in names for key in keys]
        facts: dict[tuple[str, str], str] = {}
        for name, key in random.sample(pairs, 5):
            while belongs_to(name, value := str(random.randint(1000, 9999))) != "train":
                pass
            facts[name, key] = value
        texts = [f"The {key} of {name} is {value}." for (name, key), value in facts.items()]
        texts += [f"{name} lists its {key}." for name, key in random.sample(pairs, 1)]
        random.shuffle(texts)
        notes = "\n".join(f"[p. {random.randint(1, MAX_PAGES)}] {text}" for text in texts)
        ids = encoder.text(
            f"<|im_start|>user\n{prompt.READER_USER.format(memory=notes, question='')}"
        )
        row = TrainingRow(ids, [0.0] * len(ids), [UNKNOWN] * len(ids), [UNKNOWN] * len(ids))
        places = self._label_facts(row)
        for _ in range(n_items):
            name, key = random.choice(pairs)
            question = encoder.text(f"{key} of {name}")
            answer = [*encoder.text(facts.get((name, key), NOT_ANSWERABLE)), encoder.end]
            row.ids += question + answer
            row.weights += [0.0] * len(question) + [1.0] * len(answer)
            # The state before a token writes it, so labels stand one earlier.
            row.asked_names += [UNKNOWN] * (len(question) - 1) + [NAMES.index(name)] * len(answer)
            row.asked_keys += [UNKNOWN] * (len(question) - 1) + [KEYS.index(key)] * len(answer)
            row.asked_names.append(UNKNOWN)
            row.asked_keys.append(UNKNOWN)
            if (name, key) in facts:
                first = len(row.ids) - len(answer)
                at = places[NAMES.index(name), KEYS.index(key)]
                row.sources |= {first: [at], first + 1: [at + 1]}
        return row

    def _label_facts(self, row: TrainingRow) -> dict[tuple[int, int], int]:
        """Label the values in a row with whose they are, and say where each begins."""
        facts: dict[tuple[int, int], int] = {}
        ids = row.ids
        for i in range(5, len(ids) - 1):
            if ids[i] in self._pairs and ids[i + 1] in self._pairs and not row.weights[i]:
                name, key = self._names.get(ids[i - 2]), self._keys.get(ids[i - 4])
                if name is not None and key is not None:
                    facts[name, key] = i
                    row.asked_names[i : i + 2] = [name] * 2
                    row.asked_keys[i : i + 2] = [key] * 2
        return facts


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
