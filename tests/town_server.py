"""A slow OpenAI-compatible server that answers the questions of `towns`, as a process of its own.

    python tests/town_server.py --delay-ms 30

Its replies and their delays depend on the request alone, so runs against it are repeatable: in
every four questions, one falls into each outcome cell. It prints its base URL. A wrong key is
thrown back in an error, as some proxies do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

PAGE = re.compile(r"page (\d+) of")
TOWN = re.compile(r"Townville(\d\d)")


def reply_message(body: dict[str, Any]) -> dict[str, Any]:
    """Play the agent where there are tools, else the reader."""
    text = json.dumps(body["messages"])
    i = int(TOWN.findall(text)[-1])
    if "tools" not in body:
        return {"role": "assistant", "content": str(100 + i if i % 4 in (0, 2) else 1)}
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn == 0:
        return call("retrieve", query=f"tower of Townville{i:02}")
    if turn == 1:
        finding = f"Townville{i:02} has a tower of {100 + i} metres."
        return call("update_memory", page=int(PAGE.findall(text)[0]), finding=finding)
    return {"role": "assistant", "content": str(100 + i if i % 4 in (0, 1) else 1)}


def call(name: str, **arguments: object) -> dict[str, Any]:
    """Make a message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def make_app(delay_s: float) -> web.Application:
    """Make the server's application."""

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        key = request.headers.get("Authorization", "")
        if "wrong" in key:
            return web.json_response({"error": {"message": f"bad key {key}"}}, status=401)
        # Half to one and a half times the delay, so that questions do not run in lockstep.
        await asyncio.sleep(delay_s * (0.5 + zlib.crc32(await request.read()) / 2**32))
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        choice = {"index": 0, "message": reply_message(body), "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": usage})

    app = web.Application(client_max_size=2**28)
    app.add_routes([web.post("/v1/chat/completions", complete)])
    return app


async def serve(delay_s: float) -> None:
    """Serve on a free port until the process is ended."""
    runner = web.AppRunner(make_app(delay_s))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}/v1\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@contextlib.contextmanager
def town_server(delay_ms: float) -> Iterator[str]:
    """Start the server as a process, and give its base URL."""
    command = [sys.executable, str(Path(__file__)), "--delay-ms", str(delay_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=30.0)
    asyncio.run(serve(parser.parse_args().delay_ms / 1000))
