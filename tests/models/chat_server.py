"""A real chat server on loopback that behaves as it is told, and records what it was sent.

    async with ChatServer(Reply(status=503), text_reply("42")) as server:
        model = OpenAIModel(ModelSettings(spec=f"openai:m@{server.base_url}"))

Each request takes the next behaviour of the script; after the last one, `default` answers.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class NotHttp:
    """Bytes where an HTTP answer should be."""

    data: bytes = b"SSH-2.0-OpenSSH_9.6\r\n\r\n"


@dataclass(frozen=True, slots=True)
class CloseBeforeHeaders:
    """The connection closes once the request is read."""


@dataclass(frozen=True, slots=True)
class CloseMidBody:
    """The connection closes when half of the announced body is sent."""

    body: bytes = b'{"choices": [{"message": {"content": "42"}}]}'


@dataclass(frozen=True, slots=True)
class NeverAnswer:
    """The request is read, and nothing comes back."""


Behaviour = Reply | NotHttp | CloseBeforeHeaders | CloseMidBody | NeverAnswer


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The parsed JSON body."""
        parsed = json.loads(self.raw)
        assert isinstance(parsed, dict)
        return parsed

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as it was sent."""
        messages = self.body["messages"]
        assert isinstance(messages, list)
        return messages

    @property
    def images(self) -> list[bytes]:
        """The files of all images, in the order of the conversation."""
        parts = [
            part
            for message in self.messages
            if isinstance(message["content"], list)
            for part in message["content"]
        ]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        return [base64.b64decode(url.split(";base64,", 1)[1], validate=True) for url in urls]


def completion_reply(
    message: dict[str, Any], finish_reason: str | None = "stop", **more: Any
) -> Reply:
    """Make the answer that holds one message; `more` are further fields of the completion."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return Reply(json.dumps({"object": "chat.completion", "choices": [choice], **more}).encode())


def text_reply(text: str) -> Reply:
    """Make the answer of an assistant that says `text`."""
    return completion_reply({"role": "assistant", "content": text})


class ChatServer:
    """A server for one test; use it as an async context manager.

    Args:
        script: what the first requests get, one behaviour each.
        default: what every further request gets.
    """

    def __init__(self, *script: Behaviour, default: Behaviour | None = None) -> None:
        self.requests: list[RecordedRequest] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self.n_connections = 0
        self._script = list(script)
        self._default = default or text_reply("Answer: 42")
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """What stands in a model spec."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def n_open_connections(self) -> int:
        """Connections that the client holds open now."""
        return len(self._connections)

    async def __aenter__(self) -> ChatServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**20)
        self._port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.n_connections += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away
        except asyncio.CancelledError:
            pass  # the test is over; asyncio's stream callback would log the cancellation
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; tell whether the connection stays open."""
        request = await _read_request(reader)
        self.requests.append(request)
        behaviour = self._script.pop(0) if self._script else self._default
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            match behaviour:
                case Reply():
                    await asyncio.sleep(behaviour.delay_s)
                    writer.write(_head(behaviour, len(behaviour.body)) + behaviour.body)
                case NotHttp():
                    writer.write(behaviour.data)
                case CloseMidBody(body):
                    writer.write(_head(Reply(), len(body)) + body[: len(body) // 2])
                case NeverAnswer():
                    await reader.read()  # until the client gives up
                case CloseBeforeHeaders():
                    pass
            await writer.drain()
        finally:
            self.in_flight -= 1
        return isinstance(behaviour, Reply)


async def _read_request(reader: asyncio.StreamReader) -> RecordedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.rstrip().split("\r\n")
    method, path, _ = request_line.split(" ")
    headers = {
        name.lower(): value for name, value in (line.split(": ", maxsplit=1) for line in lines)
    }
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return RecordedRequest(method, path, headers, raw)


def _head(reply: Reply, n_bytes: int) -> bytes:
    headers = {"Content-Type": reply.content_type, "Content-Length": str(n_bytes), **reply.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {reply.status} Scripted\r\n{lines}\r\n".encode()
