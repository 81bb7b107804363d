"""The client against a real server: spec, keys, what travels, what comes back."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import Any

import pytest
from chat_server import ChatServer, NeverAnswer, Reply, completion_reply, text_reply

from awm.documents.image import PageImage
from awm.errors import ConfigError, EndpointReplyError, EndpointStatusError
from awm.models.chat import ImageBlock, Message, ModelSettings, TextBlock, ToolCall, text_message
from awm.models.openai import OpenAIModel, parse_spec

SECRET = 'sk-live/abc+0123456789"xyz'
ASK = [text_message("user", "How much?")]
TOOLS = [{"type": "function", "function": {"name": "retrieve", "parameters": {"type": "object"}}}]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "AWM_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def settings_for(server: ChatServer, **fields: Any) -> ModelSettings:
    return ModelSettings(spec=f"openai:org/some:model@{server.base_url}", **fields)


def page_image(content: bytes) -> PageImage:
    return PageImage(hashlib.sha256(content).hexdigest(), "image/png", 10, 10, content)


async def test_a_completion_brings_text_usage_and_finish_reason() -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    reply = completion_reply({"role": "assistant", "content": "42"}, "stop", usage=usage)
    async with ChatServer(reply) as server:
        model = OpenAIModel(settings_for(server))

        completion = await model.complete(ASK)
        await model.aclose()

    assert completion.message == text_message("assistant", "42")
    assert completion.finish_reason == "stop"
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (11, 3)
    assert (completion.images_sent, completion.retries) == (0, 0)
    assert completion.latency_s > 0
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["content-type"] == "application/json"
    assert "authorization" not in request.headers
    assert request.body == {
        "model": "org/some:model",
        "messages": [{"role": "user", "content": "How much?"}],
    }


async def test_sampling_fields_tools_and_extra_body_travel_and_the_call_s_seed_wins() -> None:
    async with ChatServer() as server:
        model = OpenAIModel(
            settings_for(
                server, temperature=0.0, top_p=0.9, max_tokens=7, seed=1, extra_body={"top_p": 0.5}
            )
        )
        await model.complete(ASK, tools=TOOLS, seed=2)
        await model.complete(ASK)
        await model.aclose()

    first, second = (request.body for request in server.requests)
    del first["messages"], second["messages"]
    common = {"model": "org/some:model", "temperature": 0.0, "top_p": 0.5, "max_tokens": 7}
    assert first == {**common, "seed": 2, "tools": TOOLS}
    assert second == {**common, "seed": 1}


async def test_three_images_arrive_bit_identical_and_in_order() -> None:
    files = [bytes([i]) * n for i, n in ((1, 400_000), (2, 5), (3, 150_001))]
    blocks = [
        block
        for number, data in enumerate(files, start=1)
        for block in (TextBlock(f"page {number} of 3"), ImageBlock(page_image(data), number))
    ]
    async with ChatServer() as server:
        model = OpenAIModel(settings_for(server))
        for _ in range(2):  # the second call takes them from the cache
            completion = await model.complete([Message(role="user", content=tuple(blocks))])
            assert completion.images_sent == 3
        await model.aclose()

    for request in server.requests:
        assert request.images == files
        kinds = [part["type"] for part in request.messages[0]["content"]]
        assert kinds == ["text", "image_url"] * 3
        assert int(request.headers["content-length"]) == len(request.raw)


async def test_a_body_of_several_megabytes_raises_no_warning() -> None:
    image = ImageBlock(page_image(bytes(5_000_000)), 1)
    async with ChatServer() as server:
        model = OpenAIModel(settings_for(server))
        completion = await model.complete([Message(role="user", content=(image,))])
        await model.aclose()

    assert completion.images_sent == 1
    assert server.requests[0].images == [bytes(5_000_000)]


async def test_one_connection_serves_call_after_call() -> None:
    async with ChatServer() as server:
        model = OpenAIModel(settings_for(server))
        for _ in range(5):
            await model.complete(ASK)
        await model.aclose()

    assert server.n_connections == 1


async def test_two_models_of_one_base_url_share_the_smaller_limit() -> None:
    async with ChatServer(default=Reply(text_reply("42").body, delay_s=0.02)) as server:
        policy = OpenAIModel(settings_for(server, max_in_flight=3))
        spec = f"openai:reader@{server.base_url}/"
        reader = OpenAIModel(ModelSettings(spec=spec, max_in_flight=8))
        await asyncio.gather(*(m.complete(ASK) for m in (policy, reader) for _ in range(10)))
        await policy.aclose()
        shared = server.max_in_flight
        await asyncio.gather(*(reader.complete(ASK) for _ in range(20)))
        await reader.aclose()

    assert shared == 3
    assert server.max_in_flight == 8


async def test_a_cancelled_call_frees_its_place_and_leaves_no_connection() -> None:
    async with ChatServer(NeverAnswer()) as server:
        model = OpenAIModel(settings_for(server, max_in_flight=1))
        stuck = asyncio.create_task(model.complete(ASK))
        queued = asyncio.create_task(model.complete(ASK))
        while not server.requests:
            await asyncio.sleep(0.001)
        queued.cancel()
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stuck
        with pytest.raises(asyncio.CancelledError):
            await queued
        completion = await model.complete(ASK)
        await model.aclose()
        for _ in range(100):
            if not server.n_open_connections:
                break
            await asyncio.sleep(0.01)
        assert server.n_open_connections == 0

    assert completion.message.text == "Answer: 42"
    assert len(server.requests) == 2


async def test_a_closed_model_is_not_used_again() -> None:
    async with ChatServer() as server:
        model = OpenAIModel(settings_for(server))
        await model.aclose()
        await model.aclose()

        with pytest.raises(RuntimeError, match="was closed"):
            await model.complete(ASK)


def test_a_model_works_in_one_event_loop_after_another() -> None:
    async def ask(model: OpenAIModel) -> str:
        return (await model.complete(ASK)).message.text

    async def run() -> str:
        async with ChatServer() as server:
            model = OpenAIModel(settings_for(server))
            try:
                return await ask(model)
            finally:
                await model.aclose()

    assert [asyncio.run(run()) for _ in range(2)] == ["Answer: 42"] * 2


async def test_ping_lists_the_models() -> None:
    listing = json.dumps({"object": "list", "data": [{"id": "a"}, {"id": "b/c"}]}).encode()
    async with ChatServer(Reply(listing), text_reply("hello"), Reply(status=401)) as server:
        model = OpenAIModel(settings_for(server))
        assert await model.ping() == ["a", "b/c"]
        with pytest.raises(EndpointReplyError, match="does not list models"):
            await model.ping()
        with pytest.raises(EndpointStatusError, match="No key was sent: set AWM_API_KEY"):
            await model.ping()
        await model.aclose()

    assert {(r.method, r.path) for r in server.requests} == {("GET", "/v1/models")}


@pytest.mark.parametrize(
    ("spec", "model", "base_url"),
    [
        ("openai:gpt-4o", "gpt-4o", "https://api.openai.com/v1"),
        ("openai:a/b:c@d@http://h:1/v1", "a/b:c@d", "http://h:1/v1"),
        ("openai:m@https://h/", "m", "https://h"),
        ("openai:m@HTTP://LocalHost:8000/v1//", "m", "http://localhost:8000/v1"),
        ("openai:m@http://[::1]:8000/v1", "m", "http://[::1]:8000/v1"),
    ],
)
def test_a_spec_splits_at_the_last_address(spec: str, model: str, base_url: str) -> None:
    assert parse_spec(spec) == (model, base_url)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openia:m@http://user:hunter2@h/v1", "starts with 'openia', not with 'openai:'"),
        ("openai:", "names no model"),
        ("openai:@http://h/v1", "names no model"),
        ("openai:http://h/v1", "where the model's name should be"),
        ("openai:m@ftp://h/v1", "starts with http"),
        ("openai:m@http://", "no valid host"),
        ("openai:m@http://h:99999/v1", "cannot be used"),
        ("openai:m@http://h/v1?api-version=3", "holds a query"),
        ("openai:m@http://user:hunter2@h/v1", "USER:PASSWORD"),
        ("openai:m@https://hunter2@h/v1", "come only from the environment"),
        ("openai:m@http://user:hunter2@https://h/v1", "where the model's name should be"),
    ],
)
def test_an_unusable_spec_is_refused_without_quoting_a_password(spec: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        OpenAIModel(ModelSettings(spec=spec))

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["messages", "model", "seed", "stream"])
def test_extra_body_may_not_replace_what_awm_owns(name: str) -> None:
    with pytest.raises(ConfigError, match=f"may not hold '{name}'"):
        OpenAIModel(ModelSettings(spec="openai:m", extra_body={name: 1}))


def test_extra_body_must_be_json() -> None:
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        OpenAIModel(ModelSettings(spec="openai:m", extra_body={"x": object()}))


def test_a_missing_key_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'NO_SUCH_KEY' .* is not set or empty"):
        OpenAIModel(ModelSettings(spec="openai:m", api_key_env="NO_SUCH_KEY"))


def test_a_key_in_place_of_its_variable_is_not_quoted() -> None:
    with pytest.raises(ConfigError, match="not the name of an environment variable") as caught:
        OpenAIModel(ModelSettings(spec="openai:m", api_key_env=SECRET))

    assert SECRET not in str(caught.value)


def test_a_key_with_a_line_break_is_refused_unquoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWM_API_KEY", "sk-one\nsk-two")
    with pytest.raises(ConfigError, match="'AWM_API_KEY' holds spaces") as caught:
        OpenAIModel(ModelSettings(spec="openai:m"))

    assert "sk-" not in str(caught.value)


async def test_the_openai_key_never_goes_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    async with ChatServer() as server:
        for variable, expected in ((None, None), ("AWM_API_KEY", "a"), ("MY_KEY", "b")):
            if variable is not None and expected is not None:
                monkeypatch.setenv(variable, expected)
            named = "MY_KEY" if variable == "MY_KEY" else None
            model = OpenAIModel(settings_for(server, api_key_env=named))
            await model.complete(ASK)
            await model.aclose()

    sent = [request.headers.get("authorization") for request in server.requests]
    assert sent == [None, "Bearer a", "Bearer b"]


@pytest.mark.parametrize("status", [200, 302, 400, 401, 500])
async def test_a_key_that_the_server_echoes_reaches_no_error_log_or_repr(
    status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWM_API_KEY", SECRET)
    # The key stands across the cut after 300 characters, raw, in JSON and with escaped slashes.
    echo = json.dumps({"error": f"{'x' * 270} {SECRET} {SECRET}"}) + SECRET
    echo += json.dumps(SECRET).replace("/", "\\/")
    async with ChatServer(default=Reply(echo.encode(), status=status)) as server:
        model = OpenAIModel(settings_for(server, max_retries=1), sleep=no_sleep)
        with pytest.raises((EndpointStatusError, EndpointReplyError)) as caught:
            await model.complete(ASK)
        await model.aclose()

    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    said = " ".join((repr(caught.value), str(caught.value), repr(model), caplog.text))
    assert "0123456789" not in said
    assert "sk-live" not in said
    assert "[key]" in said
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


async def test_a_key_in_an_answer_is_taken_out_and_a_placeholder_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LONG", "sk-0123456789abcdef")
    monkeypatch.setenv("SHORT", "EMPTY")
    async with ChatServer(default=text_reply("EMPTY sk-0123456789abcdef")) as server:
        said = []
        for variable in ("LONG", "SHORT"):
            model = OpenAIModel(settings_for(server, api_key_env=variable))
            said.append((await model.complete(ASK)).message.text)
            await model.aclose()

    assert said == ["EMPTY [key]", "EMPTY sk-0123456789abcdef"]


async def test_calls_of_a_real_episode_round_trip() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "retrieve", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    image = ImageBlock(page_image(b"page"), 5)
    async with ChatServer(completion_reply(message, "tool_calls")) as server:
        model = OpenAIModel(settings_for(server))
        first = await model.complete(ASK, tools=TOOLS)
        observation = Message(
            role="tool", content=(TextBlock("page 5 of 30"), image), tool_call_id="c1"
        )
        second = await model.complete([*ASK, first.message, observation], tools=TOOLS)
        await model.aclose()

    assert first.message.tool_calls == (ToolCall("retrieve", "{}", "c1"),)
    assert first.finish_reason == "tool_calls"
    assert second.images_sent == 1
    assistant, tool = server.requests[1].messages[1:]
    assert assistant == message
    assert (tool["role"], tool["tool_call_id"]) == ("tool", "c1")
    assert tool["content"][0] == {"type": "text", "text": "page 5 of 30"}


async def no_sleep(seconds: float) -> None:
    """Wait for nothing."""


@pytest.mark.parametrize(
    "spec", ["openai:m@127.0.0.1:8000/v1", "openai:m@localhost", "openai:m@v2"]
)
def test_an_address_without_its_scheme_never_goes_to_openai(spec: str) -> None:
    with pytest.raises(ConfigError, match="no http:// or https:// behind it"):
        parse_spec(spec)
