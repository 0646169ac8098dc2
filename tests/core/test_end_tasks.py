"""The end of tasks that run beside others."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from queue_core import runtime
from queue_core.runtime import end_tasks


async def sleeps() -> None:
    await asyncio.sleep(3600)


async def fails() -> None:
    raise ValueError("it failed before")


async def fails_at_its_end() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        raise ValueError("it failed while it was cancelled")


async def test_all_have_ended_in_whatever_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they end with is nothing that anyone waits for, and the event loop does not complain about it."""
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    tasks = [asyncio.create_task(work()) for work in (sleeps, fails, fails_at_its_end)]
    await asyncio.sleep(0)
    await end_tasks(*tasks, None)
    assert all(task.done() for task in tasks)
    del tasks
    gc.collect()
    assert problems == []


async def test_one_that_lost_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a library does that catches it together with an answer: closing would hang for ever."""
    monkeypatch.setattr(runtime, "CANCEL_AGAIN", 0.01)
    lost = 0

    async def loses() -> None:
        nonlocal lost
        while lost < 2:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                lost += 1
        await asyncio.sleep(3600)

    task = asyncio.create_task(loses())
    await asyncio.sleep(0)
    await end_tasks(task)
    assert (task.cancelled(), lost) == (True, 2)


async def test_who_waits_can_be_cancelled() -> None:
    goes_on = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await goes_on.wait()

    task = asyncio.create_task(slow())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(end_tasks(task))
    await asyncio.sleep(0)
    waiting.cancel()
    done, _ = await asyncio.wait({waiting}, timeout=60)
    assert done
    assert waiting.cancelled()
    goes_on.set()
    await asyncio.wait({task})
