"""Run one episode: drive an environment with a model, and record everything that happened.

The record holds the whole conversation with page images as hashes. A model, document or agent
error ends the episode with `stop_reason="error"` and its text; it never raises, so that one bad
episode does not stop its siblings. Such an episode is unmeasured, and retried on resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict

from awm.agent.baselines import DIRECT_PAGE_CAP, SingleCallEnvironment
from awm.agent.environment import (
    AgentSettings,
    DocumentEnvironment,
    DrawnPages,
    Environment,
    EnvironmentResult,
    Refusal,
    StopReason,
)
from awm.agent.reasoning import split_reasoning
from awm.documents import Document, RenderCache, RenderSettings
from awm.errors import AwmError, MissingImageError
from awm.memory import Finding
from awm.models.chat import ChatModel, Completion, ImageBlock, Message, count_images
from awm.models.wire import without_lone_surrogates
from awm.question import Question
from awm.retrieval import Retriever

Setting = Literal["agent", "ep-given", "direct", "rag"]
"""`agent` retrieves for itself, `ep-given` gets the gold pages for every query, `direct` and `rag`
are the one-call baselines without a memory."""

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class ErrorRecord(BaseModel):
    """Why something is unmeasured."""

    model_config = _FROZEN

    type: str
    """Name of the exception, e.g. "EndpointTimeoutError"."""
    message: str


class BlockRecord(BaseModel):
    """A text, or a page image by its hash."""

    model_config = _FROZEN

    text: str | None = None
    page: int | None = None
    """Of an image: the page, 1-based."""
    image: str | None = None
    """Of an image: SHA-256 of its bytes."""
    width: int | None = None
    height: int | None = None


class ToolCallRecord(BaseModel):
    """A structured call, as the model wrote it."""

    model_config = _FROZEN

    name: str
    arguments: str
    id: str | None = None


class MessageRecord(BaseModel):
    """One message of the conversation."""

    model_config = _FROZEN

    role: str
    content: tuple[BlockRecord, ...] = ()
    tool_calls: tuple[ToolCallRecord, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None


class CallRecord(BaseModel):
    """One request to a model."""

    model_config = _FROZEN

    images_sent: int
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float = 0.0
    retries: int = 0


class Episode(BaseModel):
    """The record of one attempt at one question."""

    model_config = _FROZEN

    question_id: str
    question: str
    document_id: str
    document_digest: str | None
    """SHA-256 of the document that was really read; None where it could not be opened."""
    setting: Setting
    stop_reason: StopReason
    answer: str | None
    """The final turn's visible text; None where there is no answer."""
    memory: tuple[Finding, ...] | None
    """The terminal working memory; None where the setting keeps none, or after an error."""
    pages_shown: tuple[int, ...] = ()
    pages_left_out: int = 0
    pages_damaged: tuple[int, ...] = ()
    """Pages that could not be drawn; the model was told so."""
    turns: int = 0
    refusals: tuple[Refusal, ...] = ()
    images_shown: int = 0
    """Page images that the environment handed out."""
    images_sent: int = 0
    """Page images that travelled, over all requests; the history is sent again with each."""
    calls: tuple[CallRecord, ...] = ()
    messages: tuple[MessageRecord, ...] = ()
    error: ErrorRecord | None = None
    """Set exactly where `stop_reason` is "error"."""


def record_message(message: Message) -> MessageRecord:
    """Turn a message into its record: images become hashes.

    Half of a surrogate pair, where a model's tokens ended inside a character, becomes U+FFFD: a
    record with it could not be written.
    """
    return MessageRecord(
        role=message.role,
        content=tuple(
            BlockRecord(
                page=block.page_number,
                image=block.image.digest,
                width=block.image.width,
                height=block.image.height,
            )
            if isinstance(block, ImageBlock)
            else BlockRecord(text=without_lone_surrogates(block.text))
            for block in message.content
        ),
        tool_calls=tuple(
            ToolCallRecord(
                name=without_lone_surrogates(call.name),
                arguments=without_lone_surrogates(call.arguments),
                id=call.id,
            )
            for call in message.tool_calls
        ),
        tool_call_id=message.tool_call_id,
        name=message.name,
        reasoning=without_lone_surrogates(message.reasoning) if message.reasoning else None,
    )


def record_call(completion: Completion) -> CallRecord:
    """Turn a completion's accounting into its record."""
    return CallRecord(
        images_sent=completion.images_sent,
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.usage.prompt_tokens,
        completion_tokens=completion.usage.completion_tokens,
        latency_s=round(completion.latency_s, 4),
        retries=completion.retries,
    )


def record_error(error: Exception) -> ErrorRecord:
    """Turn an exception into its record."""
    return ErrorRecord(
        type=type(error).__name__, message=without_lone_surrogates(str(error)[:2_000])
    )


def make_environment(
    question: Question,
    source: DrawnPages,
    retriever: Retriever,
    setting: Setting,
    settings: AgentSettings,
) -> Environment:
    """Make the environment of a setting.

    Args:
        question: what is asked.
        source: the document's pages.
        retriever: for `agent` and `rag` a search, for `ep-given` the gold pages; `direct` asks
            none.
        setting: which of the four.
        settings: the rules; `rag` takes its `top_k`.

    Raises:
        PageError: the question's page window does not lie within the document's pages.
    """
    if question.page_window is not None:
        # A caller who forgot the window would show pages that the question does not ask about.
        source = replace(source, document=source.document.window(*question.page_window))
    if setting in ("agent", "ep-given"):
        return DocumentEnvironment(question, source, retriever, settings)
    if setting == "rag":
        hits = retriever.search(source.document, question.text, settings.top_k)
        return SingleCallEnvironment(question, source, [hit.page for hit in hits])
    pages = list(source.document.page_numbers)
    shown = pages[:DIRECT_PAGE_CAP]
    return SingleCallEnvironment(question, source, shown, len(pages) - len(shown))


async def run_episode(
    question: Question,
    document: Document,
    model: ChatModel,
    retriever: Retriever,
    *,
    setting: Setting = "agent",
    settings: AgentSettings | None = None,
    render: RenderSettings | None = None,
    cache: RenderCache | None = None,
    executor: Executor | None = None,
) -> Episode:
    """Let `model` answer `question` over `document`, and record how.

    Args:
        question: what is asked.
        document: what it is asked about.
        model: the agent's policy.
        retriever: what answers `retrieve`.
        setting: `agent`, `ep-given`, or one of the baselines.
        settings: the rules of the episode.
        render: how pages are drawn.
        cache: keeps drawn pages.
        executor: where pages are drawn and searched; None: the loop's default threads.

    Returns:
        The record. Errors of the endpoint, the document or the agent are in it, not raised.

    Raises:
        ValueError: `document` is not the one that `question` is about.
    """
    if question.document_id != document.id:
        raise ValueError(
            f"question {question.id!r} is about {question.document_id!r}, and the document is "
            f"{document.id!r}"
        )
    source = DrawnPages(document, render or RenderSettings(), cache)
    rules = settings or AgentSettings()
    log = _Log()
    result: EnvironmentResult | None = None
    error: ErrorRecord | None = None
    environment: Environment | None = None
    try:
        opened, opening = await asyncio.get_running_loop().run_in_executor(
            executor, _open_environment, question, source, retriever, setting, rules
        )
        environment = opened
        log.messages += opening
        await _drive(opened, model, log, executor)
        result = opened.result()
    except AwmError as problem:
        error = record_error(problem)
        result = environment.result() if environment is not None else None
    return _episode(question, document, setting, log, result, error)


def _open_environment(
    question: Question,
    source: DrawnPages,
    retriever: Retriever,
    setting: Setting,
    settings: AgentSettings,
) -> tuple[Environment, tuple[Message, ...]]:
    environment = make_environment(question, source, retriever, setting, settings)
    return environment, environment.initial_messages()


class _Log:
    """What has happened so far, also when the episode breaks off."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: list[CallRecord] = []


async def _drive(
    environment: Environment, model: ChatModel, log: _Log, executor: Executor | None
) -> None:
    loop = asyncio.get_running_loop()
    tools = environment.tool_schemas()
    done = False
    while not done:
        completion = await model.complete(tuple(log.messages), tools=tools)
        log.calls.append(record_call(completion))
        if completion.images_sent != count_images(log.messages):
            raise MissingImageError(
                f"the conversation holds {count_images(log.messages)} page images and the request "
                f"carried {completion.images_sent}: the model did not see what it was asked about"
            )
        log.messages.append(completion.message)
        if tools:
            step = await loop.run_in_executor(executor, environment.step, completion.message)
        else:
            step = environment.step(completion.message)  # draws nothing: not worth a thread
        log.messages += step.observations
        done = step.done


def _episode(
    question: Question,
    document: Document,
    setting: Setting,
    log: _Log,
    result: EnvironmentResult | None,
    error: ErrorRecord | None,
) -> Episode:
    calls: Sequence[CallRecord] = log.calls
    failed = error is not None or result is None
    return Episode(
        question_id=question.id,
        question=question.text,
        document_id=question.document_id,
        document_digest=document.digest,
        setting=setting,
        stop_reason="error" if failed or result is None else result.stop_reason,
        answer=None if failed or result is None else result.answer,
        memory=None if failed or result is None else result.memory,
        pages_shown=result.pages_shown if result else (),
        pages_left_out=result.pages_left_out if result else 0,
        pages_damaged=result.pages_damaged if result else (),
        turns=result.turns if result else 0,
        refusals=result.refusals if result else (),
        images_shown=result.images_shown if result else 0,
        images_sent=sum(call.images_sent for call in calls),
        calls=tuple(calls),
        messages=tuple(record_message(message) for message in log.messages),
        error=error,
    )


def short_answer(text: str) -> str:
    """Give the short answer of a final turn, where no extractor does.

    The text after the last "Answer:" when there is one (a common habit of models), else the whole
    text, without reasoning.

    >>> short_answer("<think>12?</think>The total follows. Answer: 12 ")
    '12'
    """
    visible, _ = split_reasoning(text)
    _, found, tail = visible.rpartition("Answer:")
    short = tail.strip().strip("*").strip() if found else ""
    return short or visible
