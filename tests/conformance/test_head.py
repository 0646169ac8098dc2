"""Head and ready_of: what the audit and the rebuild offer to a dispatcher."""

from queue_core.model.job import new_id
from tests.conformance.making import QUEUE, TYPE, new_job
from tests.conformance.world import STATES, World


async def head(world: World, limit: int = 100, queue: str = QUEUE) -> list[str]:
    return [ready.id for ready in await world.store.list_claimable(queue, limit)]


async def claimable(world: World, *ids: str, queue: str = QUEUE) -> list[str]:
    return [ready.id for ready in await world.store.filter_claimable(queue, ids)]


async def test_without_a_worker_nothing_is_claimable(world: World) -> None:
    await world.insert()
    assert await head(world) == []


async def test_the_best_ranks_first(world: World) -> None:
    await world.beat()
    jobs = [new_job(priority=priority) for priority in (5, 0, 10, 5)]
    ranks = {inserted.id: inserted.rank for inserted in await world.store.insert(jobs)}
    expected = [jobs[2].id, jobs[0].id, jobs[3].id, jobs[1].id]
    assert await head(world) == expected
    assert await head(world, 2) == expected[:2]
    assert await head(world, 0) == []
    assert {ready.id: ready.rank for ready in await world.store.list_claimable(QUEUE, 10)} == ranks
    assert {ready.queue for ready in await world.store.list_claimable(QUEUE, 10)} == {QUEUE}


async def test_only_types_that_a_worker_announced(world: World) -> None:
    await world.insert(type="unknown", priority=20)
    mine = await world.insert()
    await world.beat()
    assert await head(world) == [mine]
    await world.beat(worker="worker-2", types=("unknown", "more"))
    assert len(await head(world)) == 2


async def test_only_types_that_a_worker_of_this_queue_announced(world: World) -> None:
    job_id, other = await world.insert(), await world.insert(queue="other")
    await world.beat(queues=("other",))
    assert await head(world) == await claimable(world, job_id) == []
    assert await head(world, queue="other") == await claimable(world, other, queue="other") == [other]
    assert (await world.inspector.overview()).orphaned_types == {TYPE: 1}
    await world.beat(worker="worker-2", types=("more",))
    assert await head(world) == await claimable(world, job_id) == []
    await world.beat(worker="worker-2")
    assert await head(world) == await claimable(world, job_id) == [job_id]


async def test_a_worker_that_takes_every_type(world: World) -> None:
    mine, other = await world.insert(type="whatever"), await world.insert(queue="other")
    await world.insert(type="later", delay=60.0)
    assert set((await world.inspector.overview()).orphaned_types) == {"whatever", "later", TYPE}
    await world.beat(types=None)
    assert await head(world) == await claimable(world, mine) == [mine]
    assert await head(world, queue="other") == await claimable(world, other, queue="other") == []
    overview = await world.inspector.overview()
    assert (overview.orphaned_types, overview.workers[0].types) == ({TYPE: 1}, None)
    assert overview.workers[0].runs(QUEUE, "anything")
    assert not overview.workers[0].runs("other", TYPE)
    await world.beat(worker="worker-2", queues=("other",), types=("more",))
    await world.advance(31)
    assert await head(world) == []


async def test_a_lost_worker_announces_nothing(world: World) -> None:
    job_id = await world.insert()
    await world.beat(interval=10.0)
    await world.advance(25)
    assert await head(world) == await claimable(world, job_id) == [job_id]
    await world.advance(10)
    assert await head(world) == await claimable(world, job_id) == []
    await world.beat()
    assert await head(world) == await claimable(world, job_id) == [job_id]
    await world.store.unregister_worker("worker-1")
    assert await head(world) == await claimable(world, job_id) == []


async def test_only_ready_jobs(world: World) -> None:
    await world.beat()
    ids = {state: await world.job_in(state) for state in STATES}
    assert await head(world) == [ids["queued"]]
    assert [ready.id for ready in await world.store.list_ready(QUEUE, 0, 100)] == [ids["queued"]]


async def test_not_of_a_paused_queue(world: World) -> None:
    await world.beat()
    job_id = await world.insert()
    await world.operations.pause(QUEUE)
    assert await head(world) == []
    await world.operations.resume(QUEUE)
    assert await head(world) == [job_id]


async def test_a_queue_that_is_not_there(world: World) -> None:
    assert await world.store.list_claimable("nowhere", 10) == []
    assert await world.store.list_ready("nowhere", 0, 10) == []


async def test_queues_apart(world: World) -> None:
    await world.beat(types=(TYPE,), queues=(QUEUE, "other"))
    job_id, other = await world.insert(), await world.insert(queue="other")
    assert await head(world) == [job_id]
    assert await head(world, queue="other") == [other]


async def test_heads_of_many_queues(world: World) -> None:
    """What the audit reads of many queues together is what it would read of each."""
    queues = [QUEUE, "other", "third"]
    await world.beat(queues=(QUEUE, "other", "paused"))
    await world.beat(worker="worker-2", queues=("third",), types=("more",))
    for queue in (*queues, "paused"):
        for type_ in (TYPE, "more"):
            await world.insert(queue=queue, type=type_)
            await world.insert(queue=queue, type=type_, priority=9)
    await world.operations.pause("paused")
    for limit in (1, 100):
        found = await world.store.list_claimable_in([*queues, "paused", "nowhere"], limit)
        for queue in queues:
            assert [ready for ready in found if ready.queue == queue] == await world.store.list_claimable(queue, limit)
        assert {ready.queue for ready in found} == set(queues)
    assert await world.store.list_claimable_in([], 100) == []


async def test_queues_that_may_have_ready_jobs(world: World) -> None:
    assert await world.store.ready_queues() == []
    await world.insert()
    await world.insert(queue="paused")
    await world.operations.pause("paused")
    assert await world.store.ready_queues() == [QUEUE]


async def test_which_of_these_are_claimable(world: World) -> None:
    """What a worker gives back of its candidates, for others to take."""
    await world.beat()
    ids = {state: await world.job_in(state) for state in STATES}
    unknown, elsewhere = await world.insert(type="unknown"), await world.insert(queue="other")
    second = await world.insert(priority=9)
    asked = [*ids.values(), unknown, elsewhere, second, new_id(), "rubbish", second]
    found = await world.store.filter_claimable(QUEUE, asked)
    assert [ready.id for ready in found] == [second, ids["queued"]]
    assert {ready.queue for ready in found} == {QUEUE}
    assert found == await world.store.list_claimable(QUEUE, 10)
    assert await world.store.filter_claimable(QUEUE, []) == []
    assert await world.store.filter_claimable("nowhere", asked) == []
    await world.operations.pause(QUEUE)
    assert await world.store.filter_claimable(QUEUE, asked) == []


async def test_pages_of_a_rebuild(world: World) -> None:
    """All types, whether announced or not: the next audit parks what nobody can run."""
    jobs = [new_job(priority=number % 3, type=f"type-{number % 2}") for number in range(25)]
    await world.store.insert(jobs)
    found, rank = [], -1
    while page := await world.store.list_ready(QUEUE, rank, 10):
        assert len(page) <= 10
        found += [ready.id for ready in page]
        rank = page[-1].rank
    assert found == [job.id for job in sorted(jobs, key=lambda job: -job.priority)]


async def test_the_rebuild_takes_what_is_behind_the_rank(world: World) -> None:
    await world.insert_many(3)
    ready = await world.store.list_ready(QUEUE, -1, 10)
    assert await world.store.list_ready(QUEUE, ready[0].rank, 10) == ready[1:]
    assert await world.store.list_ready(QUEUE, ready[0].rank - 1, 1) == ready[:1]
    assert await world.store.list_ready(QUEUE, ready[-1].rank, 10) == []
