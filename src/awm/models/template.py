"""Messages as a chat template of transformers takes them; for evaluation and for training alike."""

from __future__ import annotations

import json
from typing import Any

from awm.models.chat import Message, TextBlock


def template_message(message: Message, sees: bool = True) -> dict[str, Any]:
    """Write a message as a chat template takes it, images as empty places.

    Args:
        message: one message; a structured call's arguments are parsed, since templates write them.
        sees: False for a text model, whose template takes text alone.
    """
    content: Any = message.text
    if sees:
        content = [
            {"type": "text", "text": block.text}
            if isinstance(block, TextBlock)
            else {"type": "image"}
            for block in message.content
        ]
    written: dict[str, Any] = {"role": message.role, "content": content}
    if message.name:
        written["name"] = message.name
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return written


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"malformed_arguments": text}
