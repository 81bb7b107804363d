"""The agent's world: a document, two or three tools, a working memory, and the rules between them.

Pure: no HTTP, no tokens, no torch. Evaluation, TRL and verl drive the same object with the same
messages, so what is trained is what is measured.

Rules that are ours, where the paper (arXiv 2608.25618) is silent:

- After page images were shown, the next retrieval and the answer are refused until a finding was
  written (`AgentSettings.require_finding`).
- A page counts as shown from the turn after the one that asked for it: a finding written in the
  same turn as the retrieval was written without seeing the page, and is refused.
- Pages are shown once. Asking again gives the next best ones.
- An episode that reaches the turn limit has no answer, and keeps its memory.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, assert_never

from pydantic import BaseModel, ConfigDict, Field

from awm.agent import prompt
from awm.agent.tools import (
    Retrieve,
    ToolRequest,
    UpdateMemory,
    ViewPages,
    parse_turn,
    retrieve_schema,
    update_memory_schema,
    view_pages_schema,
)
from awm.documents import Document, RenderCache, RenderSettings
from awm.errors import MissingImageError, PageError, ToolError
from awm.memory import Finding, WorkingMemory
from awm.models.chat import Block, ImageBlock, Message, TextBlock, count_images, text_message
from awm.question import Question
from awm.retrieval import Retriever

_log = logging.getLogger(__name__)

StopReason = Literal["answered", "step_limit", "error"]


class AgentSettings(BaseModel):
    """The rules of an episode; part of a run's manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int = Field(default=12, ge=1)
    """Assistant turns; the paper gives no number, 12 is ours."""
    top_k: int = Field(default=3, ge=1)
    """Pages of one retrieval."""
    require_finding: bool = True
    """Refuse the next retrieval and the answer until a finding follows the images."""
    view_pages: bool = False
    """Offer the third tool, which shows pages by number."""
    max_calls_per_turn: int = Field(default=8, ge=1)


class Refusal(BaseModel):
    """A call or an answer that was refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    turn: int
    """0-based."""
    tool: str
    """The tool's name as the model wrote it; "" for an answer or an unreadable call."""
    message: str
    """What the model was told."""


@dataclass(frozen=True, slots=True)
class Step:
    """What an environment answers to an assistant turn."""

    observations: tuple[Message, ...]
    done: bool


@dataclass(frozen=True, slots=True)
class EnvironmentResult:
    """How an episode ended, as far as its environment knows."""

    answer: str | None
    """The final turn's visible text; None where the episode ended without an answer."""
    memory: tuple[Finding, ...] | None
    """The terminal working memory; None in a setting that keeps none."""
    stop_reason: StopReason
    pages_shown: tuple[int, ...]
    """In the order of showing."""
    turns: int
    """Assistant turns taken."""
    refusals: tuple[Refusal, ...]
    images_shown: int
    """Page images handed out in messages."""
    pages_left_out: int = 0
    """Pages over the page cap of the `direct` setting."""
    pages_damaged: tuple[int, ...] = ()
    """Pages that should have been shown and cannot be drawn; the model was told."""


class Environment(Protocol):
    """What `run_episode` drives: the agent's world, or a one-call baseline."""

    def initial_messages(self) -> tuple[Message, ...]:
        """Give the messages that open the conversation."""
        ...

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Give the OpenAI function schemas of the tools; empty for a baseline."""
        ...

    def step(self, turn: Message) -> Step:
        """Take an assistant turn and give the messages that answer it."""
        ...

    def result(self) -> EnvironmentResult:
        """Say how the episode ended."""
        ...


@dataclass(frozen=True, slots=True)
class DrawnPages:
    """Where page images come from: a document, how to draw it, and what keeps the drawings."""

    document: Document
    render: RenderSettings = field(default_factory=RenderSettings)
    cache: RenderCache | None = None

    def blocks(self, number: int) -> tuple[Block, Block]:
        """Give a page's label and its image.

        Raises:
            PageError: the page cannot be drawn.
        """
        page = self.document.page(number)
        label = prompt.PAGE_LABEL.format(page=number, page_count=self.document.page_count)
        image = page.image(self.render, self.cache)
        return TextBlock(label), ImageBlock(image, page_number=number, page=page)


def page_message(
    source: DrawnPages,
    pages: list[int],
    role: Literal["user", "tool"],
    *,
    call_id: str | None = None,
    name: str | None = None,
    text: str | None = None,
) -> Message:
    """Make the message that shows `pages`: a label and an image for each, then `text`.

    A page that cannot be drawn is named as damaged and promises no image: its document is at
    fault, not the agent, and the other pages can still answer.

    Raises:
        MissingImageError: the message would promise a page whose image it does not carry.
    """
    blocks: list[Block] = []
    promised = 0
    for number in pages:
        try:
            blocks += source.blocks(number)
            promised += 1
        except PageError as error:
            _log.warning("%s, page %d cannot be shown: %s", source.document.id, number, error)
            count = source.document.page_count
            blocks.append(TextBlock(prompt.DAMAGED.format(page=number, page_count=count)))
    if text is not None:
        blocks.append(TextBlock(text))
    message = Message(role=role, content=tuple(blocks), tool_call_id=call_id, name=name)
    if count_images([message]) != promised or any(not b.image.data for b in message.images):
        raise MissingImageError(
            f"{promised} pages were promised, and the message carries "
            f"{count_images([message])} images"
        )
    return message


def damaged_among(pages: list[int], message: Message) -> list[int]:
    """Give those of `pages` that `message` names and does not show."""
    shown = {block.page_number for block in message.images}
    return [page for page in pages if page not in shown]


class DocumentEnvironment:
    """One episode of the agent: single use.

    Args:
        question: what is asked; its window, if any, must already be that of `source.document`
            (`make_environment` sees to it).
        source: the document's pages.
        retriever: what answers `retrieve`.
        settings: the rules.
    """

    def __init__(
        self,
        question: Question,
        source: DrawnPages,
        retriever: Retriever,
        settings: AgentSettings | None = None,
    ) -> None:
        self._question = question
        self._source = source
        self._retriever = retriever
        self._settings = settings or AgentSettings()
        self._tools = ("retrieve", "update_memory") + (
            ("view_pages",) if self._settings.view_pages else ()
        )
        self._memory = WorkingMemory(source.document.page_numbers)
        self._pages_shown: list[int] = []
        self._shown_this_turn: list[int] = []
        self._damaged: list[int] = []
        self._finding_due = False
        self._refusals: list[Refusal] = []
        self._turns = 0
        self._answer: str | None = None
        self._stop_reason: StopReason | None = None

    def initial_messages(self) -> tuple[Message, ...]:
        """Give the system prompt and the question."""
        document = self._source.document
        return (
            text_message("system", prompt.agent_system(self._settings.max_turns)),
            text_message(
                "user",
                prompt.agent_user(self._question.text, document.page_count, document.page_numbers),
            ),
        )

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Give the OpenAI function schemas of the tools."""
        schemas = [retrieve_schema(self._settings.top_k), update_memory_schema()]
        if self._settings.view_pages:
            schemas.append(view_pages_schema(self._settings.top_k))
        return schemas

    def step(self, turn: Message) -> Step:
        """Run the turn's calls, or take its answer, and give the observations."""
        if self._stop_reason is not None:
            raise RuntimeError("the episode is over; an environment is used once")
        parsed = parse_turn(turn, self._tools, self._settings.max_calls_per_turn)
        observations: list[Message] = []
        if parsed.requests:
            observations = [self._observe(request) for request in parsed.requests]
        elif parsed.answer is None:
            assert parsed.refusal is not None
            observations = [self._refuse_turn(str(parsed.refusal))]
        elif self._finding_due:
            observations = [self._refuse_turn(prompt.ANSWER_REFUSED)]
        else:
            self._answer = parsed.answer
            self._stop_reason = "answered"
        self._end_turn()
        return Step(tuple(observations), done=self._stop_reason is not None)

    def result(self) -> EnvironmentResult:
        """Say how the episode ended; before its end, how it stands (stop reason "error")."""
        return EnvironmentResult(
            answer=self._answer,
            memory=self._memory.snapshot(),
            stop_reason=self._stop_reason or "error",
            pages_shown=tuple(self._pages_shown + self._shown_this_turn),
            turns=self._turns,
            refusals=tuple(self._refusals),
            images_shown=len(self._pages_shown) + len(self._shown_this_turn),
            pages_damaged=tuple(self._damaged),
        )

    def _end_turn(self) -> None:
        self._memory.mark_shown(self._shown_this_turn)
        self._pages_shown += self._shown_this_turn
        if self._shown_this_turn and self._settings.require_finding:
            self._finding_due = True
        self._shown_this_turn = []
        self._turns += 1
        if self._stop_reason is None and self._turns >= self._settings.max_turns:
            self._stop_reason = "step_limit"

    def _refuse_turn(self, message: str) -> Message:
        self._refusals.append(Refusal(turn=self._turns, tool="", message=message))
        return text_message("user", message)

    def _observe(self, request: ToolRequest) -> Message:
        try:
            if request.call is None:
                raise request.error or ToolError("The call was not run.")
            match request.call:
                case Retrieve(query):
                    return self._retrieve(query, request)
                case UpdateMemory(page, finding):
                    return self._update_memory(page, finding, request)
                case ViewPages(pages):
                    return self._view_pages(pages, request)
                case other:
                    assert_never(other)
        except ToolError as error:
            self._refusals.append(
                Refusal(turn=self._turns, tool=request.name[:80], message=str(error))
            )
            return _tool_text(request, f"Error: {error}")

    def _require_finding(self) -> None:
        if self._settings.require_finding and (self._finding_due or self._shown_this_turn):
            raise ToolError(prompt.FINDING_FIRST)

    def _retrieve(self, query: str, request: ToolRequest) -> Message:
        self._require_finding()
        hits = self._retriever.search(
            self._source.document,
            query,
            self._settings.top_k,
            exclude=self._pages_shown + self._shown_this_turn + self._damaged,
        )
        if not hits:
            return _tool_text(request, prompt.NO_PAGE_LEFT)
        return self._show([hit.page for hit in hits], request)

    def _view_pages(self, pages: tuple[int, ...], request: ToolRequest) -> Message:
        self._require_finding()
        numbers = self._source.document.page_numbers
        if len(pages) > self._settings.top_k:
            raise ToolError(
                f"{len(pages)} pages are too many; the limit is {self._settings.top_k} a call."
            )
        outside = [page for page in pages if page not in numbers]
        if outside:
            raise ToolError(
                f"There is no page {outside[0]} here; pages go from {numbers[0]} to {numbers[-1]}."
            )
        seen = [page for page in pages if page in self._pages_shown + self._shown_this_turn]
        if seen or len(set(pages)) != len(pages):
            raise ToolError(
                f"Each page is shown once; you have already seen or asked twice for "
                f"{seen or list(pages)}. Nothing was shown."
            )
        return self._show(list(pages), request)

    def _show(self, pages: list[int], request: ToolRequest) -> Message:
        message = page_message(
            self._source, pages, "tool", call_id=request.call_id, name=request.name
        )
        damaged = damaged_among(pages, message)
        self._damaged += damaged
        self._shown_this_turn += [page for page in pages if page not in damaged]
        return message

    def _update_memory(self, page: int, finding: str, request: ToolRequest) -> Message:
        self._memory.add(finding, page, self._turns)
        self._finding_due = False
        n = len(self._memory)
        return _tool_text(request, prompt.SAVED.format(n=n, s="" if n == 1 else "s"))


def _tool_text(request: ToolRequest, text: str) -> Message:
    return Message(
        role="tool",
        content=(TextBlock(text),),
        tool_call_id=request.call_id,
        name=request.name[:80] or None,
    )
