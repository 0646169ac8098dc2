"""A server process that takes every byte and never answers: each call gives up, and the next one goes on.

So does one that was stopped, and a proxy that has lost its way to the server without a word. Neither a time limit of
the server nor one of TCP ends such a wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_core.errors import StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.ports.store import StoreHeartbeat
from tests.conformance.making import worker_beat
from tests.postgres.frozen.proxy import Proxy
from tests.postgres.frozen.scenes import KEY, Process, queue_of
from tests.postgres.traps.hands import PATIENCE, Hand

LIMIT = 1.0
"""Seconds of a call."""


def heart(process: Process) -> StoreHeartbeat:
    if "heart" not in process.kept:
        process.kept["heart"] = process.store.open_heartbeat()
    found: StoreHeartbeat = process.kept["heart"]
    return found


CALLS: dict[str, Callable[[Process], Awaitable[Any]]] = {
    "a job is enqueued": lambda one: one.insert(),
    "a job with an ordering key is enqueued": lambda one: one.insert(ordering_key=KEY),
    "a job is claimed": lambda one: one.claim(),
    "somebody asks what became of a job": lambda one: one.store.results([]),
    "a heartbeat": lambda one: asyncio.to_thread(heart(one).renew, worker_beat()),
    "jobs are handed back": lambda one: asyncio.to_thread(heart(one).hand_back, "worker", [], 0),
    "requests for stacks are read": lambda one: asyncio.to_thread(heart(one).stack_requests, "worker"),
    "a worker leads": lambda one: one.store.acquire_leadership("sweep", "leader", 5),
    "jobs become due": lambda one: one.store.promote(10),
    "leases are looked at": lambda one: one.store.reclaim(10),
    "a console looks": lambda one: one.inspector.overview(),
    "a console lists jobs": lambda one: one.inspector.jobs(Filter(), 10),
    "operations are listed": lambda one: one.operations.list_operations(10),
    "ticks are looked for": lambda one: one.schedules.planning(),
}


@pytest.mark.parametrize("prepare", [True, False], ids=["a session", "as behind a pooler"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_without_an_answer_gives_up(name: str, prepare: bool, postgres_url: str, hand: Hand) -> None:
    async with Proxy(postgres_url).serve() as proxy:
        process = Process(proxy.url, queue_of(0), {}, hand, prepare, LIMIT)
        try:
            await CALLS[name](process)
            proxy.hold_after(1, deaf=True)
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(StoreUnavailable):
                    await CALLS[name](process)
            proxy.release()
            async with asyncio.timeout(PATIENCE):
                await CALLS[name](process)
        finally:
            proxy.release()
            if "heart" in process.kept:
                process.kept["heart"].close()
            await process.close()
