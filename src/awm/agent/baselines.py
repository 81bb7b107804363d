"""The paper's two baselines without a memory, behind the same interface as the agent.

`direct` shows the document's pages up to a cap, `rag` the best pages for the question itself; both
are one call. Neither keeps a memory, so memory-only figures of such a run are not measured.
"""

from __future__ import annotations

from typing import Any

from awm.agent import prompt
from awm.agent.environment import (
    DrawnPages,
    EnvironmentResult,
    Step,
    StopReason,
    damaged_among,
    page_message,
)
from awm.agent.reasoning import split_reasoning
from awm.errors import PageError
from awm.models.chat import Message, text_message
from awm.question import Question

DIRECT_PAGE_CAP = 120
"""Most pages of one `direct` call; ours. 120 pages of 1,024 visual tokens fill 123k of context."""


class SingleCallEnvironment:
    """One call: pages and question in, the answer out. Single use.

    Args:
        question: what is asked.
        source: the document's pages.
        pages: the pages to show, in this order.
        pages_left_out: pages of the document that a cap kept out; recorded.
    """

    def __init__(
        self, question: Question, source: DrawnPages, pages: list[int], pages_left_out: int = 0
    ) -> None:
        self._question = question
        self._source = source
        self._pages = pages
        self._pages_left_out = pages_left_out
        self._damaged: list[int] = []
        self._answer: str | None = None
        self._stop_reason: StopReason = "error"
        self._turns = 0

    def initial_messages(self) -> tuple[Message, ...]:
        """Give the system prompt, and the pages with the question behind them.

        Raises:
            PageError: no page can be drawn.
        """
        question = f"Question: {self._question.text}"
        message = page_message(self._source, self._pages, "user", text=question)
        self._damaged = damaged_among(self._pages, message)
        if len(self._damaged) == len(self._pages):
            raise PageError(
                f"none of the {len(self._pages)} pages to show can be drawn; the call would be "
                "text alone, so it was not made"
            )
        return text_message("system", prompt.BASELINE_SYSTEM), message

    def tool_schemas(self) -> list[dict[str, Any]]:
        """Give no tools."""
        return []

    def step(self, turn: Message) -> Step:
        """Take the answer; a turn that says nothing ends the episode without one."""
        if self._turns:
            raise RuntimeError("the episode is over; an environment is used once")
        text, _ = split_reasoning(turn.text)
        self._turns += 1
        self._answer = text or None
        self._stop_reason = "answered" if text else "step_limit"
        return Step((), done=True)

    def result(self) -> EnvironmentResult:
        """Say how the episode ended."""
        return EnvironmentResult(
            answer=self._answer,
            memory=None,
            stop_reason=self._stop_reason,
            pages_shown=tuple(page for page in self._pages if page not in self._damaged),
            turns=self._turns,
            refusals=(),
            images_shown=len(self._pages) - len(self._damaged),
            pages_left_out=self._pages_left_out,
            pages_damaged=tuple(self._damaged),
        )
