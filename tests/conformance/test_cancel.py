"""Cancel: move waiting jobs to cancelled; ask the workers of running ones to stop them."""

import pytest

from queue_core.model.job import new_id
from tests.conformance.making import LEASE, QUEUE, UNKNOWN, failure, held, new_job
from tests.conformance.world import FINISHED, WAITING, World


@pytest.mark.parametrize("state", WAITING)
async def test_a_waiting_job_is_cancelled(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    changed = await world.change("cancel", [job_id])
    assert (changed.ids, changed.ready) == ((job_id,), ())
    job = await world.job(job_id)
    assert (job.status, job.worker, job.started_at, job.lease_expires_at) == ("cancelled", None, None, None)
    assert job.completed_at == job.updated_at
    await world.advance(4000)
    assert await world.store.promote(10) == []
    assert await world.claim() == []


@pytest.mark.parametrize("state", FINISHED)
async def test_a_finished_job_stays(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    before = await world.job(job_id)
    assert (await world.change("cancel", [job_id])).ids == ()
    assert await world.job(job_id) == before


async def test_a_running_job_goes_on_until_its_worker_hears_of_it(world: World) -> None:
    claim, other = await world.running(), await world.running()
    assert (await world.change("cancel", [claim.id])).ids == (claim.id,)
    job = await world.job(claim.id)
    assert (job.status, job.cancel_requested) == ("running", True)
    reply = await world.beat(held(claim), held(other))
    assert (reply.cancel, reply.lost) == ((claim.id,), ())
    assert (await world.beat(held(claim), held(other))).cancel == (claim.id,)
    assert (await world.settle(claim, "cancelled")).accepted
    job = await world.job(claim.id)
    assert (job.status, job.cancel_requested) == ("cancelled", False)


async def test_its_worker_hears_of_it_with_any_beat_and_nobody_else_does(world: World) -> None:
    """Most beats carry only what has news; the wish must not wait for the next one that carries all."""
    claim, other = await world.running(), await world.running()
    await world.change("cancel", [claim.id])
    assert (await world.beat()).cancel == (claim.id,)
    assert (await world.beat(held(other))).cancel == (claim.id,)
    assert (await world.beat(worker="worker-2")).cancel == ()


async def test_asking_twice_changes_nothing(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    assert (await world.change("cancel", [claim.id])).ids == ()


@pytest.mark.parametrize("kind", ["completed", "dead"])
async def test_a_job_that_ends_first_has_ended(world: World, kind: str) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    assert (await world.settle(claim, kind)).accepted
    assert await world.status(claim.id) == kind


@pytest.mark.parametrize("kind", ["retrying", "released"])
async def test_a_job_to_be_cancelled_does_not_run_again(world: World, kind: str) -> None:
    """Its worker may not have heard of the wish when the attempt ended."""
    claim = await world.running()
    await world.change("cancel", [claim.id])
    settled = await world.settle(claim, kind)
    assert (settled.accepted, settled.cancelled, settled.rank, settled.due) == (True, True, None, None)
    assert await world.status(claim.id) == "cancelled"
    assert (await world.beat()).cancel == ()
    await world.advance(LEASE * 2)
    assert await world.store.promote(10) == []
    assert await world.claim() == []
    assert (await world.inspector.conservation()).cancelled == 1


@pytest.mark.parametrize(("kind", "why", "losses"), [("retrying", "error", 0), ("released", "lost", 1)])
async def test_the_failure_of_its_last_attempt_is_kept(world: World, kind: str, why: str, losses: int) -> None:
    claim = await world.claim_job(await world.lost(1))
    await world.change("cancel", [claim.id])
    assert (await world.settle(claim, kind, failure=failure("too late", kind=why))).cancelled
    job = await world.job(claim.id)
    assert (job.status, job.error, job.losses) == ("cancelled", "OSError: too late", 1 + losses)
    attempts = await world.inspector.attempts(claim.id)
    assert [(attempt.number, attempt.kind) for attempt in attempts] == [(1, "lost"), (2, why)]


async def test_nor_after_the_loss_of_its_worker(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    await world.advance(LEASE + 1)
    (reclaimed,) = await world.store.reclaim(10)
    assert (reclaimed.id, reclaimed.cancelled, reclaimed.rank) == (claim.id, True, None)
    job = await world.job(claim.id)
    assert (job.status, job.losses) == ("cancelled", 1)
    assert await world.claim() == []


async def test_a_wish_ends_with_the_job(world: World) -> None:
    """A job that died before its worker heard of the wish, and is retried by an operator, runs."""
    claim = await world.running()
    await world.change("cancel", [claim.id])
    await world.settle(claim, "dead")
    await world.change("retry", [claim.id])
    again = await world.claim_job(claim.id)
    assert (await world.beat(held(again))).cancel == ()
    assert not (await world.job(claim.id)).cancel_requested


async def test_many_of_all_kinds(world: World) -> None:
    waiting = [await world.job_in(state) for state in WAITING]
    running = [(await world.running()).id for _ in range(2)]
    finished = [await world.job_in(state) for state in FINISHED]
    changed = await world.change("cancel", [*finished, new_id(), *running, *waiting, *waiting])
    assert sorted(changed.ids) == sorted(waiting + running)


@pytest.mark.parametrize("ids", [[], [UNKNOWN], ["rubbish"]])
async def test_nothing_to_cancel(world: World, ids: list[str]) -> None:
    assert (await world.change("cancel", ids)).ids == ()


async def test_a_cancelled_job_is_not_retried(world: World) -> None:
    job_id = await world.insert()
    await world.change("cancel", [job_id])
    assert (await world.change("retry", [job_id])).ids == ()
    assert await world.status(job_id) == "cancelled"


@pytest.mark.parametrize("end", ["completed", "dead", "lost"])
async def test_a_request_that_came_too_late_is_no_request_of_a_later_attempt(world: World, end: str) -> None:
    """The same worker runs the job again after an operator's retry."""
    claim = await world.running()
    await world.change("cancel", [claim.id])
    assert (await world.beat(held(claim))).cancel == (claim.id,)
    if end == "lost":
        await world.advance(LEASE + 1)
        assert [job.rank for job in await world.store.reclaim(10, 1)] == [None]
    else:
        assert (await world.settle(claim, end)).accepted
    assert (await world.beat()).cancel == ()
    assert (await world.change("retry", [claim.id])).ids == (claim.id,)
    again = await world.claim_job(claim.id)
    reply = await world.beat(held(again))
    assert (reply.lost, reply.cancel) == ((), ())


async def test_what_was_cancelled_while_it_waited_is_offered_no_more(world: World) -> None:
    """Else workers would be woken for it again and again."""
    ids = [await world.job_in(state) for state in WAITING]
    await world.beat()
    await world.change("cancel", ids)
    await world.advance(7200)
    await world.store.promote(10)
    await world.beat()
    assert await world.store.list_claimable(QUEUE, 10) == []
    assert await world.store.list_ready(QUEUE, -1, 10) == []


async def test_what_is_cancelled_with_the_loss_of_its_worker_has_ended(world: World) -> None:
    """It is counted so, and its unique key is free."""
    claim = await world.running(unique_key="one")
    await world.change("cancel", [claim.id])
    await world.advance(LEASE + 1)
    assert [one.cancelled for one in await world.store.reclaim(10)] == [True]
    assert (await world.inspector.conservation()).unfinished == 0
    (again,) = await world.store.insert([new_job(unique_key="one")])
    assert again.created
