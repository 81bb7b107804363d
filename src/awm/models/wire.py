"""Conversations on the wire: what a request's `messages` holds, as JSON fragments.

A page image is base64-encoded once and kept as a ready JSON fragment, so a request is put
together from pieces and never built as one object. The images are counted where their fragments
are placed.

A conversation is first laid out as the server wants it (`lay_out`), message by message:

- calls without an id get one ("call_0", …), and the tool messages that follow take them in order;
- a tool message that answers a textual call becomes a user message in `<tool_response>` tags;
- `tool_images="user"` moves images of tool results into one user message after them;
- `tool_format="text"` writes schemas, calls and results as text, in the form that Hermes and Qwen
  models are trained on.

Reasoning is never sent back. Arguments that are no JSON object travel as
`{"malformed_arguments": "…"}`: chat templates parse them, and a server would refuse the whole
conversation for one bad call. The recorded message keeps the model's own text.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import orjson
import pybase64

from awm.documents.image import PageImage
from awm.models.chat import Block, ImageBlock, Message, TextBlock, ToolCall

IMAGE_CACHE_BYTES = 256 * 2**20
"""Encoded images that one model keeps; about 1,300 pages of 150 kB."""
TOOL_IMAGES_NOTE = "Page images of the tool results above:"
"""Opens the user message that carries images of tool messages."""
TOOL_IMAGES_POINTER = "The page images follow in the next message."
"""Stands in a tool message that had nothing but images."""
_LARGE_FRAGMENT_BYTES = 2**15
"""Smaller fragments are joined: a copy costs less than a write."""
_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

ToolImages = Literal["tool", "user"]
ToolFormat = Literal["native", "text"]


class ImageFragments:
    """Page images as JSON fragments, least recently used dropped first.

    Args:
        max_bytes: size of all fragments kept.
    """

    def __init__(self, max_bytes: int = IMAGE_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._fragments: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def encode(self, image: PageImage) -> bytes:
        """Give the `image_url` part of a message's content."""
        name = (image.digest, image.media_type)
        fragment = self._fragments.get(name)
        if fragment is not None:
            self._fragments.move_to_end(name)
            return fragment
        fragment = b'{"type":"image_url","image_url":{"url":"data:%b;base64,%b"}}' % (
            image.media_type.encode(),
            pybase64.b64encode(image.data),
        )
        self._fragments[name] = fragment
        self._n_bytes += len(fragment)
        while self._n_bytes > self._max_bytes and len(self._fragments) > 1:
            self._n_bytes -= len(self._fragments.popitem(last=False)[1])
        return fragment


@dataclass(frozen=True, slots=True)
class EncodedMessages:
    """A conversation as the value of a request's `messages`."""

    fragments: tuple[bytes, ...]
    """Joined, a JSON array."""
    n_images: int
    """Images placed."""


def encode_messages(messages: Iterable[Message], images: ImageFragments) -> EncodedMessages:
    """Write laid-out messages as JSON fragments."""
    fragments: list[bytes] = []
    small: list[bytes] = [b"["]
    n_images = 0
    for i, message in enumerate(messages):
        small.append(b'%b{"role":"%b","content":' % (b"," if i else b"", message.role.encode()))
        if any(isinstance(block, ImageBlock) for block in message.content):
            for k, block in enumerate(message.content):
                small.append(b"," if k else b"[")
                if isinstance(block, TextBlock):
                    small.append(b'{"type":"text","text":%b}' % _json_text(block.text))
                    continue
                n_images += 1
                fragment = images.encode(block.image)
                if len(fragment) < _LARGE_FRAGMENT_BYTES:
                    small.append(fragment)
                else:
                    fragments += (b"".join(small), fragment)
                    small = []
            small.append(b"]")
        else:
            text = message.text
            small.append(b"null" if message.tool_calls and not text else _json_text(text))
        if message.tool_calls:
            small.append(b',"tool_calls":%b' % _json_calls(message.tool_calls))
        if message.tool_call_id is not None:
            small.append(b',"tool_call_id":%b' % _json_text(message.tool_call_id))
        small.append(b"}")
    small.append(b"]")
    return EncodedMessages((*fragments, b"".join(small)), n_images)


def lay_out(
    messages: Sequence[Message],
    *,
    tools: Sequence[dict[str, Any]] = (),
    tool_images: ToolImages = "tool",
    tool_format: ToolFormat = "native",
) -> list[Message]:
    """Arrange a conversation as a server wants it; no image and no text is lost."""
    if tool_format == "text":
        written = _with_tool_schemas(map(_calls_as_text, messages), tools)
        return list(_rewrite_tool_runs(written, lambda run: [_responses_as_user(run)]))

    def rewrite(run: list[Message]) -> list[Message]:
        structured = [message for message in run if message.tool_call_id is not None]
        textual = [message for message in run if message.tool_call_id is None]
        arranged = _images_after(structured) if tool_images == "user" else structured
        return [*arranged, _responses_as_user(textual)] if textual else arranged

    return list(_rewrite_tool_runs(_with_call_ids(messages), rewrite))


def _rewrite_tool_runs(
    messages: Iterable[Message], rewrite: Callable[[list[Message]], list[Message]]
) -> Iterator[Message]:
    for is_tool_run, run in groupby(messages, key=lambda message: message.role == "tool"):
        part = list(run)
        yield from rewrite(part) if is_tool_run else part


def _with_call_ids(messages: Sequence[Message]) -> Iterator[Message]:
    """Name the calls that have no id, and give the names to the tool messages that follow."""
    taken = {call.id for message in messages for call in message.tool_calls}
    fresh = (f"call_{i}" for i in range(1_000_000) if f"call_{i}" not in taken)
    pending: deque[str] = deque()
    for message in messages:
        if message.role == "assistant":
            pending.clear()
            if any(not call.id for call in message.tool_calls):
                calls = tuple(
                    call if call.id else replace(call, id=next(fresh))
                    for call in message.tool_calls
                )
                pending.extend(
                    named.id or ""
                    for named, call in zip(calls, message.tool_calls, strict=True)
                    if not call.id
                )
                yield replace(message, tool_calls=calls)
                continue
        elif message.role == "tool" and message.tool_call_id is None and pending:
            yield replace(message, tool_call_id=pending.popleft())
            continue
        yield message


def _images_after(run: list[Message]) -> list[Message]:
    """Move the images of tool messages into one user message after them.

    The tool messages keep all their text; in the user message each image stands after the text
    that stood directly before it, which is its label.
    """
    if not any(message.images for message in run):
        return run
    texts: list[Message] = []
    shown: list[Block] = [TextBlock(TOOL_IMAGES_NOTE)]
    for message in run:
        kept = tuple(block for block in message.content if isinstance(block, TextBlock))
        if message.images and not kept:
            kept = (TextBlock(TOOL_IMAGES_POINTER),)
        texts.append(replace(message, content=kept))
        previous: Block | None = None
        for block in message.content:
            if isinstance(block, ImageBlock):
                if isinstance(previous, TextBlock):
                    shown.append(previous)
                shown.append(block)
            previous = block
    return [*texts, Message(role="user", content=tuple(shown))]


def _responses_as_user(run: list[Message]) -> Message:
    """Write tool messages as one user message: many chat templates want turns to alternate."""
    content: list[Block] = []
    for message in run:
        if message.images:
            content.append(TextBlock("<tool_response>\n"))
            content.extend(message.content)
            content.append(TextBlock("\n</tool_response>"))
        else:
            content.append(TextBlock(f"<tool_response>\n{message.text}\n</tool_response>"))
    return Message(role="user", content=tuple(content))


def _calls_as_text(message: Message) -> Message:
    if not message.tool_calls:
        return message
    calls = (
        TextBlock(
            f'<tool_call>\n{{"name": {_json_text(call.name).decode()}, '
            f'"arguments": {_arguments_object(call.arguments)}}}\n</tool_call>'
        )
        for call in message.tool_calls
    )
    return replace(message, content=(*message.content, *calls), tool_calls=())


def _with_tool_schemas(
    messages: Iterable[Message], tools: Sequence[dict[str, Any]]
) -> Iterator[Message]:
    messages = iter(messages)
    if not tools:
        yield from messages
        return
    schemas = TextBlock(_describe_tools(tools))
    first = next(messages, None)
    if first is not None and first.role == "system":
        yield replace(first, content=(*first.content, TextBlock(""), schemas))
    else:
        yield Message(role="system", content=(schemas,))
        if first is not None:
            yield first
    yield from messages


def _describe_tools(tools: Sequence[dict[str, Any]]) -> str:
    signatures = "\n".join(orjson.dumps(tool).decode() for tool in tools)
    return (
        "# Tools\n\n"
        "These functions are available, one JSON signature per line:\n"
        f"<tools>\n{signatures}\n</tools>\n\n"
        "To call one, write its name and its arguments as a JSON object inside tool_call tags:\n"
        '<tool_call>\n{"name": "the function", "arguments": {"parameter": "value"}}\n</tool_call>\n'
        "Stop after the closing tag. Its result comes back inside tool_response tags."
    )


def _json_calls(calls: Sequence[ToolCall]) -> bytes:
    pieces = []
    for call in calls:
        # Servers that check names refuse the conversation for a name that no tool could have.
        name = call.name
        if not _FUNCTION_NAME.fullmatch(name):
            name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"
        pieces.append(
            b'{"id":%b,"type":"function","function":{"name":"%b","arguments":%b}}'
            % (
                _json_text(call.id or ""),
                name.encode(),
                _json_text(_arguments_object(call.arguments)),
            )
        )
    return b"[%b]" % b",".join(pieces)


def _arguments_object(arguments: str) -> str:
    """Give arguments as the text of a JSON object, unchanged where they are one."""
    if not arguments.strip():
        return "{}"
    try:
        is_object = isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        is_object = False
    if is_object:
        return arguments
    return f'{{"malformed_arguments": {_json_text(arguments).decode()}}}'


def _json_text(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:  # half of a surrogate pair, as broken text layers hold
        return orjson.dumps(without_lone_surrogates(text))


def without_lone_surrogates(text: str) -> str:
    """Give `text` with U+FFFD for every half of a surrogate pair, which UTF-8 cannot hold."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
