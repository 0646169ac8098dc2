"""Workers that run while a test looks on, and ways to wait for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from queue_core.model.events import Event, EventName
from queue_core.queue import JobQueue
from queue_core.worker.worker import Worker

PATIENCE = 30.0
"""Seconds that a test waits at most for what should come at once; a slow machine must not fail it."""


@asynccontextmanager
async def working(jobs: JobQueue, stops: bool = False, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker of the tasks registered so far; at the end it is stopped and must have ended well.

    With `stops` the test stops it: a second time would mean that it must not wait for its jobs.
    """
    worker = Worker(jobs, **{"concurrency": 10, "lease": "30s", "heartbeat": "0.2s", "grace": "20s"} | options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        if not stops:
            worker.stop()
        async with asyncio.timeout(PATIENCE):
            await running


@dataclass
class Gate:
    """What the jobs of a gated task wait for, and which of them ran."""

    ran: list[int] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


def gated_task(jobs: JobQueue) -> Gate:
    """Register a task `work(n)` whose jobs begin, wait for the gate, and return their numbers."""
    gate = Gate()

    @jobs.task
    async def work(n: int) -> int:
        gate.ran.append(n)
        gate.begun.set()
        await gate.go_on.wait()
        return n

    return gate


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Look again and again until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110  the state of a store is not an event
            await asyncio.sleep(0.01)


async def until_status(jobs: JobQueue, job_id: str, status: str) -> None:
    """Wait until a job is in this state."""

    async def reached() -> bool:
        return str((await jobs.inspector.get(job_id)).status) == status

    await until(reached)


async def subscribed(jobs: JobQueue, heard: asyncio.Event) -> None:
    """Publish until a subscriber hears of it: from then on it misses nothing.

    Seldom: what a process sends in a second is bounded, and the test sends in the same second.
    """
    async with asyncio.timeout(PATIENCE):
        while not heard.is_set():
            await jobs.bus.publish([Event(EventName.QUEUE, "probe", "probe")])
            await asyncio.sleep(0.1)
