"""Releases: registered once, in one order; attempts and workers have that of their program."""

from typing import Any

import pytest

from queue_core.model.filters import parse
from queue_core.model.triage.release import UNKNOWN_RELEASE
from queue_core.queue import JobQueue
from queue_core.stores.memory import statistics
from queue_core.stores.postgres.statistics import releases as postgres_releases
from queue_core.stores.redis.statistics import releases as redis_releases
from queue_core.stores.sqlite.statistics import releases as sqlite_releases
from tests.conformance.making import LEASE, held
from tests.conformance.working import PATIENCE, until, until_status, working
from tests.conformance.world import World

STATISTICS = (statistics, postgres_releases, redis_releases, sqlite_releases)


async def register(world: World, *names: str) -> list[int]:
    return [await world.store.register_release(name) for name in names]


async def in_order(world: World) -> list[str]:
    return [release.name for release in await world.inspector.releases()]


async def release_of(world: World, job_id: str) -> tuple[str | None, list[str | None]]:
    attempts = await world.inspector.attempts(job_id)
    return (await world.job(job_id)).release, [attempt.release for attempt in attempts]


async def test_each_has_a_number_and_a_place(world: World) -> None:
    assert await world.inspector.releases() == []
    first, second = await register(world, "r123", "r124")
    assert len({first, second, UNKNOWN_RELEASE}) == 3
    assert await register(world, "r124", "r123") == [second, first]
    found = await world.inspector.releases()
    assert [(one.name, one.number) for one in found] == [("r123", first), ("r124", second)]
    assert found[0].place < found[1].place
    assert found[0].first_seen <= found[1].first_seen


async def test_a_hotfix_comes_before_the_next_version(world: World) -> None:
    names = ("1.4.8", "1.5.0", "a7f3-main")
    numbers = dict(zip(names, await register(world, *names), strict=True))
    await register(world, "1.4.9", "2.0.0", "1.4.8.1")
    assert await in_order(world) == ["1.4.8", "1.4.8.1", "1.4.9", "1.5.0", "a7f3-main", "2.0.0"]
    found = await world.inspector.releases()
    assert [one.place for one in found] == sorted({one.place for one in found})
    assert {one.name: one.number for one in found if one.name in numbers} == numbers


async def test_of_too_many_the_first_that_no_worker_has_are_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in STATISTICS:
        monkeypatch.setattr(module, "MAX_RELEASES", 3)
    first, _, third = await register(world, "r1", "r2", "r3")
    await world.beat(release=first)
    await register(world, "r4")
    assert await in_order(world) == ["r1", "r3", "r4"]
    assert (await register(world, "r3"))[0] == third
    await register(world, "r5")
    assert await in_order(world) == ["r1", "r4", "r5"]


async def test_the_running_and_the_ended_have_it(world: World) -> None:
    (number,) = await register(world, "r124")
    for end in ("running", "completed", "cancelled", "dead", "trashed"):
        job_id = await world.insert()
        claim = await world.claim_job(job_id, release=number)
        assert (await world.job(job_id)).release == "r124"
        if end != "running":
            await world.settle(claim, "dead" if end == "trashed" else end)
        if end == "trashed":
            await world.change("delete", [job_id])
        failed = ["r124"] if end in ("dead", "trashed") else []
        assert await release_of(world, job_id) == ("r124", failed), end
    page = await world.inspector.jobs(parse(""), 100)
    assert {job.release for job in page.jobs} == {"r124"}
    for job in page.jobs:
        await world.change("retry", [job.id])
    page = await world.inspector.jobs(parse("status:queued"), 100)
    assert [job.release for job in page.jobs] == [None] * 2, "no worker has it"


async def test_each_attempt_has_its_own(world: World) -> None:
    old, new = await register(world, "r124", "r125")
    job_id = await world.insert()
    await world.settle(await world.claim_job(job_id, release=old), "retrying", delay=0.0)
    assert await release_of(world, job_id) == (None, ["r124"])
    await world.advance(1)
    await world.store.promote(10)
    await world.settle(await world.claim_job(job_id), "retrying", delay=0.0)
    await world.advance(1)
    await world.store.promote(10)
    await world.settle(await world.claim_job(job_id, release=new), "dead")
    assert await release_of(world, job_id) == ("r125", ["r124", None, "r125"])
    await world.change("retry", [job_id])
    assert await release_of(world, job_id) == (None, ["r124", None, "r125"])
    await world.settle(await world.claim_job(job_id), "completed")
    assert (await world.job(job_id)).release is None


async def test_a_lost_attempt_has_that_of_its_worker(world: World) -> None:
    (number,) = await register(world, "r124")
    job_id = await world.insert()
    claim = await world.claim_job(job_id, worker="gone", release=number)
    await world.beat(held(claim), worker="gone", release=number)
    # Its entry goes with it, and what it ran is still known.
    await world.store.write_off(["gone"], "")
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, 2)
    assert await release_of(world, job_id) == (None, ["r124"])
    await world.claim_job(job_id, worker="unknown")
    await world.advance(LEASE + 1)
    await world.store.reclaim(10, 2)
    assert await release_of(world, job_id) == (None, ["r124", None])


async def test_workers_announce_it(world: World) -> None:
    old, new = await register(world, "r124", "r125")
    await world.beat(worker="one", release=old)
    await world.beat(worker="two")
    workers = {one.id: one.release for one in (await world.inspector.overview()).workers}
    assert workers == {"one": "r124", "two": None}
    await world.beat(worker="one", release=new)
    assert {one.release for one in (await world.inspector.overview()).workers} == {"r125", None}


async def test_a_number_that_is_not_known_is_no_release(world: World) -> None:
    job_id = await world.insert()
    await world.settle(await world.claim_job(job_id, release=77), "dead")
    await world.beat(release=77)
    assert await release_of(world, job_id) == (None, [None])
    assert [one.release for one in (await world.inspector.overview()).workers] == [None]


async def announced(jobs: JobQueue, worker: str, release: str) -> bool:
    return any((one.id, one.release) == (worker, release) for one in (await jobs.inspector.overview()).workers)


async def test_a_worker_and_a_manual_claim_have_it(mode_settings: Any) -> None:
    async with JobQueue(settings=mode_settings, release="r124") as jobs:

        @jobs.task
        async def plain() -> None: ...

        async with working(jobs) as worker:
            handle = await plain.enqueue()
            await handle.result(PATIENCE)
            await until_status(jobs, handle.id, "completed")
            await until(lambda: announced(jobs, worker.id, "r124"))
        (attempt,) = await jobs.attempts(handle.id)
        assert (attempt.kind, attempt.release) == ("completed", "r124")
        other = await jobs.enqueue("other", queue="elsewhere")
        job = await jobs.claim_next("elsewhere", wait=PATIENCE)
        assert job is not None
        await job.refresh()
        assert {one.release for one in (await jobs.inspector.overview()).workers} == {"r124"}
        await job.fail("broken", retry=False)
        (attempt,) = await jobs.attempts(other.id)
        assert attempt.release == "r124"


async def test_one_whose_name_is_refused_today_is_read(world: World) -> None:
    """The screens use these signs for what is unknown; a worker of an earlier version may have announced one."""
    number = await world.store.register_release("?")
    job_id = await world.insert()
    await world.settle(await world.claim_job(job_id, release=number), "dead")
    assert (await world.job(job_id)).release == "?"
    assert [one.name for one in await world.inspector.releases()] == ["?"]
    assert [job.id for job in (await world.inspector.jobs(parse("release:?"), 10)).jobs] == [job_id]
