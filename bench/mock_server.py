"""A chat server on loopback that is never the bottleneck, and plays a whole AWM episode.

    python bench/mock_server.py --port 8931 --delay-ms 200 --turns 6

It speaks the HTTP/1.1 that benchmarks need: keep-alive, Content-Length, no chunked requests.
Bodies are scanned as they arrive and dropped, so a request of 600 kB costs microseconds.

`POST …/chat/completions` answers after the delay, by what the request holds:

- with `"tools"` and fewer than `turns - 1` assistant messages: `retrieve` and `update_memory` in
  turn, as structured calls; the finding cites the page shown last ("page 5 of 30");
- else "Answer: 42", or the extractor's form where the request asks for "Extracted answer".

`GET …/models` lists one model, `GET /stats` gives the counts, `POST /reset` sets them to zero.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import resource
import socket
from dataclasses import asdict, dataclass
from typing import Any, cast

import uvloop

BUFFER_BYTES = 2**20
IMAGE_MARKER = b";base64,"
EXTRACTOR_SCAN_BYTES = 4096
QUERIES = ("total revenue by segment", "figure with the trend", "table of results", "conclusion")

_CONTENT_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_ASSISTANT = re.compile(rb'"role":\s*"assistant"')
_PAGE = re.compile(rb"age (\d{1,6}) of")
_FINAL = {"role": "assistant", "content": "Answer: 42"}
_EXTRACTED = {"role": "assistant", "content": "Extracted answer: 42\nAnswer format: Int"}


@dataclass(slots=True)
class Stats:
    """What the server has seen since it started or was reset."""

    calls: int = 0
    tool_calls: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    received_bytes: int = 0
    connections: int = 0


def http_reply(document: dict[str, Any], status: str = "200 OK") -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def completion(message: dict[str, Any], finish_reason: str) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 1000, "completion_tokens": 12, "total_tokens": 1012}
    return http_reply(
        {
            "id": "chatcmpl-mock",
            "object": "chat.completion",
            "created": 0,
            "model": "mock",
            "choices": [choice],
            "usage": usage,
        }
    )


def tool_calls(turn: int, *calls: tuple[str, dict[str, Any]]) -> bytes:
    written = [
        {
            "id": f"call_{turn}_{k}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for k, (name, arguments) in enumerate(calls)
    ]
    return completion({"role": "assistant", "content": None, "tool_calls": written}, "tool_calls")


class MockServer:
    """The script, the delay and the counts that all connections share."""

    def __init__(
        self, delay_s: float = 0.2, turns: int = 6, save_and_retrieve: bool = False
    ) -> None:
        self.delay_s = delay_s
        self.turns = turns
        self.save_and_retrieve = save_and_retrieve
        self.stats = Stats()
        self._final = completion(_FINAL, "stop")
        self._extracted = completion(_EXTRACTED, "stop")
        self._models = http_reply({"object": "list", "data": [{"id": "mock", "object": "model"}]})

    def reset(self) -> None:
        """Set the counts to zero; calls and connections that are open stay counted as open."""
        self.stats = Stats(in_flight=self.stats.in_flight)

    def describe(self) -> bytes:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return http_reply({**asdict(self.stats), "cpu_s": usage.ru_utime + usage.ru_stime})

    def choose_reply(self, scan: BodyScan) -> bytes:
        turn = scan.n_assistant if scan.has_tools else self.turns
        if turn < self.turns - 1:
            self.stats.tool_calls += 1
            return tool_calls(turn, *self._choose_calls(turn, scan.page))
        return self._extracted if scan.is_extraction else self._final

    def _choose_calls(self, turn: int, page: int) -> list[tuple[str, dict[str, Any]]]:
        """Alternate the two tools; or save and retrieve in one turn, for a long history."""
        query = QUERIES[turn // 2 % len(QUERIES)]
        retrieve: tuple[str, dict[str, Any]] = ("retrieve", {"query": query})
        finding = f"The value read on turn {turn} is 42."
        save: tuple[str, dict[str, Any]] = ("update_memory", {"page": page, "finding": finding})
        if not self.save_and_retrieve:
            return [retrieve if turn % 2 == 0 else save]
        if turn == 0:
            return [retrieve]
        return [save] if turn == self.turns - 2 else [save, retrieve]


class BodyScan:
    """The text of a body that arrives in chunks, without the images in it.

    Images are skipped with a search for the quote that ends them, so their bytes are looked at
    once and never copied.
    """

    __slots__ = ("_in_image", "_text")

    def __init__(self) -> None:
        self._in_image = False
        self._text = bytearray()

    def feed(self, chunk: bytearray, start: int, end: int) -> None:
        """Take in `chunk[start:end]`."""
        if not self._in_image:
            start = self._close_split_marker(chunk, start, end)
        while start < end:
            if self._in_image:
                start = chunk.find(b'"', start, end)
                if start < 0:
                    return
                self._in_image = False
            marker = chunk.find(IMAGE_MARKER, start, end)
            if marker < 0:
                self._text += chunk[start:end]
                return
            self._text += chunk[start:marker]
            self._in_image = True
            start = marker + len(IMAGE_MARKER)

    def _close_split_marker(self, chunk: bytearray, start: int, end: int) -> int:
        """Find a marker that began in the chunk before; give where to go on."""
        n = len(IMAGE_MARKER) - 1
        kept = self._text[-n:]
        found = (kept + chunk[start : min(start + n, end)]).find(IMAGE_MARKER)
        if found < 0:
            return start
        self._in_image = True
        return start + found + len(IMAGE_MARKER) - len(kept)

    @property
    def has_tools(self) -> bool:
        return b'"tools":' in self._text

    @property
    def is_extraction(self) -> bool:
        return b"Extracted answer" in self._text[:EXTRACTOR_SCAN_BYTES]

    @property
    def n_assistant(self) -> int:
        return len(_ASSISTANT.findall(self._text))

    @property
    def page(self) -> int:
        """The page named last, 1-based; 1 where none is named."""
        pages = _PAGE.findall(self._text)
        return int(pages[-1]) if pages else 1


class Connection(asyncio.BufferedProtocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, server: MockServer) -> None:
        self._server = server
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._head = bytearray()
        self._target = b""
        self._missing_bytes: int | None = None
        self._scan = BodyScan()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.stats.connections += 1
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._server.stats.received_bytes += nbytes
        start = 0
        if self._missing_bytes is None:
            n_known = len(self._head)
            self._head += self._view[:nbytes]
            n_head = self._head.find(b"\r\n\r\n")
            if n_head < 0:
                return
            self._target = bytes(self._head[:n_head]).split(b" ", 2)[1]
            length = _CONTENT_LENGTH.search(self._head, 0, n_head)
            self._missing_bytes = int(length[1]) if length else 0
            self._scan = BodyScan()
            self._head = bytearray()
            start = n_head + 4 - n_known
        self._missing_bytes -= nbytes - start
        self._scan.feed(self._buffer, start, nbytes)
        if self._missing_bytes <= 0:
            self._missing_bytes = None
            self._answer()

    def _answer(self) -> None:
        server = self._server
        if self._target.endswith(b"/chat/completions"):
            stats = server.stats
            stats.calls += 1
            stats.in_flight += 1
            stats.max_in_flight = max(stats.max_in_flight, stats.in_flight)
            loop = asyncio.get_running_loop()
            loop.call_later(server.delay_s, self._complete, server.choose_reply(self._scan))
        elif self._target.endswith(b"/stats"):
            self._transport.write(server.describe())
        elif self._target.endswith(b"/reset"):
            server.reset()
            self._transport.write(http_reply({}))
        elif self._target.endswith(b"/models"):
            self._transport.write(server._models)
        else:
            self._transport.write(http_reply({"error": "no such path"}, "404 Not Found"))

    def _complete(self, reply: bytes) -> None:
        self._server.stats.in_flight -= 1
        if not self._transport.is_closing():
            self._transport.write(reply)


async def serve(port: int, mock: MockServer) -> None:
    """Serve until cancelled."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(mock), "127.0.0.1", port, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(f"ready on http://127.0.0.1:{port}/v1", flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description="A mock chat server for benchmarks.")
    parser.add_argument("--port", type=int, default=8931, help="0: any free port")
    parser.add_argument("--delay-ms", type=float, default=200.0)
    parser.add_argument("--turns", type=int, default=6, help="assistant turns of an episode")
    parser.add_argument(
        "--save-and-retrieve",
        action="store_true",
        help="both calls in one turn: with 6 turns the requests carry 0, 3, 6, 9, 12, 12 images",
    )
    arguments = parser.parse_args()
    mock = MockServer(
        delay_s=arguments.delay_ms / 1000,
        turns=arguments.turns,
        save_and_retrieve=arguments.save_and_retrieve,
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(arguments.port, mock))


if __name__ == "__main__":
    main()
