"""From messages to rows of token ids, as the chat template and the processor would make them.

Shared by imitation, the reader's training and the tests; the processor's own way is slower and
gives the same ids (a test compares them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from awm.models.chat import Message
from awm.models.template import template_message
from awm.pocket.tokenizer import (
    ASSISTANT,
    END_OF_TEXT,
    END_OF_TURN,
    IMAGE_PAD,
    START_OF_TURN,
    tool_schemas,
)

UNKNOWN = -100
"""No label: ignored by cross-entropy."""


@dataclass(slots=True)
class Row:
    """Token ids of a conversation, and what is trained on them."""

    ids: list[int]
    turn_of: list[int]
    """For each token: the assistant turn (from 0) that it belongs to, its end included; -1 for
    tokens that the policy has not written."""


class Encoder:
    """Makes rows.

    Args:
        tokenizer: the pocket tokenizer.
        n_visual: tokens that an image takes.
    """

    def __init__(self, tokenizer: Any, n_visual: int) -> None:
        self.tokenizer = tokenizer
        self.n_visual = n_visual
        token = tokenizer.convert_tokens_to_ids
        self.image, self.end, self.pad = token(IMAGE_PAD), token(END_OF_TURN), token(END_OF_TEXT)
        self._start, self._assistant = token(START_OF_TURN), token(ASSISTANT)
        self._tools = tool_schemas()

    def conversation(self, messages: Sequence[Message], *, tools: bool = True) -> Row:
        """Encode a whole conversation."""
        text = self.tokenizer.apply_chat_template(
            [template_message(message) for message in messages],
            tools=self._tools if tools else None,
            tokenize=False,
        )
        ids = self.text(text)
        return Row(ids, self._turns(ids))

    def text(self, text: str) -> list[int]:
        """Encode text that may hold image places."""
        ids: list[int] = []
        for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]:
            ids += [token] * (self.n_visual if token == self.image else 1)
        return ids

    def _turns(self, ids: Sequence[int]) -> list[int]:
        turns: list[int] = []
        turn, is_inside = -1, False
        for i, token in enumerate(ids):
            turns.append(turn if is_inside else -1)
            if is_inside and token == self.end:
                is_inside = False
            elif not is_inside and token == self._assistant and ids[i - 1] == self._start:
                is_inside, turn = True, turn + 1
        return turns
