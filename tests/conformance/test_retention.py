"""Upkeep: what is over its retention goes, and the totals go on counting it.

The defaults: completed and cancelled jobs 7 days (history goes by whole days, so up to a day later), the trash 30
days, the dead never.
"""

import pytest

from queue_core.errors import JobNotFound
from queue_core.model.rules import QueueRules
from queue_core.model.settings import RetentionSettings
from tests.conformance.making import QUEUE
from tests.conformance.modes import Opener
from tests.conformance.world import UNFINISHED, World

DAY = 86400.0


@pytest.mark.parametrize("state", ["completed", "cancelled"])
async def test_finished_jobs_go_after_their_retention(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    before = await world.inspector.conservation()
    await world.advance(9 * DAY)
    await world.upkeep()
    with pytest.raises(JobNotFound):
        await world.inspector.get(job_id)
    assert await world.store.results([job_id]) == []
    assert await world.inspector.conservation() == before
    names = {one.outcome: one.count for one in await world.inspector.tallies()}
    assert names == {"enqueued": 1, state: 1, f"expired_{state}": 1}


@pytest.mark.parametrize("state", ["completed", "cancelled"])
async def test_not_before(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    await world.advance(7 * DAY - 3600)
    await world.store.upkeep()
    assert await world.status(job_id) == state


async def test_a_result_is_over_before_its_job(world: World) -> None:
    """Of jobs that have completed: the others have none."""
    completed = await world.ended("completed", {"result": "1"})
    others = [await world.job_in(state) for state in ("cancelled", "dead", "queued")]
    ids = [completed.id, *others]
    before = {one.id: one for one in await world.store.results(ids)}
    assert (before[completed.id].result, before[completed.id].expired) == ("1", False)
    await world.advance(DAY + 60)
    after = {one.id: one for one in await world.store.results(ids)}
    assert after[completed.id] == before[completed.id]._replace(result=None, expired=True)
    assert [after[one] for one in others] == [before[one] for one in others]


async def test_the_trash_is_emptied(world: World) -> None:
    claim = await world.trashed()
    await world.advance(30 * DAY + 3600)
    await world.store.upkeep()
    with pytest.raises(JobNotFound):
        await world.inspector.get(claim.id)
    where = await world.inspector.conservation()
    assert (where.dead, where.unfinished) == (1, 0)
    counts = {one.outcome: one.count for one in await world.inspector.tallies()}
    assert counts == {"enqueued": 1, "dead": 1, "expired_dead": 1}


async def test_the_trash_keeps_what_came_late(world: World) -> None:
    claim = await world.ended("dead")
    await world.advance(29 * DAY)
    await world.change("delete", [claim.id])
    await world.advance(2 * DAY)
    await world.store.upkeep()
    assert await world.status(claim.id) == "dead"


@pytest.mark.parametrize("state", ["dead", *UNFINISHED])
async def test_the_dead_and_the_unfinished_stay(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    await world.advance(400 * DAY)
    await world.store.upkeep()
    assert await world.status(job_id) == state


async def test_the_dead_go_after_a_retention_of_their_own(opener: Opener) -> None:
    world = await opener(retention=RetentionSettings(dead=5 * DAY))
    early, trashed = await world.ended("dead"), await world.trashed()
    await world.advance(3 * DAY)
    late = await world.ended("dead")
    await world.upkeep()
    assert await world.status(early.id) == "dead"
    await world.advance(3 * DAY)
    await world.upkeep()
    with pytest.raises(JobNotFound):
        await world.inspector.get(early.id)
    assert await world.status(late.id) == "dead"
    where = await world.inspector.conservation()
    assert (where.dead, where.unfinished) == (3, 0), "the totals go on counting it"
    assert (await world.change("restore", [trashed.id])).ids == (trashed.id,), "the trash has a time of its own"
    await world.close()


@pytest.mark.parametrize("state", ["dead", "trashed", "completed", "cancelled"])
async def test_their_failed_attempts_go_with_them(opener: Opener, state: str) -> None:
    """A job of the same id has none of them."""
    world = await opener(retention=RetentionSettings(dead=5 * DAY))
    claim = await world.ended("retrying", {"delay": 0.0})
    await world.store.promote(10)
    again = await world.claim_job(claim.id)
    await world.settle(again, "dead" if state == "trashed" else state)
    if state == "trashed":
        await world.change("delete", [claim.id])
    await world.advance(31 * DAY)
    await world.upkeep()
    await world.insert(id=claim.id)
    assert await world.inspector.attempts(claim.id) == []
    assert (await world.job(claim.id)).error is None
    await world.close()


async def test_a_dead_job_that_held_its_key_lets_go_of_it(opener: Opener) -> None:
    rules = {QUEUE: QueueRules(dead_blocks_key=True)}
    world = await opener(rules, RetentionSettings(dead=5 * DAY))
    await world.ended("dead", ordering_key="k")
    waits = await world.insert(ordering_key="k")
    await world.upkeep()
    assert await world.claim() == []
    await world.advance(6 * DAY)
    await world.upkeep()
    assert await world.claim_ids() == [waits]
    await world.close()


async def test_entries_of_lost_workers_go_after_a_day(world: World) -> None:
    await world.beat(worker="one")
    await world.advance(DAY + 3600)
    await world.beat(worker="two")
    await world.store.upkeep()
    assert [worker.id for worker in (await world.inspector.overview()).workers] == ["two"]
