"""Two controls of memory-only accuracy: no memory at all, and another question's memory.

- `question-only`: the reader gets the question and an empty memory: what it knows or guesses.
- `shuffled`: it gets the memory of another question of the same document: what any memory of that
  document would give. A document with one question has no partner; such questions are left out
  and counted.

The *memory lift* is memory-only accuracy minus that of the control, over the questions that both
measured, paired by document. A reader that abstains from an empty memory is right on every
unanswerable question, so the lift over answerable questions stands beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from awm.analysis.rereading import Answered, Source, Task
from awm.analysis.source_runs import as_example
from awm.analysis.statistics.bootstrap import ResamplingPlan, estimate, estimate_difference
from awm.analysis.statistics.intervals import Estimate
from awm.analysis.statistics.ratios import mean_ratio
from awm.memory import EMPTY_MEMORY
from awm.runs import AnswerScore, DatasetRecord, ExampleRecord

Control = Literal["memory", "question-only", "shuffled"]
"""What the reader gets: the memory itself (to read it with another reader), or a control."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Memories that can be read again: of a run or of a log."""

    examples: Sequence[ExampleRecord]
    """The questions whose memory is recorded."""
    load_memory: Callable[[int], str]
    """From the index of an example to its rendered memory."""
    load_final: Callable[[int], AnswerScore | Answered]
    """To its final answer, judged or not."""
    dataset: DatasetRecord


@dataclass(frozen=True, slots=True)
class Lift:
    """What a memory is worth against a control."""

    control: Control
    memory_accuracy: Estimate
    """Over the same questions as the control."""
    control_accuracy: Estimate
    lift: Estimate
    """The first minus the second."""
    answerable_lift: Estimate
    """The same over the questions that are known to have an answer."""
    n_left_out: int
    """Questions without the control: of `shuffled`, those that are alone in their document."""

    def as_json(self) -> dict[str, Any]:
        """Give the object that `--json` prints."""
        return {
            "control": self.control,
            "memory_accuracy": self.memory_accuracy.as_json(),
            "control_accuracy": self.control_accuracy.as_json(),
            "lift": self.lift.as_json(),
            "answerable_lift": self.answerable_lift.as_json(),
            "n_left_out": self.n_left_out,
        }


def measure_lift(
    control: Control,
    memory_scores_N: Sequence[float | None],
    control_scores_N: Sequence[float | None],
    answerable_N: Sequence[bool | None],
    plan: ResamplingPlan,
) -> Lift:
    """Compare memory-only scores with a control's; only questions with both count.

    Args:
        control: what the control is.
        memory_scores_N: one a question; None: not measured.
        control_scores_N: the same under the control.
        answerable_N: whether each question has an answer; None: not known.
        plan: of the same questions.
    """
    pairs = [
        (None, None) if memory is None or other is None else (memory, other)
        for memory, other in zip(memory_scores_N, control_scores_N, strict=True)
    ]
    memory_ratio = mean_ratio([memory for memory, _ in pairs])
    control_ratio = mean_ratio([other for _, other in pairs])
    answerable = [
        pair if is_answerable else (None, None)
        for pair, is_answerable in zip(pairs, answerable_N, strict=True)
    ]
    return Lift(
        control=control,
        memory_accuracy=estimate(memory_ratio, plan),
        control_accuracy=estimate(control_ratio, plan),
        lift=estimate_difference(memory_ratio, control_ratio, plan),
        answerable_lift=estimate_difference(
            mean_ratio([memory for memory, _ in answerable]),
            mean_ratio([other for _, other in answerable]),
            plan,
        ),
        n_left_out=pairs.count((None, None)),
    )


def assign_partners(documents_N: Sequence[Hashable], seed: int) -> list[int | None]:
    """Give each question another one of its document, whose memory it is read with.

    Within a document the questions are put in a random order and each gets the next one's memory,
    so that every memory is used once. The order hangs on the seed and the document's id alone.

    Returns:
        Indices; None for a question that is alone in its document.
    """
    members: dict[Hashable, list[int]] = {}
    for index, document in enumerate(documents_N):
        members.setdefault(document, []).append(index)
    partners: list[int | None] = [None] * len(documents_N)
    for document, indices in members.items():
        if len(indices) < 2:
            continue
        digest = hashlib.sha256(f"{seed}\0{document}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        order = [indices[i] for i in rng.permutation(len(indices))]
        for position, index in enumerate(order):
            partners[index] = order[(position + 1) % len(order)]
    return partners


def control_source(memories: MemorySource, control: Control, seed: int = 0) -> Source:
    """Give what the reader reads under a control; questions without a partner are left out."""
    indices: list[int] = list(range(len(memories.examples)))
    partners: list[int | None] = list(indices)
    if control == "shuffled":
        partners = assign_partners([e.document_id for e in memories.examples], seed)
        indices = [index for index in indices if partners[index] is not None]

    def load(position: int) -> Task:
        index = indices[position]
        partner = partners[index]
        assert partner is not None
        memory = EMPTY_MEMORY if control == "question-only" else memories.load_memory(partner)
        example = as_example(memories.examples[index])
        return Task(example, memory, memories.load_final(index))

    return Source([memories.examples[index] for index in indices], load, memories.dataset)
