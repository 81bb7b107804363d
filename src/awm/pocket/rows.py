"""Training rows of the policy: the teacher's episodes, and drills in reading pages.

A *trajectory* is a whole episode of the teacher, trained on the assistant's tokens. A *reading
drill* shows one to three pages and asks for many facts at once, "cost of Acme page 3 is 4172":
many look-ups for the price of one context. A *comparison drill* has no pages: thoughts that hold
two values are given, and which is the larger is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import torch

from awm.benchmarks.pocket_world import (
    COLUMNS,
    KEYS,
    MIN_LEAD,
    NAMES,
    NOT_ANSWERABLE,
    PocketCase,
    PocketPage,
    belongs_to,
)
from awm.pocket.encoding import UNKNOWN, Encoder, Row
from awm.pocket.model import N_VISUAL, image_inputs, pad_rows, page_pixels
from awm.pocket.teacher import SLIPS, drilled_comparison, play
from awm.pocket.tokenizer import IMAGE_END, IMAGE_PAD, IMAGE_START
from awm.pocket.vision import PAIRS
from awm.retrieval import BM25Retriever

GENERIC_SHARE = 0.58
"""Of the teacher's episodes whose question has an answer: those with generic findings."""
SLIP_SHARE = 0.05
"""Of the episodes that have a slip in them; the slip itself is not trained."""
FACT_WEIGHT = 4.0
"""Weight of a token that states what only the pages tell, against 1 of the call's JSON."""
_FACT_PIECES = [*map(str, range(10)), NOT_ANSWERABLE, "The ", "The page lists the ", "Not found: "]
_KEY_ID = {key: i for i, key in enumerate(KEYS)}
_NAME_ID = {name: i for i, name in enumerate(NAMES)}


N = TypeVar("N")


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
        ids = encoder.tokenizer.convert_tokens_to_ids
        self._pairs = set(ids(PAIRS))
        self._subjects = dict(zip(ids(NAMES), NAMES, strict=True))
        self._facts = self._pairs | set(self._subjects) | set(ids(_FACT_PIECES))

    def trajectory(self, case: PocketCase, generic: bool | None = None) -> TrainingRow:
        """Make the row of an episode."""
        slip = None
        if generic is None:
            generic = self._random.random() < self._generic_share
            slip = self._random.choice(SLIPS) if self._random.random() < SLIP_SHARE else None
        episode = play(case, generic, slip=slip, retriever=self._retriever)
        row = self._encoder.conversation(episode.messages)
        if slip:
            row.turn_of = [-1 if turn == 1 else turn - (turn > 1) for turn in row.turn_of]
        last = max(row.turn_of)
        weights = [
            0.0 if turn < 0 else FACT_WEIGHT if token in self._facts or turn == last else 1.0
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
        """Note where the values of findings, of thoughts and of the answer can be read."""
        patches = self._value_patches(made)
        written: dict[str, list[int]] = {}
        for i, subject in named_values(row.ids, self._subjects, self._pairs):
            if row.turn_of[i] < 1:
                continue
            for place in (0, 1):
                made.sources[i + place] = [
                    patches[subject, case.key, place],
                    *(at + place for at in written.get(subject, ())),
                ]
                made.asked_names[i + place] = _NAME_ID[subject]
            written.setdefault(subject, []).append(i)

    def _value_patches(self, row: TrainingRow) -> dict[tuple[str, str, int], int]:
        """Give the visual token of each half of each value, by subject and kind of fact."""
        images = [i for i, token in enumerate(row.ids) if token == self._encoder.image]
        return {
            (page.subject, key, place): images[n * N_VISUAL + line * COLUMNS + COLUMNS - 2 + place]
            for n, page in enumerate(row.pages)
            for line, (key, _) in enumerate(page.facts, start=1)
            for place in (0, 1)
        }

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
        self._add_comparisons(row, patches)
        return row

    def _add_comparisons(
        self, row: TrainingRow, patches: dict[tuple[str, str, int], int], most: int = 4
    ) -> None:
        """Add questions for the larger of two facts of a kind, as evaluation words them."""
        encoder, random = self._encoder, self._random
        values = {(page.subject, key): value for page in row.pages for key, value in page.facts}
        duels = [
            (key, one, other)
            for one, key in values
            for other, same in values
            if key == same and one != other
        ]
        for key, one, other in random.sample(duels, min(most, len(duels))):
            asked, reply = drilled_comparison(
                key,
                (one, other),
                (values[one, key], values[other, key]),
                wants_value=random.random() < 0.5,
            )
            question, answer = encoder.text(asked), encoder.text(reply)
            first = len(row.ids) + len(question)
            row.ids += [*question, *answer, encoder.end]
            n_asked, n_written = len(question), len(answer) + 1
            row.weights += [0.0] * n_asked + [1.0] * n_written
            row.asked_names += [UNKNOWN] * (n_asked + n_written)
            row.asked_keys += [UNKNOWN] * n_asked + [_KEY_ID[key]] * n_written
            for i, subject in named_values(row.ids, self._subjects, self._pairs, first):
                for place in (0, 1):
                    row.sources[i + place] = [patches[subject, key, place]]
                    row.asked_names[i + place] = _NAME_ID[subject]

    def comparison_drill(self, n_items: int = 10) -> TrainingRow:
        """Make a drill of given values: whose is the larger, and the answer.

        Half of the pairs are at most ten apart in their leading digits.
        """
        random, encoder = self._random, self._encoder
        ids = encoder.text("<|im_start|>user\n")
        row = TrainingRow(ids, [0.0] * len(ids), [UNKNOWN] * len(ids), [UNKNOWN] * len(ids))
        for _ in range(n_items):
            subjects, key = tuple(random.sample(NAMES, 2)), random.choice(KEYS)
            values = two_values(random, subjects, near=random.random() < 0.5)
            question, whole = drilled_comparison(
                key, subjects, values, wants_value=random.random() < 0.5
            )
            given, mark, decided = whole.partition(": ")
            asked, reply = encoder.text(question + given + mark), encoder.text(decided)
            before, first = len(row.ids), len(row.ids) + len(asked)
            row.ids += [*asked, *reply, encoder.end]
            row.weights += [0.0] * len(asked) + [1.0] * (len(reply) + 1)
            row.asked_names += [UNKNOWN] * (len(asked) + len(reply) + 1)
            row.asked_keys += [UNKNOWN] * (len(asked) + len(reply) + 1)
            stated: dict[str, int] = {}
            for i, subject in named_values(row.ids, self._subjects, self._pairs, before):
                at = stated.setdefault(subject, i)
                if i < first:
                    continue
                for place in (0, 1):
                    row.sources[i + place] = [at + place]
                    row.asked_names[i + place] = _NAME_ID[subject]
        return row


def named_values(
    ids: Sequence[int], names: Mapping[int, N], pairs: Set[int], first: int = 0
) -> Iterator[tuple[int, N]]:
    """Give where values begin, each with the subject that was named last before it.

    That is whose value it is: in a finding, in thoughts, and in the answer behind thoughts that
    end with the subject of the larger value.

    Args:
        ids: tokens.
        names: subjects by their tokens, as they are to be given.
        pairs: tokens of two digits; two of them in a row are a value.
        first: where to begin.
    """
    named: N | None = None
    for i in range(first, len(ids) - 1):
        named = names.get(ids[i], named)
        if named is not None and {ids[i], ids[i + 1]} <= pairs:
            yield i, named


def two_values(random: Random, subjects: Sequence[str], *, near: bool = False) -> list[str]:
    """Draw a value of the train split for each of two subjects, clearly apart.

    Args:
        random: what chooses.
        subjects: whose.
        near: draw leading digits that are at most ten apart.
    """
    while True:
        values = [str(random.randint(1000, 9999)) for _ in subjects]
        apart = abs(int(values[0][:2]) - int(values[1][:2]))
        is_train = all(belongs_to(s, v) == "train" for s, v in zip(subjects, values, strict=True))
        if is_train and apart >= MIN_LEAD and (not near or apart <= 10):
            return values


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
    if pages:
        numbers_BT[is_image] = torch.tensor(numbers).repeat_interleave(encoder.n_visual)

    def stack(lists: list[list[Any]], fill: float, dtype: torch.dtype) -> torch.Tensor:
        out = torch.full(ids.shape, fill, dtype=dtype)
        for i, values in enumerate(lists):
            out[i, : len(values)] = torch.tensor(values, dtype=dtype)
        return out

    inputs = {
        "input_ids": ids,
        "mm_token_type_ids": is_image.int(),
        **(image_inputs([page_pixels(page) for page in pages]) if pages else {}),
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
