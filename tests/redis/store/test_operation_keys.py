"""What operations leave in Redis: a moved job nothing where it was, an operation nothing when it goes."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.errors import OperationNotFound
from queue_core.model.job import LogLine
from queue_core.model.operation import UNCHANGED, Author, ChangeOptions, OperationRequest
from queue_core.model.settings import RedisSettings, RetentionSettings
from queue_core.redis import keys as documentation
from queue_core.stores.redis.operations import members
from queue_core.stores.redis.session import JOBS_PER_SCRIPT
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import QUEUE, UNKNOWN, new_job
from tests.conformance.modes import redis as opener
from tests.conformance.world import World
from tests.redis.store.test_leaks import _NAME, LASTING, names
from tests.redis.store.test_operation_steps import OTHER, VERBS, all_state, started

DAY = 86400.0
STAYS = {
    "deaths",
    "minutes",
    "tallies",
    "token",
    "last_seen",
    "signatures",
    "seq",
    "type_releases",
    "signature_releases",
}
"""What a queue keeps of jobs that are gone."""


async def done(world: World, verb: str, ids: list[str], way: ChangeOptions = UNCHANGED) -> int:
    number = await started(world, verb, ids, way)
    step = await world.operations.step(number, 1000)
    assert step.operation.processed == len(ids)
    return number


async def in_queue(client: Redis, prefix: str, queue: str) -> dict[str, Any]:
    """Return the keys of a queue with their values, by their short names."""
    start = f"{prefix}{{{queue}}}:"
    found = await all_state(client, prefix)
    return {key.removeprefix(start): value for key, value in found.items() if key.startswith(start)}


@pytest.mark.parametrize("state", ["scheduled", "queued", "retrying", "dead"])
async def test_a_moved_job_takes_everything_along(world: World, client: Redis, redis_prefix: str, state: str) -> None:
    given: dict[str, Any] = {"ordering_key": "k", "unique_key": "u", "tags": ("x",), "payload": '{"a": 1}'}
    if state == "scheduled":
        job_id = await world.insert(delay=60.0, **given)
    else:
        claim = await world.running(**given)
        job_id = claim.id
        await world.store.log([LogLine(claim.id, claim.token, QUEUE, 1, "hello")])
        await world.settle(claim, "released" if state == "queued" else state)
    before = await in_queue(client, redis_prefix, QUEUE)
    await done(world, "move", [job_id], ChangeOptions(queue=OTHER))
    left = await in_queue(client, redis_prefix, QUEUE)
    assert left.pop(f"job:{job_id}") == {"moved": "1"}
    assert 0 < await client.ttl(f"{redis_prefix}{{{QUEUE}}}:job:{job_id}") <= DAY
    assert set(left) <= STAYS
    after = await in_queue(client, redis_prefix, OTHER)
    job, job_before = after[f"job:{job_id}"], before[f"job:{job_id}"]
    assert job["token"] > job_before.get("token", "")
    for name in ("rank", "seq", "token"):
        job.pop(name, None)
        job_before.pop(name, None)
    for found in (before, after):
        for name in STAYS - {"last_seen", "signatures"} | {"pending"}:
            found.pop(name, None)
    if state == "dead":
        # It let go of its key only now and takes it again when it is retried; its unique key it has not held any more.
        assert before.pop("unique") == {"u": job_id}
    if state == "retrying":
        # It has let go, too, and lines up there when it is due. Its error is named there when it dies.
        assert [len(before.pop(name)) for name in ("admitted", "last_seen", "signatures")] == [1, 1, 1]
    assert after == before
    assert await client.sismember(f"{redis_prefix}queues", OTHER)


async def test_what_waits_for_its_turn_leaves_nothing(world: World, client: Redis, redis_prefix: str) -> None:
    first, second, third = [await world.insert(ordering_key="k") for _ in range(3)]
    await done(world, "move", [third, second], ChangeOptions(queue=OTHER))
    found = await in_queue(client, redis_prefix, QUEUE)
    assert ("order_wait" in found, "blocked" in found, len(found["admitted"])) == (False, False, 1)
    there = await in_queue(client, redis_prefix, OTHER)
    assert [member for member, _ in there["blocked"]] == [second]
    assert [member for member, _ in there["pending"]] == [third]
    await done(world, "move", [first, second, third], ChangeOptions(priority=9))
    assert await world.claim_ids(ids=[first]) == [first]
    assert await world.claim_ids(queue=OTHER) == [second], "it lined up first"


async def test_another_priority_in_the_same_queue_changes_little(
    world: World, client: Redis, redis_prefix: str
) -> None:
    ids = [await world.insert(ordering_key="k", unique_key=name) for name in ("a", "b", "c")]
    before = await in_queue(client, redis_prefix, QUEUE)
    await done(world, "move", ids, ChangeOptions(priority=9))
    after = await in_queue(client, redis_prefix, QUEUE)
    assert after["depths"] == {"q9": "3"}
    different = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert different == {"depths", "pending", "seq", "order_wait"} | {f"job:{job_id}" for job_id in ids}
    assert [await world.claim_ids() for _ in range(2)] == [ids[:1], []]


async def test_an_offer_of_a_moved_job_is_taken_back(world: World, client: Redis, redis_prefix: str) -> None:
    job_id = await world.insert()
    await client.zadd(f"{redis_prefix}{{{QUEUE}}}:offered", {job_id: 1})
    await done(world, "move", [job_id], ChangeOptions(queue=OTHER))
    assert await client.zcard(f"{redis_prefix}{{{QUEUE}}}:offered") == 0


async def test_a_retry_elsewhere_counts_where_it_died(world: World) -> None:
    job_id = (await world.ended("dead")).id
    await done(world, "retry", [job_id], ChangeOptions(queue=OTHER))
    tallies = {(one.queue, one.outcome): one.count for one in await world.inspector.tallies()}
    assert tallies[QUEUE, "retried_by_operator"] == 1
    assert {queue for queue, _ in tallies} == {QUEUE}


async def every_kind(world: World) -> list[int]:
    """Return operations of every verb, done, and some in other states."""
    numbers = []
    for verb, state, way in VERBS.values():
        numbers.append(await done(world, verb, [await world.job_in(state) for _ in range(2)], way))
    noted = await world.operations.create(
        OperationRequest("edit", "a job", Author("ana", "here"), signatures=("0" * 12,))
    )
    await world.operations.add(noted.number, [await world.insert(), UNKNOWN])
    assert await world.operations.move(noted.number, "done")
    cancelled = await started(world, "retry", [await world.job_in("dead")])
    await world.operations.move(cancelled, "cancelled")
    failed = await world.operations.create(OperationRequest("pause", "a queue", Author("ana", "here")))
    await world.operations.move(failed.number, "failed", "no")
    abandoned = await world.operations.create(
        OperationRequest("retry", "x", Author("ana", "here"), signatures=("1" * 12,))
    )
    await world.operations.add(abandoned.number, [await world.job_in("dead")])
    return [*numbers, noted.number, cancelled, failed.number, abandoned.number]


async def test_an_operation_that_is_forgotten_leaves_nothing(world: World, client: Redis, redis_prefix: str) -> None:
    numbers = await every_kind(world)
    assert {"operation", "operations", "operations_of", "operation_number"} <= await names(client, redis_prefix)
    await world.advance(DAY)
    await world.store.upkeep()
    assert (await world.operations.get(numbers[-1])).state == "cancelled"
    await world.advance(91 * DAY)
    await world.store.upkeep()
    left = await names(client, redis_prefix)
    assert left & {"operation", "operations", "operations_of"} == set()
    for number in numbers:
        with pytest.raises(OperationNotFound):
            await world.operations.get(number)
    assert await world.operations.list_operations(100) == []
    jobs = {"attempts", "by_type", "errors", "depths", "dlq", "job", "pending", "scheduled", "types", "unfinished"}
    assert left <= LASTING | jobs | {"operation_number"}


async def test_every_key_of_operations_is_documented(world: World, client: Redis, redis_prefix: str) -> None:
    documented = {name for line in str(documentation.__doc__).splitlines() for name in _NAME.findall(line)}
    await every_kind(world)
    assert await names(client, redis_prefix) - documented == set()


async def test_a_large_one_is_forgotten_in_bounded_rounds(
    world: World, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "OPERATION_ROUNDS", 2)
    large = await world.operations.create(OperationRequest("edit", "many", Author("ana", "here")))
    ids = [f"job-{number}" for number in range(3 * JOBS_PER_SCRIPT)]
    await world.operations.add(large.number, ids)
    assert await world.operations.move(large.number, "done")
    small = await done(world, "delete", [await world.job_in("dead")])
    assert (await world.operations.list_for_job(ids[-1], 10))[0].number == large.number
    await world.advance(91 * DAY)
    sizes = []
    for _ in range(3):
        await world.store.upkeep()
        sizes.append(len([key async for key in client.scan_iter(f"{redis_prefix}operations_of:*", count=1000)]))
        with pytest.raises(OperationNotFound):
            await world.operations.get(large.number)
        assert await world.operations.list_for_job(ids[-1], 10) == []
    assert sizes == [JOBS_PER_SCRIPT + 1, 1, 0], "one part of the large one, then the end of it, then the small one"
    with pytest.raises(OperationNotFound):
        await world.operations.get(small)


async def test_what_changes_a_job_all_the_time_is_bounded(world: World, client: Redis, redis_prefix: str) -> None:
    job_id = await world.job_in("dead")
    await client.zadd(f"{redis_prefix}operations_of:{job_id}", {str(-number): -number for number in range(1, 1001)})
    number = await done(world, "delete", [job_id])
    assert await client.zcard(f"{redis_prefix}operations_of:{job_id}") == 1000
    assert [one.number for one in await world.operations.list_for_job(job_id, 10)] == [number]


@pytest.mark.parametrize("known", [False, True])
async def test_a_moved_job_is_known_where_it_was(world: World, redis_url: str, redis_prefix: str, known: bool) -> None:
    """Whoever enqueues it again may not know of the other queue."""
    job = new_job()
    await world.store.insert([job])
    if known:
        await world.insert(queue=OTHER)
        await world.store.insert([new_job()])
    other = await opener(f"{redis_url} {redis_prefix}")()
    await done(other, "move", [job.id], ChangeOptions(queue=OTHER))
    await other.close()
    assert [one.created for one in await world.store.insert([job])] == [False]
    assert (await world.job(job.id)).queue == OTHER
    await done(world, "move", [job.id], ChangeOptions(queue=QUEUE))
    assert (await world.job(job.id)).queue == QUEUE
    await world.claim_job(job.id)


async def test_retention_off_keeps_operations(world: World, settings: RedisSettings) -> None:
    number = await done(world, "delete", [await world.job_in("dead")])
    await world.advance(1000 * DAY)
    store = RedisStore(settings, RetentionSettings(operations=None))
    await store.upkeep()
    await store.close()
    assert (await world.operations.get(number)).state == "done"


async def test_a_job_that_is_asked_for_while_it_moves_is_found(world: World, redis_url: str, redis_prefix: str) -> None:
    """It is seen in neither queue when the look comes to the one too early and to the other too late."""
    job_id = await world.insert(queue="b")
    await world.insert(queue="a")
    other = await opener(f"{redis_url} {redis_prefix}")()
    link = world.inspector._link  # type: ignore[attr-defined]
    read = link.read
    looked: list[int] = []

    async def read_while_it_moves(jobs: dict[str, Any], fields: Any) -> Any:
        found = await read({"a": jobs["a"]}, fields)
        if not looked:
            looked.append(1)
            await done(other, "move", [job_id], ChangeOptions(queue="a"))
        return found | await read({"b": jobs["b"]}, fields)

    link.read = read_while_it_moves
    assert (await world.inspector.get(job_id)).queue == "a"
    await other.close()
