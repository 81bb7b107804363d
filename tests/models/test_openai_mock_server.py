"""The benchmark's mock server, driven by the client through one episode."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from awm.documents.image import PageImage
from awm.models.chat import ImageBlock, Message, ModelSettings, TextBlock, text_message
from awm.models.openai import OpenAIModel

SCRIPT = Path(__file__).parents[2] / "bench" / "mock_server.py"
TOOLS = [{"type": "function", "function": {"name": "retrieve", "parameters": {"type": "object"}}}]


@pytest.fixture
def base_url() -> Iterator[str]:
    command = [sys.executable, str(SCRIPT), "--port", "0", "--delay-ms", "1", "--turns", "5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.search(r"http://\S+", server.stdout.readline())
            assert ready is not None
            yield ready[0]
        finally:
            server.terminate()


async def test_the_mock_server_plays_an_episode_that_cites_shown_pages(base_url: str) -> None:
    model = OpenAIModel(ModelSettings(spec=f"openai:mock@{base_url}"))
    messages = [text_message("user", "How much?")]
    calls = []
    for turn in range(5):
        completion = await model.complete(messages, tools=TOOLS)
        messages.append(completion.message)
        for call in completion.message.tool_calls:
            calls.append((call.name, json.loads(call.arguments)))
            page = ImageBlock(PageImage(str(turn), "image/jpeg", 1, 1, bytes(300_000)), 7 + turn)
            shown = (TextBlock(f"page {7 + turn} of 30"), page) if turn % 2 == 0 else ()
            messages.append(
                Message(role="tool", content=(TextBlock("Done."), *shown), tool_call_id=call.id)
            )
    assert await model.ping() == ["mock"]
    extract = 'Write "Extracted answer: …". The analysis says 42.'
    extracted = await model.complete([text_message("user", extract)])
    await model.aclose()

    assert [name for name, _ in calls] == ["retrieve", "update_memory"] * 2
    assert [arguments["page"] for _, arguments in calls[1::2]] == [7, 9]
    assert messages[-1].text == "Answer: 42"
    assert extracted.message.text == "Extracted answer: 42\nAnswer format: Int"


async def test_the_mock_server_counts_and_resets(base_url: str) -> None:
    root = base_url.removesuffix("/v1")
    model = OpenAIModel(ModelSettings(spec=f"openai:mock@{base_url}"))
    await model.complete([text_message("user", "How much?")])
    await model.aclose()

    async with aiohttp.ClientSession() as session:
        before = await (await session.get(f"{root}/stats")).json()
        await session.post(f"{root}/reset")
        after = await (await session.get(f"{root}/stats")).json()

    assert (before["calls"], before["in_flight"], before["max_in_flight"]) == (1, 0, 1)
    assert (after["calls"], after["max_in_flight"]) == (0, 0)
