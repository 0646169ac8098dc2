"""Retry by an operator: dead and completed jobs go back to queued with retry count 0; the crash count stays."""

import pytest

from queue_core.model.filters import Filter
from queue_core.model.job import new_id
from queue_core.model.operation import ChangeOptions
from tests.conformance.making import TYPE, UNKNOWN, failure, held, outcome
from tests.conformance.world import World

REPEATABLE = ("dead", "trashed", "completed")
OTHERS = ("scheduled", "queued", "running", "retrying", "cancelled")


@pytest.mark.parametrize("state", REPEATABLE)
async def test_it_is_ready_again(world: World, state: str) -> None:
    job_id = await world.job_in(state, payload='{"a": 1}', priority=9, tags=("x",), max_retries=2)
    before = await world.job(job_id)
    await world.advance(100)
    changed = await world.change("retry", [job_id])
    assert changed.ids == (job_id,)
    (ready,) = changed.ready
    assert (ready.id, ready.queue) == (job_id, before.queue)
    job = await world.job(job_id)
    assert (job.status, job.retry_count) == ("queued", 0)
    assert job.token > before.token
    assert (job.payload, job.priority, job.tags, job.max_retries) == ({"a": 1}, 9, ("x",), 2)
    assert (job.completed_at, job.trashed_at, job.worker, job.started_at, job.result) == (None,) * 5
    assert (job.created_at - before.created_at).total_seconds() == pytest.approx(-100, abs=100.001)
    assert job.run_at > before.run_at
    assert [await world.inspector.ids(Filter(trash=trash), 10) for trash in (False, True)] == [[job_id], []]
    assert await world.inspector.signatures(where=Filter(), window=3600, slices=4, limit=10) == []
    claim = await world.claim_job(job_id)
    assert (claim.rank, claim.payload) == (ready.rank, '{"a": 1}')
    assert claim.token > job.token


@pytest.mark.parametrize("state", OTHERS)
async def test_other_states_are_skipped(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    before = await world.job(job_id)
    changed = await world.change("retry", [job_id])
    assert (changed.ids, changed.ready) == ((), ())
    assert await world.job(job_id) == before


async def test_retries_and_losses_are_counted_apart(world: World) -> None:
    job_id = await world.lost(1)
    await world.settle(await world.claim_job(job_id), "retrying", delay=0.0)
    await world.store.promote(10)
    await world.settle(await world.claim_job(job_id), "dead")
    job = await world.job(job_id)
    assert (job.retry_count, job.losses) == (1, 1)
    await world.change("retry", [job_id])
    claim = await world.claim_job(job_id)
    assert (claim.retry_count, claim.losses) == (0, 0)


async def test_the_failed_attempts_stay(world: World) -> None:
    claim = await world.ended("dead", {"failure": failure("the first time")})
    await world.change("retry", [claim.id])
    job = await world.job(claim.id)
    assert job.error == "OSError: the first time"
    assert [attempt.token for attempt in await world.inspector.attempts(claim.id)] == [claim.token]
    await world.settle(await world.claim_job(claim.id), "dead", failure=failure("the second time"))
    messages = [attempt.message for attempt in await world.inspector.attempts(claim.id)]
    assert messages == ["the first time", "the second time"]


async def test_it_can_complete_and_is_gone_from_the_dlq(world: World) -> None:
    claim = await world.ended("dead")
    await world.change("retry", [claim.id])
    await world.settle(await world.claim_job(claim.id), "completed", result="1")
    (final,) = await world.store.results([claim.id])
    assert (final.status, final.result) == ("completed", "1")
    where = await world.inspector.conservation()
    assert (where.completed, where.dead, where.unfinished) == (1, 0, 0)


async def test_its_progress_begins_again(world: World) -> None:
    claim = await world.running()
    await world.beat(held(claim, 60, "more than half"))
    await world.settle(claim, "dead")
    await world.change("retry", [claim.id])
    job = await world.job(claim.id)
    assert (job.progress, job.progress_message) == (0, "")


async def test_spread_over_some_time(world: World) -> None:
    ids = [(await world.ended("dead")).id for _ in range(20)]
    before = await world.now()
    changed = await world.change("retry", ids, ChangeOptions(spread=600.0))
    assert sorted(changed.ids) == sorted(ids)
    assert changed.ready == ()
    jobs = [await world.job(job_id) for job_id in ids]
    assert {job.status for job in jobs} == {"scheduled"}
    due = sorted(job.run_at.timestamp() - before for job in jobs)
    assert due[0] > -1
    assert due[-1] < 605
    assert due[-1] - due[0] > 60  # twenty moments within ten minutes
    await world.advance(606)
    assert {ready.id for ready in await world.store.promote(100)} == set(ids)


async def test_many_of_all_kinds(world: World) -> None:
    repeatable = [await world.job_in(state) for state in REPEATABLE]
    others = [await world.job_in(state) for state in OTHERS]
    changed = await world.change("retry", [*others, new_id(), *repeatable, *repeatable])
    assert sorted(changed.ids) == sorted(repeatable)
    assert sorted(ready.id for ready in changed.ready) == sorted(repeatable)


async def test_twice_is_once(world: World) -> None:
    claim = await world.ended("dead")
    assert (await world.change("retry", [claim.id])).ids == (claim.id,)
    assert (await world.change("retry", [claim.id])).ids == ()
    assert await world.claim_ids() == [claim.id]


async def test_a_thousand_at_once(world: World) -> None:
    ids = await world.insert_many(1000)
    claims = await world.claim(1000)
    await world.store.settle([outcome(claim, "dead") for claim in claims])
    changed = await world.change("retry", ids)
    assert sorted(changed.ids) == sorted(ids)
    assert await world.claim_ids(1000) == ids


@pytest.mark.parametrize("ids", [[], [UNKNOWN], ["rubbish"]])
async def test_nothing_to_retry(world: World, ids: list[str]) -> None:
    changed = await world.change("retry", ids)
    assert (changed.ids, changed.ready) == ((), ())


async def test_queues_and_types_keep_apart(world: World) -> None:
    claims = [await world.ended("dead", queue=f"q{number}") for number in range(3)]
    changed = await world.change("retry", [claim.id for claim in claims])
    assert {(ready.id, ready.queue) for ready in changed.ready} == {(claim.id, claim.queue) for claim in claims}
    for claim in claims:
        assert await world.claim_ids(queue=claim.queue, types=(TYPE,)) == [claim.id]


async def test_the_result_before_is_none_of_what_it_gives_now(world: World) -> None:
    claim = await world.ended("completed", {"result": "1"})
    await world.change("retry", [claim.id])
    assert (await world.job(claim.id)).result is None
    await world.settle(await world.claim_job(claim.id), "completed")
    assert (await world.job(claim.id)).result is None
    assert (await world.store.results([claim.id]))[0].result is None
