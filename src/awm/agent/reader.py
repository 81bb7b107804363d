"""The frozen reader: answer a question from the terminal working memory alone.

It gets the question and the rendered findings, in one call without tools: no page image, no
trajectory, no earlier message. What it answers is the memory-only answer of the paper
(arXiv 2608.25618).
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from awm.agent import prompt
from awm.agent.episode import CallRecord, ErrorRecord, record_call, record_error
from awm.agent.reasoning import join_pieces, split_reasoning
from awm.errors import EndpointError, MissingImageError
from awm.memory import Finding, render_findings
from awm.models.chat import ChatModel, Message, text_message


class Reading(BaseModel):
    """The record of one reading of one memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question_id: str
    memory: str
    """The rendered memory, as the reader saw it."""
    answer: str | None
    """The reader's visible text; None where it failed, "" where it said nothing."""
    reasoning: str | None = None
    call: CallRecord | None = None
    error: ErrorRecord | None = None


def reader_messages(question: str, memory: Sequence[Finding] | str) -> tuple[Message, Message]:
    """Give all that a reader ever sees.

    Args:
        question: the question's text.
        memory: findings, or a memory that is text already.
    """
    text = memory if isinstance(memory, str) else render_findings(memory)
    return (
        text_message("system", prompt.READER_SYSTEM),
        text_message("user", prompt.reader_user(question, text)),
    )


async def read_memory(
    question_id: str,
    question: str,
    memory: Sequence[Finding] | str,
    model: ChatModel,
    *,
    seed: int | None = None,
) -> Reading:
    """Let `model` answer from the memory alone.

    Returns:
        The record; an endpoint's failure is in it (unmeasured), not raised.
    """
    text = memory if isinstance(memory, str) else render_findings(memory)
    try:
        completion = await model.complete(reader_messages(question, text), seed=seed)
        if completion.images_sent:
            raise MissingImageError(
                f"the reader's request carried {completion.images_sent} images; it must carry none"
            )
    except (EndpointError, MissingImageError) as error:
        return Reading(question_id=question_id, memory=text, answer=None, error=record_error(error))
    visible, reasoning = split_reasoning(completion.message.text)
    thoughts = join_pieces([completion.message.reasoning or "", reasoning])
    return Reading(
        question_id=question_id,
        memory=text,
        answer=visible,
        reasoning=thoughts or None,
        call=record_call(completion),
    )
