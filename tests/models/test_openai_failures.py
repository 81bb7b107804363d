"""The client against a server that fails: what is tried again, how long it waits, what it says."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from chat_server import (
    Behaviour,
    ChatServer,
    CloseBeforeHeaders,
    CloseMidBody,
    NeverAnswer,
    NotHttp,
    Reply,
    completion_reply,
)

from awm.documents.image import PageImage
from awm.errors import (
    EndpointConnectionError,
    EndpointError,
    EndpointReplyError,
    EndpointStatusError,
    EndpointTimeoutError,
)
from awm.models.chat import Completion, ImageBlock, Message, ModelSettings, ToolCall, text_message
from awm.models.endpoint import MAX_REPLY_BYTES, InFlightLimit, parse_retry_after
from awm.models.openai import OpenAIModel, backoff_s

ASK = [text_message("user", "How much?")]
TOOLS = [{"type": "function", "function": {"name": "retrieve", "parameters": {"type": "object"}}}]
GARBAGE = {
    "html": b"<html><body>Welcome to nginx</body></html>",
    "empty": b"",
    "truncated": b'{"choices": [{"message": {"content": "4',
    "no choices": b'{"choices": []}',
    "a list": b"[1]",
    "null choice": b'{"choices": [null]}',
    "no message": b'{"choices": [{"text": "42"}]}',
    "number as content": b'{"choices": [{"message": {"content": 42}}]}',
    "calls of another form": b'{"choices": [{"message": {"tool_calls": ["x"]}}]}',
    "error": b'{"error": {"message": "model overloaded", "code": 502}}',
    "not utf-8": b"\xff\xfe\xff",
    "deeply nested": b"[" * 100_000,
}


class Waits:
    """Records the waits between tries, and waits for nothing."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def ask(
    server: ChatServer,
    waits: Waits | None = None,
    messages: list[Message] = ASK,
    tools: list[dict[str, Any]] | None = None,
    **fields: Any,
) -> Completion:
    settings = ModelSettings(spec=f"openai:m@{server.base_url}", **fields)
    model = OpenAIModel(settings, sleep=waits or Waits())
    try:
        return await model.complete(messages, tools=tools or [])
    finally:
        await model.aclose()


@pytest.mark.parametrize(
    "failure",
    [
        *(Reply(status=status) for status in (408, 409, 425, 429, 500, 502, 503, 529)),
        *(Reply(body) for body in GARBAGE.values()),
        Reply(GARBAGE["html"], content_type="text/html"),
        CloseBeforeHeaders(),
        CloseMidBody(),
        NotHttp(),
    ],
    ids=str,
)
async def test_what_may_pass_is_tried_again(failure: Behaviour) -> None:
    waits = Waits()
    async with ChatServer(failure, failure) as server:
        completion = await ask(server, waits)

    assert completion.message.text == "Answer: 42"
    assert completion.retries == 2
    assert len(server.requests) == 3
    assert len({request.raw for request in server.requests}) == 1
    assert 0 <= waits.seconds[0] <= 0.5
    assert 0 <= waits.seconds[1] <= 1.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 302])
async def test_a_refusal_is_not_tried_again_and_quotes_the_server(status: int) -> None:
    reply = Reply(b'{"error": "no model named m"}', status=status)
    async with ChatServer(reply) as server:
        with pytest.raises(EndpointStatusError, match="no model named m") as caught:
            await ask(server)

    assert caught.value.status == status
    assert f"answered {status} " in str(caught.value)
    assert server.base_url in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", GARBAGE)
async def test_a_200_that_is_no_completion_is_refused_and_quoted(name: str) -> None:
    async with ChatServer(default=Reply(GARBAGE[name])) as server:
        with pytest.raises(EndpointReplyError, match=r"\(after 3 tries\)") as caught:
            await ask(server, max_retries=2)

    start = GARBAGE[name][:20].decode("utf-8", "replace") or "nothing (an empty body)"
    assert start in str(caught.value)
    assert len(str(caught.value)) < 600


async def test_a_long_reply_is_quoted_up_to_300_characters() -> None:
    async with ChatServer(default=Reply(b"y" * 10_000)) as server:
        with pytest.raises(EndpointReplyError) as caught:
            await ask(server, max_retries=0)

    assert str(caught.value).count("y") in range(300, 310)


@pytest.mark.parametrize(
    ("failure", "error_type", "words"),
    [
        (Reply(b"busy", status=503), EndpointStatusError, "503 Service Unavailable.*'busy'"),
        (CloseBeforeHeaders(), EndpointConnectionError, "before it answered"),
        (CloseMidBody(), EndpointConnectionError, "in the middle of its answer"),
        (NotHttp(), EndpointConnectionError, "is not HTTP"),
        (NeverAnswer(), EndpointTimeoutError, "no whole answer within 0.05 s"),
        (Reply(delay_s=5.0), EndpointTimeoutError, "no whole answer"),
    ],
    ids=str,
)
async def test_after_the_last_try_the_matching_error_is_raised(
    failure: Behaviour, error_type: type[EndpointError], words: str
) -> None:
    async with ChatServer(default=failure) as server:
        with pytest.raises(error_type, match=words) as caught:
            await ask(server, max_retries=2, timeout_s=0.05)

    assert "(after 3 tries)" in str(caught.value)
    assert len(server.requests) == 3


async def test_a_timed_out_try_is_tried_again() -> None:
    async with ChatServer(NeverAnswer()) as server:
        completion = await ask(server, timeout_s=0.2)

    assert completion.retries == 1


async def test_a_refused_connection_asks_whether_the_server_runs() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    waits = Waits()
    model = OpenAIModel(ModelSettings(spec=f"openai:m@{base_url}", max_retries=2), sleep=waits)

    with pytest.raises(EndpointConnectionError, match="Is the server running there") as caught:
        await model.complete(ASK)
    with pytest.raises(EndpointConnectionError, match="Is the server running there"):
        await model.ping()
    await model.aclose()

    assert base_url in str(caught.value)
    assert len(waits.seconds) == 2


@pytest.mark.parametrize(
    ("value", "expected"), [("7", 7.0), ("1.5", 1.5), ("3600", 60.0), ("inf", 60.0)]
)
async def test_retry_after_in_seconds_is_honoured_up_to_a_minute(
    value: str, expected: float
) -> None:
    waits = Waits()
    async with ChatServer(Reply(status=429, headers={"Retry-After": value})) as server:
        await ask(server, waits)

    assert waits.seconds == [expected]


def test_retry_after_as_a_date_is_the_time_until_then() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=20), usegmt=True)

    wait_s = parse_retry_after({"Retry-After": soon})

    assert wait_s is not None
    assert 17 < wait_s <= 20
    assert parse_retry_after({"Retry-After": past}) == 0.0


@pytest.mark.parametrize("value", ["soon", "nan", "", "Thu, 99 Foo"])
def test_a_retry_after_without_meaning_is_ignored(value: str) -> None:
    assert parse_retry_after({"Retry-After": value}) is None


def test_the_limit_of_the_wait_doubles_up_to_30_seconds() -> None:
    for attempt, limit_s in ((0, 0.5), (1, 1.0), (3, 4.0), (6, 30.0), (60, 30.0)):
        waits = [backoff_s(attempt) for _ in range(400)]
        assert 0 <= min(waits) < limit_s / 4
        assert limit_s * 0.75 < max(waits) <= limit_s


async def test_a_wait_between_tries_holds_no_place() -> None:
    async with ChatServer(Reply(status=503)) as server:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def wait(seconds: float) -> None:
            waiting.set()
            await go_on.wait()

        settings = ModelSettings(spec=f"openai:m@{server.base_url}", max_in_flight=1)
        model = OpenAIModel(settings, sleep=wait)
        first = asyncio.create_task(model.complete(ASK))
        await waiting.wait()
        second = await model.complete(ASK)
        assert not first.done()
        go_on.set()
        assert (await first).retries == 1
        await model.aclose()

    assert second.retries == 0


async def test_a_400_with_images_in_tool_messages_points_to_tool_images() -> None:
    image = ImageBlock(PageImage("d", "image/png", 1, 1, b"x"), 1)
    messages = [
        *ASK,
        Message(role="assistant", tool_calls=(ToolCall("retrieve", "{}", "c1"),)),
        Message(role="tool", content=(image,), tool_call_id="c1"),
    ]
    refusal = Reply(b'{"error": "images are not allowed here"}', status=400)
    async with ChatServer(default=refusal) as server:
        with pytest.raises(EndpointStatusError, match='tool_images = "user"'):
            await ask(server, messages=messages)
        with pytest.raises(EndpointStatusError) as caught:
            await ask(server, messages=messages, tool_images="user")

    assert "tool_images" not in str(caught.value)


async def test_a_400_about_tools_points_to_text_calls_and_the_server_s_parser() -> None:
    refusal = Reply(b'"auto" tool choice requires --enable-auto-tool-choice', status=400)
    async with ChatServer(default=refusal) as server:
        with pytest.raises(EndpointStatusError, match=r'tool_format = "text".*hermes'):
            await ask(server, tools=TOOLS)
        with pytest.raises(EndpointStatusError) as caught:
            await ask(server, tools=TOOLS, tool_format="text")

    assert "hermes" not in str(caught.value)
    assert "tools" not in server.requests[1].body


async def test_a_reply_with_nan_and_half_a_surrogate_pair_is_read() -> None:
    body = (
        b'{"choices": [{"message": {"content": "a\\ud83d", "tool_calls": null}, '
        b'"logprobs": NaN, "finish_reason": "length"}]}'
    )
    async with ChatServer(Reply(body)) as server:
        completion = await ask(server)

    assert completion.message.text == "a\N{REPLACEMENT CHARACTER}"
    assert completion.finish_reason == "length"


async def test_an_answer_too_long_for_a_completion_is_cut_off() -> None:
    async with ChatServer(Reply(bytes(MAX_REPLY_BYTES + 1))) as server:
        with pytest.raises(EndpointReplyError, match="sent more than 67,108,864 bytes"):
            await ask(server)


async def test_a_place_given_to_a_cancelled_call_goes_to_the_next() -> None:
    limit = InFlightLimit(1)

    async def enter() -> None:
        async with limit:
            pass

    await limit.__aenter__()
    first, second = asyncio.create_task(enter()), asyncio.create_task(enter())
    await asyncio.sleep(0)
    await limit.__aexit__(None, None, None)  # admits the first, which has not run yet
    first.cancel()

    await asyncio.wait_for(second, timeout=1)
    assert first.cancelled()


async def test_unmeasured_usage_is_none_and_never_zero() -> None:
    message = {"role": "assistant", "content": "42"}
    odd = completion_reply(message, None, usage={"prompt_tokens": None, "completion_tokens": True})
    async with ChatServer(completion_reply(message), odd) as server:
        for _ in range(2):
            completion = await ask(server)
            assert completion.usage.prompt_tokens is None
            assert completion.usage.completion_tokens is None
