"""Reasoning in all its shapes: kept, and never an answer or a call."""

from __future__ import annotations

import pytest
from agent_world import retrieve, tagged, turn

from awm.agent.episode import short_answer
from awm.agent.reasoning import split_reasoning
from awm.agent.tools import Retrieve, parse_turn

CALL = tagged("retrieve", query="fares")


@pytest.mark.parametrize(
    ("text", "visible", "reasoning"),
    [
        ("9", "9", ""),
        ("<think>a</think>9", "9", "a"),
        ("<think>\n\n</think>\n\n9", "9", ""),
        ("a</think>9", "9", "a"),
        ("<think>a", "", "a"),
        ("9<think>a", "9", "a"),
        ("<think>a</think>9<think>b</think>", "9", "a\nb"),
        ("8<think>a</think>9", "8\n9", "a"),
        # The block ends at its first closing tag; what a second one closes is reasoning, too.
        ("<think>a<think>b</think>c</think>9", "9", "a<think>b\nc"),
        ("<think>a</think>b</think>9", "9", "a\nb"),
        ("8<think>a</think>b</think>9", "9", "8\na\nb"),
        # A mention of the opening tag inside a block does not swallow the answer.
        ("<think>the <think> tag</think>9", "9", "the <think> tag"),
        ("a</think>b</think>9<think>c", "9", "a\nb\nc"),
        ("</think>", "", ""),
        ("<think></think>", "", ""),
        # No tag is made of pieces.
        ("<th<think>a</think>ink>9", "<th\nink>9", "a"),
    ],
)
def test_a_text_is_split_into_what_is_said_and_what_is_thought(
    text: str, visible: str, reasoning: str
) -> None:
    assert split_reasoning(text) == (visible, reasoning)


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{CALL}</think>9",
        f"{CALL}</think>9",
        f"<think>a</think>{CALL}</think>9",
        f"<think>a<think>b</think>{CALL}</think>9",
    ],
)
def test_a_call_inside_a_think_block_does_not_run(text: str) -> None:
    parsed = parse_turn(turn(text=text))

    assert parsed.requests == ()
    assert parsed.answer == "9"
    assert "fares" in parsed.reasoning


@pytest.mark.parametrize("text", [f"<think>{CALL}", f"<think>a</think><think>{CALL}"])
def test_a_call_inside_an_unclosed_think_block_does_not_run(text: str) -> None:
    parsed = parse_turn(turn(text=text))

    assert parsed.requests == ()
    assert parsed.answer is None


def test_a_call_after_a_think_block_runs() -> None:
    parsed = parse_turn(turn(text=f"<think>Answer: 9</think>{CALL}"))

    assert [r.call for r in parsed.requests] == [Retrieve("fares")]
    assert parsed.reasoning == "Answer: 9"


def test_a_call_is_not_put_together_around_a_think_block() -> None:
    parsed = parse_turn(turn(text=CALL.replace("tool_call>{", "tool_<think>a</think>call>{")))

    assert [r.call for r in parsed.requests] == [None]


def test_a_think_block_inside_a_call_breaks_the_call() -> None:
    parsed = parse_turn(turn(text=CALL.replace("fares", "fa<think>a</think>res")))

    assert [r.call for r in parsed.requests] == [None]


def test_reasoning_that_the_server_kept_apart_comes_first() -> None:
    parsed = parse_turn(turn(text="<think>b</think>9", reasoning=" a \n"))

    assert (parsed.answer, parsed.reasoning) == ("9", "a\nb")


def test_reasoning_beside_a_structured_call_is_kept() -> None:
    parsed = parse_turn(turn(retrieve("fares"), text="<think>b</think>", reasoning="a"))

    assert parsed.reasoning == "a\nb"


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("9", "9"),
        ("Answer: 9", "9"),
        ("So.\nAnswer: 8? No.\nAnswer: 9\n", "9"),
        ("**Answer:** 9", "9"),
        ("Final Answer: **9**", "9"),
        ("<think>Answer: 8</think>9", "9"),
        ("Answer: 9<think>Answer: 8", "9"),
        ("Answer: 9 <think>x</think>", "9"),
        ("Answer:", "Answer:"),
        ("It is 9. Answer: **\t\r\n", "It is 9. Answer: **"),
        ("", ""),
    ],
)
def test_the_short_answer_is_what_follows_the_last_answer_mark(text: str, short: str) -> None:
    assert short_answer(text) == short
