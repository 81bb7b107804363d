"""Models behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI and others.

The key comes from the environment only: the variable that `ModelSettings.api_key_env` names, else
`OPENAI_API_KEY` for api.openai.com alone, else `AWM_API_KEY`, else none. It is never written to an
error, a log or a repr.

A call is tried again after what may pass: a time-out, a broken connection, status 408, 409, 425,
429 and 5xx, and a 200 that is no chat completion. The wait is drawn uniformly from zero to an
exponentially growing limit, or is the server's Retry-After, and is spent outside the limit of
calls under way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson
from yarl import URL

from awm.errors import (
    ConfigError,
    EndpointReplyError,
    EndpointStatusError,
    MissingImageError,
)
from awm.models.chat import Completion, Message, ModelSettings, count_images
from awm.models.endpoint import (
    ApiKey,
    Endpoint,
    Failure,
    HttpReply,
    is_transient,
    open_endpoint,
)
from awm.models.reply import load_json, parse_reply
from awm.models.wire import IMAGE_CACHE_BYTES, ImageFragments, encode_messages, lay_out

OPENAI_BASE_URL = "https://api.openai.com/v1"
"""Where `openai:MODEL` goes."""
FIRST_BACKOFF_S = 0.5
"""Upper limit of the first wait; it doubles with every further try."""
MAX_BACKOFF_S = 30.0
"""Where the doubling ends."""
PING_TIMEOUT_S = 30.0
"""Longest wait of `OpenAIModel.ping`."""
_PREFIX = "openai:"
_OWN_FIELDS = {
    "messages": "the conversation is what the agent records",
    "model": "name the model in the spec",
    "seed": "set ModelSettings.seed, so that repeated samples differ",
    "stream": "replies are read whole",
}

logger = logging.getLogger(__name__)
_jitter = random.Random()


@dataclass(frozen=True, slots=True)
class _Request:
    """One call as it travels, and what its errors want to know."""

    fragments: tuple[bytes, ...]
    n_images: int
    has_tools: bool
    has_tool_images: bool


class OpenAIModel:
    """A `ChatModel` behind an OpenAI-compatible server.

    Args:
        settings: `spec` is `openai:MODEL@BASE_URL`, or `openai:MODEL` for api.openai.com. MODEL
            may hold "/", ":" and "@".
        sleep: waits the given seconds between two tries.
        image_cache_bytes: size of the encoded images kept.

    Raises:
        ConfigError: the spec, the key's variable or `extra_body` cannot be used.
    """

    def __init__(
        self,
        settings: ModelSettings,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        image_cache_bytes: int = IMAGE_CACHE_BYTES,
    ) -> None:
        self._settings = settings
        self._model, self._base_url = parse_spec(settings.spec)
        self._key = read_key(settings.api_key_env, self._base_url)
        self._images = ImageFragments(image_cache_bytes)
        self._sleep = sleep
        self._head = b'{"model":%b,"messages":' % orjson.dumps(self._model)
        self._fields = _sampling_fields(settings)
        self._endpoint: Endpoint | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"OpenAIModel(model={self._model!r}, base_url={self._base_url!r})"

    @property
    def settings(self) -> ModelSettings:
        """The settings it was made from."""
        return self._settings

    @property
    def base_url(self) -> str:
        """The server, without a trailing slash."""
        return self._base_url

    @property
    def model(self) -> str:
        """The model's name on the server."""
        return self._model

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        """Continue the conversation by one assistant turn.

        Raises:
            EndpointError: no usable answer after every retry.
            MissingImageError: the request would not have carried every image.
        """
        request = self._encode(messages, tools, seed)
        attempt = 0
        while True:
            outcome = await self._try(request)
            if isinstance(outcome, Completion):
                return replace(outcome, retries=attempt)
            if not outcome.may_pass or attempt >= self._settings.max_retries:
                tries = f" (after {attempt + 1} tries)" if attempt else ""
                raise outcome.error_type(outcome.message + tries)
            wait_s = outcome.retry_after_s or backoff_s(attempt)
            logger.warning("%s Trying again in %.1f s.", outcome.message, wait_s)
            await self._sleep(wait_s)
            attempt += 1

    async def ping(self) -> list[str]:
        """List the server's models, in one try: a clear failure before any work is done.

        Raises:
            EndpointError: the server does not answer, or does not list its models.
        """
        reply = await self._open().try_once(
            "GET",
            "models",
            key=self._key,
            timeout_s=min(self._settings.timeout_s, PING_TIMEOUT_S),
        )
        if isinstance(reply, HttpReply) and reply.status != 200:
            reply = self._status_failure(reply)
        if isinstance(reply, Failure):
            raise reply.error_type(reply.message)
        document = load_json(reply.body)
        listed = document.get("data") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise EndpointReplyError(
                f"{self._base_url}/models does not list models; the reply starts with "
                f"{self._key.quote(reply.body)}. Check the base URL: it usually ends in /v1."
            )
        names = [entry.get("id") for entry in listed if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str)]

    async def aclose(self) -> None:
        """Release connections. A closed model is not used again."""
        self._closed = True
        endpoint, self._endpoint = self._endpoint, None
        # The connections of a loop that is gone are gone with it.
        if endpoint is not None and self._loop is asyncio.get_running_loop():
            await endpoint.leave(self._settings.max_in_flight)

    def _open(self) -> Endpoint:
        if self._closed:
            raise RuntimeError(f"{self!r} was closed. Make a new model.")
        loop = asyncio.get_running_loop()
        if self._endpoint is None or self._loop is not loop:
            self._endpoint = open_endpoint(self._base_url, self._settings.max_in_flight)
            self._loop = loop
        return self._endpoint

    def _encode(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], seed: int | None
    ) -> _Request:
        settings = self._settings
        laid_out = lay_out(
            messages,
            tools=tools,
            tool_images=settings.tool_images,
            tool_format=settings.tool_format,
        )
        encoded = encode_messages(laid_out, self._images)
        n_expected = count_images(messages)
        if encoded.n_images != n_expected:
            raise MissingImageError(
                f"The conversation holds {n_expected} page images and the request "
                f"{encoded.n_images}. Nothing was sent; please report this as a bug of AWM."
            )
        fields = dict(self._fields)
        seed = settings.seed if seed is None else seed
        if seed is not None:
            fields["seed"] = seed
        has_tools = bool(tools) and settings.tool_format == "native"
        if has_tools:
            fields["tools"] = list(tools)
        fields |= settings.extra_body
        first, *rest = encoded.fragments
        tail = b"," + orjson.dumps(fields)[1:] if fields else b"}"
        if rest:
            fragments = (self._head + first, *rest[:-1], rest[-1] + tail)
        else:
            fragments = (self._head + first + tail,)
        return _Request(
            fragments=fragments,
            n_images=encoded.n_images,
            has_tools=has_tools,
            has_tool_images=any(m.role == "tool" and m.images for m in laid_out),
        )

    async def _try(self, request: _Request) -> Completion | Failure:
        endpoint = self._open()
        async with endpoint.limit:
            reply = await endpoint.try_once(
                "POST",
                "chat/completions",
                key=self._key,
                timeout_s=self._settings.timeout_s,
                fragments=request.fragments,
            )
        if isinstance(reply, Failure):
            return reply
        if reply.status != 200:
            return self._status_failure(reply, request)
        try:
            parsed = parse_reply(reply.body, self._key.quote)
        except EndpointReplyError as error:
            return Failure(f"{self._base_url}: {error}.", EndpointReplyError, may_pass=True)
        return Completion(
            message=parsed.message,
            images_sent=request.n_images,
            finish_reason=parsed.finish_reason,
            usage=parsed.usage,
            latency_s=reply.latency_s,
        )

    def _status_failure(self, reply: HttpReply, request: _Request | None = None) -> Failure:
        words = self._key.quote(reply.body)
        hints = self._hints(reply, request)
        return Failure(
            f"{self._base_url} answered {reply.status} {reply.reason}. The server says: {words}."
            + "".join(f" {hint}" for hint in hints),
            partial(EndpointStatusError, status=reply.status),
            may_pass=is_transient(reply.status),
            retry_after_s=reply.retry_after_s,
        )

    def _hints(self, reply: HttpReply, request: _Request | None) -> list[str]:
        """Say what the person can do about a status."""
        hints = []
        is_refusal = reply.status in (400, 422, 500)
        if reply.status in (401, 403):
            hints.append(
                "No key was sent: set AWM_API_KEY, or api_key_env to the variable that holds it."
                if self._key.variable is None
                else f"The key came from the environment variable {self._key.variable!r}."
            )
        if 300 <= reply.status < 400:
            hints.append("Redirects are not followed; give the final base URL.")
        if reply.status == 404:
            hints.append("Check the model's name and the base URL, which usually ends in /v1.")
        if request is not None and is_refusal and request.has_tool_images:
            hints.append(
                "The request has images in tool messages; if the server takes none there, set "
                'tool_images = "user".'
            )
        if request is not None and is_refusal and request.has_tools and b"tool" in reply.body:
            hints.append(
                'If the server has no tool parser, set tool_format = "text", or start vLLM with '
                "--enable-auto-tool-choice --tool-call-parser hermes (llama.cpp: --jinja)."
            )
        return hints


def backoff_s(attempt: int) -> float:
    """Draw the wait after try `attempt` (0-based): full jitter under a doubling limit."""
    return _jitter.uniform(0.0, min(FIRST_BACKOFF_S * 2.0**attempt, MAX_BACKOFF_S))


def parse_spec(spec: str) -> tuple[str, str]:
    """Split a spec into the model's name and the base URL, without a trailing slash.

    Raises:
        ConfigError: the spec cannot be used. A URL with credentials is not quoted.

    >>> parse_spec("openai:Qwen/Qwen3-VL-4B-Instruct@http://localhost:8000/v1/")
    ('Qwen/Qwen3-VL-4B-Instruct', 'http://localhost:8000/v1')
    >>> parse_spec("openai:gpt-4o")
    ('gpt-4o', 'https://api.openai.com/v1')
    """
    form = "Write openai:MODEL@BASE_URL, e.g. openai:my-model@http://localhost:8000/v1."
    if not spec.startswith(_PREFIX):
        # Only the start is quoted: a URL in it may hold a password.
        start = spec.partition(":")[0]
        raise ConfigError(f"A model spec starts with {start!r}, not with {_PREFIX!r}. {form}")
    address = spec.removeprefix(_PREFIX)
    split = re.fullmatch(r"(?si)(?P<model>.*)@(?P<url>https?://.*)", address)
    model, url = (split["model"], split["url"]) if split else (address, OPENAI_BASE_URL)
    if "://" in model:
        raise ConfigError(
            f"A model spec has something like a URL where the model's name should be. {form} "
            "The base URL starts with http:// or https:// and holds no user or password."
        )
    if not model.strip():
        raise ConfigError(f"A model spec names no model. {form}")
    if not split and "@" in model:
        # Without this, a forgotten "http://" would send private pages to api.openai.com.
        raise ConfigError(
            f"A model spec has an '@' and no http:// or https:// behind it. {form} (A model of "
            "OpenAI whose own name holds an '@': openai:MODEL@https://api.openai.com/v1.)"
        )
    return model, _check_base_url(url)


def _check_base_url(url: str) -> str:
    authority = url.split("://", 1)[1].split("/", 1)[0]
    if "@" in authority:
        raise ConfigError(
            "A base URL holds a user or a password (USER:PASSWORD@HOST). Keys come only from the "
            "environment: take it out, and name the variable in api_key_env."
        )
    if "?" in url or "#" in url:
        raise ConfigError(
            "A base URL holds a query or a fragment ('?' or '#'). Give it without; keys come "
            "only from the environment."
        )
    try:
        parsed = URL(url)
        host, port = parsed.host, parsed.port
    except ValueError as error:
        raise ConfigError(f"The base URL {url!r} cannot be used: {error}.") from error
    if not host or not port or re.search(r"\s", url):
        raise ConfigError(f"The base URL {url!r} has no valid host and port.")
    return str(parsed).rstrip("/")


def read_key(api_key_env: str | None, base_url: str) -> ApiKey:
    """Find the key of a server in the environment.

    Raises:
        ConfigError: the variable that `api_key_env` names is not set, or holds no key.
    """
    if api_key_env is not None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", api_key_env):
            # Not quoted: it may be the key itself.
            raise ConfigError(
                "api_key_env is not the name of an environment variable. Name the variable that "
                "holds the key; never write the key itself there."
            )
        value = os.environ.get(api_key_env, "").strip()
        if not value:
            raise ConfigError(
                f"The environment variable {api_key_env!r} (api_key_env) is not set or empty. "
                f"Set it to the key of {base_url}, or leave api_key_env out."
            )
        return ApiKey(value, api_key_env)
    is_openai = URL(base_url).host == "api.openai.com"
    for variable in ("OPENAI_API_KEY", "AWM_API_KEY") if is_openai else ("AWM_API_KEY",):
        value = os.environ.get(variable, "").strip()
        if value:
            return ApiKey(value, variable)
    return ApiKey()


def _sampling_fields(settings: ModelSettings) -> dict[str, Any]:
    """Collect the request's fields that no call changes, and check `extra_body`."""
    for name, why in _OWN_FIELDS.items():
        if name in settings.extra_body:
            raise ConfigError(f"extra_body may not hold {name!r}: {why}. Take it out.")
    try:
        orjson.dumps(settings.extra_body)
    except TypeError as error:
        raise ConfigError(f"extra_body cannot be written as JSON: {error}.") from error
    fields = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
    }
    return {name: value for name, value in fields.items() if value is not None}
