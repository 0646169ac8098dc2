"""Trap 14 and 18: answers that got lost, failovers, numbers of more than 14 digits; and rubbish in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.errors import JobNotFound, SchemaNewer, StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.rules import rank
from queue_core.model.settings import RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.redis.scripts import Scripts
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import LEASE, QUEUE, TYPE, held, new_job, outcome
from tests.conformance.world import World
from tests.redis.store.stored import Look, changes

LAST = (1 << 45) - 3
"""An order of arrival near the end, which makes ranks of 16 digits up to the last below 2^53."""


class Losing:
    """Runs scripts and loses the answers, as a connection that breaks after the server has done its work."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self.lost = 0

    async def run(self, name: str, keys: Any, args: Any) -> Any:
        await self._scripts.run(name, keys, args)
        self.lost += 1
        raise ConnectionResetError("the answer got lost")

    async def run_many(self, calls: Any, together: bool = False) -> Any:
        await self._scripts.run_many(calls, together)
        self.lost += 1
        raise ConnectionResetError("the answer got lost")


@contextmanager
def losing_answers(store: RedisStore) -> Iterator[None]:
    """Let scripts be run without their answers."""
    link = store._link
    scripts, inserts = link._scripts, link._inserts
    link._scripts, link._inserts = Losing(scripts), Losing(inserts)  # type: ignore[assignment]
    try:
        yield
    finally:
        link._scripts, link._inserts = scripts, inserts


async def test_a_claim_whose_answer_got_lost_is_given_again(store: RedisStore) -> None:
    """Else its jobs would wait for the end of a lease that nobody knows of, and count as crashed."""
    jobs = [new_job(priority=priority) for priority in (1, 9, 5)]
    await store.insert(jobs)
    request = ClaimRequest(QUEUE, "w", (TYPE,), 2, LEASE, [job.id for job in jobs])
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.claim(request)
    claims = await store.claim(request)
    assert [claim.id for claim in claims] == [jobs[1].id, jobs[2].id]
    assert await store.claim(request._replace(worker="other")) != claims
    assert all(settled.accepted for settled in await store.settle([outcome(claim, "completed") for claim in claims]))


async def test_it_is_given_to_nobody_else(store: RedisStore) -> None:
    job = new_job()
    await store.insert([job])
    request = ClaimRequest(QUEUE, "w", (TYPE,), 2, LEASE, [job.id])
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.claim(request)
    assert await store.claim(request._replace(worker="other")) == []
    assert len(await store.claim(request)) == 1
    assert await store.claim(request) == []


@pytest.mark.parametrize("kind", ["completed", "retrying", "dead", "released", "cancelled"])
async def test_an_outcome_whose_answer_got_lost_is_accepted_again(store: RedisStore, look: Look, kind: str) -> None:
    await store.insert([new_job()])
    (claim,) = await store.claim(ClaimRequest(QUEUE, "w", (TYPE,), 2, LEASE))
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.settle([outcome(claim, kind)])
    before = await look()
    assert [settled.accepted for settled in await store.settle([outcome(claim, kind)])] == [True]
    assert changes(before, await look()) == {}


async def test_an_insert_whose_answer_got_lost_is_one_job(store: RedisStore, look: Look) -> None:
    job = new_job(id="a")
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.insert([job])
    before = await look()
    assert [one.created for one in await store.insert([job])] == [False]
    assert changes(before, await look()) == {"seq": "2"}


async def test_a_token_is_higher_than_any_before_whatever_the_clock_says(
    world: World, client: Redis, redis_prefix: str
) -> None:
    """After a failover to a server whose clock is behind, or when the clock was set back."""
    first = await world.ended("released")
    ahead = first.token // 1000 + 3600 * 10**6
    await client.set(f"{redis_prefix}{{{QUEUE}}}:token", ahead)
    second = await world.claim_job(first.id)
    assert second.token // 1000 == ahead + 1
    assert (await world.running()).token // 1000 == ahead + 2, "that of another job, too"
    await world.settle(second, "released")
    await client.delete(f"{redis_prefix}{{{QUEUE}}}:token")
    third = await world.claim_job(first.id)
    assert third.token > second.token


async def test_a_token_names_the_run_of_the_server(world: World, client: Redis) -> None:
    """Two servers that hand out the same moment, one of them lost with what it had handed out, do not agree on it."""
    claim = await world.running()
    run_id = (await client.info("server"))["run_id"]
    assert claim.token % 1000 == int(run_id[:7], 16) % 1000
    assert claim.token > 2**53


async def test_ranks_of_sixteen_digits_come_back_whole(world: World, client: Redis, redis_prefix: str) -> None:
    await world.store.insert([new_job(priority=0)])
    await client.set(f"{redis_prefix}{{{QUEUE}}}:seq", LAST)
    job = new_job(priority=-128)
    (inserted,) = await world.store.insert([job])
    assert inserted.rank == rank(-128, LAST + 1) == 2**53 - 2
    (ready,) = await world.store.list_ready(QUEUE, inserted.rank - 1, 10)
    claim = await world.claim_job(job.id)
    settled = await world.settle(claim, "released")
    assert ready.rank == claim.rank == settled.rank == inserted.rank
    claim = await world.claim_job(job.id)
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10)
    assert reclaimed.rank == inserted.rank


async def test_a_server_that_forgot_its_scripts(store: RedisStore, client: Redis) -> None:
    jobs = [new_job(queue=f"q{number}") for number in range(5)]
    await store.insert(jobs)
    await client.script_flush()
    assert len(await store.claim(ClaimRequest("q0", "w", (TYPE,), 5, LEASE))) == 1
    await client.script_flush()
    answers = await store.insert([*jobs, *(new_job(queue=f"q{number}") for number in range(5))])
    assert [one.created for one in answers] == [False] * 5 + [True] * 5


async def test_an_emptied_server_takes_new_jobs(store: RedisStore, client: Redis, redis_prefix: str) -> None:
    await store.insert([new_job()])
    keys = [key async for key in client.scan_iter(f"{redis_prefix}*")]
    await client.delete(*keys)
    job = new_job()
    await store.insert([job])
    assert await store.queues() == {QUEUE: False}
    assert [final.id for final in await store.results([job.id])] == [job.id]


async def test_a_newer_store_is_refused(settings: RedisSettings, client: Redis, redis_prefix: str) -> None:
    await client.set(f"{redis_prefix}schema", 9)
    store = RedisStore(settings)
    with pytest.raises(SchemaNewer, match="upgrade this program"):
        await store.open()
    await store.close()


async def test_entries_without_a_job_are_dropped(world: World, client: Redis, redis_prefix: str) -> None:
    job_id = await world.insert()
    await world.beat()
    for name, score in (("pending", 1), ("scheduled", 1), ("retrying", 1), ("running", 1)):
        await client.zadd(f"{redis_prefix}{{{QUEUE}}}:{name}", {"ghost": score, "k:key": score})
    await world.store.upkeep()  # notes what has something due, whoever wrote it
    assert await world.store.promote(10) == []
    assert await world.store.reclaim(10) == []
    assert [ready.id for ready in await world.store.list_claimable(QUEUE, 10)] == [job_id]
    assert await world.claim_ids(ids=["ghost", job_id, "k:key"]) == [job_id]
    for name in ("pending", "scheduled", "retrying", "running"):
        members = await client.zrange(f"{redis_prefix}{{{QUEUE}}}:{name}", 0, -1)
        assert members == ([job_id] if name == "running" else []), name
    with pytest.raises(JobNotFound):
        await world.job("ghost")


async def test_what_is_no_hash_is_no_job(world: World, client: Redis, redis_prefix: str) -> None:
    await client.set(f"{redis_prefix}{{{QUEUE}}}:job:strange", "rubbish")
    job_id = await world.insert()
    await client.zadd(f"{redis_prefix}{{{QUEUE}}}:pending", {"strange": 1, b"\xff\xfe": 2})
    assert await world.claim_ids(ids=["strange", job_id]) == [job_id]
    assert (await world.inspector.jobs(Filter(), 10)).jobs[0].id == job_id
    assert await world.store.results(["strange"]) == []
    assert (await world.change("retry", ["strange"])).ids == ()


async def test_a_hash_with_holes_is_handed_out_to_be_buried(world: World, client: Redis, redis_prefix: str) -> None:
    job_id = await world.insert(payload='{"a": 1}', tags=("x",))
    await client.hdel(f"{redis_prefix}{{{QUEUE}}}:job:{job_id}", "payload", "max_retries", "created_at", "tags")
    claim = await world.claim_job(job_id)
    assert (claim.payload, claim.max_retries, claim.tags) == ("", 0, ())
    await world.settle(claim, "dead")
    assert (await world.job(job_id)).status == "dead"


async def test_rubbish_stops_nobody_who_looks(world: World, client: Redis, redis_prefix: str) -> None:
    broken, strange = await world.insert(tags=("x",)), await world.ended("dead")
    good = await world.insert()
    await world.beat()
    start = f"{redis_prefix}{{{QUEUE}}}:"
    rubbish = {"priority": "high", "created_at": "", "tags": "[", "crashes": "x", "run_at": "now", "token": "?"}
    await client.hset(f"{start}job:{broken}", mapping=rubbish)
    await client.hset(f"{start}job:{strange.id}", "status", "odd")
    await client.rpush(f"{start}attempts:{good}", "rubbish", "1 2 3 4 {}")
    await client.hset(f"{start}tallies", mapping={"rubbish": "x", "a:b": "1"})
    await client.hset(f"{redis_prefix}workers", "w", "rubbish")
    await client.hset(f"{redis_prefix}leaders", "sweep", "rubbish")
    inspector = world.inspector
    assert {job.id for job in (await inspector.jobs(Filter(), 10)).jobs} == {broken, good}
    assert (await inspector.get(broken)).tags == ()
    with pytest.raises(JobNotFound):
        await inspector.get(strange.id)
    assert await inspector.attempts(good) == []
    assert [worker.id for worker in (await inspector.overview()).workers] == ["worker-1"]
    assert await inspector.tallies()
    assert await inspector.conservation()
    assert await world.store.acquire_leadership("sweep", "w", 5)
    assert {ready.id for ready in await world.store.list_claimable(QUEUE, 10)} == {broken, good}
    claims = await world.claim()
    assert {claim.id for claim in claims} == {broken, good}
    assert all(await world.settle_all([outcome(claim, "retrying", delay=0.0) for claim in claims]))
    assert {ready.id for ready in await world.store.promote(10)} == {broken, good}
    world.store._upkeep._seldom_at = float("-inf")  # type: ignore[attr-defined]
    await world.store.upkeep()


async def test_two_heartbeats_of_jobs_in_several_queues(world: World) -> None:
    claims = [await world.running(queue=f"q{number}") for number in range(3)]
    await world.beat(*(held(claim) for claim in claims[:2]))
    reply = await world.beat(*(held(claim, 50) for claim in claims))
    assert reply.lost == ()
    assert [(await world.job(claim.id)).progress for claim in claims] == [50] * 3


async def test_a_cancelled_send_does_not_confuse_the_next_caller(settings: RedisSettings) -> None:
    """Half a command on a connection that went back to its pool would answer the next one."""
    store = RedisStore(settings)
    await store.open()
    large = [new_job(payload='{"text": "' + "x" * 1_000_000 + '"}') for _ in range(3)]
    for pause in (0.0, 0.001, 0.002, 0.005, 0.01):
        inserting = asyncio.create_task(store.insert(large))
        await asyncio.sleep(pause)
        inserting.cancel()
        await asyncio.wait([inserting])
        assert await store.acquire_leadership("sweep", "worker", 60)
        assert set(await store.queues()) <= {QUEUE}
    await store.close()
