"""Trap 4: whatever Redis never heard of, or forgot, is offered by the audit; at a cost that does not grow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis

from queue_core.delivery import audit as auditing
from queue_core.delivery.audit import DeliveryAudit
from queue_core.model.job import NewJob, Ready, new_id
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from tests.redis.conftest import announce
from tests.waiting import PATIENCE


def new_jobs(count: int, type_: str = "known") -> list[NewJob]:
    return [NewJob(new_id(), "default", type_, "{}") for _ in range(count)]


async def never_offered(jobs: JobQueue, count: int, type_: str = "known") -> list[str]:
    """Return the ids of jobs that were committed, and whose producer died before it could tell Redis."""
    rows = new_jobs(count, type_)
    await jobs.store.insert(rows)
    return [job.id for job in rows]


def audit_of(jobs: JobQueue) -> DeliveryAudit:
    assert jobs.dispatcher is not None
    return DeliveryAudit(jobs.store, jobs.dispatcher)


@pytest.fixture
async def audit(jobs: JobQueue) -> DeliveryAudit:
    """An audit of a Redis that was declared whole, for a type that a live worker has."""
    announce(jobs.store, "known")
    await jobs.store.insert(new_jobs(1, "makes the queue"))
    assert jobs.dispatcher is not None
    await jobs.dispatcher.mark_current("default")
    return audit_of(jobs)


async def pending(client: Redis, prefix: str) -> list[str]:
    members: list[str] = await client.zrange(f"{prefix}{{default}}:pending", 0, -1)
    return members


async def test_trap_4_rows_that_redis_never_heard_of_are_offered(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    ids = await never_offered(jobs, 7)
    assert await audit.run_once() == 7
    assert await pending(client, redis_prefix) == ids
    assert await audit.run_once() == 0


async def test_trap_4_what_lies_deeper_surfaces_as_the_head_moves(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round looks at a bounded number of rows, whatever the backlog."""
    monkeypatch.setattr(auditing, "HEAD_JOBS", 10)
    monkeypatch.setattr(auditing, "MAX_PAGED_JOBS", 0)
    ids = await never_offered(jobs, 35)
    rounds = []
    for _ in range(5):
        rounds.append(await audit.run_once())
        taken = await pending(client, redis_prefix)
        request = ClaimRequest("default", "worker-1", ("known",), 100, 60.0, taken)
        assert len(await jobs.store.claim(request)) == len(taken)
        await client.delete(f"{redis_prefix}{{default}}:pending")
    assert rounds == [10, 10, 10, 5, 0]
    assert len(ids) == sum(rounds)


async def test_trap_4_where_all_of_the_head_lacks_so_does_what_is_behind_it(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause, or a large commit of a caller's own: by pages and in order, a bounded number a round."""
    monkeypatch.setattr(auditing, "HEAD_JOBS", 10)
    monkeypatch.setattr(auditing, "PAGE_JOBS", 20)
    monkeypatch.setattr(auditing, "MAX_PAGED_JOBS", 60)
    ids = [*await never_offered(jobs, 40), *await never_offered(jobs, 85)]
    assert [await audit.run_once() for _ in range(4)] == [70, 55, 0, 0]
    assert await pending(client, redis_prefix) == ids


async def test_trap_4_pages_leave_out_what_nobody_can_run_and_end_where_little_lacks(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "HEAD_JOBS", 10)
    monkeypatch.setattr(auditing, "PAGE_JOBS", 10)
    ids = await never_offered(jobs, 15)
    await never_offered(jobs, 5, "unknown")
    known = await never_offered(jobs, 20)
    assert jobs.dispatcher is not None
    await jobs.dispatcher.offer([job for job in await jobs.store.list_claimable("default", 100) if job.id in known])
    await never_offered(jobs, 30)
    assert await audit.run_once() == 15
    assert await pending(client, redis_prefix) == ids + known


async def test_trap_4_a_large_commit_is_offered_as_a_whole(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    ids = await never_offered(jobs, 7_000)
    await audit.offer_head("default")
    assert await pending(client, redis_prefix) == ids


async def test_trap_4_what_nobody_can_run_now_is_left_alone(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    """Running, of a type that no live worker has announced, or in a paused queue."""
    await never_offered(jobs, 3, "unknown")
    (running,) = await never_offered(jobs, 1)
    assert len(await jobs.store.claim(ClaimRequest("default", "worker-1", ("known",), 1, 60.0, [running]))) == 1
    assert await audit.run_once() == 0
    ids = await never_offered(jobs, 2)
    operations = (await jobs.backend()).operations
    await operations.pause("default")
    assert await audit.run_once() == 0
    assert await pending(client, redis_prefix) == []
    await operations.resume("default")
    announce(jobs.store, "known", "unknown", worker="worker-2")
    assert await audit.run_once() == 5
    assert set(ids) < set(await pending(client, redis_prefix))


async def test_trap_4_a_job_that_is_just_being_claimed_is_not_lost(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken from Redis and not yet claimed, it looks lost for a moment; the second look knows better."""
    (job_id,) = await never_offered(jobs, 1)
    looks = 0
    lacking = jobs.dispatcher.missing  # type: ignore[union-attr]

    async def claims_between(heads):  # type: ignore[no-untyped-def]
        nonlocal looks
        looks += 1
        found = await lacking(heads)
        if looks == 1:
            assert [job.id for job in found] == [job_id]
            await jobs.store.claim(ClaimRequest("default", "worker-1", ("known",), 1, 60.0, [job_id]))
        return found

    monkeypatch.setattr(jobs.dispatcher, "missing", claims_between)
    assert await audit.run_once() == 0
    assert looks == 2
    assert await pending(client, redis_prefix) == []


@pytest.mark.parametrize("loss", ["emptied", "foreign", "restored", "overwritten"])
async def test_trap_4_a_lost_generation_rebuilds_the_whole_backlog(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    """In pages and in order, also what lies deeper than any head; what is not ready stays out."""
    monkeypatch.setattr(auditing, "PAGE_JOBS", 7)
    monkeypatch.setattr(auditing, "HEAD_JOBS", 5)
    ids = await never_offered(jobs, 20)
    delayed = NewJob(new_id(), "default", "known", "{}", delay=3600.0)
    (running,) = await never_offered(jobs, 1)
    await jobs.store.insert([delayed])
    await jobs.store.claim(ClaimRequest("default", "worker-1", ("known",), 1, 60.0, [running]))
    generation = f"{redis_prefix}{{default}}:generation"
    before = await client.get(generation)
    assert before is not None
    if loss == "emptied":
        await client.delete(generation)
    elif loss == "foreign":
        await client.set(generation, f"{'0' * 40}:written-by-another-server")
    elif loss == "overwritten":
        await client.delete(ready := f"{redis_prefix}{{default}}:pending")
        await client.hset(ready, "a field", "of somebody else's")
    else:
        await client.set(generation, "")
    await audit.run_once()
    assert (await pending(client, redis_prefix))[-20:] == ids
    after = await client.get(generation)
    assert after not in {None, before}
    assert after.partition(":")[0] == before.partition(":")[0]
    assert not {running, delayed.id} & set(await pending(client, redis_prefix))


async def test_trap_4_what_is_held_at_an_earlier_rank_is_put_right(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    """By the audit, and by the rebuild behind a failover to a replica that lacks the last moves."""
    ids = await never_offered(jobs, 3)
    assert await audit.run_once() == 3
    ready = f"{redis_prefix}{{default}}:pending"
    for lost in (False, True):
        await client.zadd(ready, {ids[0]: 2**53 - 1})
        if lost:
            await client.delete(f"{redis_prefix}{{default}}:generation")
        await (audit_of(jobs) if lost else audit).run_once()
        assert await pending(client, redis_prefix) == ids
    assert await audit.run_once() == 0


async def test_trap_4_a_rebuild_of_what_is_there_offers_nothing_that_workers_have_just_taken(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart with an append-only file: an offer of a job that is claimed meanwhile costs a worker a look."""
    monkeypatch.setattr(auditing, "PAGE_JOBS", 7)
    ids = await never_offered(jobs, 20)
    assert jobs.dispatcher is not None
    await jobs.dispatcher.offer([job for job in await jobs.store.list_claimable("default", 100) if job.id in ids])
    taken = await jobs.dispatcher.take(["default"], 3, 60.0)
    lost = ids[3]
    await client.zrem(f"{redis_prefix}{{default}}:pending", lost)
    await client.delete(f"{redis_prefix}{{default}}:generation")
    missing = jobs.dispatcher.missing

    async def claims_between(heads: Sequence[Ready]) -> list[Ready]:
        found = await missing(heads)
        await jobs.store.claim(ClaimRequest("default", "worker-1", ("known",), 3, 60.0, ids[:3]))
        return found

    monkeypatch.setattr(jobs.dispatcher, "missing", claims_between)
    assert taken is not None
    assert taken.ids == ids[:3]
    assert await audit.run_once() == 1
    assert await pending(client, redis_prefix) == ids[3:]


async def test_trap_4_can_fail(jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str) -> None:
    """Without an audit, what Redis never heard of is never offered: a worker on Redis alone would wait for ever."""
    await never_offered(jobs, 1)
    assert jobs.dispatcher is not None
    assert await jobs.dispatcher.take(["default"], 10, 0.2) is None
    await audit.run_once()
    assert await jobs.dispatcher.take(["default"], 10, 60.0) is not None


async def test_two_audits_at_once_are_harmless(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    ids = await never_offered(jobs, 50)
    await client.delete(f"{redis_prefix}{{default}}:generation")
    await asyncio.gather(audit.run_once(), audit_of(jobs).run_once())
    assert [one for one in await pending(client, redis_prefix) if one in ids] == ids


async def test_keys_of_a_wrong_type_are_put_right(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    """Somebody else's write under our prefix must not stop delivery until a person finds it."""
    ids = await never_offered(jobs, 3)
    for name, wrong in (("pending", "text"), ("waiters", "text"), ("event_seq", "no number")):
        await client.set(f"{redis_prefix}{{default}}:{name}", wrong)
    await client.delete(f"{redis_prefix}{{default}}:generation")
    await client.lpush(f"{redis_prefix}{{default}}:generation", "a list")
    await audit.run_once()
    await audit.run_once()
    assert (await pending(client, redis_prefix))[-3:] == ids
    types = {name: await client.type(f"{redis_prefix}{{default}}:{name}") for name in ("pending", "generation")}
    assert types == {"pending": "zset", "generation": "string"}
    assert await client.exists(f"{redis_prefix}{{default}}:waiters", f"{redis_prefix}{{default}}:event_seq") == 0


async def test_keys_of_a_wrong_type_are_put_right_in_a_queue_without_ready_jobs(
    jobs: JobQueue, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers could not wait at Redis, and would look into the store for as long as nothing comes."""
    await jobs.enqueue("task", delay=3600.0)
    await jobs._enqueuer.drain()  # its event, which counts
    names = ("pending", "generation", "event_seq", "waiters")
    keys = [f"{redis_prefix}{{default}}:{name}" for name in names]
    for key in keys:
        await client.delete(key)
        await client.hset(key, "a field", "of somebody else's")
    monkeypatch.setattr("queue_core.delivery.audit.IDLE_SECONDS", 0.0)
    monkeypatch.setattr("queue_core.delivery.audit.IDLE_QUEUES", 10_000)  # other tests have made some
    await audit_of(jobs).run_once()
    assert "hash" not in {await client.type(key) for key in keys}


async def test_a_workers_own_queue_is_whole_before_its_first_job(jobs: JobQueue) -> None:
    """Else the whole backlog is offered once more as soon as there is one."""
    assert jobs.dispatcher is not None
    own = f"own-{new_id()}"
    assert await jobs.dispatcher.doubtful([own]) == [own]
    await DeliveryAudit(jobs.store, jobs.dispatcher, [own]).run_once()
    assert await jobs.dispatcher.doubtful([own]) == []


async def test_a_key_of_a_wrong_type_is_no_loss_of_the_server(jobs: JobQueue, client: Redis, redis_prefix: str) -> None:
    """Who meets it looks into the store; other queues go on, and the audit gets through to remove it."""
    assert jobs.dispatcher is not None
    foreign, other = f"foreign-{new_id()}", f"other-{new_id()}"
    await client.hset(f"{redis_prefix}{{{foreign}}}:pending", "a field", "of somebody else's")
    for _ in range(3):
        with pytest.raises(DispatchUnavailable, match="WRONGTYPE"):
            await jobs.dispatcher.take([foreign], 1, 0.1)
    ready = Ready(new_id(), other, 1)
    await jobs.dispatcher.offer([ready])
    assert await jobs.dispatcher.take([other], 1, 5.0) == (other, [ready.id])


async def test_what_an_earlier_version_has_left_there_is_filled_again(
    jobs: JobQueue, audit: DeliveryAudit, client: Redis, redis_prefix: str
) -> None:
    """Its marker had another name, so the ready set counts as not whole, whatever is in it."""
    ids = await never_offered(jobs, 7)
    marker = await client.get(f"{redis_prefix}{{default}}:generation")
    await client.delete(f"{redis_prefix}generation", f"{redis_prefix}{{default}}:generation")
    await client.mset({f"{redis_prefix}gen": marker, f"{redis_prefix}{{default}}:gen": marker})
    await client.set(f"{redis_prefix}{{default}}:eseq", 12)
    await audit_of(jobs).run_once()
    assert (await pending(client, redis_prefix))[-7:] == ids
    assert await client.get(f"{redis_prefix}{{default}}:generation") not in {None, marker}


async def test_trap_4_what_is_enqueued_into_a_new_queue_is_not_offered_again_by_its_first_leader(
    jobs: JobQueue,
) -> None:
    """As all of a ready set would be of which it is not known whether it is whole."""
    await jobs.enqueue_many("known", [{"number": number} for number in range(20)])
    assert jobs.dispatcher is not None
    async with asyncio.timeout(PATIENCE):
        while await jobs.dispatcher.doubtful(["default"]):  # noqa: ASYNC110 - nothing notifies of that
            await asyncio.sleep(0.01)
    announce(jobs.store, "known")
    assert await audit_of(jobs).run_once() == 0
