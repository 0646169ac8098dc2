"""Trap 11: whoever waits for a result subscribes before reading, so that no end falls in between; and at any length."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.client import results
from queue_core.client.results import JobHandle
from queue_core.delivery import redis_events
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.events import Event, EventName
from queue_core.model.job import JobResult, Outcome
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from tests.waiting import eventually

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def no_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks into the store would hide that nobody was told."""
    monkeypatch.setattr(results, "FIRST_READ_BACK", 3600.0)
    monkeypatch.setattr(results, "MAX_READ_BACK", 3600.0)


async def finish(jobs: JobQueue, handle: JobHandle[Any], result: str = '"done"') -> None:
    """Do what a worker does at the end: settle, then tell."""
    (claim,) = await jobs.store.claim(ClaimRequest(handle.queue, "worker-1", (handle.type,), 1, 60.0, [handle.id]))
    outcome = Outcome(handle.id, claim.token, handle.queue, handle.type, "completed", result=result)
    assert (await jobs.store.settle([outcome]))[0].accepted
    await jobs.bus.publish([Event(EventName.COMPLETED, handle.queue, handle.id, handle.type, claim.token)])


def finish_behind_the_first_look(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the job end after it was read as unfinished, before anybody has begun to wait."""
    looks = 0
    finals = jobs.store.results

    async def read_then_finish(ids: Sequence[str]) -> list[JobResult]:
        nonlocal looks
        looks += 1
        found = await finals(ids)
        if looks == 1:
            await finish(jobs, JobHandle(jobs, ids[0], "default", "task", True))
        return found

    monkeypatch.setattr(jobs.store, "results", read_then_finish)


async def test_trap_11_an_end_between_reading_and_waiting_is_heard(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await jobs.enqueue("task")
    finish_behind_the_first_look(jobs, monkeypatch)
    assert await handle.result(PATIENCE) == "done"


async def test_trap_11_can_fail(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribed only after the reading, the end would be missed."""
    handle = await jobs.enqueue("task")
    finish_behind_the_first_look(jobs, monkeypatch)
    watch = jobs.bus.watch

    @asynccontextmanager
    async def later(queue: str, job_id: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        async def wait(seconds: float) -> bool:
            async with watch(queue, job_id) as told:
                return await told(seconds)

        yield wait

    monkeypatch.setattr(jobs.bus, "watch", later)
    told: list[bool] = []
    async with jobs.bus.watch("default", handle.id) as wait:
        await jobs.store.results([handle.id])
        told.append(await wait(1.0))
    assert told == [False]


async def test_trap_11_who_waits_longer_than_the_server_remembers_is_told(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch, client: Redis, redis_prefix: str
) -> None:
    monkeypatch.setattr(redis_events, "EXPECT_MS", 300)
    monkeypatch.setattr(results, "FIRST_READ_BACK", 0.2)
    monkeypatch.setattr(results, "MAX_READ_BACK", 0.2)
    handle = await jobs.enqueue("task")
    waiting = asyncio.create_task(handle.result(PATIENCE))
    waiters = f"{redis_prefix}{{default}}:waiters"
    for _ in range(10):
        assert await eventually(lambda: client.zcard(waiters))
        await asyncio.sleep(0.1)
    await finish(jobs, handle)
    assert await waiting == "done"


async def test_many_wait_at_once_on_few_connections(jobs: JobQueue, client: Redis, redis_prefix: str) -> None:
    """A hundred requests of a web application, each waiting for its own job, on one queue object."""
    handles = await jobs.enqueue_many("task", [{}] * 150)
    before = (await client.info("clients"))["connected_clients"]
    waiting = [asyncio.create_task(handle.result(PATIENCE)) for handle in handles]

    async def all_are_heard() -> bool:
        return len(await client.pubsub_channels(f"{redis_prefix}[{{]default[}}]*:done")) == len(handles)

    assert await eventually(all_are_heard)
    assert (await client.info("clients"))["connected_clients"] - before < 20
    for number, handle in enumerate(handles):
        await finish(jobs, handle, str(number))
    assert await asyncio.gather(*waiting) == list(range(150))
    assert await client.pubsub_channels(f"{redis_prefix}*:done") == []


async def test_waits_that_begin_together_are_sent_together(
    bus: RedisEventBus, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, thousands took so long that a server which answered each at once counted as lost."""
    sends, send = 0, bus._scripts.run_many

    async def counted(calls: Sequence[Any]) -> list[Any]:
        nonlocal sends
        sends += 1
        return await send(calls)

    monkeypatch.setattr(bus._scripts, "run_many", counted)
    listening, ending = asyncio.Barrier(301), asyncio.Barrier(301)

    async def wait(number: int) -> bool:
        async with bus.watch("one", f"job-{number}") as heard:
            await listening.wait()
            found = await heard(PATIENCE)
            await ending.wait()
        return found

    waiting = [asyncio.create_task(wait(number)) for number in range(300)]
    async with asyncio.timeout(PATIENCE):
        await listening.wait()
        assert 0 < sends < 30
        ends = [Event(EventName.COMPLETED, "one", f"job-{number}", "task", 1) for number in range(300)]
        await bus.publish(ends)
        await ending.wait()
        assert await asyncio.gather(*waiting) == [True] * 300
    assert await client.pubsub_channels(f"{redis_prefix}*:done") == []


async def test_a_wait_that_begins_again_is_heard(bus: RedisEventBus) -> None:
    """Its subscription is ended and made anew on one connection, in this order."""
    end = Event(EventName.COMPLETED, "one", "job", "task", 1)
    for _ in range(20):
        async with bus.watch("one", "job"):
            pass
        async with bus.watch("one", "job") as heard:
            await bus.publish([end])
            assert await heard(PATIENCE)


async def test_waits_that_are_over_are_forgotten(bus: RedisEventBus, client: Redis, redis_prefix: str) -> None:
    """While somebody waits for other jobs, too: nobody deletes those of jobs that never end."""
    places = [f"{redis_prefix}{{{name}}}:waiters" for name in ("one", "")]
    for place in places:
        await client.zadd(place, {"over": 1})
    async with bus.watch("one", "new"):
        assert [await client.zrange(place, 0, -1) for place in places] == [["new"], ["new"]]


async def test_a_wait_that_was_answered_leaves_nothing_behind(jobs: JobQueue, client: Redis, redis_prefix: str) -> None:
    handle = await jobs.enqueue("task")
    places = [f"{redis_prefix}{{{name}}}:waiters" for name in ("default", "")]
    async with jobs.bus.watch("default", handle.id) as wait:
        assert [await client.zrange(place, 0, -1) for place in places] == [[handle.id], [handle.id]]
        await finish(jobs, handle)
        assert await wait(PATIENCE)
    assert await client.zcard(places[0]) == 0


async def test_what_is_known_of_waits_goes_with_the_longest_of_them(
    bus: RedisEventBus, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays for no queue for ever, and a shorter wait of another process takes nothing of it away."""
    place = f"{redis_prefix}{{one}}:waiters"
    async with bus.watch("one", "job"):
        longest = await client.pttl(place)
        until = await client.zscore(place, "job")
    assert 0 < longest <= redis_events.EXPECT_MS
    await asyncio.sleep(0.002)
    async with bus.watch("one", "job"):
        later = await client.zscore(place, "job")
    assert later > until, "the same wait again is longer"
    monkeypatch.setattr(redis_events, "EXPECT_MS", 1000)
    async with bus.watch("one", "job"):
        assert await client.pttl(place) > redis_events.EXPECT_MS
        assert await client.zscore(place, "job") == later
