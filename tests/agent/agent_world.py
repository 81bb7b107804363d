"""A small world for agent tests: documents without files, and turns in one line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

from awm.agent.environment import AgentSettings, DocumentEnvironment, DrawnPages
from awm.documents import Document
from awm.documents.image import PageImage
from awm.documents.render import RenderSettings
from awm.errors import PageError
from awm.models.chat import (
    Completion,
    Message,
    ModelSettings,
    TextBlock,
    ToolCall,
    count_images,
)
from awm.models.scripted import Script, ScriptedModel, ScriptedReply
from awm.question import Question
from awm.retrieval import GoldPages

QUESTION = Question(id="q-1", text="How many trams run at night?", document_id="trams.pdf")


class PaperPages:
    """Draws pages as short byte strings, the same on every machine.

    Args:
        page_count: number of pages.
        broken: pages that cannot be drawn.
        empty: pages whose drawing holds no bytes.
    """

    renderer = "paper 1"

    def __init__(
        self, page_count: int, broken: Collection[int] = (), empty: Collection[int] = ()
    ) -> None:
        self.digest = hashlib.sha256(b"trams.pdf").hexdigest()
        self.page_count = page_count
        self._broken = broken
        self._empty = empty

    def draw(self, number: int, settings: RenderSettings) -> PageImage:
        if number in self._broken:
            raise PageError(f"page {number} of 'trams.pdf' is damaged")
        data = b"" if number in self._empty else b"page %d" % number
        return PageImage(hashlib.sha256(data).hexdigest(), "image/png", 60, 80, data)

    def read_text(self, number: int) -> str:
        return f"Text of page {number}."

    def close(self) -> None:
        """Do nothing: there is no file."""


def paper_document(
    page_count: int = 30, broken: Collection[int] = (), empty: Collection[int] = ()
) -> Document:
    """Make a document of `PaperPages`."""
    return Document("trams.pdf", PaperPages(page_count, broken, empty))


def pages_in_order(*pages: int) -> GoldPages:
    """Make a retriever that gives these pages, in this order, whatever is asked."""
    return GoldPages(pages)


def make_world(
    *pages: int, document: Document | None = None, **settings: Any
) -> DocumentEnvironment:
    """Make an environment whose searches give `pages` in this order."""
    return DocumentEnvironment(
        QUESTION,
        DrawnPages(document or paper_document()),
        pages_in_order(*(pages or range(1, 31))),
        AgentSettings(**settings),
    )


def call(name: str, call_id: str | None = "c0", **arguments: object) -> ToolCall:
    """Make a structured call."""
    return ToolCall(name, json.dumps(arguments), call_id)


def retrieve(query: str = "night trams", call_id: str | None = "c0") -> ToolCall:
    """Make a call of `retrieve`."""
    return call("retrieve", call_id, query=query)


def note(page: int, finding: str = "9 trams run at night.", call_id: str | None = "c0") -> ToolCall:
    """Make a call of `update_memory`."""
    return call("update_memory", call_id, page=page, finding=finding)


def turn(*calls: ToolCall, text: str | None = None, reasoning: str | None = None) -> Message:
    """Make an assistant turn; `text=None` is a message whose content is null."""
    content = () if text is None else (TextBlock(text),)
    return Message(role="assistant", content=content, tool_calls=calls, reasoning=reasoning)


def tagged(name: str, **arguments: object) -> str:
    """Make a textual call."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def scripted(*replies: str | ScriptedReply) -> ScriptedModel:
    """Make a model that gives these replies, one a turn."""
    return ScriptedModel([Script(replies=replies)])


class BlindModel:
    """A model whose adapter loses images on the way, and says so in `images_sent`.

    Args:
        model: what answers.
        most_images: images that get through at most.
    """

    def __init__(self, model: ScriptedModel, most_images: int = 0) -> None:
        self._model = model
        self._most_images = most_images

    @property
    def settings(self) -> ModelSettings:
        return self._model.settings

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        completion = await self._model.complete(messages, tools=tools, seed=seed)
        sent = min(count_images(messages), self._most_images)
        return Completion(message=completion.message, images_sent=sent)

    async def aclose(self) -> None:
        await self._model.aclose()
