"""Claim: move ready jobs of a queue that is not paused to running, best rank first, each under a new lease token."""

import pytest

from queue_core.model.job import new_id
from queue_core.runtime import MAX_STATEMENT_LENGTH
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job
from tests.conformance.world import STATES, World

NOT_READY = [state for state in STATES if state != "queued"]


async def test_it_hands_out_everything_a_worker_needs(world: World) -> None:
    job = new_job(payload='{"path": "a.png"}', priority=7, max_retries=2, tags=("x",), ordering_key="k")
    (inserted,) = await world.store.insert([job])
    (claim,) = await world.claim()
    assert (claim.id, claim.queue, claim.type, claim.payload) == (job.id, job.queue, job.type, job.payload)
    assert (claim.priority, claim.rank, claim.tags, claim.ordering_key) == (7, inserted.rank, ("x",), "k")
    assert (await world.running()).ordering_key is None
    assert (claim.retry_count, claim.max_retries, claim.crashes) == (0, 2, 0)
    assert claim.token > 0
    assert claim.created_at == pytest.approx((await world.job(job.id)).created_at.timestamp(), abs=0.001)


@pytest.mark.parametrize("nominated", [False, True])
async def test_the_job_is_running(world: World, nominated: bool) -> None:
    job_id = await world.insert()
    (claim,) = await world.claim(worker="worker-7", lease=30.0, ids=[job_id] if nominated else None)
    job = await world.job(claim.id)
    assert (job.status, job.worker, job.token) == ("running", "worker-7", claim.token)
    assert job.started_at is not None
    assert job.lease_expires_at is not None
    assert (job.lease_expires_at - job.started_at).total_seconds() == pytest.approx(30.0, abs=0.001)
    assert job.updated_at == job.started_at
    assert (job.completed_at, job.cancel_requested, job.progress) == (None, False, 0)


async def test_priority_first_then_arrival(world: World) -> None:
    priorities = [5, 0, 10, 5, -128, 127, 10, 0]
    jobs = [new_job(priority=priority) for priority in priorities]
    await world.store.insert(jobs)
    expected = sorted(jobs, key=lambda job: -job.priority)
    claims = await world.claim()
    assert [claim.id for claim in claims] == [job.id for job in expected]
    assert [claim.rank for claim in claims] == sorted(claim.rank for claim in claims)


async def test_no_more_than_the_limit(world: World) -> None:
    ids = await world.insert_many(5)
    assert await world.claim_ids(2) == ids[:2]
    assert await world.claim_ids(0) == []
    assert await world.claim_ids(2) == ids[2:4]
    assert await world.claim_ids(2) == ids[4:]
    assert await world.claim_ids(2) == []


async def test_other_types_are_left_alone(world: World) -> None:
    other = await world.insert(type="other", priority=20)
    mine = await world.insert()
    assert await world.claim_ids() == [mine]
    assert await world.status(other) == "queued"
    assert await world.claim_ids(types=(TYPE, "other")) == [other]


async def test_without_types_there_is_nothing(world: World) -> None:
    await world.insert()
    assert await world.claim(types=()) == []


async def test_whatever_the_type(world: World) -> None:
    jobs = [new_job(type=f"type-{number % 7}", priority=number % 3) for number in range(20)]
    await world.store.insert(jobs)
    other = await world.insert(queue="other", type="type-1", priority=20)
    expected = [job.id for job in sorted(jobs, key=lambda job: -job.priority)]
    assert await world.claim_ids(3, types=None) == expected[:3]
    assert await world.claim_ids(2, types=None, ids=[*expected[5:9], other]) == expected[5:7]
    assert await world.claim_ids(types=None) == [*expected[3:5], *expected[7:]]
    assert await world.claim(types=None) == await world.claim(types=None, ids=expected) == []
    assert await world.claim_ids(types=None, queue="other") == [other]


async def test_whatever_the_type_of_a_paused_queue(world: World) -> None:
    job_id = await world.insert(type="*")
    await world.operations.pause(QUEUE)
    assert await world.claim(types=None) == await world.claim(types=None, ids=[job_id]) == []
    await world.operations.resume(QUEUE)
    assert await world.claim_ids(0, types=None) == []
    assert await world.claim_ids(types=None) == [job_id]


async def test_a_queue_that_is_not_there(world: World) -> None:
    assert await world.claim(queue="nowhere") == []
    assert await world.claim(queue="nowhere", ids=[new_id()]) == []
    assert await world.store.queues() == {}


async def test_other_queues_are_left_alone(world: World) -> None:
    other = await world.insert(queue="other")
    mine = await world.insert()
    assert await world.claim_ids() == [mine]
    assert await world.claim_ids(ids=[other]) == []
    assert await world.status(other) == "queued"


async def test_a_paused_queue_gives_nothing(world: World) -> None:
    ids = await world.insert_many(2)
    await world.operations.pause(QUEUE)
    assert await world.claim() == []
    assert await world.claim(ids=ids) == []
    await world.operations.resume(QUEUE)
    assert await world.claim_ids() == ids


async def test_a_job_is_claimed_once(world: World) -> None:
    ids = await world.insert_many(3)
    assert await world.claim_ids() == ids
    assert await world.claim() == []
    assert await world.claim(ids=ids) == []


@pytest.mark.parametrize("state", NOT_READY)
async def test_only_ready_jobs(world: World, state: str) -> None:
    job_id = await world.job_in(state)
    before = await world.job(job_id)
    assert await world.claim() == []
    assert await world.claim(ids=[job_id]) == []
    assert await world.job(job_id) == before


async def test_only_the_nominated(world: World) -> None:
    ids = await world.insert_many(5)
    assert await world.claim_ids(ids=ids[1:3]) == ids[1:3]
    assert await world.claim_ids(ids=[]) == []
    assert await world.claim_ids() == [ids[0], *ids[3:]]


async def test_the_nominated_come_by_rank_whatever_their_order(world: World) -> None:
    low, high = await world.insert(priority=0), await world.insert(priority=10)
    normal = await world.insert(priority=5)
    assert await world.claim_ids(2, ids=[low, normal, high]) == [high, normal]
    assert await world.status(low) == "queued"


async def test_a_nomination_twice_is_one_claim(world: World) -> None:
    job_id = await world.insert()
    assert await world.claim_ids(ids=[job_id, job_id, job_id]) == [job_id]


async def test_nominations_of_what_is_not_there(world: World) -> None:
    job_id = await world.insert()
    assert await world.claim_ids(ids=[new_id(), job_id, new_id()]) == [job_id]


@pytest.mark.parametrize("rubbish", ["", "rubbish", "k:key", "'; --", "0" * 5000, "\x00", "é"])
async def test_rubbish_among_the_nominations(world: World, rubbish: str) -> None:
    """A dispatcher may hand out whatever somebody wrote into it."""
    job_id = await world.insert()
    assert await world.claim_ids(ids=[rubbish, job_id]) == [job_id]


async def test_the_nominated_of_other_types_are_left_alone(world: World) -> None:
    other, mine = await world.insert(type="other"), await world.insert()
    assert await world.claim_ids(ids=[other, mine]) == [mine]
    assert await world.status(other) == "queued"


async def test_many_at_once(world: World) -> None:
    ids = await world.insert_many(3000)
    claims = await world.claim(3000, ids=list(reversed(ids)))
    assert [claim.id for claim in claims] == ids
    assert len({claim.token for claim in claims}) == 3000


async def test_an_expired_lease_is_not_claimed_before_it_is_reclaimed(world: World) -> None:
    claim = await world.running()
    await world.advance(LEASE + 1)
    assert await world.claim() == []
    assert await world.claim(ids=[claim.id]) == []


@pytest.mark.parametrize("nominated", [False, True])
async def test_large_payloads_are_claimed_in_parts(world: World, nominated: bool) -> None:
    """Each takes what fills 8 MB, the best ranks first; one job that has more is taken alone."""
    large = [new_job(payload=f'{{"data": "{"x" * 1_000_000}"}}') for _ in range(12)]
    await world.store.insert(large)
    ids = [job.id for job in large]
    taken: list[str] = []
    sizes = []
    for _ in range(2):
        asked = [job_id for job_id in ids if job_id not in taken] if nominated else None
        claims = await world.claim(100, ids=asked)
        sizes.append(len(claims))
        taken += [claim.id for claim in claims]
    assert taken == ids
    assert sizes == [9, 3]
    huge = new_job(payload=f'{{"data": "{"x" * (MAX_STATEMENT_LENGTH + 10)}"}}', priority=20)
    await world.store.insert([new_job(), huge])
    assert await world.claim_ids() == [huge.id]
