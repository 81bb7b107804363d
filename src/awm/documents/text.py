r"""Text layers made safe to store, search and send: valid Unicode, sane whitespace.

>>> clean_text("Total:\u00a0  4.7\x00 %\r\n\r\n\r\n\r\nNote \ud800")
'Total: 4.7 %\n\nNote'
"""

from __future__ import annotations

import re

_LINE_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# pdfium writes this code for a hyphen at the end of a line, and usually leaves out the break.
_SPLIT_WORD = re.compile("[\x02\ufffe]\n?")
# Control characters, lone surrogates, noncharacters, and marks without width that split words.
_JUNK = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\xad\u200b\ufeff]"
)
_BLANKS = re.compile(r"[^\S\n]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def clean_text(text: str) -> str:
    """Normalise extracted text: keeps line breaks, one blank line at most, no control characters.

    The result can always be encoded as UTF-8.
    """
    text = _LINE_BREAK.sub("\n", text)
    text = _SPLIT_WORD.sub("", text)
    text = _JUNK.sub("", text)
    text = _BLANKS.sub(" ", text)
    text = text.replace(" \n", "\n").replace("\n ", "\n")
    return _BLANK_LINES.sub("\n\n", text).strip()
