"""What happens to the store when its server restarts, is full, is away, or hangs; and on a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.errors import StoreRefused, StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.operation import ChangeOptions
from queue_core.model.settings import JobsSettings, RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from queue_core.stores.redis.operations.store import RedisOperations
from queue_core.stores.redis.read import RedisInspector
from queue_core.stores.redis.store import RedisStore
from queue_core.worker.worker import Worker
from tests.conformance.making import LEASE, QUEUE, TYPE, held, new_job, outcome, worker_beat
from tests.conformance.working import working
from tests.conftest import StartServers
from tests.redis.store.stored import Look
from tests.waiting import eventually

PATIENCE = 60.0
QUICK = 1.0
"""Seconds of the time limit where a test waits it out."""
SETS = ("queued", "running", "retrying", "completed", "dead")


def settings_of(servers: EmbeddedServers, timeout: float = 30.0) -> RedisSettings:
    return RedisSettings.model_validate({"url": servers.redis_url, "prefix": "jobs", "timeout": timeout})


@pytest.fixture
def durable(start_servers: StartServers) -> EmbeddedServers:
    """A server of the test's own that writes everything to its append-only file before it answers."""
    return start_servers(redis_appendonly=True, redis_options={"appendfsync": "always"})


@pytest.fixture
async def own(own_servers: EmbeddedServers) -> AsyncIterator[RedisStore]:
    """A store on a server that may be stopped and frozen."""
    store = RedisStore(settings_of(own_servers, QUICK))
    await store.open()
    yield store
    await store.close()


async def test_a_restart_with_the_append_only_file_loses_nothing(durable: EmbeddedServers) -> None:
    settings = settings_of(durable)
    store, inspector = RedisStore(settings), RedisInspector(settings)
    jobs = [new_job(tags=("x",)) for _ in range(50)]
    await store.insert(jobs)
    claims = await store.claim(ClaimRequest(QUEUE, "w", (TYPE,), 40, LEASE))
    kinds = ("completed", "retrying", "dead", "released")
    await store.settle([outcome(claim, kinds[n % 4]) for n, claim in enumerate(claims[:30])])
    store.open_heartbeat().renew(worker_beat(*(held(claim, 50) for claim in claims[30:])))
    async with Redis.from_url(durable.redis_url, decode_responses=True) as client:
        look = Look(client, "jobs:")
        before = await look()
    durable.redis.kill()
    durable.redis.start()
    async with Redis.from_url(durable.redis_url, decode_responses=True) as client:
        assert await Look(client, "jobs:")() == before
    again = await store.claim(ClaimRequest(QUEUE, "w", (TYPE,), 1, LEASE))
    # Another run of the server: what it hands out now could not have been handed out before.
    assert again[0].token > max(claim.token for claim in claims)
    assert {again[0].token % 1000} != {claims[0].token % 1000} or again[0].token // 1000 > claims[0].token // 1000
    running = [outcome(claim, "completed") for claim in claims[30:]]
    assert all(settled.accepted for settled in await store.settle(running))
    where = await inspector.conservation()
    assert where.completed + where.dead + where.cancelled + where.unfinished == 50
    for part in (store, inspector):
        await part.close()


async def test_workers_go_on_after_a_restart(durable: EmbeddedServers) -> None:
    settings = JobsSettings(queue_backend="redis", redis=settings_of(durable, 5.0))
    runs: list[int] = []
    async with JobQueue(settings=settings) as jobs:

        @jobs.task
        async def task(n: int) -> None:
            runs.append(n)
            await asyncio.sleep(0.01)

        worker = Worker(jobs, concurrency=5, lease="5s")
        running = asyncio.create_task(worker.run())
        handles = await task.enqueue_many([{"n": n} for n in range(300)])
        while len(runs) < 20:  # noqa: ASYNC110  the test waits for its own handler
            await asyncio.sleep(0.01)
        durable.redis.kill()
        await asyncio.sleep(0.2)
        durable.redis.start()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(handle.result() for handle in handles))
        assert set(runs) == set(range(300))
        where = await jobs.inspector.conservation()
        assert (where.completed, where.unfinished) == (300, 0)
        worker.stop()
        await running


async def test_a_job_whose_end_the_server_has_lost_runs_again_at_once(durable: EmbeddedServers) -> None:
    """Its lease is there again after the restart, and lasts for an hour; its worker holds it no more."""
    settings = JobsSettings(queue_backend="redis", redis=settings_of(durable, timeout=2.0))
    begun, go_on, runs = asyncio.Event(), asyncio.Event(), []
    async with (
        JobQueue(settings=settings) as jobs,
        Redis.from_url(durable.redis_url, decode_responses=True) as client,
    ):

        @jobs.task
        async def work() -> int:
            begun.set()
            await go_on.wait()
            runs.append(1)
            return len(runs)

        async with working(jobs, lease="1h", heartbeat="10m"):
            handle = await work.enqueue()
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await client.config_set("appendonly", "no")  # as in a crash of a machine that had not flushed its files
            go_on.set()
            assert await handle.result(timeout=PATIENCE) == 1
            durable.redis.kill()
            durable.redis.start()
            assert await eventually(lambda: len(runs) == 2)
            assert await handle.result(timeout=PATIENCE) == 2
        where = await jobs.inspector.conservation()
        assert (where.completed, where.unfinished) == (1, 0)


async def test_refused_is_said_at_once_and_over_when_it_is_over(own: RedisStore, own_servers: EmbeddedServers) -> None:
    own_servers.redis.stop()
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="redis cannot be reached"):
            await own.insert([new_job()])
    assert time.monotonic() - began < 10 * QUICK
    heart = own.open_heartbeat()
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(heart.renew, worker_beat())
    own_servers.redis.start()
    await own.insert([new_job()])
    assert (await asyncio.to_thread(heart.renew, worker_beat())).lost == ()
    assert len(await own.claim(ClaimRequest(QUEUE, "w", (TYPE,), 5, LEASE))) == 1
    heart.close()


async def test_a_frozen_server_is_waited_for_a_bounded_time(own: RedisStore, own_servers: EmbeddedServers) -> None:
    settings = settings_of(own_servers, QUICK)
    inspector, operations = RedisInspector(settings), RedisOperations(settings)
    heart = own.open_heartbeat()
    await own.insert([new_job()])
    await inspector.overview()
    await asyncio.to_thread(heart.renew, worker_beat())
    calls = [
        own.insert([new_job()]),
        own.claim(ClaimRequest(QUEUE, "w", (TYPE,), 5, LEASE)),
        own.promote(10),
        own.reclaim(10),
        own.results(["x"]),
        own.acquire_leadership("sweep", "w", 5),
        inspector.overview(),
        inspector.jobs(Filter(), 10),
        operations.change("retry", ["x"]),
        asyncio.to_thread(heart.renew, worker_beat()),
    ]
    own_servers.redis.pause()
    try:
        began = time.monotonic()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        taken = time.monotonic() - began
    finally:
        own_servers.redis.resume()
    assert [type(answer) for answer in answers] == [StoreUnavailable] * len(calls)
    assert taken < 15 * QUICK
    await inspector.close()
    await operations.close()
    heart.close()


async def test_answers_after_a_freeze_belong_to_their_questions(own: RedisStore, own_servers: EmbeddedServers) -> None:
    """More than a socket's buffer is on its way when the time is over: the rest must not be sent for somebody else."""
    large = [new_job(payload='{"text": "' + "x" * 900_000 + '"}') for _ in range(5)]
    own_servers.redis.pause()
    try:
        with pytest.raises(StoreUnavailable):
            await own.insert(large)
    finally:
        own_servers.redis.resume()
    for number in range(20):
        assert await own.acquire_leadership(f"duty-{number}", "worker", 60)
        assert set(await own.queues()) <= {QUEUE}


async def test_a_full_server_takes_nothing_half(own: RedisStore, own_servers: EmbeddedServers) -> None:
    async with Redis.from_url(own_servers.redis_url, decode_responses=True) as client:
        job = new_job()
        await own.insert([job])
        await client.config_set("maxmemory", 1)
        with pytest.raises(StoreRefused, match="memory") as refused:
            await own.insert([new_job(queue=f"q{n % 2}") for n in range(1200)])
        assert refused.value.passing
        assert "Command #" not in str(refused.value)
        # A program that begins now can still look.
        looking = RedisStore(settings_of(own_servers, QUICK))
        await looking.open()
        assert [one.id for one in await looking.results([job.id])] == [job.id]
        await looking.close()
        # What is read as of one moment, too: a Redis 7.0 refuses whatever is sent in MULTI.
        inspector = RedisInspector(settings_of(own_servers, QUICK))
        assert [queue.pending for queue in (await inspector.overview()).queues] == [1]
        assert (await inspector.conservation()).unfinished == 1
        await inspector.close()
        await client.config_set("maxmemory", 0)
        assert await client.zcard(f"jobs:{{{QUEUE}}}:pending") == 1
        assert [name async for name in client.scan_iter("jobs:{q?}:*")] == []
        assert len(await own.claim(ClaimRequest(QUEUE, "w", (TYPE,), 5, LEASE))) == 1


async def hints_on_a_cluster(store: RedisStore, operations: RedisOperations, client: Redis) -> None:
    """What is noted beside the queues, and what is asked of many of them, in all ways that there are."""
    assert await store.acquire_leadership("sweep", "w", 60)
    for number in range(60):
        await store.insert([new_job(queue=f"q{number}", delay=3600)])
    for name in ("due", "leases"):
        await client.delete(f"jobs:hints:{{{name}}}")
    store._hints.forget()
    look = await store.next_work()
    assert look.due is not None
    assert look.busy
    assert QUEUE in await store.ready_queues()
    assert await client.zcard("jobs:hints:{due}") == 61, "and one that waits for its retry"
    job = new_job(queue="q1")
    await store.insert([job])
    (claim,) = await store.claim(ClaimRequest("q1", "gone", (TYPE,), 1, LEASE, [job.id]))
    await store.write_off(["gone"], "here")
    assert [one.id for one in await store.reclaim(10)] == [claim.id]
    (claim,) = await store.claim(ClaimRequest("q1", "stuck", (TYPE,), 1, LEASE, [job.id]))
    heart = store.open_heartbeat()
    heart.renew(worker_beat(worker="stuck", place="here", process="1", with_neighbours=True))
    heart.hand_back("stuck", [], 0)
    heart.close()
    assert await operations.command("stuck", "quiet")
    assert [one.id for one in await store.reclaim(10)] == [claim.id]
    (claim,) = await store.claim(ClaimRequest("q1", "w", (TYPE,), 1, LEASE, [job.id]))
    assert (await store.settle([outcome(claim, "dead")]))[0].accepted
    assert (await operations.change("retry", [job.id], ChangeOptions(spread=0.001))).ids == (job.id,)
    await asyncio.sleep(0.01)
    assert [one.id for one in await store.promote(10)] == [job.id]


async def test_no_script_leaves_the_slot_of_its_queue(start_servers: StartServers) -> None:
    """A cluster of one node refuses keys of two slots in one script, as one of many does."""
    servers = start_servers(redis_options={"cluster-enabled": "yes"})
    async with Redis.from_url(servers.redis_url, decode_responses=True) as client:
        await client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        async with asyncio.timeout(PATIENCE):
            while "cluster_state:ok" not in str(await client.execute_command("CLUSTER", "INFO")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        store, inspector = RedisStore(settings_of(servers)), RedisInspector(settings_of(servers))
        operations = RedisOperations(settings_of(servers))
        await store.open()
        jobs = [new_job() for _ in range(12)] + [new_job(delay=0.001) for _ in range(2)]
        await store.insert(jobs)
        await store.insert([new_job(queue="other")])
        claims = await store.claim(ClaimRequest(QUEUE, "w", (TYPE,), 10, 0.001, [job.id for job in jobs]))
        heart = store.open_heartbeat()
        heart.renew(worker_beat(*(held(claim, 5) for claim in claims), lease=0.001))
        heart.close()
        kinds = ("completed", "retrying", "dead", "released", "cancelled")
        answers = await store.settle([outcome(claim, kind) for claim, kind in zip(claims, kinds, strict=False)])
        assert all(answer.accepted for answer in answers)
        await asyncio.sleep(0.01)
        assert len(await store.reclaim(10)) == 5
        assert len(await store.promote(10)) == 2
        dead = claims[2].id
        for verb in ("delete", "restore", "delete", "purge"):
            assert (await operations.change(verb, [dead])).ids == (dead,)
        assert (await operations.change("retry", [claims[0].id])).ids == (claims[0].id,)
        assert (await operations.change("cancel", [claims[0].id])).ids == (claims[0].id,)
        assert await store.acquire_leadership("sweep", "w", 5)
        await store.upkeep()
        await store.unregister_worker("w")
        assert len((await inspector.jobs(Filter(), 100)).jobs) == 14
        await hints_on_a_cluster(store, operations, client)
        for part in (store, inspector, operations):
            await part.close()
