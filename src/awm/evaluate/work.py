"""Many items, some at once, and an end where the endpoint is down.

Used by every command that asks a model many things: the evaluation, rereadings, interventions and
grounding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from awm.agent.episode import ErrorRecord
from awm.errors import (
    EndpointConnectionError,
    EndpointError,
    EndpointReplyError,
    EndpointStatusError,
    EndpointTimeoutError,
    first_of,
)

T = TypeVar("T")

_ENDPOINT_ERRORS = frozenset(
    kind.__name__
    for kind in (
        EndpointError,
        EndpointConnectionError,
        EndpointReplyError,
        EndpointStatusError,
        EndpointTimeoutError,
    )
)


async def work_through(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], *, concurrency: int
) -> None:
    """Do `work` for every item, `concurrency` at once; items are taken one by one.

    Raises:
        Exception: the first error of `work`, which ends the others' work.
    """
    pending = iter(items)

    async def worker() -> None:
        for item in pending:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as errors:
        raise first_of(errors) from errors


class FailureStreak:
    """Counts failures of an endpoint in a row; what fails for another reason says nothing of it.

    Args:
        most: so many end the work.
        what: what fails, in the plural, for the message.
    """

    def __init__(self, most: int, what: str = "questions") -> None:
        self._most, self._what = most, what
        self._n = 0

    def note(self, error: ErrorRecord | None) -> None:
        """Note how an item ended; None: it was measured.

        Raises:
            EndpointError: the endpoint is down.
        """
        if error is None:
            self._n = 0
            return
        if error.type not in _ENDPOINT_ERRORS:
            return
        self._n += 1
        if self._n >= self._most:
            raise EndpointError(
                f"{self._n} {self._what} in a row failed (max_failures_in_a_row); the last: "
                f"{error.type}: {error.message}\n"
                "What is done is kept: mend it and start the same command to resume."
            )
