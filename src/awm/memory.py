"""The working memory: short findings, each with its source page, that can only be added.

The paper (arXiv 2608.25618) limits a finding to 40 words and lets it name one source page. A
limit in words alone can be dodged by text without spaces, so a second limit counts characters;
that one is ours. What a reader could take for anything but one line of visible text is ours to
keep out, too: control and format characters (hidden text, zero-width joints between words, text
that runs backwards) are dropped, and chat-template tags are refused.

>>> memory = WorkingMemory(page_numbers=range(1, 31))
>>> memory.mark_shown([3])
>>> _ = memory.add("Self-sufficiency was 4.7 % in 2020.", page=3, turn=1)
>>> memory.render()
'[p. 3] Self-sufficiency was 4.7 % in 2020.'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

from pydantic import BaseModel, ConfigDict

from awm.errors import ToolError

MAX_FINDING_WORDS = 40
"""The paper's limit of one finding, in whitespace-separated words."""
MAX_FINDING_CHARACTERS = 600
"""Our second limit, for text that a limit in words cannot hold: scripts without spaces, tables
joined by commas. 40 English words are about 250 characters."""
_INVISIBLE = re.compile(
    "[\u2800\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""What Unicode draws as nothing though it is not a format character (category Cf)."""
_MARKUP = re.compile(
    r"<[|\uff5c][^<>]{0,80}[|\uff5c]>|<(?:start|end)_of_turn>|</s>|\[/?INST\]"
    r"|</?(?:think|tool_call|tool_response)>",
    re.IGNORECASE,
)
"""Tags that chat templates and tokenizers read as structure: `<|im_end|>` in a finding would end
the reader's prompt and let the finding speak as someone else."""
EMPTY_MEMORY = "(the memory is empty)"
"""What a reader sees of a memory without findings."""


class Finding(BaseModel):
    """One statement the agent chose to keep, with the page it came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """At most `MAX_FINDING_WORDS` whitespace-separated words, on one line, all of it visible."""
    page: int
    """Source page, 1-based."""
    turn: int
    """Turn of the episode (0-based) in which it was written."""

    def render(self) -> str:
        """Give the line that a reader sees."""
        return f"[p. {self.page}] {self.text}"


def render_findings(findings: Iterable[Finding]) -> str:
    """Give the text that a reader sees: one line a finding, in the order of writing."""
    return "\n".join(finding.render() for finding in findings) or EMPTY_MEMORY


def visible_line(text: str) -> str:
    r"""Give `text` on one line, without what a reader of the line could not see.

    Runs of white space become one space; control and format characters, lone surrogates and other
    characters that draw nothing are dropped, so cleaning never makes a word more.

    >>> visible_line("4.7\u200b %\n\u202ein 2020\x00")
    '4.7 % in 2020'
    """
    kept = (
        character
        for character in _INVISIBLE.sub("", text)
        if character.isspace() or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
    )
    return " ".join("".join(kept).split())


class WorkingMemory:
    """Append-only findings of one episode, and the pages that they may cite.

    Args:
        page_numbers: the pages of the document that the agent may see, 1-based.
    """

    def __init__(self, page_numbers: Collection[int]) -> None:
        self._page_numbers = page_numbers
        self._shown: set[int] = set()
        self._findings: list[Finding] = []

    def mark_shown(self, pages: Iterable[int]) -> None:
        """Note that the images of `pages` were shown, so that findings may cite them."""
        self._shown.update(pages)

    def add(self, text: str, page: int, turn: int) -> Finding:
        """Append a finding.

        Raises:
            ToolError: the finding is empty, too long or holds chat-template tags, or its page is
                not in the document or was not shown; the memory is unchanged.
        """
        text = visible_line(text)
        n_words = len(text.split())
        if n_words == 0:
            raise ToolError("The finding is empty. Write what the page says, in your own words.")
        if n_words > MAX_FINDING_WORDS:
            raise ToolError(
                f"The finding has {n_words} words; the limit is {MAX_FINDING_WORDS}. "
                "Nothing was saved. Write it again, shorter, or as several findings."
            )
        if len(text) > MAX_FINDING_CHARACTERS:
            raise ToolError(
                f"The finding has {len(text)} characters; the limit is "
                f"{MAX_FINDING_CHARACTERS}. Nothing was saved. Write it again, shorter."
            )
        markup = _MARKUP.search(text)
        if markup:
            raise ToolError(
                f"The finding holds the tag {markup.group()!r}, which is no text of a page. "
                "Nothing was saved. Write it again without the tag."
            )
        if page not in self._page_numbers:
            raise ToolError(f"There is no page {page} here. Nothing was saved.")
        if page not in self._shown:
            shown = ", ".join(map(str, sorted(self._shown))) or "none so far"
            raise ToolError(
                f"Page {page} was not shown to you, so it cannot be the source of a finding "
                f"(pages shown: {shown}). Nothing was saved."
            )
        finding = Finding(text=text, page=page, turn=turn)
        self._findings.append(finding)
        return finding

    def snapshot(self) -> tuple[Finding, ...]:
        """Give the findings so far, in the order of writing."""
        return tuple(self._findings)

    def render(self) -> str:
        """Give the text that a reader sees."""
        return render_findings(self._findings)

    def __len__(self) -> int:
        return len(self._findings)
