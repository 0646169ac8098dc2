"""Calls that wait for what another transaction holds, and those of the same process that do not."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from queue_core import JobQueue
from queue_core.client.lock_waiters import LockWaiters
from queue_core.client.operating import executor
from queue_core.errors import StoreRefused
from queue_core.model.job import Inserted, NewJob, new_id
from queue_core.model.operation import Author, OperationRequest
from queue_core.model.rules import QueueRules
from queue_core.model.schedule import Announcement, Schedule
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from queue_core.ports.locks import LockHeld
from queue_core.worker.scheduler import Scheduler
from tests.postgres.conftest import Caller
from tests.waiting import PATIENCE, eventually

QUEUES = {"limited": QueueRules(limit=100), "fifo": QueueRules(fifo=True), "aging": QueueRules(aging=60)}
HELD: dict[str, dict[str, Any]] = {
    "unique": {"unique": "k"},
    "ordering": {"ordering_key": "k"},
    "limit": {"queue": "limited"},
    "fifo": {"queue": "fifo"},
    "aging": {"queue": "aging"},
}
FREE: tuple[dict[str, Any], ...] = ({}, {"unique": "other"}, {"ordering_key": "other"}, {"queue": "another"})
WAITERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def opened(postgres_url: str, timeout: float, redis: RedisSettings | None = None) -> JobQueue:
    postgres = PostgresSettings(url=postgres_url, timeout=timeout)
    return JobQueue(settings=JobsSettings(postgres=postgres, redis=redis or RedisSettings(), queues=QUEUES))


@pytest.fixture(params=["postgres+redis", "postgres"])
async def jobs(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[JobQueue]:
    """Whose time limit is far away."""
    redis = RedisSettings(url=redis_url, prefix=redis_prefix) if request.param == "postgres+redis" else None
    async with opened(postgres_url, 10 * PATIENCE, redis) as one:
        yield one


async def waiters(connection: Caller) -> int:
    (count,) = await (await connection.execute(WAITERS)).fetchone() or (0,)
    return int(count)


@pytest.mark.parametrize("held", HELD)
async def test_no_other_call_waits_behind_one(jobs: JobQueue, holder: Caller, held: str) -> None:
    await jobs.enqueue("anything", connection=holder, **HELD[held])
    async with asyncio.timeout(PATIENCE):
        # One of the same batch, then some that come while one waits for good.
        calls = [asyncio.create_task(jobs.enqueue("anything", **options)) for options in (HELD[held], *FREE)]
        await asyncio.gather(*calls[1:])
        assert await eventually(lambda: waiters(holder))
        for options in FREE:
            await jobs.enqueue("anything", **options)
        assert not calls[0].done()
        await holder.rollback()
        assert (await calls[0]).created


async def test_many_that_wait_for_many_keys(jobs: JobQueue, holder: Caller) -> None:
    keys = [f"k{number}" for number in range(20)]
    for key in keys:
        await jobs.enqueue("anything", unique=key, connection=holder)
    async with asyncio.timeout(PATIENCE):
        calls = [asyncio.create_task(jobs.enqueue("anything", unique=key)) for key in 2 * keys]
        assert await eventually(lambda: waiters(holder))
        assert (await jobs.enqueue("anything", unique="free")).created
        await holder.commit()
        handles = await asyncio.gather(*calls)
    assert not any(handle.created for handle in handles)
    assert await jobs.count("type:anything") == len(keys) + 1


@pytest.mark.parametrize("held", HELD)
async def test_nothing_goes_on_when_its_time_is_over(postgres_url: str, holder: Caller, held: str) -> None:
    async with opened(postgres_url, 1.0) as jobs:
        await jobs.enqueue("anything", connection=holder, **HELD[held])
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(StoreRefused, match="do not let go"):
                await jobs.enqueue("anything", **HELD[held])
        assert await waiters(holder) == 0
        await holder.rollback()
        assert await jobs.count("type:anything") == 0


async def test_no_caller_waits_for_ever_where_a_handler_cancels_what_it_waits_for(
    jobs: JobQueue, holder: Caller
) -> None:
    await jobs.enqueue("anything", connection=holder, unique="k")
    call = asyncio.create_task(jobs.enqueue("anything", unique="k"))

    def waits() -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if "LockWaiters._run" in repr(task.get_coro())]

    assert await eventually(waits)
    waits()[0].cancel()
    await asyncio.wait([call], timeout=PATIENCE)
    assert call.cancelled()
    await holder.rollback()
    assert (await jobs.enqueue("anything", unique="k")).created


async def test_no_caller_waits_for_ever_where_what_it_waits_for_is_cancelled_before_it_begins() -> None:
    async def never(*_: object) -> list[Inserted]:
        raise LockHeld("postgres")

    waiters = LockWaiters(never, {}, PATIENCE)
    answer = waiters.put([NewJob(new_id(), "default", "anything", "{}", unique_key="k")])
    assert waiters._task is not None
    waiters._task.cancel()
    await asyncio.wait([answer], timeout=PATIENCE)
    assert answer.cancelled()


async def test_the_connection_of_a_call_is_not_kept(jobs: JobQueue, postgres_url: str) -> None:
    """An application that forgets to close one counts on its end, which rolls its transaction back."""
    connections = [psycopg.connect(postgres_url)]
    await jobs.enqueue("anything", unique="k", connection=connections[0])
    left = weakref.ref(connections[0])
    with pytest.warns(ResourceWarning, match="was deleted while still open"):
        connections.clear()
    assert left() is None
    async with asyncio.timeout(PATIENCE):
        assert (await jobs.enqueue("anything", unique="k")).created


@pytest.mark.parametrize("held", ["limited", "fifo"])
async def test_a_tick_that_waits_lets_others_pass(jobs: JobQueue, holder: Caller, held: str) -> None:
    """The leader that fires them has more to do than to wait."""
    names = {"a": held, "b": held, "c": "another"}
    daily = [
        Schedule(name, "0 0 * * *", "UTC", "anything", "{}", queue, ordering_key="fifo" if queue == "fifo" else None)
        for name, queue in names.items()
    ]
    await jobs.schedule_store.announce([Announcement(one, 0.0) for one in daily])
    await jobs.enqueue("anything", queue=held, connection=holder)
    scheduler = Scheduler(jobs.schedule_store, jobs.hooks)
    fired, _ = await scheduler.fire_due()
    assert [one.job.queue for one in fired] == ["another"]
    await holder.rollback()
    fired, seconds = await scheduler.fire_due()
    assert [one.job.queue for one in fired] == [held, held]
    assert seconds is not None
    assert seconds > 0


async def test_no_other_operation_waits_behind_one(
    postgres_url: str, holder: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first needs a key that a caller's transaction has, and is carried on when that has ended."""
    monkeypatch.setattr(executor, "HELD_SECONDS", 0.1)
    async with opened(postgres_url, 3.0) as jobs:
        held, free = await jobs.enqueue("anything", ordering_key="k"), await jobs.enqueue("anything")
        await jobs.enqueue("anything", connection=holder, ordering_key="k")
        request = OperationRequest("cancel", "some jobs", Author("ana", "host-1"))
        first, second = [await jobs.operations.submit(request, [one.id]) for one in (held, free)]
        taking = jobs.operations.executor()
        with contextlib.suppress(StoreRefused):
            await taking.run_once()
        states = [(await jobs.operations.get(one.number)).state for one in (first, second)]
        assert states == ["running", "done"]
        await holder.rollback()

        async def carried_on() -> bool:
            await taking.run_once()
            return (await jobs.operations.get(first.number)).state == "done"

        assert await eventually(carried_on)
    assert await waiters(holder) == 0
