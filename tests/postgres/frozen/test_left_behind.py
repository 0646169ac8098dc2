"""Who gives up, or is gone, leaves no server process behind that waits for a lock, whatever it has asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_core.errors import StoreUnavailable
from queue_core.model.filters import Filter
from tests.conformance.making import outcome, worker_beat
from tests.postgres.frozen.freezing import HELD_UP
from tests.postgres.frozen.scenes import KEY, Process, queue_of
from tests.postgres.traps.hands import Hand
from tests.waiting import eventually

LIMIT = 1.0
"""Seconds of a call."""
LOCKED = """
lock table jobs, leases, job_history, jobs_dead, ordering_locks, queues, workers, leaders, operations, schedules,
  job_logs in access exclusive mode
"""


async def beat(process: Process) -> None:
    heart = process.store.open_heartbeat()
    try:
        await asyncio.to_thread(heart.renew, worker_beat())
    finally:
        heart.close()


async def settle(process: Process) -> None:
    await process.store.settle([outcome(process.kept["claim"], "completed")])


CALLS: dict[str, Callable[[Process], Awaitable[Any]]] = {
    "a job is enqueued": lambda one: one.insert(),
    "a job with an ordering key is enqueued": lambda one: one.insert(ordering_key=KEY),
    "a job is claimed": lambda one: one.claim(),
    "a job ends": settle,
    "somebody asks what became of a job": lambda one: one.store.results([one.kept["claim"].id]),
    "a heartbeat": beat,
    "a worker leads": lambda one: one.store.acquire_leadership("sweep", "leader", 5),
    "jobs become due": lambda one: one.store.promote(10),
    "leases are looked at": lambda one: one.store.reclaim(10),
    "a console looks": lambda one: one.inspector.overview(),
    "a console lists jobs": lambda one: one.inspector.jobs(Filter(), 10),
    "a job is looked at": lambda one: one.inspector.get(one.kept["claim"].id),
    "jobs are deleted": lambda one: one.operations.change("delete", [one.kept["claim"].id]),
    "operations are listed": lambda one: one.operations.list_operations(10),
    "ticks are looked for": lambda one: one.schedules.planning(),
}


async def gives_up(call: Callable[[Process], Awaitable[Any]], url: str, hand: Hand, prepare: bool) -> None:
    """Let a process wait for what somebody has locked until it gives up and ends."""
    queue = queue_of(0)
    before, process = Process(url, queue, {}, hand, prepare), Process(url, queue, {}, hand, prepare, LIMIT)
    try:
        await before.store.acquire_leadership("sweep", "leader", 0)
        await before.insert()
        (process.kept["claim"],) = await before.claim()
        with Hand(hand.url) as other:
            other.do("begin")
            await asyncio.to_thread(other.do, LOCKED)
            with pytest.raises(StoreUnavailable):
                await call(process)
            await process.close()
            assert await eventually(lambda: {row[0] for row in hand.do(HELD_UP)} == {other.pid}, 15), hand.do(HELD_UP)
    finally:
        await before.close()
        await process.close()


@pytest.mark.parametrize("name", CALLS)
async def test_no_server_process_is_left_behind(name: str, postgres_url: str, hand: Hand) -> None:
    await gives_up(CALLS[name], postgres_url, hand, prepare=True)


@pytest.mark.parametrize("name", CALLS)
async def test_none_is_left_behind_a_pooler(name: str, pooled_url: str, hand: Hand) -> None:
    await gives_up(CALLS[name], pooled_url, hand, prepare=False)
