"""The agent's tools: their schemas, and the one parser that reads a model's turn.

The parser takes structured calls (`tool_calls`) and textual ones
(`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`), and is strict: whatever is not a whole
call of a known tool with the right arguments becomes a refusal whose text tells the model what to
do. It never guesses, because a guess would make two drivers differ.

| the turn | what becomes of it |
|---|---|
| structured calls | run in order; `<tool_call>` text beside them is ignored |
| text with whole `<tool_call>` elements | run in order |
| an unclosed `<tool_call>`, or a stray `</tool_call>` | refused: it is not an answer |
| a bare JSON object that names a tool | refused: it is not an answer |
| nothing but reasoning, or nothing at all | refused |
| any other text | the final answer |
| bad JSON, `NaN`, `Infinity`, a key twice | refused |
| arguments that are not an object, unknown, missing or mistyped | refused |
| more calls than `max_calls_per_turn` | the first run, the rest are refused (textual ones in one) |

>>> from awm.models.chat import text_message
>>> turn = parse_turn(text_message("assistant", "<think>hm</think>Answer: 12"))
>>> turn.answer, turn.reasoning
('Answer: 12', 'hm')
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from awm.agent.reasoning import join_pieces, split_reasoning
from awm.errors import ToolError
from awm.memory import MAX_FINDING_WORDS
from awm.models.chat import Message
from awm.models.wire import without_lone_surrogates

MAX_QUERY_CHARACTERS = 2_000
MAX_ARGUMENT_CHARACTERS = 20_000
"""A longer argument text is refused before it is parsed."""

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_CALL_TAG = re.compile(r"<(/?)tool_call>")


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Show the pages that fit a query best."""

    query: str


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """Append a finding to the working memory."""

    page: int
    finding: str


@dataclass(frozen=True, slots=True)
class ViewPages:
    """Show pages by their numbers."""

    pages: tuple[int, ...]


Call = Retrieve | UpdateMemory | ViewPages


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One call of a turn: either a checked `call`, or the `error` that answers it."""

    name: str
    """The tool's name as the model wrote it (lone surrogates apart); empty where there was none."""
    call: Call | None = None
    error: ToolError | None = None
    call_id: str | None = None
    """The structured call's id; None for a textual call."""


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """What an assistant turn says: calls, or an answer, or neither (a refusal)."""

    requests: tuple[ToolRequest, ...]
    answer: str | None
    """The visible text of a turn without a call; None where there is a call or a refusal."""
    refusal: ToolError | None
    """Why a turn without any call is no answer either."""
    reasoning: str
    """What stood in think blocks; never part of the answer."""


def retrieve_schema(top_k: int) -> dict[str, Any]:
    """Give the OpenAI function schema of `retrieve`."""
    return _schema(
        "retrieve",
        f"Search the document. Shows the {top_k} best pages that you have not seen yet, as images.",
        query={"type": "string", "description": "What to look for, in a few words."},
    )


def update_memory_schema() -> dict[str, Any]:
    """Give the OpenAI function schema of `update_memory`."""
    return _schema(
        "update_memory",
        "Save one finding to the working memory: a specific fact that you read on a page.",
        page={"type": "integer", "description": "The page it stands on, as labelled: 1 is first."},
        finding={
            "type": "string",
            "description": f"At most {MAX_FINDING_WORDS} words, with the names, numbers and units.",
        },
    )


def view_pages_schema(most: int) -> dict[str, Any]:
    """Give the OpenAI function schema of `view_pages`."""
    return _schema(
        "view_pages",
        f"Show pages by number, as images; at most {most} at a time, each only once.",
        pages={
            "type": "array",
            "items": {"type": "integer"},
            "description": "Page numbers; 1 is the first page of the file.",
        },
    )


def _schema(name: str, description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }


def parse_turn(
    turn: Message,
    tools: tuple[str, ...] = ("retrieve", "update_memory"),
    max_calls: int = 8,
) -> ParsedTurn:
    """Read an assistant turn.

    Args:
        turn: the message as the model gave it.
        tools: names of the tools that this agent has.
        max_calls: calls beyond this number are refused.
    """
    text, reasoning = split_reasoning(turn.text)
    if turn.reasoning:
        reasoning = join_pieces([turn.reasoning, reasoning])
    if turn.tool_calls:
        requests = [
            _request(call.name, call.id, partial(_parse_object, call.arguments), tools)
            for call in turn.tool_calls
        ]
    else:
        requests = _textual_requests(text, tools, max_calls)
    if requests:
        surplus = requests[max_calls:] if turn.tool_calls else requests[max_calls:][:1]
        refused = [
            ToolRequest(r.name, error=_too_many(len(requests), max_calls), call_id=r.call_id)
            for r in surplus
        ]
        return ParsedTurn((*requests[:max_calls], *refused), None, None, reasoning)
    refusal = _why_not_an_answer(text, tools)
    return ParsedTurn((), None if refusal else text, refusal, reasoning)


def _too_many(n_calls: int, max_calls: int) -> ToolError:
    return ToolError(
        f"This turn has {n_calls} tool calls; the limit is {max_calls}. "
        "The calls beyond it were not run."
    )


def _why_not_an_answer(text: str, tools: tuple[str, ...]) -> ToolError | None:
    if not text:
        return ToolError(
            "Your turn was empty. Call a tool, or give the final answer as plain text."
        )
    if text.startswith("{"):
        try:
            value = _parse_object(text)
        except ToolError:
            return None
        if value.get("name") in tools:
            return ToolError(
                "That looks like a tool call, and it was not run: a call must be made through the "
                f"tool interface or stand between {_OPEN} and {_CLOSE}."
            )
    return None


def _textual_requests(text: str, tools: tuple[str, ...], max_calls: int) -> list[ToolRequest]:
    requests: list[ToolRequest] = []
    missing: str | None = None
    start: int | None = None
    for tag in _CALL_TAG.finditer(text):
        if not tag.group(1):
            start = tag.end() if start is None else start
        elif start is None:
            missing = _OPEN
        else:
            # Beyond the limit a call is counted, not read.
            is_read = len(requests) < max_calls
            body = text[start : tag.start()]
            requests.append(_textual_request(body, tools) if is_read else ToolRequest(""))
            start = None
    if start is not None:
        missing = _CLOSE
    if missing is not None:
        requests.append(
            ToolRequest(
                "",
                error=ToolError(
                    f"A tool call without its {missing} was not run. Write the whole call: "
                    f'{_OPEN}{{"name": ..., "arguments": {{...}}}}{_CLOSE}'
                ),
            )
        )
    return requests


def _textual_request(body: str, tools: tuple[str, ...]) -> ToolRequest:
    try:
        value = _parse_object(body.strip())
    except ToolError as error:
        return ToolRequest("", error=error)
    name = value.get("name")
    if not isinstance(name, str):
        return ToolRequest("", error=ToolError('The call has no "name". It was not run.'))
    name = without_lone_surrogates(name)
    extra = sorted(set(value) - {"name", "arguments"})
    if extra:
        return ToolRequest(
            name,
            error=ToolError(f'The call has {extra} beside "name" and "arguments". It was not run.'),
        )
    return _request(name, None, partial(value.get, "arguments", {}), tools)


def _request(
    name: str, call_id: str | None, arguments: Callable[[], object], tools: tuple[str, ...]
) -> ToolRequest:
    name = without_lone_surrogates(name)
    try:
        return ToolRequest(name, call=check_call(name, arguments(), tools), call_id=call_id)
    except ToolError as error:
        return ToolRequest(name, error=error, call_id=call_id)


def check_call(name: str, arguments: object, tools: tuple[str, ...]) -> Call:
    """Check a call's name and arguments.

    Raises:
        ToolError: they are not those of a known tool.
    """
    if name not in tools:
        raise ToolError(f"There is no tool {name[:80]!r}. The tools are: {', '.join(tools)}.")
    if not isinstance(arguments, dict):
        kind = type(arguments).__name__
        raise ToolError(f"The arguments of {name} must be a JSON object, not {kind}. Not run.")
    wanted = _ARGUMENTS[name]
    missing = [key for key in wanted if key not in arguments]
    unknown = sorted(
        without_lone_surrogates(str(key))[:80] for key in arguments if key not in wanted
    )
    if missing or unknown:
        complaint = "; ".join(
            part
            for part in (
                f"missing: {', '.join(missing)}" if missing else "",
                f"unknown: {', '.join(unknown)}" if unknown else "",
            )
            if part
        )
        raise ToolError(f"{name} takes exactly: {', '.join(wanted)} ({complaint}). It was not run.")
    return _BUILDERS[name](arguments)


_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "retrieve": ("query",),
    "update_memory": ("page", "finding"),
    "view_pages": ("pages",),
}


def _build_retrieve(arguments: dict[str, Any]) -> Call:
    query = _string("retrieve", "query", arguments["query"])
    if len(query) > MAX_QUERY_CHARACTERS:
        raise ToolError(
            f"The query has {len(query)} characters; the limit is {MAX_QUERY_CHARACTERS}."
        )
    return Retrieve(query)


def _build_update_memory(arguments: dict[str, Any]) -> Call:
    page = _integer("update_memory", "page", arguments["page"])
    return UpdateMemory(page, _string("update_memory", "finding", arguments["finding"]))


def _build_view_pages(arguments: dict[str, Any]) -> Call:
    pages = arguments["pages"]
    if not isinstance(pages, list) or not pages:
        raise ToolError("view_pages: pages must be a list of page numbers such as [4, 5].")
    return ViewPages(tuple(_integer("view_pages", "pages", page) for page in pages))


_BUILDERS: dict[str, Callable[[dict[str, Any]], Call]] = {
    "retrieve": _build_retrieve,
    "update_memory": _build_update_memory,
    "view_pages": _build_view_pages,
}


def _string(tool: str, argument: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"{tool}: {argument} must be a text that is not empty. It was not run.")
    # A lone surrogate (from a JSON escape) cannot be encoded, stored or sent.
    return without_lone_surrogates(value).strip()


def _integer(tool: str, argument: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ToolError(
            f"{tool}: {argument} must be a whole number such as 5, not {str(value)[:40]!r}. "
            "It was not run."
        )
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key stands twice")
    return keys


def _parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object, strictly.

    Raises:
        ToolError: it is not JSON, not an object, or too long.
    """
    if len(text) > MAX_ARGUMENT_CHARACTERS:
        raise ToolError(
            f"The call has {len(text)} characters; the limit is {MAX_ARGUMENT_CHARACTERS}."
        )
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"The call is not valid JSON ({error}). It was not run.") from error
    if not isinstance(value, dict):
        raise ToolError(
            f"The arguments must be a JSON object, not {type(value).__name__}. It was not run."
        )
    return value
