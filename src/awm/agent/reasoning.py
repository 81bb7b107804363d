"""Reasoning in a model's text: `<think>` blocks, told apart from what the turn says.

>>> split_reasoning("<think>4 + 5</think>9")
('9', '4 + 5')
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from awm.models.wire import without_lone_surrogates

_THINK_TAG = re.compile(r"<(/?)think>")


def split_reasoning(text: str) -> tuple[str, str]:
    """Split a turn's text into what it says and what it thinks.

    A block ends at its first `</think>`. A `</think>` outside of a block closes one that the chat
    template opened, or the rest of a block that mentioned the tag: all before it is reasoning. A
    `<think>` without its closing makes everything after it reasoning (the turn was cut).

    Returns:
        The visible text and the reasoning, their pieces stripped and joined by newlines, so that
        no tag can be put together from pieces. Neither holds a lone surrogate, which could not
        be stored or sent.
    """
    pieces: list[tuple[bool, str]] = []
    n_reasoning = position = 0
    is_thinking = False
    for tag in _THINK_TAG.finditer(text):
        closes = bool(tag.group(1))
        if is_thinking and not closes:
            continue
        pieces.append((is_thinking, text[position : tag.start()]))
        position = tag.end()
        if closes and not is_thinking:
            n_reasoning = len(pieces)
        is_thinking = not closes
    pieces.append((is_thinking, text[position:]))
    visible = [piece for thought, piece in pieces[n_reasoning:] if not thought]
    reasoning = [piece for thought, piece in pieces[n_reasoning:] if thought]
    before = [piece for _, piece in pieces[:n_reasoning]]
    return join_pieces(visible), join_pieces(before + reasoning)


def join_pieces(pieces: Iterable[str]) -> str:
    """Strip pieces of text, leave out the empty ones and join the rest by newlines."""
    stripped = (without_lone_surrogates(piece).strip() for piece in pieces)
    return "\n".join(piece for piece in stripped if piece)
