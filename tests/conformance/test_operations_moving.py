"""Jobs that go to another queue or priority: moved as they are, or retried there, by the rules of both queues."""

from __future__ import annotations

from typing import Any

import pytest

from queue_core.errors import QueueFull
from queue_core.model.filters import Filter
from queue_core.model.operation import Author, ChangeOptions, OperationRequest, StepResult
from queue_core.model.rules import QueueRules
from tests.conformance.conftest import Ruled
from tests.conformance.making import LEASE, QUEUE, failure
from tests.conformance.modes import Opener
from tests.conformance.world import World

OTHER = "other"
MOVABLE = ("scheduled", "queued", "retrying", "dead")
FIXED = ("running", "completed", "cancelled", "trashed")


async def step(world: World, verb: str, ids: list[str], **way: Any) -> StepResult:
    asked = OperationRequest(verb, "some jobs", Author("ana", "bastion-1"), options=ChangeOptions(**way))
    operation = await world.operations.create(asked)
    await world.operations.add(operation.number, ids)
    await world.operations.move(operation.number, "running")
    return await world.operations.step(operation.number, 1000)


async def move(world: World, *ids: str, **way: Any) -> StepResult:
    return await step(world, "move", list(ids), **{"queue": OTHER} | way)


async def depths(world: World) -> dict[str, tuple[int, int, int, int]]:
    queues = (await world.inspector.overview()).queues
    return {one.name: (one.queued, one.scheduled, one.retrying, one.dead) for one in queues}


@pytest.mark.parametrize("state", MOVABLE)
async def test_a_job_keeps_everything_but_its_queue(world: World, state: str) -> None:
    job_id = await world.job_in(state, payload='{"a": 1}', tags=("x",), max_retries=7)
    await world.advance(5)
    before = await world.job(job_id)
    done = await move(world, job_id)
    assert done.changed.ids == (job_id,)
    assert [(one.id, one.queue) for one in done.changed.ready] == ([(job_id, OTHER)] if state == "queued" else [])
    job = await world.job(job_id)
    for name in (
        "status",
        "payload",
        "tags",
        "max_retries",
        "retry_count",
        "run_at",
        "error",
        "priority",
        "created_at",
    ):
        assert getattr(job, name) == getattr(before, name), name
    assert job.updated_at == before.updated_at
    assert job.token > before.token
    assert job.queue == OTHER
    assert len(await world.inspector.attempts(job_id)) == (1 if state in {"retrying", "dead"} else 0)
    there = {"queued": (1, 0, 0, 0), "scheduled": (0, 1, 0, 0), "retrying": (0, 0, 1, 0), "dead": (0, 0, 0, 1)}[state]
    assert await depths(world) == {QUEUE: (0, 0, 0, 0), OTHER: there}


async def test_a_job_keeps_its_losses_and_its_deaths(world: World) -> None:
    job_id = await world.lost(1)
    await world.settle(await world.claim_job(job_id), "dead", failure=failure(kind="poison"))
    await move(world, job_id)
    assert [getattr(await world.job(job_id), name) for name in ("losses", "crashes")] == [1, 1]
    await world.change("retry", [job_id])
    (claim,) = await world.claim(queue=OTHER)
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, 3)
    await move(world, job_id, queue=QUEUE)
    assert [getattr(await world.job(claim.id), name) for name in ("losses", "crashes")] == [1, 1]


@pytest.mark.parametrize("state", FIXED)
async def test_what_cannot_be_moved_is_skipped(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    done = await move(world, job_id)
    assert (done.changed.ids, done.operation.skipped) == ((), 1)
    assert (await world.job(job_id)).queue == QUEUE


@pytest.mark.parametrize("state", MOVABLE)
async def test_a_moved_job_runs_in_its_new_queue(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    await move(world, job_id)
    assert await world.claim_ids() == []
    if state == "dead":
        assert (await step(world, "retry", [job_id])).changed.ids == (job_id,)
    await world.advance(4000)
    await world.store.promote(10)
    assert await world.claim_ids() == []
    (claim,) = await world.claim(queue=OTHER)
    assert (claim.id, claim.queue) == (job_id, OTHER)
    assert (await world.settle(claim, "completed")).accepted
    assert (await world.job(job_id)).status == "completed"


async def test_where_it_is_already(world: World) -> None:
    job_id = await world.insert()
    done = await move(world, job_id, queue=QUEUE)
    assert (done.changed.ids, done.operation.skipped) == ((), 1)
    assert await world.claim_ids() == [job_id]


@pytest.mark.parametrize("state", MOVABLE)
async def test_another_priority(world: World, state: str) -> None:
    job_id = await world.job_in(state, priority=5)
    done = await move(world, job_id, queue=None, priority=20)
    assert done.changed.ids == (job_id,)
    job = await world.job(job_id)
    assert (job.queue, job.priority, job.status) == (QUEUE, 20, state)
    (queue,) = (await world.inspector.overview()).queues
    assert queue.depth == ({20: 1} if state == "queued" else {})
    if state == "queued":
        first = await world.insert(priority=19)
        assert await world.claim_ids() == [job_id, first]


async def test_moved_jobs_line_up_behind_what_waits_there(world: World) -> None:
    moved = await world.insert_many(9)
    (waits,) = await world.insert_many(1, queue=OTHER)
    await move(world, *moved)
    assert await world.claim_ids(queue=OTHER) == [waits, *moved]


async def test_a_retry_goes_elsewhere(world: World) -> None:
    job_id = (await world.ended("dead")).id
    done = await step(world, "retry", [job_id], queue=OTHER, priority=15)
    ((ready),) = done.changed.ready
    assert (ready.id, ready.queue) == (job_id, OTHER)
    job = await world.job(job_id)
    assert (job.queue, job.priority, job.status, job.retry_count) == (OTHER, 15, "queued", 0)
    assert await world.claim_ids() == []
    (claim,) = await world.claim(queue=OTHER)
    assert claim.id == job_id
    assert claim.token > 0


async def test_a_completed_job_is_retried_elsewhere_later(world: World) -> None:
    job_id = (await world.ended("completed")).id
    done = await step(world, "retry", [job_id], queue=OTHER, delay=50.0)
    assert (done.changed.ids, done.changed.ready) == ((job_id,), ())
    assert await depths(world) == {QUEUE: (0, 0, 0, 0), OTHER: (0, 1, 0, 0)}
    await world.advance(60)
    assert [one.id for one in await world.store.promote(10)] == [job_id]


async def test_the_logs_of_a_moved_job_stay(world: World) -> None:
    from queue_core.model.job import LogLine

    claim = await world.running()
    await world.store.log([LogLine(claim.id, claim.token, QUEUE, 1, "hello")])
    await world.settle(claim, "dead")
    await move(world, claim.id)
    assert [one.text for one in (await world.inspector.logs(claim.id)).entries] == ["hello"]


async def test_who_moves_away_lets_go_of_its_ordering_key(world: World) -> None:
    first, second = await world.insert(ordering_key="k"), await world.insert(ordering_key="k")
    done = await move(world, first)
    assert {(one.id, one.queue) for one in done.changed.ready} == {(first, OTHER), (second, QUEUE)}
    assert await world.claim_ids() == [second]
    assert await world.claim_ids(queue=OTHER) == [first]


async def test_who_waits_for_its_ordering_key_moves_alone(world: World) -> None:
    first, second = await world.insert(ordering_key="k"), await world.insert(ordering_key="k")
    done = await move(world, second)
    assert [(one.id, one.queue) for one in done.changed.ready] == [(second, OTHER)]
    (claim,) = await world.claim()
    assert claim.id == first
    third = await world.insert(ordering_key="k")
    # Nothing waits there any more but the third.
    settled = await world.settle(claim, "completed")
    assert [(one.id, one.queue) for one in settled.unblocked] == [(third, QUEUE)]
    assert await world.claim_ids() == [third]


async def test_moved_jobs_wait_for_the_key_there(world: World) -> None:
    moved = [await world.insert(ordering_key="k") for _ in range(2)]
    holder = await world.insert(ordering_key="k", queue=OTHER)
    assert (await move(world, *moved)).changed.ready == ()
    assert await world.claim_ids(queue=OTHER) == [holder]


@pytest.mark.parametrize("verb", ["move", "retry"])
async def test_a_dead_job_that_blocks_its_key_lets_go(ruled: Ruled, verb: str) -> None:
    world = await ruled(dead_blocks_key=True)
    blocking = (await world.ended("dead", ordering_key="k")).id
    waits = await world.insert(ordering_key="k")
    assert await world.claim_ids() == []
    done = await step(world, verb, [blocking], queue=OTHER)
    ready = {(one.id, one.queue) for one in done.changed.ready}
    assert ready == {(waits, QUEUE)} | ({(blocking, OTHER)} if verb == "retry" else set())
    assert await world.claim_ids() == [waits]


async def test_the_key_of_a_fifo_queue_stays_behind(opener: Opener) -> None:
    world = await opener({QUEUE: QueueRules(fifo=True), OTHER: QueueRules(shards=4)})
    job_id = await world.insert(ordering_key=QueueRules(fifo=True).key_of(None))
    await move(world, job_id)
    assert (await world.job(job_id)).ordering_key is None
    keyed = await world.insert(ordering_key="customer-7", queue="third")
    await move(world, keyed)
    assert (await world.job(keyed)).ordering_key == QueueRules(shards=4).key_of("customer-7")
    await move(world, keyed, queue=QUEUE)
    assert (await world.job(keyed)).ordering_key == QueueRules(fifo=True).key_of(None)
    await world.close()


async def test_a_unique_key_is_free_behind_a_moved_job(world: World) -> None:
    moved = await world.insert(unique_key="task:a")
    await move(world, moved)
    (there,) = await world.store.insert([_new(unique_key="task:a", queue=OTHER)])
    assert (there.id, there.created) == (moved, False)
    (here,) = await world.store.insert([_new(unique_key="task:a")])
    assert here.created


async def test_a_key_for_a_time_stays_behind_a_moved_job(world: World) -> None:
    """Whatever becomes of its job, nor where it goes."""
    moved = await world.insert(unique_key="task:a", unique_seconds=600.0)
    await move(world, moved)
    (here,) = await world.store.insert([_new(unique_key="task:a", unique_seconds=600.0)])
    assert (here.id, here.created) == (moved, False)


async def test_a_moved_job_stays_where_it_is_in_lists(world: World) -> None:
    moved = await world.insert(unique_key="k")
    await world.advance(5)
    later = await world.insert(queue=OTHER)
    await world.advance(5)
    await move(world, moved)
    assert [job.id for job in (await world.inspector.jobs(Filter(), 10)).jobs] == [later, moved]


async def test_a_taken_unique_key_does_not_hold_a_move_up(world: World) -> None:
    holder = await world.insert(unique_key="task:a", queue=OTHER)
    moved = await world.insert(unique_key="task:a")
    assert (await move(world, moved)).changed.ids == (moved,)
    assert sorted(await world.claim_ids(queue=OTHER)) == sorted([holder, moved])


async def test_a_move_may_pass_a_limit_and_counts(opener: Opener) -> None:
    world = await opener({OTHER: QueueRules(limit=2), QUEUE: QueueRules(limit=3)})
    here = await world.insert_many(3)
    await world.insert_many(1, queue=OTHER)
    assert len((await move(world, *here)).changed.ids) == 3
    with pytest.raises(QueueFull):
        await world.insert(queue=OTHER)
    await world.insert_many(3)
    with pytest.raises(QueueFull):
        await world.insert()
    await world.close()


async def test_a_retry_counts_where_the_job_goes(opener: Opener) -> None:
    world = await opener({OTHER: QueueRules(limit=2), QUEUE: QueueRules(limit=2)})
    dead = (await world.ended("dead")).id
    await world.advance(61)  # what is free is counted again
    await world.insert(queue=OTHER)
    assert len((await step(world, "retry", [dead], queue=OTHER)).changed.ids) == 1
    with pytest.raises(QueueFull):
        await world.insert(queue=OTHER)
    await world.insert_many(2)
    with pytest.raises(QueueFull):
        await world.insert()
    await world.close()


async def test_a_move_counts_in_its_band(opener: Opener) -> None:
    world = await opener({OTHER: QueueRules(limit=5, band_limits={"high": 3})})
    await world.insert(queue=OTHER, priority=10)
    await move(world, *await world.insert_many(2, priority=10))
    with pytest.raises(QueueFull):
        await world.insert(queue=OTHER, priority=10)
    await world.insert_many(2, queue=OTHER)
    with pytest.raises(QueueFull):
        await world.insert(queue=OTHER)
    await world.close()


async def test_a_retry_counts_in_its_band(opener: Opener) -> None:
    world = await opener({QUEUE: QueueRules(limit=5, band_limits={"high": 3})})
    dead = [(await world.ended("dead", priority=10)).id for _ in range(2)]
    await world.advance(61)  # what is free is counted again
    await world.insert(priority=10)
    assert len((await step(world, "retry", dead)).changed.ids) == 2
    with pytest.raises(QueueFull):
        await world.insert(priority=10)
    await world.insert_many(2)
    with pytest.raises(QueueFull):
        await world.insert()
    await world.close()


async def test_an_aging_queue_ranks_what_comes(opener: Opener) -> None:
    world = await opener({OTHER: QueueRules(aging=60.0)})
    waits = await world.insert(queue=OTHER)
    moved = await world.insert()
    await move(world, moved)
    assert await world.claim_ids(queue=OTHER) == [waits, moved]
    await world.close()


async def test_moved_jobs_are_conserved(world: World) -> None:
    ids = [await world.job_in(state) for state in (*MOVABLE, *FIXED)]
    before = await world.inspector.conservation()
    await move(world, *ids)
    assert await world.inspector.conservation() == before


async def test_signatures_follow_a_moved_job(world: World) -> None:
    job_id = (await world.ended("dead")).id
    await move(world, job_id)
    from queue_core.model.filters import parse

    (group,) = await world.inspector.signatures(parse(f"queue:{OTHER}"), 900.0, 4, 10)
    assert (group.count, group.queues, group.sample_id) == (1, (OTHER,), job_id)
    assert await world.inspector.signatures(parse(f"queue:{QUEUE}"), 900.0, 4, 10) == []


def _new(**given: Any) -> Any:
    from tests.conformance.making import new_job

    return new_job(**given)


@pytest.mark.parametrize("verbs", [("move", "retry"), ("retry",)])
async def test_a_dead_job_leaves_its_unique_key_behind(world: World, verbs: tuple[str, ...]) -> None:
    gone = (await world.ended("dead", unique_key="task:a")).id
    for verb in verbs:
        assert (await step(world, verb, [gone], queue=OTHER)).changed.ids == (gone,)
    (here,) = await world.store.insert([_new(unique_key="task:a")])
    assert here.created
    (there,) = await world.store.insert([_new(unique_key="task:a", queue=OTHER)])
    assert (there.id, there.created) == (gone, False)


async def test_a_retrying_job_that_moves_has_no_hold_until_it_is_due(world: World) -> None:
    moved = (await world.ended("retrying", ordering_key="k")).id
    waits = await world.insert(ordering_key="k")
    assert [(one.id, one.queue) for one in (await move(world, moved)).changed.ready] == [(waits, QUEUE)]
    there = await world.insert(queue=OTHER, ordering_key="k")
    await world.advance(LEASE + 1)
    assert await world.store.promote(10) == []
    (claim,) = await world.claim(queue=OTHER)
    assert claim.id == there
    assert [one.id for one in (await world.settle(claim, "completed")).unblocked] == [moved]


@pytest.mark.parametrize("verb", ["move", "retry"])
async def test_a_dead_job_that_held_its_key_queues_up_for_that_of_another_queue(opener: Opener, verb: str) -> None:
    rules = QueueRules(dead_blocks_key=True)
    world = await opener({QUEUE: rules, OTHER: rules})
    try:
        dead = await world.ended("dead", ordering_key="k")
        there = await world.running(queue=OTHER, ordering_key="k")
        assert (await step(world, verb, [dead.id], queue=OTHER)).changed.ids == (dead.id,)
        if verb == "move":
            assert (await world.change("retry", [dead.id])).ready == ()
        assert await world.claim(queue=OTHER) == []
        settled = await world.settle(there, "completed")
        assert [one.id for one in settled.unblocked] == [dead.id]
        assert await world.claim_ids(queue=OTHER) == [dead.id]
    finally:
        await world.close()


async def test_a_retry_counts_where_the_job_had_died(world: World) -> None:
    dead = await world.ended("dead")
    await step(world, "retry", [dead.id], queue=OTHER)
    tallies = await world.inspector.tallies()
    assert [(one.queue, one.count) for one in tallies if one.outcome == "retried_by_operator"] == [(QUEUE, 1)]
