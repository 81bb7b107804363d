"""Training rows of the reader: readings of a memory, and drills on a memory of many facts."""

from __future__ import annotations

from random import Random

from awm.agent import prompt
from awm.agent.reader import reader_messages
from awm.benchmarks.pocket_world import (
    KEYS,
    MAX_PAGES,
    MIN_LEAD,
    NAMES,
    NOT_ANSWERABLE,
    draw_value,
)
from awm.models.chat import text_message
from awm.pocket.encoding import UNKNOWN, Encoder
from awm.pocket.memories import Memory
from awm.pocket.rows import TrainingRow, named_values
from awm.pocket.teacher import drilled_comparison
from awm.pocket.vision import PAIRS


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
        self._pages_with = ids("Pages with the ")

    def row(self, memory: Memory) -> TrainingRow:
        """Encode a reading, with what the probes and the guided head should know."""
        messages = [
            *reader_messages(memory.case.question, memory.findings),
            text_message("assistant", memory.reply),
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
        if memory.answer == NOT_ANSWERABLE:
            return row
        if case.kind == "count":
            row.sources[first] = [self._count_place(ids, key, first)]
        elif len(asked) == 1:
            row.sources |= _copied(first, facts[asked[0], key])
        else:
            self._point_thoughts(row, facts, key, first)
        return row

    def _count_place(self, ids: list[int], key: int, end: int) -> int:
        """Give the place of the number in the finding that counts pages of a kind of fact."""
        return next(
            i
            for i in range(3, end)
            if ids[i - 3] == self._pages_with and self._keys.get(ids[i - 2]) == key
        )

    def _point_thoughts(
        self, row: TrainingRow, facts: dict[tuple[int, int], int], key: int, first: int
    ) -> None:
        """Note where the values of thoughts and of the answer can be read, and whose they are."""
        for i, name in named_values(row.ids, self._names, self._pairs, first):
            row.sources |= _copied(i, facts[name, key])
            row.asked_names[i - 1 : i + 1] = [name] * 2

    def drill(self, random: Random, n_items: int = 10) -> TrainingRow:
        """Make a drill: a memory of many facts, and short questions to all of it."""
        encoder = self.encoder
        names, keys = random.sample(NAMES, 3), random.sample(KEYS, 3)
        pairs = [(name, key) for name in names for key in keys]
        facts: dict[tuple[str, str], str] = {}
        for name, key in random.sample(pairs, 5):
            facts[name, key] = draw_value(random, "train", name)
        texts = [f"The {key} of {name} is {value}." for (name, key), value in facts.items()]
        texts += [f"{name} lists its {key}." for name, key in random.sample(pairs, 1)]
        counts = {key: str(random.randint(1, 9)) for key in random.sample(keys, 2)}
        texts += [f"Pages with the {key}: {n}." for key, n in counts.items()]
        random.shuffle(texts)
        notes = "\n".join(f"[p. {random.randint(1, MAX_PAGES)}] {text}" for text in texts)
        ids = encoder.text(
            f"<|im_start|>user\n{prompt.READER_USER.format(memory=notes, question='')}"
        )
        row = TrainingRow(ids, [0.0] * len(ids), [UNKNOWN] * len(ids), [UNKNOWN] * len(ids))
        places = self._label_facts(row)
        for _ in range(n_items):
            name, key = random.choice(pairs)
            reply = facts.get((name, key), NOT_ANSWERABLE)
            first = self._ask(row, f"{key} of {name}", reply, KEYS.index(key), NAMES.index(name))
            if (name, key) in facts:
                row.sources |= _copied(first, places[NAMES.index(name), KEYS.index(key)])
        duels = [
            (a, b)
            for a in facts
            for b in facts
            if a[1] == b[1] and abs(int(facts[a][:2]) - int(facts[b][:2])) >= MIN_LEAD
        ]
        for (one, key), (other, _) in random.sample(duels, min(2, len(duels))):
            question, reply = drilled_comparison(
                key,
                (one, other),
                (facts[one, key], facts[other, key]),
                wants_value=random.random() < 0.5,
            )
            first = self._ask(row, question, reply, KEYS.index(key))
            self._point_thoughts(row, places, KEYS.index(key), first)
        for key in keys:
            reply = counts.get(key, NOT_ANSWERABLE)
            first = self._ask(row, f"How many pages list the {key}?", reply, KEYS.index(key))
            if key in counts:
                row.sources[first] = [self._count_place(row.ids, KEYS.index(key), first)]
        return row

    def _ask(
        self, row: TrainingRow, question: str, reply: str, key: int, name: int = UNKNOWN
    ) -> int:
        """Add a question and its answer to a drill, and say where the answer begins."""
        asked = self.encoder.text(question)
        answer = [*self.encoder.text(reply), self.encoder.end]
        row.ids += asked + answer
        row.weights += [0.0] * len(asked) + [1.0] * len(answer)
        # The state before a token writes it, so labels stand one earlier.
        for labels, label in ((row.asked_names, name), (row.asked_keys, key)):
            labels += [UNKNOWN] * (len(asked) - 1) + [label] * len(answer) + [UNKNOWN]
        return len(row.ids) - len(answer)

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


def _copied(at: int, source: int) -> dict[int, list[int]]:
    """Say that the two tokens of a value are written from those of another place."""
    return {at: [source], at + 1: [source + 1]}
