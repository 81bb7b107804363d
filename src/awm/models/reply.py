"""A server's reply as a message: what came with status 200, read leniently, refused clearly.

Servers differ in what they leave out (ids, usage, content beside tool calls) and in where they
put reasoning; nothing of that is an error. A body that is no chat completion is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from awm.errors import EndpointReplyError
from awm.models.chat import Message, TextBlock, ToolCall, Usage
from awm.models.wire import without_lone_surrogates


@dataclass(frozen=True, slots=True)
class Reply:
    """What a completion's body says."""

    message: Message
    finish_reason: str | None
    usage: Usage


def parse_reply(body: bytes, quote: Callable[[bytes], str]) -> Reply:
    """Read the body of a chat completion.

    Args:
        body: what came with status 200.
        quote: writes a body's start for an error.

    Raises:
        EndpointReplyError: it is not a chat completion; the message quotes its start.
    """

    def refuse(what: str) -> EndpointReplyError:
        return EndpointReplyError(f"the reply {what}; it starts with {quote(body)}")

    document = load_json(body)
    if not isinstance(document, dict):
        raise refuse("is not a JSON object")
    choices = document.get("choices")
    if not choices and document.get("error"):
        raise refuse("is an error with status 200")
    if not isinstance(choices, list) or not choices:
        raise refuse("holds no choices")
    message = choices[0].get("message") if isinstance(choices[0], dict) else None
    if not isinstance(message, dict):
        raise refuse("holds no message in its first choice")
    text = _content_text(message.get("content"))
    calls = _tool_calls(message.get("tool_calls"))
    if text is None or calls is None:
        raise refuse("holds a message of another form than text and tool calls")
    # A refusal is what the model answered, so it is the text where there is no other.
    text = text or _string(message.get("refusal")) or ""
    reasoning = _string(message.get("reasoning_content")) or _string(message.get("reasoning"))
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        message=Message(
            role="assistant",
            content=(TextBlock(text),) if text else (),
            tool_calls=calls,
            reasoning=reasoning,
        ),
        finish_reason=_string(choices[0].get("finish_reason")),
        usage=Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))),
    )


def load_json(body: bytes) -> Any:
    """Parse JSON; None where it is none.

    The standard library reads what orjson rightly refuses and some servers send: NaN, and half
    of a surrogate pair where a model's tokens ended inside a character.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return None


def _content_text(content: object) -> str | None:
    """Give the text of a content that is a string, a list of parts or null; None: neither."""
    if content is None:
        return ""
    if isinstance(content, str):
        return without_lone_surrogates(content)
    if not isinstance(content, list):
        return None
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return without_lone_surrogates("".join(text for text in texts if isinstance(text, str)))


def _tool_calls(calls: object) -> tuple[ToolCall, ...] | None:
    """Give the tool calls as the model wrote them; None where the field is no list of objects."""
    if not calls:
        return ()
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        return None
    parsed = []
    for call in calls:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = orjson.dumps(arguments).decode()
        parsed.append(
            ToolCall(
                name=_string(function.get("name")) or "",
                arguments=without_lone_surrogates(arguments),
                id=_string(call.get("id")),
            )
        )
    return tuple(parsed)


def _string(value: object) -> str | None:
    return without_lone_surrogates(value) if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
