"""The scripted model replays its file, whatever the order of questions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from awm.documents.image import PageImage
from awm.errors import ConfigError, EndpointReplyError, EndpointTimeoutError
from awm.models.build import build_model
from awm.models.chat import (
    ImageBlock,
    Message,
    ModelSettings,
    TextBlock,
    ToolCall,
    text_message,
)
from awm.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply


def ask(text: str, n_turns: int = 0) -> list[Message]:
    """Make a conversation that had `n_turns` assistant turns."""
    return [
        text_message("system", "Which city is not matched here."),
        text_message("user", text),
        *(text_message("assistant", "…") for _ in range(n_turns)),
    ]


def from_file(path: Path, content: str | bytes) -> ScriptedModel:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ScriptedModel.from_settings(ModelSettings(spec=f"scripted:{path}"))


async def test_the_number_of_assistant_turns_says_which_reply_is_next() -> None:
    model = ScriptedModel([Script(replies=("one", "two"))])

    assert (await model.complete(ask("x", 1))).message.text == "two"
    assert (await model.complete(ask("x", 0))).message.text == "one"
    assert (await model.complete(ask("x", 1))).message.text == "two"


async def test_the_first_script_that_matches_the_first_user_message_replies() -> None:
    model = ScriptedModel(
        [
            Script(match="Which city", replies=("Oslo",)),
            Script(match="Which", replies=("Norway",)),
            Script(replies=("any",)),
        ]
    )

    assert (await model.complete(ask("Which city?"))).message.text == "Oslo"
    assert (await model.complete(ask("Which land?"))).message.text == "Norway"
    assert (await model.complete(ask("Who?"))).message.text == "any"
    later = [*ask("Who?"), text_message("user", "Which city?")]
    assert (await model.complete(later)).message.text == "any"


async def test_a_script_that_is_used_up_fails_as_an_endpoint_would() -> None:
    model = ScriptedModel([Script(match="x", replies=("one",))])

    with pytest.raises(EndpointReplyError, match="for 'x' has 1 replies, and turn 2"):
        await model.complete(ask("x", 1))


async def test_the_last_reply_can_repeat() -> None:
    model = ScriptedModel([Script(replies=("one", "two"), repeat_last=True)])

    assert (await model.complete(ask("x", 9))).message.text == "two"


async def test_a_script_without_replies_fails() -> None:
    with pytest.raises(EndpointReplyError, match="has 0 replies"):
        await ScriptedModel([Script(replies=(), repeat_last=True)]).complete(ask("x"))


async def test_a_conversation_that_no_script_matches_fails() -> None:
    model = ScriptedModel([Script(match="y", replies=("one",))])

    with pytest.raises(EndpointReplyError, match="no script matches the conversation: 'x'"):
        await model.complete(ask("x"))
    with pytest.raises(EndpointReplyError, match="no script matches"):
        await ScriptedModel([]).complete([])


async def test_a_reply_carries_calls_reasoning_and_finish_reason() -> None:
    calls = (ScriptedCall(name="retrieve", arguments="{broken", id="c0"),)
    model = ScriptedModel(
        [
            Script(
                replies=(
                    ScriptedReply(tool_calls=calls, reasoning="hm"),
                    ScriptedReply(content="cut", finish_reason="length"),
                    ScriptedReply(content=""),
                )
            )
        ]
    )

    first = await model.complete(ask("x"))
    assert first.message == Message(
        "assistant", tool_calls=(ToolCall("retrieve", "{broken", "c0"),), reasoning="hm"
    )
    assert first.finish_reason == "tool_calls"
    second = await model.complete(ask("x", 1))
    assert (second.message.text, second.finish_reason) == ("cut", "length")
    third = await model.complete(ask("x", 2))
    assert (third.message.content, third.finish_reason) == ((TextBlock(""),), "stop")


async def test_scripted_errors_are_an_endpoint_s_errors() -> None:
    model = ScriptedModel(
        [Script(replies=(ScriptedReply(error="timeout"), ScriptedReply(error="garbage")))]
    )

    with pytest.raises(EndpointTimeoutError, match="scripted timeout"):
        await model.complete(ask("x"))
    with pytest.raises(EndpointReplyError, match="scripted garbage"):
        await model.complete(ask("x", 1))


async def test_a_delayed_reply_lets_others_go_first() -> None:
    model = ScriptedModel(
        [
            Script(match="slow", replies=(ScriptedReply(content="slow", delay_s=0.05),)),
            Script(replies=("fast",)),
        ]
    )
    order: list[str] = []

    async def run(text: str) -> None:
        order.append((await model.complete(ask(text))).message.text)

    await asyncio.gather(run("slow"), run("quick"))

    assert order == ["fast", "slow"]


async def test_conversations_and_their_images_are_recorded() -> None:
    model = ScriptedModel([Script(replies=("one",))])
    image = ImageBlock(PageImage("ab", "image/png", 1, 1, b"x"), page_number=3)
    messages = [Message("user", (TextBlock("x"), image, image))]

    completion = await model.complete(messages)
    messages.append(completion.message)

    assert completion.images_sent == 2
    assert model.conversations == [(Message("user", (TextBlock("x"), image, image)),)]


async def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    model = from_file(
        tmp_path / "agent.jsonl",
        '{"match": "Which", "replies": ["a\u2028b\x85c"]}\r\n'
        "\n"
        '{"replies": [{"tool_calls": [{"name": "retrieve", "arguments": "Infinity"}]}]}',
    )

    assert (await model.complete(ask("Which?"))).message.text == "a\u2028b\x85c"
    (call,) = (await model.complete(ask("Who?"))).message.tool_calls
    assert call == ToolCall("retrieve", "Infinity", None)
    await model.aclose()


def test_the_spec_of_the_settings_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "agent.jsonl"
    path.write_text('{"replies": ["x"]}', encoding="utf-8")
    settings = ModelSettings(spec=f"scripted:{path}")

    assert build_model(settings).settings == settings
    assert ScriptedModel([]).settings.spec == "scripted:"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"replies": ["x"]}\n{"replies": 5}', "line 2 is not a script"),
        ("nonsense", "line 1 is not a script"),
        ('{"replies": ["x"], "macth": "y"}', "macth"),
        ('{"replies": [{"error": "fire"}]}', "line 1 is not a script"),
        (b'{"replies": ["\xff"]}', "cannot read"),
    ],
)
def test_a_file_that_is_no_script_names_its_line(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_file(tmp_path / "agent.jsonl", content)


@pytest.mark.parametrize("name", ["absent.jsonl", ""])
def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        ScriptedModel.from_settings(ModelSettings(spec=f"scripted:{tmp_path / name}"))
