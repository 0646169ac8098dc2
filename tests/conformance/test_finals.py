"""Finals: what is known about jobs, for whoever waits for a result."""

import pytest

from queue_core.model.job import new_id
from tests.conformance.making import failure
from tests.conformance.world import STATES, World

DAY = 86400.0


@pytest.mark.parametrize("state", STATES)
async def test_in_every_state(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    (final,) = await world.store.results([job_id])
    assert (final.id, final.status) == (job_id, "dead" if state == "trashed" else state)
    assert final.result is None
    assert final.error == ("OSError: no such file" if state in {"retrying", "dead", "trashed"} else None)


async def test_the_result_as_it_was_given(world: World) -> None:
    claim = await world.ended("completed", {"result": '{"b":  1, "a": [1, 2.50]}'})
    (final,) = await world.store.results([claim.id])
    assert final.result == '{"b":  1, "a": [1, 2.50]}'


async def test_the_error_of_the_last_attempt(world: World) -> None:
    claim = await world.ended("dead", {"failure": failure("disk full\non /dev/sda", exception="app.errors.Full")})
    (final,) = await world.store.results([claim.id])
    assert final.error == "Full: disk full"


async def test_unknown_ids_are_left_out(world: World) -> None:
    ids = [await world.job_in(state) for state in STATES]
    finals = await world.store.results([new_id(), *ids, new_id()])
    assert sorted(final.id for final in finals) == sorted(ids)
    assert await world.store.results([new_id()]) == []
    assert await world.store.results([]) == []


async def test_asked_twice_is_told_once(world: World) -> None:
    job_id = await world.insert()
    assert len(await world.store.results([job_id, job_id])) == 1


async def test_rubbish_is_unknown(world: World) -> None:
    job_id = await world.insert()
    assert [final.id for final in await world.store.results(["rubbish", job_id, ""])] == [job_id]


async def test_results_are_kept_for_their_retention(world: World) -> None:
    """Shorter than that of the job itself, which goes on being known as completed."""
    claim = await world.ended("completed", {"result": "42"})
    await world.advance(DAY - 3600)
    (final,) = await world.store.results([claim.id])
    assert (final.result, final.expired) == ("42", False)
    await world.advance(7200)
    (final,) = await world.store.results([claim.id])
    assert (final.status, final.result, final.expired) == ("completed", None, True)


@pytest.mark.parametrize("state", STATES)
async def test_only_a_result_expires(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    await world.advance(2 * DAY)
    (final,) = await world.store.results([job_id])
    assert final.expired == (state == "completed")


async def test_many_at_once(world: World) -> None:
    ids = await world.insert_many(3000)
    assert sorted(final.id for final in await world.store.results(ids)) == sorted(ids)
