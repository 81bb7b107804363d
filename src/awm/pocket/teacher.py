"""The teacher: plays a case by the rules, with findings that carry the answer or that do not.

Its episodes run through the environment of evaluation, so what imitation learns from is what an
evaluation shows. A *specific* finding states the fact; a *generic* one says that the page has it,
which is the paper's fault (arXiv 2608.25618): the final answer is right all the same, and nobody
can give it from the memory.

Before the answer to a comparison it thinks: it writes down the two values and whose is the larger.
Thoughts are no part of the memory, so a generic memory stays unanswerable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from awm.agent.environment import AgentSettings, DocumentEnvironment, DrawnPages
from awm.benchmarks.pocket_world import PocketCase, comparison, make_document
from awm.documents import RenderCache, RenderSettings
from awm.memory import Finding
from awm.models.chat import Message, text_message
from awm.question import Question
from awm.retrieval import BM25Retriever

Slip = Literal["early answer", "cut call", "unseen page"]
SLIPS: tuple[Slip, ...] = get_args(Slip)
"""What a policy at temperature 1 does wrong now and then, and has to recover from."""


@dataclass(frozen=True, slots=True)
class Note:
    """A finding that the teacher writes."""

    page: int
    text: str


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """A whole conversation with its rules kept."""

    messages: tuple[Message, ...]
    memory: tuple[Finding, ...]
    answer: str
    pages_shown: tuple[int, ...]
    slip: Slip | None = None
    """What was done wrong in the turn after the retrieval, and refused."""


def specific_finding(case: PocketCase, index: int = 0) -> str:
    """State what the evidence says about the asked fact.

    Args:
        case: the case.
        index: which of the subjects of the question, for a comparison.
    """
    if case.kind == "count":
        return f"Pages with the {case.key}: {case.answer}."
    subject = case.subjects[index]
    if case.kind == "unanswerable":
        return missing_finding(case.key, subject)
    value = case.pages[case.evidence_pages[index] - 1].value(case.key)
    return f"The {case.key} of {subject} is {value}."


def missing_finding(key: str, subject: str) -> str:
    """Say that no page states a fact."""
    return f"Not found: {subject}, {key}."


def generic_finding(case: PocketCase, index: int = 0) -> str:
    """Say that the page holds the asked fact, without stating it."""
    if case.subjects:
        return f"{case.subjects[index]} lists its {case.key}."
    return f"The page lists the {case.key}."


def teacher_notes(case: PocketCase, generic: bool, first_shown: int) -> list[Note]:
    """Give the findings of an episode.

    Args:
        case: the case.
        generic: of which sort; an unanswerable question has only the specific one.
        first_shown: the page that a retrieval shows first; the source where no page is evidence.
    """
    if case.kind == "unanswerable":
        return [Note(first_shown, specific_finding(case))]
    write = generic_finding if generic else specific_finding
    pages = case.evidence_pages[:1] if case.kind == "count" else case.evidence_pages
    return [Note(page, write(case, i)) for i, page in enumerate(pages)]


def final_turn(case: PocketCase) -> str:
    """Write the turn that answers, with its thoughts where there are two values to compare."""
    if len(case.subjects) < 2:
        return case.answer
    values = [case.pages[page - 1].value(case.key) or "" for page in case.evidence_pages]
    return f"{compared(case.subjects, values)}{case.answer}"


def drilled_comparison(
    key: str, subjects: Sequence[str], values: Sequence[str], *, wants_value: bool
) -> tuple[str, str]:
    """Give a question for the larger of two facts, and the reply with its thoughts."""
    answer = max(values) if wants_value else larger(subjects, values)
    question = comparison(key, subjects, wants_value=wants_value)
    return question, compared(subjects, values) + answer


def compared(subjects: Sequence[str], values: Sequence[str]) -> str:
    """Write down two values and whose is the larger, as thoughts."""
    listed = ", ".join(f"{s} is {v}" for s, v in zip(subjects, values, strict=True))
    return f"<think>{listed}: {larger(subjects, values)}.</think>"


def larger(subjects: Sequence[str], values: Sequence[str]) -> str:
    """Give the subject of the larger value."""
    return max(zip(values, subjects, strict=True))[1]


def call_text(name: str, **arguments: object) -> str:
    """Write a call as the chat template writes it."""
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"


def open_episode(
    case: PocketCase,
    *,
    blank: bool = False,
    settings: AgentSettings | None = None,
    render: RenderSettings | None = None,
    cache: RenderCache | None = None,
    retriever: BM25Retriever | None = None,
) -> DocumentEnvironment:
    """Make the environment of a case: the very one of evaluation."""
    document = make_document(case.pages, "pocket", blank=blank)
    return DocumentEnvironment(
        Question("pocket", case.question, document.id),
        DrawnPages(document, render or RenderSettings(), cache),
        retriever or BM25Retriever(),
        settings,
    )


def play(
    case: PocketCase,
    generic: bool,
    *,
    slip: Slip | None = None,
    retriever: BM25Retriever | None = None,
) -> PlayedEpisode:
    """Play a case: one retrieval, the findings, the answer.

    Args:
        case: the case.
        generic: the sort of the findings.
        slip: what to do wrong before the first finding.
        retriever: answers the retrieval.

    Raises:
        RuntimeError: the environment refused a step: its rules and the teacher's no longer agree.
    """
    environment = open_episode(case, retriever=retriever)
    messages = [*environment.initial_messages()]

    def say(text: str) -> None:
        turn = text_message("assistant", text)
        step = environment.step(turn)
        messages.extend((turn, *step.observations))

    say(call_text("retrieve", query=case.key))
    shown = environment.result().pages_shown
    notes = teacher_notes(case, generic, shown[0])
    if slip:
        say(_slip_text(slip, case, notes[0], shown))
    for note in notes:
        say(call_text("update_memory", page=note.page, finding=note.text))
    say(final_turn(case))
    result = environment.result()
    if result.stop_reason != "answered" or len(result.refusals) != (slip is not None):
        raise RuntimeError(f"the teacher was refused: {[r.message for r in result.refusals]}")
    return PlayedEpisode(tuple(messages), result.memory or (), case.answer, shown, slip)


def _slip_text(slip: Slip, case: PocketCase, note: Note, shown: Sequence[int]) -> str:
    if slip == "early answer":
        return final_turn(case)
    if slip == "cut call":
        whole = call_text("update_memory", page=note.page, finding=note.text)
        return whole.removesuffix("\n</tool_call>")
    unseen = next(page for page in range(1, len(case.pages) + 1) if page not in shown)
    return call_text("update_memory", page=unseen, finding=note.text)
