"""Each script changes what its header says and nothing else, and run again it changes nothing."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.conformance.making import LEASE, QUEUE, UNKNOWN, failure, held, outcome
from tests.conformance.world import World
from tests.redis.store.inserting import NEW, QUEUED, claimed, inserted
from tests.redis.store.stored import Look, changes


async def test_insert_a_ready_job(world: World, look: Look) -> None:
    await inserted(world)
    assert await look() == NEW | {"job:a": QUEUED, "pending": {"a": "5/1"}}


async def test_insert_a_scheduled_job(world: World, look: Look) -> None:
    await inserted(world, delay=60, tags=("x", "é"))
    hash_ = QUEUED | {"status": "scheduled", "run_at": "t1+60s", "tags": '["x", "é"]'}
    assert await look() == NEW | {"job:a": hash_, "scheduled": {"a": "t1+60s"}, "depths": {"d5": "1"}}


async def test_insert_again(world: World, look: Look) -> None:
    await inserted(world)
    before = await look()
    await inserted(world, payload='{"other": 1}', priority=9)
    assert changes(before, await look()) == {"seq": "2"}


async def test_claim(world: World, look: Look) -> None:
    await inserted(world)
    before = await look()
    await world.claim_job("a")
    assert changes(before, await look()) == {
        "job:a": {
            "status": "running",
            "updated_at": "t2",
            "started_at": "t2",
            "lease_expires_at": "t2+60s",
            "worker": "worker-1",
            "token": "token1",
            "claim": "some",
            "release": "0",
        },
        "pending": None,
        "running": {"a": "t2+60s"},
        "unfinished": {"a": "t2"},
        "token": "some",
        "types": None,
        "depths": None,
    }


@pytest.mark.parametrize("verb", ["claim", "cancel"])
async def test_what_is_not_ready_any_more_is_not_offered(
    world: World, look: Look, client: Redis, redis_prefix: str, verb: str
) -> None:
    await inserted(world)
    await client.zadd(f"{redis_prefix}{{work}}:offered", {"a": 1, "other": 2})
    await (world.claim() if verb == "claim" else world.change("cancel", ["a"]))
    assert (await look())["offered"] == {"other": "127/2"}


@pytest.mark.parametrize(("kind", "place"), [("completed", "completed"), ("cancelled", "cancelled")])
async def test_finish(world: World, look: Look, kind: str, place: str) -> None:
    claim = await claimed(world)
    before = await look()
    one = outcome(claim, kind, result='{"ok": 1}', run_us=700)
    await world.store.settle([one])
    result = {"result": '{"ok": 1}', "progress": "100"} if kind == "completed" else {}
    after = await look()
    assert changes(before, after) == {
        "job:a": {
            "status": kind,
            "updated_at": "t3",
            "completed_at": "t3",
            "ended": f"token1{'c' if kind == 'completed' else 'x'}",
            "lease_expires_at": None,
            "claim": None,
            **result,
        },
        "running": None,
        "unfinished": None,
        place: {"a": "t3"},
        "tallies": {f"{kind}:n:task": "1", f"{kind}:run:task": "700"},
        **({"minutes": {"completed": 1}, "type_releases": {"task": "0:1:0:t"}} if kind == "completed" else {}),
    }
    assert (await world.settle_all([one, one])) == [True, True]
    assert changes(after, await look()) == {}


RETURNED = {"lease_expires_at": None, "claim": None, "worker": None, "release": None, "started_at": None}
ATTEMPT = ("1", "token1", "t3", "error", "no such file", "worker-1\n0")
SIGNED = {"signatures": {"0123456789ab": "OSError: no such file"}, "last_seen": {"0123456789ab": "t3"}}
FAILED = {"error": "OSError: no such file", "failure_kind": "error", "signature": "0123456789ab"}


async def test_retry_after_a_failure(world: World, look: Look) -> None:
    claim = await claimed(world)
    before = await look()
    one = outcome(claim, "retrying", run_us=700, delay=90.0)
    await world.store.settle([one])
    after = await look()
    assert changes(before, after) == {
        "job:a": RETURNED
        | FAILED
        | {
            "status": "retrying",
            "updated_at": "t3",
            "run_at": "t3+90s",
            "retry_count": "1",
            "ended": "token1r",
        },
        "attempts:a": [ATTEMPT],
        **SIGNED,
        "running": None,
        "retrying": {"a": "t3+90s"},
        "unfinished": {"a": "t3"},
        "types": {"task": "1"},
        "depths": {"d5": "1"},
        "tallies": {"retried:n:task": "1", "retried:run:task": "700"},
        "minutes": {"retried": 1},
    }
    assert await world.settle_all([one]) == [True]
    assert changes(after, await look()) == {}


async def test_release(world: World, look: Look) -> None:
    await inserted(world)
    fresh = await look()
    claim = await world.claim_job("a")
    one = outcome(claim, "released", run_us=700)
    await world.store.settle([one])
    after = await look()
    assert changes(fresh, after) == {
        "job:a": {"updated_at": "t2", "token": "token1", "ended": "token1l"},
        "unfinished": {"a": "t2"},
        "token": "some",
        "tallies": {"released:n:task": "1", "released:run:task": "700"},
    }
    assert await world.settle_all([one]) == [True]
    assert changes(after, await look()) == {}


async def test_cancelled_instead_of_retried(world: World, look: Look) -> None:
    claim = await claimed(world)
    before = await look()
    await world.change("cancel", ["a"])
    assert changes(before, await look()) == {"job:a": {"cancel_requested": "1"}, "cancelling": {"a": "worker-1"}}
    await world.settle(claim, "retrying", run_us=700)
    assert changes(before, await look()) == {
        "job:a": FAILED
        | {
            "status": "cancelled",
            "updated_at": "t3",
            "completed_at": "t3",
            "ended": "token1r",
            "lease_expires_at": None,
            "claim": None,
        },
        "attempts:a": [ATTEMPT],
        **SIGNED,
        "running": None,
        "unfinished": None,
        "cancelled": {"a": "t3"},
        "tallies": {"cancelled:n:task": "1", "cancelled:run:task": "700"},
    }


async def test_bury(world: World, look: Look) -> None:
    claim = await claimed(world)
    before = await look()
    one = outcome(claim, "dead", run_us=700, failure=failure(kind="timeout"))
    await world.store.settle([one])
    after = await look()
    assert changes(before, after) == {
        "job:a": FAILED
        | {
            "status": "dead",
            "failure_kind": "timeout",
            "updated_at": "t3",
            "completed_at": "t3",
            "ended": "token1d",
            "lease_expires_at": None,
            "claim": None,
        },
        "attempts:a": [(*ATTEMPT[:3], "timeout", *ATTEMPT[4:])],
        **SIGNED,
        "running": None,
        "unfinished": None,
        "dlq": {"a": "t3"},
        "errors": {"a": "0123456789ab task"},
        "deaths": {"0123456789ab": 1},
        "tallies": {"dead:n:task": "1", "dead:run:task": "700", "timed_out:n:task": "1"},
        "signature_releases": {"0123456789ab": "0:1:t:t:t"},
        "type_releases": {"task": "0:0:1:0"},
        "minutes": {"dead": 1},
    }
    assert await world.settle_all([one]) == [True]
    assert changes(after, await look()) == {}


@pytest.mark.parametrize("kind", ["completed", "retrying", "dead", "released", "cancelled"])
async def test_a_stale_outcome_changes_nothing(world: World, look: Look, kind: str) -> None:
    claim = await claimed(world)
    before = await look()
    for token in (claim.token - 1, claim.token + 1, claim.token * 10, 1):
        assert await world.settle_all([outcome(claim._replace(token=token), kind)]) == [False]
    assert await world.settle_all([outcome(claim._replace(id=UNKNOWN), kind)]) == [False]
    assert changes(before, await look()) == {}


async def test_extend(world: World, look: Look) -> None:
    claim = await claimed(world)
    await world.beat()
    before = await look()
    await world.beat(held(claim, 40, "decoded"), lease=600.0)
    found = changes(before, await look())
    del found["workers"]
    assert found == {
        "job:a": {"lease_expires_at": "another time", "progress": "40", "progress_message": "decoded"},
        "running": {"a": "another time"},
    }


async def test_promote(world: World, look: Look) -> None:
    await inserted(world, delay=60)
    await world.advance(61)
    before = await look()
    await world.store.promote(10)
    after = await look()
    assert changes(before, after) == {
        "job:a": {"status": "queued", "updated_at": "t2"},
        "scheduled": None,
        "pending": {"a": "5/1"},
        "unfinished": {"a": "t2"},
        "depths": {"d5": None, "q5": "1"},
    }
    assert await world.store.promote(10) == []
    assert changes(after, await look()) == {}


async def test_reclaim(world: World, look: Look) -> None:
    await claimed(world)
    await world.advance(LEASE + 1)
    before = await look()
    await world.store.reclaim(10)
    after = await look()
    said = "a worker was lost while it ran this job (last: worker-1)"
    found = changes(before, after)
    (signature,) = found["last_seen"]
    assert found == {
        "job:a": RETURNED
        | {
            "status": "queued",
            "updated_at": "t3",
            "losses": "1",
            "error": f"WorkerLost: {said}",
            "failure_kind": "lost",
            "signature": signature,
        },
        "attempts:a": [("1", "token1", "t3", "lost", said, "worker-1\n0")],
        "signatures": {signature: "WorkerLost: a worker was lost while it ran this job"},
        "last_seen": {signature: "t3"},
        "running": None,
        "pending": {"a": "5/1"},
        "unfinished": {"a": "t3"},
        "types": {"task": "1"},
        "depths": {"q5": "1"},
        "tallies": {"crashed:n:task": "1"},
    }
    assert await world.store.reclaim(10) == []
    assert changes(after, await look()) == {}


@pytest.mark.parametrize("kind", ["completed", "cancelled", "dead"])
async def test_a_wait_as_long_as_a_bound_belongs_to_its_bucket(
    world: World, client: Redis, redis_prefix: str, kind: str
) -> None:
    for wait in (1000, 1001):
        claim = await world.running()
        key = f"{redis_prefix}{{{QUEUE}}}:job:{claim.id}"
        started_at = int(await client.hget(key, "started_at"))  # type: ignore[misc, arg-type]
        await client.hset(key, "run_at", started_at - wait)  # type: ignore[misc]
        await world.settle(claim, kind)
    (one,) = [one for one in await world.inspector.tallies() if one.outcome == kind]
    assert (one.wait_us, one.wait_buckets) == (2001, {0: 1, 1: 1})
