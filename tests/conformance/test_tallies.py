"""Tallies: exact totals of every queue, type and outcome, counted in the same step as the change."""

import pytest

from queue_core.model.report import HISTOGRAM_BOUNDS, Tally
from tests.conformance.making import LEASE, QUEUE, TYPE, failure, outcome
from tests.conformance.world import World

BEYOND = len(HISTOGRAM_BOUNDS)


async def tallies(world: World, queue: str = QUEUE, type_: str = TYPE) -> dict[str, Tally]:
    found = {one.outcome: one for one in await world.inspector.tallies() if (one.queue, one.type) == (queue, type_)}
    for one in found.values():
        assert sum(one.wait_buckets.values()) in {0, one.count}
        assert sum(one.run_buckets.values()) in {0, one.count}
    return found


async def counts(world: World, queue: str = QUEUE, type_: str = TYPE) -> dict[str, int]:
    return {name: one.count for name, one in (await tallies(world, queue, type_)).items() if one.count}


async def test_nothing_happened(world: World) -> None:
    assert await world.inspector.tallies() == []


async def test_enqueued(world: World) -> None:
    await world.insert_many(3)
    await world.insert(delay=60)
    await world.insert(queue="other", type="else")
    assert await counts(world) == {"enqueued": 4}
    assert await counts(world, "other", "else") == {"enqueued": 1}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("completed", "completed"),
        ("retrying", "retried"),
        ("dead", "dead"),
        ("released", "released"),
        ("cancelled", "cancelled"),
    ],
)
async def test_each_end_of_an_attempt(world: World, kind: str, name: str) -> None:
    for _ in range(2):
        await world.ended(kind, {"run_us": 1500})
    assert await counts(world) == {"enqueued": 2, name: 2}
    one = (await tallies(world))[name]
    assert (one.run_us, one.run_buckets) == (3000, {1: 2})


@pytest.mark.parametrize("kind", ["retrying", "dead"])
async def test_a_time_limit_counts_beside_its_end(world: World, kind: str) -> None:
    await world.ended(kind, {"failure": failure(kind="timeout"), "run_us": 5})
    found = await counts(world)
    assert found == {"enqueued": 1, "timed_out": 1, "retried" if kind == "retrying" else "dead": 1}


async def test_a_time_limit_counts_also_where_the_job_is_cancelled_at_its_end(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    assert (await world.settle(claim, "retrying", failure=failure(kind="timeout"))).cancelled
    assert await counts(world) == {"enqueued": 1, "timed_out": 1, "cancelled": 1}


async def test_losses_and_their_bound(world: World) -> None:
    await world.lost(1)
    assert await counts(world) == {"enqueued": 1, "crashed": 1}
    await world.lost(3, type="other")
    assert await counts(world, type_="other") == {"enqueued": 1, "crashed": 3, "dead": 1}


async def test_what_operators_do(world: World) -> None:
    for state in ("queued", "scheduled"):
        await world.change("cancel", [await world.job_in(state)])
    dead, completed, trashed = await world.ended("dead"), await world.ended("completed"), await world.trashed()
    await world.change("retry", [dead.id, completed.id])
    await world.change("purge", [trashed.id])
    assert await counts(world) == {
        "enqueued": 5,
        "cancelled": 2,
        "dead": 2,
        "completed": 1,
        "retried_by_operator": 2,
        "purged": 1,
    }


async def test_asking_a_running_job_to_stop_is_not_yet_an_outcome(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    assert await counts(world) == {"enqueued": 1}
    await world.settle(claim, "cancelled")
    assert await counts(world) == {"enqueued": 1, "cancelled": 1}


@pytest.mark.parametrize("kind", ["retrying", "released"])
async def test_an_attempt_that_ends_as_a_cancellation_counts_as_one(world: World, kind: str) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    await world.settle(claim, kind)
    assert await counts(world) == {"enqueued": 1, "cancelled": 1}


async def test_refused_outcomes_count_nothing(world: World) -> None:
    claim = await world.running()
    await world.advance(LEASE + 1)
    await world.store.reclaim(10)
    before = await counts(world)
    for kind in ("completed", "retrying", "dead", "released", "cancelled"):
        await world.settle(claim, kind)
    assert await counts(world) == before


@pytest.mark.parametrize(
    ("run_us", "bucket"),
    [
        (0, 0),
        (999, 0),
        (1000, 0),
        (1001, 1),
        (2500, 1),
        (1_000_000, 9),
        (1_000_001, 10),
        (3_600_000_000, 17),
        (3_600_000_001, BEYOND),
        (90_000_000_000, BEYOND),
    ],
)
async def test_run_times_fall_into_the_bucket_of_their_bound(world: World, run_us: int, bucket: int) -> None:
    """A bound belongs to its bucket, as Prometheus wants it."""
    await world.ended("completed", {"run_us": run_us})
    one = (await tallies(world))["completed"]
    assert (one.run_us, one.run_buckets) == (run_us, {bucket: 1})


@pytest.mark.parametrize("kind", ["completed", "retrying", "dead", "released", "cancelled"])
async def test_a_bound_belongs_to_its_bucket_whatever_the_end(world: World, kind: str) -> None:
    for run_us in (1000, 1001):
        await world.ended(kind, {"run_us": run_us})
    assert (await tallies(world))["retried" if kind == "retrying" else kind].run_buckets == {0: 1, 1: 1}


async def test_a_bound_belongs_to_its_bucket_where_a_failure_is_a_cancellation(world: World) -> None:
    claim = await world.running()
    await world.change("cancel", [claim.id])
    await world.settle(claim, "retrying", run_us=1000)
    assert (await tallies(world))["cancelled"].run_buckets == {0: 1}


@pytest.mark.parametrize("kind", ["completed", "dead", "cancelled"])
async def test_the_wait_is_from_due_to_start(world: World, kind: str) -> None:
    job_id = await world.insert()
    await world.advance(20)
    claim = await world.claim_job(job_id)
    await world.advance(10)
    await world.settle(claim, kind)
    one = (await tallies(world))[kind]
    assert one.wait_us == pytest.approx(20_000_000, abs=5_000_000)
    assert one.wait_buckets == {13: 1}


async def test_a_scheduled_job_waits_from_its_due_time_on(world: World) -> None:
    job_id = await world.insert(delay=1000)
    await world.advance(1020)
    await world.store.promote(10)
    await world.settle(await world.claim_job(job_id), "completed")
    assert (await tallies(world))["completed"].wait_us == pytest.approx(20_000_000, abs=5_000_000)


async def test_a_job_that_is_cancelled_as_its_attempt_fails_has_waited(world: World) -> None:
    job_id = await world.insert()
    await world.advance(20)
    claim = await world.claim_job(job_id)
    await world.change("cancel", [job_id])
    await world.settle(claim, "retrying", run_us=700)
    one = (await tallies(world))["cancelled"]
    assert one.wait_us == pytest.approx(20_000_000, abs=5_000_000)
    assert (one.count, one.wait_buckets, one.run_us) == (1, {13: 1}, 700)


@pytest.mark.parametrize(("started", "counted"), [(True, {"crashed": 1}), (False, {})])
async def test_a_lost_job_that_is_cancelled_has_crashed_if_it_had_begun(
    world: World, started: bool, counted: dict[str, int]
) -> None:
    claim = await world.claim_job(await world.insert(), start_count=int(started))
    await world.change("cancel", [claim.id])
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, 3)
    assert await counts(world) == {"enqueued": 1, "cancelled": 1} | counted


async def test_folded_or_not_is_the_same(world: World) -> None:
    for kind in ("completed", "dead", "retrying"):
        await world.ended(kind, {"run_us": 700})
    before = await world.inspector.tallies()
    await world.store.upkeep()
    assert sorted(await world.inspector.tallies(), key=repr) == sorted(before, key=repr)
    await world.ended("completed", {"run_us": 300})
    one = (await tallies(world))["completed"]
    assert (one.count, one.run_us, one.run_buckets) == (2, 1000, {0: 2})


async def test_what_is_folded_one_after_the_other_adds_up(world: World) -> None:
    for _ in range(2):
        job_id = await world.insert()
        await world.advance(20)
        await world.settle(await world.claim_job(job_id), "completed", run_us=700)
        await world.store.upkeep()
    one = (await tallies(world))["completed"]
    assert (one.count, one.run_us, one.wait_buckets, one.run_buckets) == (2, 1400, {13: 2}, {0: 2})
    assert one.wait_us == pytest.approx(40_000_000, abs=10_000_000)


async def test_a_large_batch_is_counted_exactly(world: World) -> None:
    await world.insert_many(3000)
    claims = await world.claim(3000)
    kinds = ("completed", "retrying", "dead", "released", "cancelled")
    await world.store.settle([outcome(claim, kinds[number % 5]) for number, claim in enumerate(claims)])
    assert await counts(world) == {
        "enqueued": 3000,
        "completed": 600,
        "retried": 600,
        "dead": 600,
        "released": 600,
        "cancelled": 600,
    }
