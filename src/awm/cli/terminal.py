"""Consoles, and text from documents and models made fit for one.

Such text may hold terminal escapes, which could repaint the screen or worse, and words that rich
would read as markup or emoji.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape

_REPLACED = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\t\n"
}


def open_console(*, stderr: bool = False) -> Console:
    """Give a console that leaves words such as ":key:" as they are."""
    return Console(file=sys.stderr if stderr else sys.stdout, emoji=False)


def plain(text: str) -> str:
    r"""Replace control characters, all but tabs and line ends.

    >>> plain("red: \x1b[31m")
    'red: �[31m'
    """
    return text.replace("\r\n", "\n").translate(_REPLACED)


def plain_markup(text: str) -> str:
    """Make text plain, and literal where rich expects markup."""
    return escape(plain(text))


def one_line(text: str) -> str:
    """Make text plain and put it on one line."""
    return " ".join(plain(text).split())
