"""A model on this machine, through transformers: `transformers:PATH`, a VLM or a text model.

It renders conversations with the model's own chat template (tools, and images in tool messages),
counts images and image places, and hands back the sampled text as it is; calls in it are read by
the one parser of `awm.agent.tools`. Requests that arrive within a few milliseconds are generated
as one batch in a worker thread, so an evaluation with 16 questions under way costs little more
than one with a single question.

Sampling is reproducible: each request has a random stream of its own, seeded by the seed and the
prompt, and no other request of the batch changes it. Needs the extra `local`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from awm.errors import ConfigError
from awm.models.chat import Completion, Message, ModelSettings
from awm.models.local_generation import LocalRequest, load_local_model

MAX_BATCH = 64
"""Conversations of one batch; `max_in_flight` lowers it."""
GATHER_S = 0.02
"""How long a batch waits for further requests."""
_EXTRA_FIELDS = {"chat_template_kwargs", "dtype", "device"}


class TransformersModel:
    """See the module.

    Args:
        settings: the spec is `transformers:PATH`. `extra_body` may hold `chat_template_kwargs`,
            `device` ("cpu", "cuda") and `dtype` ("float32", "bfloat16").

    Raises:
        ConfigError: there is no usable model at the path.
        MissingExtraError: torch or transformers is not installed.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        path = settings.spec.partition(":")[2]
        if not path:
            raise ConfigError("a local model is named as transformers:PATH")
        unknown = sorted(set(settings.extra_body) - _EXTRA_FIELDS)
        if unknown:
            raise ConfigError(
                f"a local model takes no field {unknown[0]!r} in extra_body; it takes "
                f"{', '.join(sorted(_EXTRA_FIELDS))}"
            )
        self._local = load_local_model(path, settings)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="awm-local-model")
        self._waiting: list[tuple[LocalRequest, asyncio.Future[Completion]]] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def settings(self) -> ModelSettings:
        """The settings it was made from."""
        return self._settings

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        seed: int | None = None,
    ) -> Completion:
        """Continue the conversation by one assistant turn; see `ChatModel.complete`."""
        loop = asyncio.get_running_loop()
        text, images = self._local.render(messages, tools, self._settings)
        request = LocalRequest(text, images, self._settings.seed if seed is None else seed)
        reply: asyncio.Future[Completion] = loop.create_future()
        self._waiting.append((request, reply))
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return await reply

    async def aclose(self) -> None:
        """Stop the worker."""
        if self._running is not None:
            self._running.cancel()
        for _, reply in self._waiting:
            reply.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        """Generate batch after batch until nobody waits."""
        loop = asyncio.get_running_loop()
        most = min(MAX_BATCH, self._settings.max_in_flight)
        while self._waiting:
            await self._gather(most)
            batch, self._waiting = self._waiting[:most], self._waiting[most:]
            try:
                completions = await loop.run_in_executor(
                    self._worker, self._local.generate, [r for r, _ in batch], self._settings
                )
            except Exception as error:  # noqa: BLE001  raised where each request is awaited
                for _, reply in batch:
                    _settle(reply, error)
                continue
            for (_, reply), completion in zip(batch, completions, strict=True):
                _settle(reply, completion)

    async def _gather(self, most: int) -> None:
        """Wait while requests keep coming."""
        n = 0
        while n < len(self._waiting) < most:
            n = len(self._waiting)
            await asyncio.sleep(GATHER_S)


def _settle(reply: asyncio.Future[Completion], result: Completion | Exception) -> None:
    if reply.done():
        return
    if isinstance(result, Exception):
        reply.set_exception(result)
    else:
        reply.set_result(result)
