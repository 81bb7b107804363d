"""Work on many items: some at once, the first error ends it, a dead endpoint too."""

from __future__ import annotations

import asyncio

import pytest

from awm.agent.episode import ErrorRecord
from awm.errors import EndpointError
from awm.evaluate import FailureStreak, work_through

DOWN = ErrorRecord(type="EndpointTimeoutError", message="no answer in 5 s")
DAMAGED = ErrorRecord(type="DocumentError", message="not a PDF")


async def test_every_item_is_worked_on_and_no_more_at_once_than_told() -> None:
    done: list[int] = []
    running = most = 0

    async def work(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(item)

    await work_through(range(20), work, concurrency=3)

    assert sorted(done) == list(range(20))
    assert most == 3


async def test_the_first_error_ends_the_work_and_is_raised_as_itself() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        if item == 2:
            raise EndpointError("down")
        await asyncio.sleep(0)
        done.append(item)

    with pytest.raises(EndpointError, match="down"):
        await work_through(range(50), work, concurrency=2)

    assert len(done) < 5


def test_failures_of_the_endpoint_in_a_row_say_that_it_is_down() -> None:
    streak = FailureStreak(3, "checks")
    for error in (DOWN, DOWN, None, DOWN, DAMAGED, DOWN):
        streak.note(error)

    with pytest.raises(EndpointError, match=r"3 checks in a row failed .*no answer in 5 s"):
        streak.note(DOWN)


def test_what_fails_for_another_reason_never_ends_the_work() -> None:
    streak = FailureStreak(1)
    for _ in range(10):
        streak.note(DAMAGED)
