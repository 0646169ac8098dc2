"""Fencing: a write whose token is not the job's current one is refused and changes nothing."""

from collections.abc import Awaitable, Callable

import pytest

from queue_core.model.operation import UNCHANGED, ChangeOptions, MemberVerb
from tests.conformance.making import LEASE, failure, held, outcome
from tests.conformance.test_settle import KINDS
from tests.conformance.world import World

Event = Callable[[World, str], Awaitable[None]]


async def reclaimed(world: World, job_id: str) -> None:
    await world.advance(LEASE + 1)
    assert [one.id for one in await world.store.reclaim(10, 3)] == [job_id]


async def claimed_again(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    await world.claim_job(job_id, worker="worker-2")


async def completed_by_another(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    await world.settle(await world.claim_job(job_id, worker="worker-2"), "completed", result='"the other"')


async def failed_at_another(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    await world.settle(await world.claim_job(job_id, worker="worker-2"), "retrying")


async def buried_by_another(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    await world.settle(await world.claim_job(job_id, worker="worker-2"), "dead")


async def released_by_another(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    await world.settle(await world.claim_job(job_id, worker="worker-2"), "released")


async def cancelled_after_the_loss(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    await world.change("cancel", [job_id])


async def buried_as_lost(world: World, job_id: str) -> None:
    await reclaimed(world, job_id)
    for _ in range(2):
        await world.claim_job(job_id, worker="worker-2")
        await reclaimed(world, job_id)


LATE: list[Event] = [
    reclaimed,
    claimed_again,
    completed_by_another,
    failed_at_another,
    buried_by_another,
    released_by_another,
    cancelled_after_the_loss,
    buried_as_lost,
]


@pytest.fixture(params=LATE, ids=[late.__name__ for late in LATE])
def event(request: pytest.FixtureRequest) -> Event:
    """What happened to the job while its first worker was asleep."""
    found: Event = request.param
    return found


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_that_wakes_up_too_late_is_refused(world: World, event: Event, kind: str) -> None:
    claim = await world.running(worker="asleep")
    await event(world, claim.id)
    before, totals = await world.job(claim.id), await world.inspector.conservation()
    attempts = await world.inspector.attempts(claim.id)
    settled = await world.settle(claim, kind)
    assert (settled.accepted, settled.rank, settled.due) == (False, None, None)
    assert await world.job(claim.id) == before
    assert await world.inspector.conservation() == totals
    assert await world.inspector.attempts(claim.id) == attempts


@pytest.mark.parametrize("kind", KINDS)
async def test_also_when_its_own_loss_was_the_third(world: World, kind: str) -> None:
    claim = await world.claim_job(await world.lost(2), worker="asleep")
    await reclaimed(world, claim.id)
    before, totals = await world.job(claim.id), await world.inspector.conservation()
    assert before.status == "dead"
    assert not (await world.settle(claim, kind)).accepted
    assert await world.job(claim.id) == before
    assert await world.inspector.conservation() == totals


async def test_its_heartbeat_is_refused_too(world: World, event: Event) -> None:
    claim = await world.running(worker="asleep")
    await event(world, claim.id)
    before = await world.job(claim.id)
    reply = await world.beat(held(claim, 99, "still here"), worker="asleep", lease=LEASE * 100)
    assert (reply.lost, reply.cancel) == ((claim.id,), ())
    assert await world.job(claim.id) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [-1, 1, 1 << 40])
async def test_a_token_that_is_not_the_jobs_is_refused(world: World, kind: str, change: int) -> None:
    claim = await world.running()
    before = await world.job(claim.id)
    (settled,) = await world.store.settle([outcome(claim._replace(token=claim.token + change), kind)])
    assert not settled.accepted
    assert await world.job(claim.id) == before
    assert (await world.settle(claim, "completed")).accepted


@pytest.mark.parametrize("kind", KINDS)
async def test_the_token_of_another_job_is_refused(world: World, kind: str) -> None:
    mine, other = await world.running(), await world.running()
    before = await world.job(other.id)
    assert not (await world.settle(other._replace(token=mine.token), kind)).accepted
    assert await world.job(other.id) == before


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
async def test_an_attempt_ends_once(world: World, first: str, second: str) -> None:
    """The same outcome again is an answer that got lost on its way; another one is a mistake."""
    claim = await world.ended(first)
    before, totals = await world.job(claim.id), await world.inspector.conservation()
    settled = await world.settle(claim, second)
    assert settled.accepted == (first == second)
    assert await world.job(claim.id) == before
    assert await world.inspector.conservation() == totals
    assert len(await world.inspector.attempts(claim.id)) == (first in {"retrying", "dead"})


@pytest.mark.parametrize("second", KINDS)
async def test_an_attempt_that_is_given_back_with_its_failure_ends_once(world: World, second: str) -> None:
    """As that of a process which ended with its worker."""
    claim = await world.ended("released", {"failure": failure(kind="lost")})
    before = await world.job(claim.id)
    assert (await world.settle(claim, second)).accepted == (second == "released")
    assert await world.job(claim.id) == before
    assert len(await world.inspector.attempts(claim.id)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_outcome_twice_in_one_batch_counts_once(world: World, kind: str) -> None:
    claim = await world.running()
    one = outcome(claim, kind, run_us=700)
    assert await world.settle_all([one, one]) == [True, True]
    tally = {(tally.outcome, tally.count, tally.run_us) for tally in await world.inspector.tallies()}
    name = "retried" if kind == "retrying" else kind
    assert tally == {("enqueued", 1, 0), (name, 1, 700)}


async def test_two_outcomes_of_one_attempt_in_one_batch(world: World) -> None:
    claim = await world.running()
    answers = await world.settle_all([outcome(claim, "completed"), outcome(claim, "dead")])
    assert sorted(answers) == [False, True]
    assert await world.status(claim.id) == ("completed" if answers[0] else "dead")


async def test_a_retried_job_is_not_ended_by_its_earlier_attempt(world: World) -> None:
    """Reported as done before, for it was; the attempt that runs now does not notice."""
    first = await world.ended("retrying", {"delay": 0.0})
    await world.store.promote(10)
    second = await world.claim_job(first.id)
    before = await world.job(first.id)
    assert not (await world.settle(first, "completed")).accepted
    assert not (await world.settle(first, "released")).accepted
    assert (await world.settle(first, "retrying")).accepted
    assert await world.job(first.id) == before
    assert (await world.settle(second, "completed")).accepted


@pytest.mark.parametrize("kind", KINDS)
async def test_an_attempt_that_never_began_did_not_end_as_a_later_one_did(world: World, kind: str) -> None:
    """It has left no failure by which it could be told from the attempt that ended its job."""
    job_id = await world.insert()
    claim = await world.claim_job(job_id, start_count=0)
    await reclaimed(world, job_id)
    assert (await world.settle(await world.claim_job(job_id, worker="worker-2"), kind)).accepted
    before = await world.job(job_id)
    assert not (await world.settle(claim, kind)).accepted
    assert await world.job(job_id) == before


@pytest.mark.parametrize("kind", ["retrying", "released"])
async def test_an_attempt_that_was_lost_did_not_end_as_the_one_before_it_did(world: World, kind: str) -> None:
    given = {"delay": 0.0} if kind == "retrying" else {}
    first = await world.ended(kind, given)
    await world.store.promote(10)
    claim = await world.claim_job(first.id, worker="asleep")
    await reclaimed(world, claim.id)
    before = await world.job(claim.id)
    assert not (await world.settle(claim, kind, **given)).accepted
    assert await world.job(claim.id) == before


async def test_the_cancel_of_an_attempt_that_never_began_is_its_loss_s(world: World) -> None:
    """Its worker was told of the request, and stores that it has ended the job: others had taken it back before."""
    claim = await world.claim_job(await world.insert(), start_count=0)
    await world.change("cancel", [claim.id])
    await world.advance(LEASE + 1)
    assert [one.cancelled for one in await world.store.reclaim(10, 3)] == [True]
    before = await world.job(claim.id)
    assert not (await world.settle(claim, "cancelled")).accepted
    assert await world.job(claim.id) == before


@pytest.mark.parametrize("verb", ["retry", "delete", "move"])
async def test_an_end_is_accepted_again_after_an_operator_s_change(world: World, verb: MemberVerb) -> None:
    """Its answer was lost, and the change has given the job another token."""
    claim = await world.ended("dead")
    options = ChangeOptions(priority=9) if verb == "move" else UNCHANGED
    assert (await world.change(verb, [claim.id], options)).ids == (claim.id,)
    before, totals = await world.job(claim.id), await world.inspector.conservation()
    assert before.token != claim.token
    assert (await world.settle(claim, "dead")).accepted
    assert not (await world.settle(claim, "completed")).accepted
    assert await world.job(claim.id) == before
    assert await world.inspector.conservation() == totals


@pytest.mark.parametrize("kind", ["retrying", "released"])
async def test_an_end_is_accepted_again_after_its_job_was_cancelled(world: World, kind: str) -> None:
    """Its answer was lost, and an operator has cancelled the job as it waited: not in place of that end."""
    claim = await world.ended(kind)
    assert (await world.change("cancel", [claim.id])).ids == (claim.id,)
    before, totals = await world.job(claim.id), await world.inspector.conservation()
    again = await world.settle(claim, kind)
    assert (again.accepted, again.cancelled) == (True, False)
    assert not (await world.settle(claim, "cancelled")).accepted
    assert await world.job(claim.id) == before
    assert await world.inspector.conservation() == totals


async def test_the_end_of_an_attempt_is_accepted_again_after_those_of_later_ones(world: World) -> None:
    """Its answer was lost, and came after its job had been run again by others."""
    claims = [await world.ended("retrying", {"delay": 0.0})]
    for _ in range(2):
        await world.store.promote(10)
        claims.append(await world.claim_job(claims[0].id, worker="worker-2"))
        assert (await world.settle(claims[-1], "retrying", delay=0.0)).accepted
    before, totals = await world.job(claims[0].id), await world.inspector.conservation()
    assert [(await world.settle(claim, "retrying", delay=0.0)).accepted for claim in claims] == [True] * 3
    assert not (await world.settle(claims[0], "completed")).accepted
    assert await world.job(claims[0].id) == before
    assert await world.inspector.conservation() == totals
