"""The embedded default: a policy and a reader of words alone, without weights or keys.

It plays by the rules of every other model: it gets messages and tools, calls `retrieve` with the
question, writes the sentence that carries the question best as a finding, and answers with a
value of the kind that the question asks for. Where others see a page image it reads the page's
text layer, so a chart, a scan and a layout mean nothing to it. It is a floor: what a system
scores without seeing or understanding anything. It is deterministic.

Called without tools it answers from the pages or from the notes that the message holds. Told to
reply with `{"findings": ...}`, it writes down the sentences of the pages that carry the question
best.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awm.memory import MAX_FINDING_CHARACTERS, MAX_FINDING_WORDS
from awm.models.chat import (
    Completion,
    ImageBlock,
    Message,
    ModelSettings,
    TextBlock,
    ToolCall,
    count_images,
)
from awm.models.lexical_answer import Passage, answer_question, best_passage, best_passages

_MAX_RETRIEVALS = 3
_ENOUGH = 0.9
"""Share of the question's words that a passage must hold for the policy to stop searching."""
_MAX_WRITTEN = 8
"""Most findings that it writes from pages when it is asked for findings alone."""
_NOTHING_FOUND = "No text about:"
"""Begins the finding that it must write after pages without a word of the question. As a reader it
passes over such notes: they repeat the question, and so would be taken to answer it."""
_QUESTION = re.compile(r"^Question: ?(.*)", re.MULTILINE | re.DOTALL)
_NOTE = re.compile(r"^\[p\. (\d+)\] (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _SeenPage:
    number: int
    text: str
    message: int
    """Index of the message that showed it."""


class LexicalModel:
    """See the module: `lexical` on the command line."""

    def __init__(self, settings: ModelSettings | None = None) -> None:
        self._settings = settings or ModelSettings(spec="lexical")

    @property
    def settings(self) -> ModelSettings:
        """The settings it was made from; sampling options mean nothing here."""
        return self._settings

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        """Continue the conversation by one assistant turn, deterministically."""
        question = _question(messages)
        if tools:
            message = _act(messages, question)
        elif _asks_for_findings(messages):
            message = _say(_write_findings(messages, question))
        else:
            message = _say(_answer_directly(messages, question))
        return Completion(
            message=message,
            images_sent=count_images(messages),
            finish_reason="tool_calls" if message.tool_calls else "stop",
        )

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def _question(messages: Sequence[Message]) -> str:
    for message in messages:
        if message.role == "user":
            found = _QUESTION.search(message.text)
            if found:
                return found.group(1).strip()
    return ""


def _say(text: str) -> Message:
    return Message(role="assistant", content=(TextBlock(text),))


def _call(messages: Sequence[Message], name: str, **arguments: object) -> Message:
    turn = sum(message.role == "assistant" for message in messages)
    call = ToolCall(
        name=name, arguments=json.dumps(arguments, ensure_ascii=False), id=f"call_{turn}"
    )
    return Message(role="assistant", tool_calls=(call,))


def _seen_pages(messages: Sequence[Message]) -> list[_SeenPage]:
    return [
        _SeenPage(block.page_number, block.page.text() if block.page else "", index)
        for index, message in enumerate(messages)
        for block in message.content
        if isinstance(block, ImageBlock)
    ]


def _passages(pages: Sequence[_SeenPage]) -> list[Passage]:
    return [Passage(page.text, page.number) for page in pages]


def _answer_directly(messages: Sequence[Message], question: str) -> str:
    pages = _seen_pages(messages)
    if pages:
        return answer_question(question, _passages(pages))
    text = "\n".join(message.text for message in messages if message.role == "user")
    notes = [
        Passage(note, int(page))
        for page, note in _NOTE.findall(text)
        if not note.startswith(_NOTHING_FOUND)
    ]
    return answer_question(question, notes)


def _asks_for_findings(messages: Sequence[Message]) -> bool:
    return any(m.role == "system" and '{"findings":' in m.text for m in messages)


def _write_findings(messages: Sequence[Message], question: str) -> str:
    pages = _seen_pages(messages)
    written: list[dict[str, object]] = []
    for found in best_passages(question, _passages(pages), _MAX_WRITTEN):
        words = found.text.split()
        for start in range(0, len(words), MAX_FINDING_WORDS):
            text = " ".join(words[start : start + MAX_FINDING_WORDS])
            written.append({"page": found.page, "finding": text[:MAX_FINDING_CHARACTERS].strip()})
    if not written and pages:
        text = " ".join(f"{_NOTHING_FOUND} {question}".split()[:MAX_FINDING_WORDS])
        written.append({"page": pages[0].number, "finding": text[:MAX_FINDING_CHARACTERS].strip()})
    return json.dumps({"findings": written[:_MAX_WRITTEN]}, ensure_ascii=False)


def _act(messages: Sequence[Message], question: str) -> Message:
    pages = _seen_pages(messages)
    retrievals = sum(call.name == "retrieve" for message in messages for call in message.tool_calls)
    newest = [page for page in pages if page.message == len(messages) - 1]
    if newest:
        return _write_finding(messages, question, newest)
    found = best_passage(question, _passages(pages))
    enough = found is not None and found.coverage >= _ENOUGH
    last_search_failed = len(messages) > 1 and messages[-1].name == "retrieve"
    if retrievals and (enough or retrievals >= _MAX_RETRIEVALS or last_search_failed):
        return _say(answer_question(question, _passages(pages)))
    return _call(messages, "retrieve", query=question)


def _write_finding(
    messages: Sequence[Message], question: str, pages: Sequence[_SeenPage]
) -> Message:
    found = best_passage(question, _passages(pages))
    page = found.page if found else pages[0].number
    words = (found.text if found else f"{_NOTHING_FOUND} {question}").split()
    finding = " ".join(words[:MAX_FINDING_WORDS])[:MAX_FINDING_CHARACTERS].strip()
    return _call(messages, "update_memory", page=page, finding=finding)
