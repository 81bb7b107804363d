"""One model server: its connections, the limit of calls under way, and single tries over HTTP.

Every model of a base URL shares one `Endpoint` per running event loop, so that a policy, a reader
and an extractor on the same server respect one limit together. Where models ask for different
limits, the smallest holds.

A try never raises for what the server or the network did: it gives a `Failure`, from which the
caller raises after the last retry. That also cuts the exception chain on purpose, because the
exceptions of the HTTP library carry the request's headers, and with them the key.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from awm.errors import (
    ConfigError,
    EndpointConnectionError,
    EndpointError,
    EndpointReplyError,
    EndpointTimeoutError,
)

KEEPALIVE_S = 4.0
"""Idle connections are dropped before the server drops them (uvicorn: after 5 s), so that no
request is sent into a connection that is just closing."""
MAX_REPLY_BYTES = 64 * 2**20
"""A longer reply is refused rather than read: it is not a chat completion."""
MAX_RETRY_AFTER_S = 60.0
"""The longest wait that a server may ask for with Retry-After."""
QUOTED_CHARACTERS = 300
"""How much of a server's words stands in an error."""
_MIN_CHARACTERS_OF_A_REAL_KEY = 16
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


class ApiKey:
    """A key that shows in no repr, and that can be taken out of what a server says.

    Args:
        value: the key; None: no key is sent.
        variable: the environment variable it came from.
    """

    __slots__ = ("_forms", "_value", "variable")

    def __init__(self, value: str | None = None, variable: str | None = None) -> None:
        if value is not None and not re.fullmatch(r"[\x21-\x7e]+", value):
            raise ConfigError(
                f"The key in the environment variable {variable!r} holds spaces, control or "
                "non-ASCII characters, which no key does. Set the variable again."
            )
        self.variable = variable
        self._value = value
        # A server may echo the key as it stands or inside JSON, with or without escaped slashes.
        escaped = (value or "").replace("\\", "\\\\").replace('"', '\\"')
        forms = {value or "", escaped, escaped.replace("/", "\\/")} - {""}
        self._forms = sorted(forms, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"ApiKey(variable={self.variable!r})"

    @property
    def headers(self) -> dict[str, str]:
        """What authorises a request; empty without a key."""
        return {} if self._value is None else {"Authorization": f"Bearer {self._value}"}

    def scrub(self, text: str) -> str:
        """Give `text` without the key."""
        for form in self._forms:
            text = text.replace(form, "[key]")
        return text

    def scrub_reply(self, body: bytes) -> bytes:
        """Give a reply without the key, so that it reaches no record.

        Placeholders such as "EMPTY" are words that an answer may hold: they stay.
        """
        if self._value is None or len(self._value) < _MIN_CHARACTERS_OF_A_REAL_KEY:
            return body
        for form in self._forms:
            body = body.replace(form.encode(), b"[key]")
        return body

    def quote(self, body: bytes) -> str:
        """Give the start of a server's words on one line, without the key."""
        # Scrub before cutting: a key cut in half would no longer be found.
        text = " ".join(self.scrub(body.decode("utf-8", errors="replace")).split())
        if not text:
            return "nothing (an empty body)"
        ellipsis = "…" if len(text) > QUOTED_CHARACTERS else ""
        return repr(text[:QUOTED_CHARACTERS] + ellipsis)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole answer of a server, whatever its status."""

    status: int
    reason: str
    body: bytes
    latency_s: float
    """From sending the request to the last byte of the answer."""
    retry_after_s: float | None
    """What the server asks for, at most `MAX_RETRY_AFTER_S`; None where it does not."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that gave no usable answer."""

    message: str
    error_type: Callable[[str], EndpointError]
    may_pass: bool
    """Whether another try can help."""
    retry_after_s: float | None = None


class InFlightLimit:
    """First come, first served permission for `size` calls at once; the size may change.

    Use it as an async context manager.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def resize(self, size: int) -> None:
        """Change the number of calls that may be under way; those that are go on."""
        self._size = size
        self._admit()

    async def __aenter__(self) -> None:
        if self._in_use < self._size and not self._waiting:
            self._in_use += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled after being admitted: the place goes to the next one.
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._in_use -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._in_use < self._size:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)


class _Fragments(Payload):
    """A request body in pieces, written with a Content-Length and never joined."""

    _value: Sequence[bytes]

    def __init__(self, fragments: Sequence[bytes]) -> None:
        super().__init__(fragments, content_type="application/json")
        self._size = sum(map(len, fragments))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for fragment in self._value:
            await writer.write(fragment)


class Endpoint:
    """The connections to one base URL within one event loop. Made by `open_endpoint`."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.limit = InFlightLimit(1)
        self._sizes: list[int] = []
        self._session = aiohttp.ClientSession(
            # The in-flight limit counts calls, so the pool need not count connections as well.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "awm", "Accept": "application/json"},
        )

    def join(self, max_in_flight: int) -> None:
        """Note one more model on this endpoint, and the limit it asks for."""
        self._sizes.append(max_in_flight)
        self.limit.resize(min(self._sizes))

    async def leave(self, max_in_flight: int) -> None:
        """Note that a model is done with the endpoint; the last one closes the connections."""
        self._sizes.remove(max_in_flight)
        if self._sizes:
            self.limit.resize(min(self._sizes))
            return
        _endpoints.pop((asyncio.get_running_loop(), self.base_url), None)
        await self._session.close()

    async def try_once(
        self,
        method: str,
        path: str,
        *,
        key: ApiKey,
        timeout_s: float,
        fragments: Sequence[bytes] = (),
    ) -> HttpReply | Failure:
        """Send one request and read the whole answer; the caller holds the limit."""
        url = URL(f"{self.base_url}/{path}", encoded=True)
        body = _Fragments(fragments) if fragments else None
        started_s = time.perf_counter()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.request(
                    method, url, data=body, headers=key.headers, allow_redirects=False
                ) as response,
            ):
                content = await _read_reply(response)
        except TimeoutError:
            return Failure(
                f"{self.base_url} gave no whole answer within {timeout_s:g} s. Raise timeout_s, "
                "or lower max_in_flight if the server is overloaded.",
                EndpointTimeoutError,
                may_pass=True,
            )
        except (aiohttp.ClientError, OSError) as error:
            n_bytes = body.size or 0 if body is not None else 0
            return _connection_failure(self.base_url, error, n_bytes, key)
        if content is None:
            return Failure(
                f"{self.base_url} sent more than {MAX_REPLY_BYTES:,} bytes, which is no chat "
                "completion. Check the base URL.",
                EndpointReplyError,
                may_pass=False,
            )
        return HttpReply(
            status=response.status,
            reason=_reason(response.status),
            body=key.scrub_reply(content),
            latency_s=time.perf_counter() - started_s,
            retry_after_s=parse_retry_after(response.headers),
        )


_endpoints: dict[tuple[asyncio.AbstractEventLoop, str], Endpoint] = {}


def open_endpoint(base_url: str, max_in_flight: int) -> Endpoint:
    """Give the running loop's endpoint of `base_url`; every call is paired with one `leave`."""
    for stale in [place for place in _endpoints if place[0].is_closed()]:
        del _endpoints[stale]
    place = (asyncio.get_running_loop(), base_url)
    endpoint = _endpoints.get(place)
    if endpoint is None:
        endpoint = _endpoints[place] = Endpoint(base_url)
    endpoint.join(max_in_flight)
    return endpoint


def is_transient(status: int) -> bool:
    """Tell whether the same request may succeed later."""
    return status in _TRANSIENT_STATUSES or status >= 500


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Give the wait that a server asks for, in [0, `MAX_RETRY_AFTER_S`]; None: it asks for none.

    >>> parse_retry_after({"Retry-After": "7"})
    7.0
    >>> parse_retry_after({"Retry-After": "soon"}) is None
    True
    """
    value = headers.get("Retry-After", "").strip()
    try:
        wait_s = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError, IndexError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        wait_s = (moment - datetime.now(UTC)).total_seconds()
    if math.isnan(wait_s):
        return None
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


async def _read_reply(response: aiohttp.ClientResponse) -> bytes | None:
    """Read the whole body; None where it is longer than `MAX_REPLY_BYTES`."""
    chunks: list[bytes] = []
    n_bytes = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        n_bytes += len(chunk)
        if n_bytes > MAX_REPLY_BYTES:
            response.close()
            return None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _reason(status: int) -> str:
    """Give our own words for a status; the server's could say anything."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def _connection_failure(base_url: str, error: Exception, n_bytes: int, key: ApiKey) -> Failure:
    """Say what broke below HTTP, and what to do about it."""
    may_pass = True
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            what = (
                f"The TLS connection to {base_url} failed. Check that it is an https address "
                "and that its certificate is valid"
            )
            may_pass = not isinstance(error, aiohttp.ClientConnectorCertificateError)
        case aiohttp.ClientConnectorDNSError():
            what = f"The host of {base_url} was not found. Check the base URL and the network"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            what = f"The connection to {base_url} was refused. Is the server running there"
        case aiohttp.ClientConnectorError():
            what = f"No connection to {base_url}. Check the base URL and the network"
        case aiohttp.ClientResponseError():
            what = f"What {base_url} sent is not HTTP. Check the scheme and the port"
        case aiohttp.ClientPayloadError():
            what = f"{base_url} closed the connection in the middle of its answer"
        case _:
            what = (
                f"{base_url} closed the connection before it answered a request of "
                f"{n_bytes:,} bytes. Read the server's log; it may have stopped, or refuse "
                "requests of this size"
            )
    mark = "?" if "Is the server" in what else "."
    # Only the first line, and never the repr: it shows the request's headers.
    detail = key.scrub(" ".join(str(error).split()))[:QUOTED_CHARACTERS]
    cause = f" ({type(error).__name__}: {detail})" if detail else f" ({type(error).__name__})"
    return Failure(f"{what}{mark}{cause}", EndpointConnectionError, may_pass=may_pass)
