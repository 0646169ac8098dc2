"""Delete moves dead jobs to the trash, restore takes them back, purge removes them for good."""

from dataclasses import replace

import pytest

from queue_core.errors import JobNotFound
from queue_core.model.filters import Filter
from queue_core.model.job import new_id
from tests.conformance.making import UNKNOWN
from tests.conformance.world import STATES, World

NOT_DEAD = [state for state in STATES if state not in {"dead", "trashed"}]
VERBS = ("delete", "restore", "purge")


async def change(world: World, verb: str, ids: list[str]) -> tuple[str, ...]:
    changed = await world.change(verb, ids)
    assert changed.ready == ()
    return tuple(changed.ids)


async def test_delete_moves_it_to_the_trash(world: World) -> None:
    claim = await world.ended("dead")
    dead = await world.job(claim.id)
    await world.advance(100)
    assert await change(world, "delete", [claim.id]) == (claim.id,)
    job = await world.job(claim.id)
    assert (job.status, job.error, job.traceback) == ("dead", dead.error, dead.traceback)
    assert job.token > dead.token
    assert job.trashed_at is not None
    assert job.completed_at is not None
    assert job.trashed_at > job.completed_at
    assert job.updated_at == job.trashed_at
    assert await world.inspector.ids(Filter(), 10) == []
    assert await world.inspector.ids(Filter(trash=True), 10) == [claim.id]


async def test_restore_brings_it_back_to_its_place_among_the_dead(world: World) -> None:
    first = await world.ended("dead")
    await world.advance(100)
    second = await world.ended("dead")
    await change(world, "delete", [first.id])
    await world.advance(100)
    await change(world, "restore", [first.id])
    page = await world.inspector.jobs(Filter(), 10)
    assert [job.id for job in page.jobs] == [second.id, first.id]


async def test_restore_brings_it_back_as_it_was(world: World) -> None:
    claim = await world.ended("dead")
    before = await world.job(claim.id)
    await change(world, "delete", [claim.id])
    assert await change(world, "restore", [claim.id]) == (claim.id,)
    job = await world.job(claim.id)
    # The token tells what had chosen the job before that it was changed.
    assert job.token > before.token
    assert replace(job, token=before.token) == before
    assert await world.inspector.ids(Filter(), 10) == [claim.id]
    assert await world.inspector.ids(Filter(trash=True), 10) == []


async def test_purge_removes_it_and_its_attempts(world: World) -> None:
    claim = await world.trashed()
    assert await change(world, "purge", [claim.id]) == (claim.id,)
    with pytest.raises(JobNotFound):
        await world.inspector.get(claim.id)
    with pytest.raises(JobNotFound):
        await world.inspector.attempts(claim.id)
    assert await world.inspector.ids(Filter(trash=True), 10) == []
    assert await world.store.results([claim.id]) == []


async def test_a_purged_job_goes_on_counting(world: World) -> None:
    claim = await world.trashed()
    before = await world.inspector.conservation()
    assert before.dead == 1
    await change(world, "purge", [claim.id])
    assert await world.inspector.conservation() == before


async def test_purge_takes_only_the_trash(world: World) -> None:
    claim = await world.ended("dead")
    assert await change(world, "purge", [claim.id]) == ()
    assert await world.status(claim.id) == "dead"


async def test_restore_takes_only_the_trash(world: World) -> None:
    claim = await world.ended("dead")
    before = await world.job(claim.id)
    assert await change(world, "restore", [claim.id]) == ()
    assert await world.job(claim.id) == before


@pytest.mark.parametrize("state", NOT_DEAD)
@pytest.mark.parametrize("verb", VERBS)
async def test_other_states_are_skipped(world: World, verb: str, state: str) -> None:
    job_id = await world.job_in(state)
    before = await world.job(job_id)
    assert await change(world, verb, [job_id]) == ()
    assert await world.job(job_id) == before


@pytest.mark.parametrize("verb", VERBS)
async def test_twice_is_once(world: World, verb: str) -> None:
    claim = await (world.ended("dead") if verb == "delete" else world.trashed())
    other = await (world.ended("dead") if verb == "delete" else world.trashed())
    assert sorted(await change(world, verb, [claim.id, new_id(), claim.id, other.id])) == sorted([claim.id, other.id])
    assert await change(world, verb, [claim.id, other.id]) == ()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("ids", [[], [UNKNOWN], ["rubbish"]])
async def test_nothing_to_do(world: World, verb: str, ids: list[str]) -> None:
    assert await change(world, verb, ids) == ()


async def test_what_is_in_the_trash_still_says_that_it_died(world: World) -> None:
    claim = await world.trashed()
    (final,) = await world.store.results([claim.id])
    assert (final.status, final.error) == ("dead", "OSError: no such file")
    assert len(await world.inspector.attempts(claim.id)) == 1


async def test_it_leaves_the_groups_and_comes_back(world: World) -> None:
    claim = await world.ended("dead")
    assert len(await world.inspector.signatures(Filter(), 3600, 4, 10)) == 1
    await change(world, "delete", [claim.id])
    assert await world.inspector.signatures(Filter(), 3600, 4, 10) == []
    await change(world, "restore", [claim.id])
    assert len(await world.inspector.signatures(Filter(), 3600, 4, 10)) == 1


async def test_deleting_puts_it_on_top_of_the_trash(world: World) -> None:
    first, second = await world.ended("dead"), await world.ended("dead")
    await world.advance(10)
    await change(world, "delete", [second.id])
    await world.advance(10)
    await change(world, "delete", [first.id])
    page = await world.inspector.jobs(Filter(trash=True), 10)
    assert [job.id for job in page.jobs] == [first.id, second.id]
