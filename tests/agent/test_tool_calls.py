"""The parser of tool calls: each row of its table, and what each row's edges give."""

from __future__ import annotations

import pytest
from agent_world import call, note, retrieve, tagged, turn

from awm.agent.tools import (
    MAX_ARGUMENT_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    ParsedTurn,
    Retrieve,
    ToolRequest,
    UpdateMemory,
    ViewPages,
    parse_turn,
    retrieve_schema,
    update_memory_schema,
    view_pages_schema,
)
from awm.models.chat import Message, TextBlock, ToolCall

THREE_TOOLS = ("retrieve", "update_memory", "view_pages")
FIRST_PAGE = '{"page": 1, "finding": "x"}'


def the_request(message: Message, tools: tuple[str, ...] = THREE_TOOLS) -> ToolRequest:
    """Give the only request of a turn."""
    parsed = parse_turn(message, tools)
    assert parsed.answer is None
    assert parsed.refusal is None
    (request,) = parsed.requests
    return request


def structured(name: str, arguments: str) -> ToolRequest:
    return the_request(turn(ToolCall(name, arguments, "c0")))


def textual(body: str) -> ToolRequest:
    return the_request(turn(text=f"<tool_call>{body}</tool_call>"))


def refusal_of(parsed: ParsedTurn) -> str:
    assert parsed.requests == ()
    assert parsed.answer is None
    return str(parsed.refusal)


def test_structured_calls_run_in_order_and_keep_their_ids() -> None:
    parsed = parse_turn(turn(note(3, "9 trams", "a"), retrieve("fares", "b")))

    assert [(r.call, r.call_id) for r in parsed.requests] == [
        (UpdateMemory(3, "9 trams"), "a"),
        (Retrieve("fares"), "b"),
    ]


def test_tool_call_text_beside_structured_calls_is_ignored() -> None:
    message = turn(retrieve("fares", "a"), text=tagged("update_memory", page=3, finding="x"))

    assert the_request(message) == ToolRequest("retrieve", Retrieve("fares"), call_id="a")


def test_text_beside_structured_calls_is_no_answer() -> None:
    assert the_request(turn(retrieve("fares"), text="Answer: 9")).call == Retrieve("fares")


def test_textual_calls_run_in_order_and_have_no_ids() -> None:
    first, second = tagged("update_memory", page=3, finding="x"), tagged("retrieve", query="fares")
    parsed = parse_turn(turn(text=f"Saving.\n{first}\nThen:\n{second} Done."))

    assert [r.call for r in parsed.requests] == [UpdateMemory(3, "x"), Retrieve("fares")]
    assert [r.call_id for r in parsed.requests] == [None, None]


def test_a_call_may_be_spread_over_lines() -> None:
    body = '\n{"name": "retrieve",\n "arguments": {"query": "fares"}}\n'

    assert textual(body).call == Retrieve("fares")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('<tool_call>{"name": "retrieve", "arguments": {"query": "x"}}', "</tool_call>"),
        ("Answer: 9 <tool_call>", "</tool_call>"),
        ('{"name": "retrieve", "arguments": {"query": "x"}}</tool_call>', "<tool_call>"),
        ("9</tool_call>", "<tool_call>"),
    ],
)
def test_half_a_tool_call_element_is_refused_and_is_no_answer(text: str, missing: str) -> None:
    request = the_request(turn(text=text))

    assert request.call is None
    assert f"without its {missing} was not run" in str(request.error)


def test_a_whole_call_before_an_unclosed_one_runs() -> None:
    parsed = parse_turn(turn(text=tagged("retrieve", query="fares") + "<tool_call>{"))

    assert parsed.requests[0].call == Retrieve("fares")
    assert parsed.requests[1].call is None
    assert len(parsed.requests) == 2


def test_an_element_inside_an_element_is_refused() -> None:
    inner = tagged("retrieve", query="fares")
    parsed = parse_turn(turn(text=f"<tool_call>{inner}</tool_call>"))

    assert [r.call for r in parsed.requests] == [None, None]


def test_a_tag_is_not_put_together_from_the_pieces_around_an_element() -> None:
    parsed = parse_turn(turn(text='<tool_<tool_call>{"name": 1}</tool_call>call>'))

    assert len(parsed.requests) == 1
    assert 'no "name"' in str(parsed.requests[0].error)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "retrieve", "arguments": {"query": "x"}}',
        '  {"name": "update_memory"}\n',
        '<think>Now.</think>{"arguments": {}, "name": "retrieve"}',
    ],
)
def test_a_bare_json_object_that_names_a_tool_is_refused(text: str) -> None:
    assert "looks like a tool call" in refusal_of(parse_turn(turn(text=text)))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "view_pages"}',
        '{"name": ["retrieve"]}',
        '{"name": "Oslo"}',
        '{"name": "retrieve"',
        '["retrieve"]',
        "{" * 200_000,
    ],
)
def test_other_text_with_braces_is_an_answer(text: str) -> None:
    parsed = parse_turn(turn(text=text), tools=("retrieve", "update_memory"))

    assert parsed.answer == text


@pytest.mark.parametrize(
    "text", [None, "", " \n\t", "<think>9?</think>", "<think>9?", "9?</think>"]
)
def test_a_turn_that_says_nothing_is_refused(text: str | None) -> None:
    assert "turn was empty" in refusal_of(parse_turn(turn(text=text)))


def test_reasoning_alone_is_refused() -> None:
    parsed = parse_turn(turn(reasoning="Answer: 9"))

    assert "turn was empty" in refusal_of(parsed)
    assert parsed.reasoning == "Answer: 9"


def test_any_other_text_is_the_answer_in_full() -> None:
    parsed = parse_turn(turn(text=" Nine trams.\nAnswer: 9 \n"))

    assert parsed == ParsedTurn((), "Nine trams.\nAnswer: 9", None, "")


def test_text_blocks_are_joined_by_newlines() -> None:
    message = Message(role="assistant", content=(TextBlock("9"), TextBlock("trams")))

    assert parse_turn(message).answer == "9\ntrams"


BROKEN_JSON = [
    "",
    "{",
    "{'page': 1, 'finding': 'x'}",
    '{"page": 1, "finding": "x",}',
    '{"page": 01, "finding": "x"}',
    '{"page": NaN, "finding": "x"}',
    '{"page": Infinity, "finding": "x"}',
    '{"page": -Infinity, "finding": "x"}',
    '{"page": 1, "page": 2, "finding": "x"}',
    '{"page": 1, "finding": "line\nbreak"}',
    FIRST_PAGE + FIRST_PAGE,
    "Infinity",
    "NaN",
    "[" * 15_000,
    '{"page": ' + "9" * 5_000 + ', "finding": "x"}',
]


@pytest.mark.parametrize("arguments", BROKEN_JSON, ids=lambda text: repr(text[:24]))
def test_arguments_that_are_not_strict_json_are_refused(arguments: str) -> None:
    request = structured("update_memory", arguments)

    assert request.call is None
    assert "not valid JSON" in str(request.error)


@pytest.mark.parametrize("arguments", BROKEN_JSON[1:], ids=lambda text: repr(text[:24]))
def test_textual_calls_that_are_not_strict_json_are_refused(arguments: str) -> None:
    request = textual(f'{{"name": "update_memory", "arguments": {arguments}}}')

    assert request.call is None
    assert "not valid JSON" in str(request.error)


@pytest.mark.parametrize("arguments", ["null", "true", "5", '"{}"', "[]", "1e999", '[{"page": 1}]'])
def test_arguments_that_are_not_an_object_are_refused(arguments: str) -> None:
    for request in (
        structured("update_memory", arguments),
        textual(f'{{"name": "update_memory", "arguments": {arguments}}}'),
    ):
        assert request.call is None
        assert "must be a JSON object" in str(request.error)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("retrieve", "{}", "missing: query"),
        ("retrieve", '{"query": "x", "k": 9}', "unknown: k"),
        ("retrieve", '{"q": "x"}', "missing: query; unknown: q"),
        ("update_memory", '{"page": 1}', "missing: finding"),
        ("update_memory", '{"finding": "x", "pages": [1]}', "missing: page; unknown: pages"),
        ("retrieve", '{"query": null}', "must be a text"),
        ("retrieve", '{"query": 5}', "must be a text"),
        ("retrieve", '{"query": ["x"]}', "must be a text"),
        ("retrieve", '{"query": " \\n"}', "must be a text that is not empty"),
        ("update_memory", '{"page": 1, "finding": ""}', "must be a text that is not empty"),
        ("update_memory", '{"page": "1", "finding": "x"}', "whole number such as 5, not '1'"),
        ("update_memory", '{"page": 1.0, "finding": "x"}', "whole number such as 5, not '1.0'"),
        ("update_memory", '{"page": true, "finding": "x"}', "whole number such as 5, not 'True'"),
        ("update_memory", '{"page": 1e999, "finding": "x"}', "whole number such as 5, not 'inf'"),
        ("update_memory", '{"page": null, "finding": "x"}', "whole number such as 5, not 'None'"),
        ("update_memory", '{"page": [1], "finding": "x"}', "whole number such as 5, not '[1]'"),
        ("view_pages", '{"pages": 4}', "list of page numbers"),
        ("view_pages", '{"pages": []}', "list of page numbers"),
        ("view_pages", '{"pages": "4, 5"}', "list of page numbers"),
        ("view_pages", '{"pages": [4, "5"]}', "whole number such as 5, not '5'"),
        ("view_pages", '{"pages": [[4]]}', "whole number such as 5, not '[4]'"),
        ("view_pages", '{"pages": [false]}', "whole number such as 5, not 'False'"),
    ],
)
def test_missing_unknown_and_mistyped_arguments_are_refused(
    name: str, arguments: str, complaint: str
) -> None:
    for request in (
        structured(name, arguments),
        textual(f'{{"name": "{name}", "arguments": {arguments}}}'),
    ):
        assert request.call is None
        assert complaint in str(request.error)


def test_a_textual_call_without_arguments_lacks_them() -> None:
    assert "missing: query" in str(textual('{"name": "retrieve"}').error)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{}", 'no "name"'),
        ('{"name": 5, "arguments": {}}', 'no "name"'),
        ('{"name": null, "arguments": {}}', 'no "name"'),
        ('{"function": {"name": "retrieve"}}', 'no "name"'),
        ('{"name": "retrieve", "parameters": {"query": "x"}}', "['parameters'] beside"),
        ('{"name": "retrieve", "arguments": {"query": "x"}, "id": 1}', "['id'] beside"),
        ("[]", "must be a JSON object, not list"),
        ("", "not valid JSON"),
        ("Infinity", "not valid JSON"),
    ],
)
def test_a_textual_call_of_another_shape_is_refused(body: str, complaint: str) -> None:
    request = textual(body)

    assert request.call is None
    assert complaint in str(request.error)


@pytest.mark.parametrize("name", ["", "Retrieve", "retrieve ", "functions.retrieve", "x" * 900])
def test_an_unknown_tool_is_refused_and_told_the_tools(name: str) -> None:
    for request in (structured(name, "{}"), textual(f'{{"name": "{name}", "arguments": {{}}}}')):
        assert request.call is None
        message = str(request.error)
        assert "There is no tool" in message
        assert "The tools are: retrieve, update_memory, view_pages." in message
        assert len(message) < 200


def test_view_pages_is_unknown_where_it_is_not_offered() -> None:
    request = the_request(turn(call("view_pages", pages=[4])), tools=("retrieve", "update_memory"))

    assert str(request.error) == (
        "There is no tool 'view_pages'. The tools are: retrieve, update_memory."
    )


def test_view_pages_takes_several_numbers() -> None:
    assert the_request(turn(call("view_pages", pages=[4, 5]))).call == ViewPages((4, 5))


def test_structured_calls_over_the_limit_are_refused_one_by_one() -> None:
    parsed = parse_turn(turn(*(retrieve(f"q{i}", f"c{i}") for i in range(4))), max_calls=2)

    assert [r.call for r in parsed.requests] == [Retrieve("q0"), Retrieve("q1"), None, None]
    assert [r.call_id for r in parsed.requests] == ["c0", "c1", "c2", "c3"]
    assert "4 tool calls; the limit is 2" in str(parsed.requests[3].error)


def test_textual_calls_over_the_limit_are_refused_in_one() -> None:
    parsed = parse_turn(turn(text="<tool_call></tool_call>" * 5_000), max_calls=8)

    assert len(parsed.requests) == 9
    assert "5000 tool calls; the limit is 8" in str(parsed.requests[8].error)


def test_a_query_over_its_limit_is_refused() -> None:
    assert structured("retrieve", '{"query": "%s"}' % ("x" * MAX_QUERY_CHARACTERS)).call
    refused = structured("retrieve", '{"query": "%s"}' % ("x" * (MAX_QUERY_CHARACTERS + 1)))
    assert "2001 characters; the limit is 2000" in str(refused.error)


def test_arguments_over_their_limit_are_refused_unread() -> None:
    request = structured("update_memory", FIRST_PAGE + " " * MAX_ARGUMENT_CHARACTERS)

    # 27 characters of JSON and 20,000 spaces.
    assert "20027 characters; the limit is 20000" in str(request.error)


def test_lone_surrogates_become_replacement_characters() -> None:
    request = structured("retrieve", '{"query": "a\\ud800b"}')
    named = textual('{"name": "\\udfff", "arguments": {}}')
    keyed = structured("retrieve", '{"\\ud800": 1}')

    assert request.call == Retrieve("a\ufffdb")
    assert named.name == "\ufffd"
    assert str(keyed.error).encode()


def test_the_schemas_name_the_arguments_that_the_parser_wants() -> None:
    names = {
        schema["function"]["name"]: list(schema["function"]["parameters"]["properties"])
        for schema in (retrieve_schema(3), update_memory_schema(), view_pages_schema(3))
    }

    assert names == {
        "retrieve": ["query"],
        "update_memory": ["page", "finding"],
        "view_pages": ["pages"],
    }
