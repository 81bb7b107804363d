"""The chat protocol that every model speaks: messages, tool calls, completions.

One set of messages serves evaluation, every endpoint and training. An adapter may write them
differently on the wire (see `ModelSettings.tool_images`, `tool_format`), and never changes them.
A message that carries a page image carries the image itself; adapters count the images that they
send, and the caller compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from awm.documents.image import PageImage

Role = Literal["system", "user", "assistant", "tool"]


class TextSource(Protocol):
    """A page whose text layer can be read."""

    def text(self) -> str:
        """Give the text layer; empty where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of text in a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """A page image in a message."""

    image: PageImage
    page_number: int
    """1-based page of the document; for records, never sent."""
    page: TextSource | None = field(default=None, compare=False, repr=False)
    """The page itself, for models that work on text layers; never sent, never recorded."""


Block = TextBlock | ImageBlock


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A structured tool call, exactly as the model wrote it: `arguments` is unparsed JSON text."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: tuple[Block, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    """On assistant messages."""
    tool_call_id: str | None = None
    """On tool messages: the call that this one answers, None for a textual call."""
    name: str | None = None
    """On tool messages: the tool's name."""
    reasoning: str | None = None
    """On assistant messages: reasoning that the server kept apart. Recorded, never sent back."""

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def images(self) -> tuple[ImageBlock, ...]:
        """The image blocks, in order."""
        return tuple(block for block in self.content if isinstance(block, ImageBlock))


def text_message(role: Role, text: str) -> Message:
    """Make a message of one text block."""
    return Message(role=role, content=(TextBlock(text),))


def count_images(messages: Sequence[Message]) -> int:
    """Count the image blocks of a conversation."""
    return sum(isinstance(block, ImageBlock) for message in messages for block in message.content)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, as the server counts them; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What one call gave."""

    message: Message
    """The assistant's turn."""
    images_sent: int
    """Images that the request carried, counted where it was written."""
    finish_reason: str | None = None
    """"stop", "tool_calls", "length", …, as the server says."""
    usage: Usage = Usage()
    latency_s: float = 0.0
    """From the first byte sent (of the try that succeeded) to the last byte received."""
    retries: int = 0
    """Tries that failed before this one."""


class ModelSettings(BaseModel):
    """A model, how to reach it and how to sample from it; part of a run's manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: str
    """`openai:MODEL[@BASE_URL]`, `transformers:PATH`, `pocket`, `scripted:FILE` or `lexical`."""
    temperature: float | None = Field(default=None, ge=0)
    """None: the server's default."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, e.g. {"chat_template_kwargs": {"enable_thinking": false}}."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; never the key."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Limit of one try, from connecting to the last byte."""
    max_retries: int = Field(default=4, ge=0)
    """Further tries after a time-out, a broken connection, or status 408, 409, 425, 429, 5xx."""
    max_in_flight: int = Field(default=64, ge=1)
    """Calls under way at once on one endpoint, shared by every model of that base URL."""
    tool_images: Literal["tool", "user"] = "tool"
    """Where page images of a tool's result go on the wire: in the tool message itself (vLLM,
    SGLang; what training renders), or in a user message after it (OpenAI, llama.cpp)."""
    tool_format: Literal["native", "text"] = "native"
    """"native": the `tools` field of the request; "text": schemas in the system prompt and calls
    as `<tool_call>` text, for servers without a tool parser."""


class ChatModel(Protocol):
    """Anything that continues a conversation."""

    @property
    def settings(self) -> ModelSettings:
        """The settings it was made from."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        """Continue the conversation by one assistant turn.

        Args:
            messages: the conversation so far.
            tools: OpenAI function schemas that the model may call.
            seed: overrides the settings' seed, for repeated samples.

        Raises:
            EndpointError: no usable answer after every retry.
            MissingImageError: the request would not have carried every image.
        """
        ...

    async def aclose(self) -> None:
        """Release connections. A closed model is not used again."""
        ...
