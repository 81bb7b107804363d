"""How conversations are laid out and written, and how replies are read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awm.documents.image import PageImage
from awm.errors import EndpointReplyError
from awm.models.chat import (
    Block,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    count_images,
    text_message,
)
from awm.models.reply import parse_reply
from awm.models.wire import (
    TOOL_IMAGES_NOTE,
    TOOL_IMAGES_POINTER,
    ImageFragments,
    encode_messages,
    lay_out,
)

TOOL = {"type": "function", "function": {"name": "retrieve", "parameters": {"type": "object"}}}


def image(number: int, size: int = 4) -> ImageBlock:
    data = bytes([number]) * size
    return ImageBlock(PageImage(hashlib.sha256(data).hexdigest(), "image/jpeg", 1, 1, data), number)


def part(block: ImageBlock) -> dict[str, Any]:
    url = "data:image/jpeg;base64," + pybase64.b64encode(block.image.data).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def on_the_wire(messages: list[Message], **layout: Any) -> list[dict[str, Any]]:
    encoded = encode_messages(lay_out(messages, **layout), ImageFragments())
    assert encoded.n_images == count_images(messages)
    written = json.loads(b"".join(encoded.fragments))
    assert isinstance(written, list)
    return written


def call(name: str = "retrieve", arguments: str = "{}", id: str | None = None) -> ToolCall:
    return ToolCall(name, arguments, id)


def test_text_travels_as_a_string_and_images_as_parts() -> None:
    messages = [
        text_message("system", "Be brief."),
        Message(role="user", content=(TextBlock("a"), TextBlock("b"))),
        Message(role="user", content=(TextBlock("page 1 of 2"), image(1))),
        Message(role="user"),
    ]

    assert on_the_wire(messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {"role": "user", "content": [text_part("page 1 of 2"), part(image(1))]},
        {"role": "user", "content": ""},
    ]


def test_reasoning_is_never_sent_back() -> None:
    messages = [Message(role="assistant", content=(TextBlock("42"),), reasoning="hmm")]

    assert on_the_wire(messages) == [{"role": "assistant", "content": "42"}]


def test_calls_and_their_results_are_paired_by_id() -> None:
    messages = [
        Message(
            role="assistant", tool_calls=(call(id="x"), call("update_memory", '{"page":1}', "y"))
        ),
        Message(role="tool", content=(TextBlock("done"),), tool_call_id="x", name="retrieve"),
    ]

    assistant, tool = on_the_wire(messages)

    assert assistant == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "retrieve", "arguments": "{}"}},
            {
                "id": "y",
                "type": "function",
                "function": {"name": "update_memory", "arguments": '{"page":1}'},
            },
        ],
    }
    assert tool == {"role": "tool", "content": "done", "tool_call_id": "x"}


def test_calls_without_an_id_get_one_and_their_results_follow_in_order() -> None:
    messages = [
        Message(role="assistant", tool_calls=(call(id="call_0"),)),
        Message(role="tool", content=(TextBlock("r0"),), tool_call_id="call_0"),
        Message(role="assistant", tool_calls=(call(), call(id="given"), call())),
        Message(role="tool", content=(TextBlock("r1"),)),
        Message(role="tool", content=(TextBlock("r2"),), tool_call_id="given"),
        Message(role="tool", content=(TextBlock("r3"),)),
    ]

    written = on_the_wire(messages)

    assert [c["id"] for c in written[2]["tool_calls"]] == ["call_1", "given", "call_2"]
    assert [m["tool_call_id"] for m in written[3:]] == ["call_1", "given", "call_2"]
    assert [m["content"] for m in written[3:]] == ["r1", "r2", "r3"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"query": "a"}', '{"query": "a"}'),
        ("", "{}"),
        ("{query", '{"malformed_arguments": "{query"}'),
        ("[1]", '{"malformed_arguments": "[1]"}'),
    ],
)
def test_arguments_travel_as_an_object_whatever_the_model_wrote(arguments: str, sent: str) -> None:
    (message,) = on_the_wire([Message(role="assistant", tool_calls=(call("", arguments, "x"),))])

    function = message["tool_calls"][0]["function"]
    assert function == {"name": "unnamed", "arguments": sent}


def test_a_result_of_a_textual_call_travels_as_a_user_message() -> None:
    messages = [
        text_message("assistant", "<tool_call>…</tool_call>"),
        Message(role="tool", content=(TextBlock("page 3 of 9"), image(3))),
        Message(role="tool", content=(TextBlock("saved"),)),
    ]

    assert on_the_wire(messages)[1:] == [
        {
            "role": "user",
            "content": [
                text_part("<tool_response>\n"),
                text_part("page 3 of 9"),
                part(image(3)),
                text_part("\n</tool_response>"),
                text_part("<tool_response>\nsaved\n</tool_response>"),
            ],
        }
    ]


def test_tool_images_may_stay_in_the_tool_message() -> None:
    message = Message(role="tool", content=(TextBlock("page 3 of 9"), image(3)), tool_call_id="x")

    assert on_the_wire([message], tool_images="tool") == [
        {
            "role": "tool",
            "content": [text_part("page 3 of 9"), part(image(3))],
            "tool_call_id": "x",
        }
    ]


def test_tool_images_move_after_the_run_of_tool_messages_with_their_labels() -> None:
    messages = [
        Message(role="assistant", tool_calls=(call(id="x"), call(id="y"), call(id="z"))),
        Message(
            role="tool",
            content=(TextBlock("2 pages"), TextBlock("page 3 of 9"), image(3), image(4)),
            tool_call_id="x",
        ),
        Message(role="tool", content=(TextBlock("saved"),), tool_call_id="y"),
        Message(role="tool", content=(image(5),), tool_call_id="z"),
        text_message("user", "Go on."),
    ]

    assert on_the_wire(messages, tool_images="user")[1:] == [
        {"role": "tool", "content": "2 pages\npage 3 of 9", "tool_call_id": "x"},
        {"role": "tool", "content": "saved", "tool_call_id": "y"},
        {"role": "tool", "content": TOOL_IMAGES_POINTER, "tool_call_id": "z"},
        {
            "role": "user",
            "content": [
                text_part(TOOL_IMAGES_NOTE),
                text_part("page 3 of 9"),
                part(image(3)),
                part(image(4)),
                part(image(5)),
            ],
        },
        {"role": "user", "content": "Go on."},
    ]


def test_the_text_format_writes_schemas_calls_and_results_as_text() -> None:
    messages = [
        text_message("system", "You read documents."),
        text_message("user", "How much?"),
        Message(
            role="assistant",
            content=(TextBlock("Let me look."),),
            tool_calls=(call(arguments='{"query": "a \\"b\\""}', id="x"),),
        ),
        Message(role="tool", content=(TextBlock("page 3 of 9"), image(3)), tool_call_id="x"),
    ]

    system, user, assistant, result = on_the_wire(messages, tools=[TOOL], tool_format="text")

    assert system["content"].startswith("You read documents.\n\n# Tools\n")
    assert orjson.dumps(TOOL).decode() in system["content"]
    assert user == {"role": "user", "content": "How much?"}
    assert assistant == {
        "role": "assistant",
        "content": (
            "Let me look.\n<tool_call>\n"
            '{"name": "retrieve", "arguments": {"query": "a \\"b\\""}}\n</tool_call>'
        ),
    }
    assert result["role"] == "user"
    assert result["content"][1:3] == [text_part("page 3 of 9"), part(image(3))]


def test_the_text_format_makes_a_system_message_where_there_is_none() -> None:
    written = on_the_wire([text_message("user", "a")], tools=[TOOL], tool_format="text")

    assert [message["role"] for message in written] == ["system", "user"]
    assert on_the_wire([text_message("user", "a")], tool_format="text") == [
        {"role": "user", "content": "a"}
    ]


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert on_the_wire([text_message("user", "a\ud83d b \U0001f600")]) == [
        {"role": "user", "content": "a\N{REPLACEMENT CHARACTER} b \U0001f600"}
    ]


_BLOCKS = st.lists(
    st.one_of(
        st.text(max_size=5).map(TextBlock),
        st.builds(image, st.integers(0, 9), st.sampled_from([3, 40_000])),
    ),
    max_size=4,
).map(tuple)
_IDS = st.sampled_from([None, "x", "call_0"])
_MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=_BLOCKS,
        tool_calls=st.lists(st.builds(ToolCall, st.text(), st.text(), _IDS), max_size=2).map(tuple),
        tool_call_id=_IDS,
    ),
    max_size=6,
)


@given(
    messages=_MESSAGES,
    tool_images=st.sampled_from(["tool", "user"]),
    tool_format=st.sampled_from(["native", "text"]),
)
def test_every_layout_keeps_every_image_in_order(
    messages: list[Message], tool_images: str, tool_format: str
) -> None:
    written = on_the_wire(messages, tools=[TOOL], tool_images=tool_images, tool_format=tool_format)

    blocks: list[Block] = [block for message in messages for block in message.content]
    expected = [part(block) for block in blocks if isinstance(block, ImageBlock)]
    parts = [
        p for message in written if isinstance(message["content"], list) for p in message["content"]
    ]
    images = [p for p in parts if p["type"] == "image_url"]
    # Images of structured results may pass those of textual results within one run.
    assert sorted(map(str, images)) == sorted(map(str, expected))
    assert "tool" not in {message["role"] for message in written if tool_format == "text"}
    assert all(message.get("tool_call_id", "?") for message in written)


def test_the_image_cache_stays_within_its_bytes_and_drops_the_oldest() -> None:
    images = ImageFragments(max_bytes=300)
    first = images.encode(image(1, 60).image)
    assert images.encode(image(1, 60).image) is first
    images.encode(image(2, 60).image)
    images.encode(image(3, 60).image)

    again = images.encode(image(1, 60).image)

    assert again == first
    assert again is not first


def test_an_image_larger_than_the_cache_is_still_encoded() -> None:
    assert len(ImageFragments(max_bytes=10).encode(image(1, 3000).image)) > 4000


def parse(message: dict[str, Any], **more: Any) -> Message:
    body = orjson.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **more})
    return parse_reply(body, repr).message


def test_content_may_be_null_a_string_or_parts() -> None:
    assert parse({"content": None}).content == ()
    assert parse({}).content == ()
    assert parse({"content": ""}).content == ()
    assert parse({"content": "42"}).text == "42"
    parts = [{"type": "text", "text": "4"}, {"type": "other"}, {"type": "text", "text": "2"}]
    assert parse({"content": parts}).text == "42"


def test_tool_calls_are_kept_as_the_model_wrote_them() -> None:
    message = parse(
        {
            "tool_calls": [
                {"id": "a", "function": {"name": "retrieve", "arguments": '{"query": '}},
                {"id": "", "function": {"name": "retrieve", "arguments": {"query": "é"}}},
                {"function": {"arguments": None}},
                {"id": 7},
            ]
        }
    )

    assert message.tool_calls == (
        ToolCall("retrieve", '{"query": ', "a"),
        ToolCall("retrieve", '{"query":"é"}', None),
        ToolCall("", "", None),
        ToolCall("", "", None),
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(field: str) -> None:
    message = parse({"content": "42", field: "because"})

    assert (message.text, message.reasoning) == ("42", "because")


def test_a_refusal_is_the_answer_where_there_is_no_other() -> None:
    assert parse({"content": None, "refusal": "I can't."}).text == "I can't."
    assert parse({"content": "42", "refusal": None}).text == "42"


@given(
    body=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "message",
                        "content",
                        "tool_calls",
                        "function",
                        "name",
                        "usage",
                        "error",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(orjson.dumps)
)
def test_any_body_is_a_message_or_a_refusal(body: bytes) -> None:
    try:
        reply = parse_reply(body, repr)
    except EndpointReplyError:
        return
    assert reply.message.role == "assistant"
