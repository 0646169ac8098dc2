"""Many at once: no job is claimed twice, no outcome is written twice, nothing is lost."""

import asyncio

import pytest

from queue_core.model.job import Claim
from tests.conformance.making import LEASE, QUEUE, TYPE, held, new_job, outcome
from tests.conformance.modes import Opener
from tests.conformance.world import World

PROCESSES = 4


@pytest.fixture
async def worlds(opener: Opener) -> list[World]:  # type: ignore[misc]
    """Several links to one store, as several processes have."""
    found = [await opener() for _ in range(PROCESSES)]
    yield found
    for world in found:
        await world.close()


async def claim_until_empty(world: World, limit: int, **given: object) -> list[Claim]:
    found: list[Claim] = []
    while claims := await world.claim(limit, **given):
        found += claims
    return found


async def test_no_job_is_claimed_twice(worlds: list[World]) -> None:
    ids = await worlds[0].insert_many(600)
    claims = await asyncio.gather(*(claim_until_empty(world, 7, worker=f"w{n}") for n, world in enumerate(worlds * 3)))
    # A claim may pass over rows that another one is just looking at.
    rest = await claim_until_empty(worlds[0], 100)
    found = [claim for group in claims for claim in group] + rest
    assert sorted(claim.id for claim in found) == sorted(ids)
    assert len({claim.token for claim in found}) == 600


async def test_nor_when_it_is_named_twice(worlds: list[World]) -> None:
    job_id = await worlds[0].insert()
    assert await worlds[0].claim_ids(ids=[job_id, job_id]) == [job_id]


async def test_nor_when_all_are_handed_the_same_candidates(worlds: list[World]) -> None:
    ids = await worlds[0].insert_many(200)
    found = await asyncio.gather(*(world.claim(200, ids=ids, worker=f"w{n}") for n, world in enumerate(worlds * 3)))
    claims = [claim for group in found for claim in group] + await worlds[0].claim(200)
    assert sorted(claim.id for claim in claims) == sorted(ids)


async def test_by_rank_and_by_nomination_at_once(worlds: list[World]) -> None:
    ids = await worlds[0].insert_many(300)
    parts = [ids[start : start + 25] for start in range(0, 300, 25)]
    by_rank = [claim_until_empty(world, 10, worker=f"w{n}") for n, world in enumerate(worlds)]
    by_id = [worlds[n % PROCESSES].claim(25, ids=part, worker=f"i{n}") for n, part in enumerate(parts)]
    found = [claim for group in await asyncio.gather(*by_rank, *by_id) for claim in group]
    found += await claim_until_empty(worlds[0], 100)
    assert sorted(claim.id for claim in found) == sorted(ids)


async def test_of_two_outcomes_of_one_attempt_one_is_written(worlds: list[World]) -> None:
    for _ in range(10):
        claim = await worlds[0].running()
        first, second = await asyncio.gather(
            worlds[0].settle(claim, "completed", result='"first"'), worlds[1].settle(claim, "dead")
        )
        assert first.accepted != second.accepted
        assert await worlds[2].status(claim.id) == ("completed" if first.accepted else "dead")
    where = await worlds[0].inspector.conservation()
    assert where.completed + where.dead == 10


async def test_settling_and_reclaiming_at_once(worlds: list[World]) -> None:
    """Either the outcome counts, or the job is taken back; never both and never neither."""
    ids = await worlds[0].insert_many(100)
    claims = await worlds[0].claim(100)
    await worlds[0].advance(LEASE + 1)
    answers, *reclaimed = await asyncio.gather(
        worlds[0].store.settle([outcome(claim, "completed") for claim in claims]),
        worlds[1].store.reclaim(100),
        worlds[2].store.reclaim(100),
    )
    settled = {answer.id for answer in answers if answer.accepted}
    taken = [one.id for group in reclaimed for one in group]
    taken += [one.id for one in await worlds[0].store.reclaim(100)]
    assert sorted([*settled, *taken]) == sorted(ids)


async def test_settling_and_beating_at_once(worlds: list[World]) -> None:
    await worlds[0].insert_many(100)
    claims = await worlds[0].claim(100)
    beats = [world.beat(*(held(claim, 50) for claim in claims), worker=f"w{n}") for n, world in enumerate(worlds[1:])]
    answers, *_ = await asyncio.gather(worlds[0].settle_all([outcome(claim, "completed") for claim in claims]), *beats)
    assert all(answers)
    assert (await worlds[0].inspector.conservation()).completed == 100


async def test_two_who_insert_the_same_id(worlds: list[World]) -> None:
    job = new_job()
    answers = await asyncio.gather(*(world.store.insert([job, new_job()]) for world in worlds))
    assert sum(pair[0].created for pair in answers) == 1
    assert len(await worlds[0].claim(100)) == PROCESSES + 1


async def test_two_who_create_the_same_queue(worlds: list[World]) -> None:
    await asyncio.gather(*(world.store.insert([new_job(queue=f"q{n}") for n in range(10)]) for world in worlds))
    assert len(await worlds[0].store.queues()) == 10
    assert (await worlds[0].inspector.conservation()).unfinished == 10 * PROCESSES


async def test_two_who_promote(worlds: list[World]) -> None:
    ids = await worlds[0].insert_many(200, delay=5)
    await worlds[0].advance(6)
    found = await asyncio.gather(*(world.store.promote(200) for world in worlds))
    ready = [one.id for group in found for one in group]
    ready += [one.id for one in await worlds[0].store.promote(200)]
    assert sorted(ready) == sorted(ids)


async def test_two_operators(worlds: list[World]) -> None:
    """Each job is changed once, whoever was first."""
    ids = await worlds[0].insert_many(50)
    await worlds[0].store.settle([outcome(claim, "dead") for claim in await worlds[0].claim(50)])
    found = await asyncio.gather(*(world.change("retry", ids) for world in worlds))
    assert sorted(job_id for changed in found for job_id in changed.ids) == sorted(ids)
    assert len(await worlds[0].claim(100)) == 50


async def test_cancelling_and_claiming_at_once(worlds: list[World]) -> None:
    """A job is cancelled while it waits, or asked to stop while it runs."""
    ids = await worlds[0].insert_many(100)
    changed, *groups = await asyncio.gather(
        worlds[0].change("cancel", ids), *(claim_until_empty(world, 10) for world in worlds[1:])
    )
    left = [job_id for job_id in ids if job_id not in changed.ids]
    again = await worlds[0].change("cancel", left)
    assert sorted([*changed.ids, *again.ids]) == sorted(ids)
    claims = [claim for group in groups for claim in group]
    for claim in claims:
        assert (await worlds[0].job(claim.id)).cancel_requested
    where = await worlds[0].inspector.conservation()
    assert (where.cancelled, where.unfinished) == (100 - len(claims), len(claims))


async def test_producers_and_workers_at_once(worlds: list[World]) -> None:
    total, done = 400, 0

    async def produce(world: World) -> None:
        for _ in range(10):
            await world.store.insert([new_job() for _ in range(total // 20)])

    async def consume(world: World, worker: str) -> None:
        nonlocal done
        async with asyncio.timeout(60):
            while done < total:
                claims = await world.claim(20, queue=QUEUE, types=(TYPE,), worker=worker)
                answers = await world.settle_all([outcome(claim, "completed") for claim in claims])
                assert all(answers)
                done += len(answers)
                await asyncio.sleep(0)

    workers = [consume(world, f"w{n}") for n, world in enumerate(worlds)]
    await asyncio.gather(*(produce(world) for world in worlds[:2]), *workers)
    where = await worlds[0].inspector.conservation()
    assert (where.completed, where.unfinished) == (total, 0)
