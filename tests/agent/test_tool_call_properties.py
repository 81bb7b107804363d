"""The parser takes anything: it never raises, decides once, and is quick about it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from agent_world import call, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from awm.agent.environment import Refusal
from awm.agent.reasoning import split_reasoning
from awm.agent.tools import ParsedTurn, parse_turn
from awm.models.chat import Message, TextBlock, ToolCall

TOOLS = ("retrieve", "update_memory", "view_pages")
PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    '{"name": "retrieve", "arguments": {"query": "x"}}',
    '{"name": "update_memory", "arguments": {"page": 1, "finding": "x"}}',
    '{"name": ',
    "Answer: 9",
    "Infinity",
    "\ud800",
    "\x00",
    "\u2028",
    "\\ud800",
    "{",
    "}",
    '"',
]
any_text = st.text(st.characters(), max_size=60)  # with surrogates
tag_soup = st.lists(st.one_of(st.sampled_from(PIECES), any_text), max_size=12).map("".join)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)
near_arguments = st.fixed_dictionaries(
    {},
    optional={"query": any_json, "page": any_json, "finding": any_json, "pages": any_json},
)
names = st.sampled_from(TOOLS) | any_text
calls = st.builds(
    ToolCall,
    name=names,
    arguments=st.one_of(tag_soup, any_json.map(json.dumps), near_arguments.map(json.dumps)),
    id=st.none() | any_text,
)
turns = st.builds(
    Message,
    role=st.just("assistant"),
    content=st.lists(tag_soup.map(TextBlock), max_size=3).map(tuple),
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    reasoning=st.none() | tag_soup,
)


def assert_decided(parsed: ParsedTurn) -> None:
    """Check that a turn is exactly one of calls, answer, refusal, and that all can be stored."""
    kinds = [bool(parsed.requests), parsed.answer is not None, parsed.refusal is not None]
    assert sum(kinds) == 1
    assert parsed.answer is None or parsed.answer.strip()
    for request in parsed.requests:
        assert (request.call is None) != (request.error is None)
        Refusal(turn=0, tool=request.name, message=str(request.error)).model_dump_json()
    for text in (parsed.answer or "", parsed.reasoning, str(parsed.refusal)):
        text.encode()


@settings(deadline=None, max_examples=300)
@given(turns)
def test_every_turn_is_one_of_calls_answer_and_refusal(message: Message) -> None:
    parsed = parse_turn(message, TOOLS, max_calls=3)

    assert_decided(parsed)
    if message.tool_calls:
        assert [r.call_id for r in parsed.requests] == [c.id for c in message.tool_calls]


@settings(deadline=None, max_examples=200)
@given(names, near_arguments)
def test_a_textual_and_a_structured_call_of_the_same_json_agree(
    name: str, arguments: dict[str, Any]
) -> None:
    body = json.dumps({"name": name, "arguments": arguments})
    textual = parse_turn(turn(text=f"<tool_call>{body}</tool_call>"), TOOLS)
    structured = parse_turn(turn(call(name, None, **arguments)), TOOLS)

    assert_decided(textual)
    if "</tool_call>" not in body and "think>" not in body:
        assert [r.call for r in textual.requests] == [r.call for r in structured.requests]


@settings(deadline=None, max_examples=300)
@given(tag_soup)
def test_what_is_said_holds_no_further_reasoning(text: str) -> None:
    visible, reasoning = split_reasoning(text)

    assert split_reasoning(visible) == (visible, "")
    assert len(visible) + len(reasoning) <= len(text)


@pytest.mark.parametrize("depth", [10, 900, 990, 1_000, 5_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deeply_nested_json_is_refused(opening: str, closing: str, depth: int) -> None:
    page = opening * depth + "1" + closing * depth
    for key in ("page", "pages", "query"):
        arguments = f'{{"{key}": {page}, "finding": "x"}}'
        structured = turn(*(ToolCall(name, arguments, "c") for name in TOOLS))
        parsed = parse_turn(structured, TOOLS)

        assert_decided(parsed)
        assert all(request.call is None for request in parsed.requests)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 100_000,
        "</tool_call>" * 100_000,
        "<think>" * 150_000,
        "</think>" * 120_000,
        "<think></think>" * 60_000,
        "<tool_call><think>" * 50_000,
        "<tool_call></tool_call>" * 40_000,
        "<tool_call>" + "[" * 1_000_000 + "</tool_call>",
        "{" * 1_000_000,
        '{"a":' * 200_000,
        "<" * 1_000_000,
        "\ud800" * 300_000,
    ],
    ids=lambda text: text[:24].encode("ascii", "replace").decode(),
)
def test_a_megabyte_of_tags_is_read_in_linear_time(text: str) -> None:
    began = time.perf_counter()
    parsed = parse_turn(turn(text=text), TOOLS)
    took_s = time.perf_counter() - began

    assert_decided(parsed)
    # About 0.1 s; one pass per tag would take minutes.
    assert took_s < 5
