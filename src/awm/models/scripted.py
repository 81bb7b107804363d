"""A model that replays replies from a file: for tests, and for re-enacting a recorded agent.

The file is JSONL. Each line is a `Script`: the first one whose `match` occurs in the text of the
conversation's first user message answers that conversation, and the number of assistant turns so
far says which of its replies is next. So the replies do not depend on the order in which
questions run.

```json
{"match": "Which city", "replies": ["<tool_call>...</tool_call>", {"content": "Oslo"}]}
{"match": "", "replies": ["Not answerable"], "repeat_last": true}
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from awm.errors import ConfigError, EndpointError, EndpointReplyError, EndpointTimeoutError
from awm.faults import reason
from awm.models.chat import (
    Completion,
    Message,
    ModelSettings,
    TextBlock,
    ToolCall,
    Usage,
    count_images,
)


class ScriptedCall(BaseModel):
    """A structured tool call of a reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: str
    """JSON text, unparsed: a script may hold a broken one."""
    id: str | None = None


class ScriptedReply(BaseModel):
    """One reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    reasoning: str | None = None
    finish_reason: str | None = None
    delay_s: float = 0.0
    """Waited before the reply."""
    error: Literal["timeout", "garbage"] | None = None
    """Raise instead of replying, as an endpoint would after its last retry."""


class Script(BaseModel):
    """The replies to the conversations that `match` picks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: str = ""
    """Substring of the first user message's text; "" matches every conversation."""
    replies: tuple[str | ScriptedReply, ...]
    repeat_last: bool = False
    """Answer with the last reply when the script is used up, instead of failing."""


class ScriptedModel:
    """Replays scripts; records the conversations it was asked to continue.

    Args:
        scripts: tried in order.
        settings: shown in manifests.
    """

    def __init__(self, scripts: Sequence[Script], settings: ModelSettings | None = None) -> None:
        self._scripts = tuple(scripts)
        self._settings = settings or ModelSettings(spec="scripted:")
        self.conversations: list[tuple[Message, ...]] = []
        """Every conversation that `complete` was called with, in order."""

    @classmethod
    def from_settings(cls, settings: ModelSettings) -> ScriptedModel:
        """Read the file of a `scripted:FILE` spec.

        Raises:
            ConfigError: the file is missing, or a line is not a script.
        """
        path = Path(settings.spec.partition(":")[2])
        try:
            # Not splitlines: it would also cut at U+2028, which may stand in a JSON string.
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"model spec {settings.spec!r}: cannot read {path}: {reason(error)}"
            ) from error
        scripts = []
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    scripts.append(Script.model_validate_json(line))
                except ValidationError as error:
                    raise ConfigError(f"{path}, line {number} is not a script: {error}") from error
        return cls(scripts, settings)

    @property
    def settings(self) -> ModelSettings:
        """The settings it was made from."""
        return self._settings

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        """Give the next reply of the script that matches.

        Raises:
            EndpointError: no script matches, the script is used up, or the reply is an error.
        """
        self.conversations.append(tuple(messages))
        reply = self._next_reply(messages)
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.error is not None:
            raise _ERRORS[reply.error](f"scripted {reply.error}")
        return Completion(
            message=Message(
                role="assistant",
                content=() if reply.content is None else (TextBlock(reply.content),),
                tool_calls=tuple(
                    ToolCall(name=call.name, arguments=call.arguments, id=call.id)
                    for call in reply.tool_calls
                ),
                reasoning=reply.reasoning,
            ),
            images_sent=count_images(messages),
            finish_reason=reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop"),
            usage=Usage(),
        )

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def _next_reply(self, messages: Sequence[Message]) -> ScriptedReply:
        text = next((message.text for message in messages if message.role == "user"), "")
        turn = sum(message.role == "assistant" for message in messages)
        for script in self._scripts:
            if script.match in text:
                if turn < len(script.replies):
                    reply = script.replies[turn]
                elif script.repeat_last and script.replies:
                    reply = script.replies[-1]
                else:
                    raise EndpointReplyError(
                        f"the script for {script.match!r} has {len(script.replies)} replies, and "
                        f"turn {turn + 1} was asked for"
                    )
                return ScriptedReply(content=reply) if isinstance(reply, str) else reply
        raise EndpointReplyError(f"no script matches the conversation: {text[:200]!r}")


_ERRORS: dict[str, type[EndpointError]] = {
    "timeout": EndpointTimeoutError,
    "garbage": EndpointReplyError,
}
