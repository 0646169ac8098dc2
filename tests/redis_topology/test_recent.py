"""What was acknowledged is not lost where a primary is replaced, with default settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from queue_core import JobQueue
from queue_core.errors import JobNotFound, QueueFull, StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.job import new_id
from queue_core.model.settings import JobsSettings
from queue_core.redis import recent
from queue_core.worker.worker import Worker
from tests.redis_topology.conftest import MakeSettings
from tests.redis_topology.load import LONG, under_load
from tests.redis_topology.rig import Cluster, Trio, wait_until
from tests.redis_topology.test_cluster import QUEUES, demote_master, kill_master, pause_master
from tests.redis_topology.test_sentinel import kill_primary, pause_primary

PATIENCE = 30.0
FAST = 0.002


@pytest.mark.parametrize("disturb", [Trio.failover, kill_primary, *([pause_primary] if LONG else [])])
async def test_behind_sentinels(trio: Trio, make_settings: MakeSettings, disturb: Callable[[Trio], None]) -> None:
    found = await under_load(make_settings("redis", trio.url()), ["a", "b"], lambda: disturb(trio), pause=FAST)
    assert not found.gone
    assert len(found.acknowledged) > 20


@pytest.mark.parametrize("disturb", [kill_master, *([demote_master, pause_master] if LONG else [])])
async def test_on_a_cluster(
    cluster: Cluster, make_settings: MakeSettings, disturb: Callable[[Cluster, JobsSettings], None]
) -> None:
    settings = make_settings("redis", cluster.url)
    found = await under_load(settings, QUEUES, lambda: disturb(cluster, settings), pause=FAST)
    assert not found.gone
    assert len(found.acknowledged) > 20


@asynccontextmanager
async def no_replica_hears(trio: Trio) -> AsyncIterator[None]:
    """Let no replica have what is written to the primary meanwhile, and kill that one in the end."""
    primary = trio.primary()
    replicas = [one for one in trio.servers if one is not primary]
    for one in replicas:
        one.pause()
    await asyncio.to_thread(primary.ask, "CLIENT", "KILL", "TYPE", "replica")
    yield
    await asyncio.to_thread(primary.kill)
    for one in replicas:
        one.resume()
    await asyncio.to_thread(wait_until, "there is another primary", lambda: trio.primary() is not primary)


async def test_a_process_that_rests_restores_what_no_replica_had(
    trio: Trio, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """In order, due when it was, with its unique key, and where a limit or an operator refuses new jobs."""
    caplog.set_level(logging.INFO, "queue_core.delivery")
    ran: list[int] = []
    settings = make_settings("redis", trio.url()).model_dump() | {"queues": {"full": {"limit": 3}}}
    async with JobQueue(settings=JobsSettings.model_validate(settings)) as jobs:

        @jobs.task(queue="keyed")
        async def keyed(n: int) -> None:
            ran.append(n)

        await jobs.enqueue_many("plain", [{}] * 3, queue="plain")
        async with no_replica_hears(trio):
            ordered = [await keyed.options(ordering_key="one").enqueue(n=n) for n in range(30)]
            listed = await jobs.enqueue_many("plain", [{}] * 700, queue="plain")
            later = await jobs.enqueue("plain", queue="plain", delay=300)
            unique = await jobs.enqueue("plain", queue="plain", unique="key")
            full = await jobs.enqueue_many("plain", [{}] * 3, queue="full")
            due = await jobs.inspector.get(later.id)
        written = [*ordered, *listed, later, unique, *full]
        known: set[str] = set()
        async with asyncio.timeout(PATIENCE):
            while "inserted again" not in caplog.text:  # noqa: ASYNC110  this process calls nothing
                await asyncio.sleep(0.05)
        known = {one.id for one in await jobs.store.results([one.id for one in written])}
        assert known == {one.id for one in written}
        assert f"inserted again: {len(written)}" in caplog.text
        found = await jobs.inspector.get(later.id)
        assert found.run_at == due.run_at
        assert (await jobs.enqueue("plain", queue="plain", unique="key")).id == unique.id
        with pytest.raises(QueueFull):
            await jobs.enqueue("plain", queue="full")
        worker = asyncio.create_task(Worker(jobs, queues=["keyed"], concurrency=5).run())
        try:
            async with asyncio.timeout(PATIENCE):
                await ordered[-1].result()
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        assert ran == list(range(30))
        assert len((await jobs.inspector.jobs(Filter(), 1000)).jobs) == len(written) + 3


async def _when_reached(call: Callable[[], Awaitable[object]]) -> object:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await call()
            except StoreUnavailable:  # two of three Sentinels have not heard of the new one yet
                await asyncio.sleep(0.05)


async def test_a_job_that_was_written_here_is_known_before_it_is_restored(
    trio: Trio, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call of a process behind a failover does not report it as unknown; an id that nobody wrote is."""
    monkeypatch.setattr(recent, "CHECK_INTERVAL", 3600.0)  # nothing but the call itself looks for what is lacking
    settings = make_settings("redis", trio.url())
    first, second, third = JobQueue(settings=settings), JobQueue(settings=settings), JobQueue(settings=settings)
    async with first, second, third:
        async with no_replica_hears(trio):
            one, two, three = [await jobs.enqueue("plain", queue="plain") for jobs in (first, second, third)]
        assert await _when_reached(one.status) == "queued"
        assert (await _when_reached(lambda: second.get(two.id))) is not None
        assert await _when_reached(lambda: third.cancel(three.id)) is True
        with pytest.raises(JobNotFound):
            await first.get(new_id())
