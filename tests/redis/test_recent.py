"""What a process wrote last, and what becomes of it where another primary takes the place of the one that has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from types import SimpleNamespace

import pytest

from queue_core.errors import StoreRefused, StoreUnavailable
from queue_core.model.job import Inserted, NewJob
from queue_core.redis import recent
from queue_core.redis.recent import RecentJobs
from tests.conformance.making import new_job

PATIENCE = 10.0


class Primaries:
    """Primaries whose eras a test decides, and what the present one has."""

    def __init__(self) -> None:
        self.number = 0
        # what the present one answers in place of work
        self.trouble: StoreUnavailable | None = None
        self.has: list[NewJob] = []
        self.looks = 0
        self.checked = asyncio.Event()
        # eras that begin while jobs are looked for
        self.during = 0
        # unique keys that other jobs hold
        self.taken: set[str | None] = set()

    def era(self) -> int:
        return self.number

    def watch(self, queues: Collection[str]) -> None:
        assert queues

    async def check(self) -> None:
        self.checked.set()

    def replace(self, *kept: NewJob) -> None:
        """Let another one take its place, which has these jobs alone."""
        self.number += 1
        self.has = list(kept)

    async def restore(self, jobs: Sequence[NewJob]) -> tuple[list[NewJob], list[Inserted]]:
        if self.trouble is not None:
            raise self.trouble
        self.looks += len(jobs)
        await asyncio.sleep(0)
        if self.during:
            self.during -= 1
            self.replace()
        ids = {job.id for job in self.has}
        lacking = [job for job in jobs if job.id not in ids]
        self.has += [job for job in lacking if job.unique_key not in self.taken]
        return lacking, [holder(job) if job.unique_key in self.taken else answer(job) for job in lacking]


def answer(job: NewJob, due: float | None = None) -> Inserted:
    return Inserted(job.id, job.queue, 1, due, True)


def holder(job: NewJob) -> Inserted:
    return Inserted(new_job().id, job.queue, None, None, False)


@pytest.fixture
def primaries() -> Primaries:
    return Primaries()


@pytest.fixture
async def jobs(primaries: Primaries) -> AsyncIterator[RecentJobs]:
    made = RecentJobs(primaries, primaries.restore)
    yield made
    await made.close()


async def write(jobs: RecentJobs, primaries: Primaries, count: int = 1) -> list[NewJob]:
    """Write jobs to the present primary, as a store does."""
    era = await jobs.ready()
    written = [new_job() for _ in range(count)]
    primaries.has += written
    jobs.add(written, [answer(job) for job in written], era)
    return written


async def test_nothing_is_looked_for_while_the_primary_stays(jobs: RecentJobs, primaries: Primaries) -> None:
    for _ in range(3):
        await write(jobs, primaries)
    assert primaries.looks == 0


async def test_what_is_lost_is_there_again_before_the_next_write(jobs: RecentJobs, primaries: Primaries) -> None:
    first, *lost = [(await write(jobs, primaries))[0] for _ in range(4)]
    primaries.replace(first)
    (later,) = await write(jobs, primaries)
    assert primaries.has == [first, *lost, later]


async def test_what_was_on_its_way_is_looked_for(jobs: RecentJobs, primaries: Primaries) -> None:
    era = await jobs.ready()
    primaries.replace()
    written = new_job()
    jobs.add([written], [answer(written)], era)
    await jobs.ready()
    assert primaries.has == [written]


async def test_what_is_written_later_hides_nothing_that_is_in_doubt(jobs: RecentJobs, primaries: Primaries) -> None:
    """Jobs that were found again after an error: it is not known which primary they were found on."""
    doubtful, later = new_job(), new_job()
    jobs.keep([doubtful])
    jobs.add([later], [answer(later)], primaries.era())
    primaries.has = [later]
    await jobs.ready()
    assert primaries.has == [later, doubtful]


async def test_another_switch_meanwhile_begins_again(jobs: RecentJobs, primaries: Primaries) -> None:
    written = [job for _ in range(3) for job in await write(jobs, primaries, 3)]
    primaries.replace()
    primaries.during = 2
    await jobs.ready()
    assert primaries.has == written
    primaries.replace()
    await jobs.ready()
    assert primaries.has == written


@pytest.mark.parametrize("trouble", [StoreUnavailable("redis", "away"), StoreRefused("redis", "full", passing=True)])
async def test_a_successor_that_is_away_or_full_is_asked_again(
    jobs: RecentJobs, primaries: Primaries, trouble: StoreUnavailable
) -> None:
    written = await write(jobs, primaries, 2)
    primaries.replace()
    primaries.trouble = trouble
    with pytest.raises(StoreUnavailable):
        await jobs.ready()
    primaries.trouble = None
    await jobs.ready()
    assert primaries.has == written


async def test_a_process_that_rests_looks(
    jobs: RecentJobs, primaries: Primaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "CHECK_INTERVAL", 0.001)
    announced: asyncio.Future[Sequence[NewJob]] = asyncio.get_running_loop().create_future()

    async def announce(jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        announced.set_result(jobs)

    jobs.announce = announce
    written = await write(jobs, primaries, 2)
    primaries.replace()
    async with asyncio.timeout(PATIENCE):
        assert await announced == written
    assert primaries.has == written


async def test_what_is_too_much_or_too_old_is_forgotten(
    jobs: RecentJobs, primaries: Primaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "MAX_JOBS", 5)
    await write(jobs, primaries, 3)
    kept = await write(jobs, primaries, 4)
    primaries.replace()
    await jobs.ready()
    assert primaries.has == kept
    longer = await write(jobs, primaries, 8)
    primaries.replace()
    await jobs.ready()
    assert primaries.has == longer[-5:]


async def test_payloads_that_are_too_much_are_forgotten(
    jobs: RecentJobs, primaries: Primaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "MAX_CHARACTERS", 100)
    first, second, third = [new_job(payload="x" * length) for length in (30, 30, 50)]
    for job in (first, second, third):
        jobs.add([job], [answer(job)], await jobs.ready())
    primaries.replace()
    await jobs.ready()
    assert primaries.has == [second, third]


async def test_what_a_successor_has_to_be_asked_for_does_not_grow_old(
    jobs: RecentJobs, primaries: Primaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = await write(jobs, primaries)
    era, on_its_way = await jobs.ready(), [new_job()]
    primaries.replace()
    monkeypatch.setattr(jobs, "_seconds", -recent.KEEP_SECONDS)
    jobs.add(on_its_way, [answer(job) for job in on_its_way], era)
    await jobs.ready()
    assert primaries.has == [*written, *on_its_way]


async def test_what_is_lacking_is_there_again_before_the_end(jobs: RecentJobs, primaries: Primaries) -> None:
    written = await write(jobs, primaries, 2)
    primaries.replace()
    await jobs.close()
    assert primaries.has == written


async def test_what_was_old_at_a_check_is_forgotten(
    jobs: RecentJobs, primaries: Primaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "CHECK_INTERVAL", 0.001)
    monkeypatch.setattr(jobs, "_seconds", 0.0)
    await write(jobs, primaries)
    assert jobs._watching is not None
    async with asyncio.timeout(PATIENCE):
        await jobs._watching
    primaries.replace()
    await jobs.ready()
    assert primaries.has == []


async def test_a_process_that_was_frozen_forgets_nothing_before_it_has_checked(
    jobs: RecentJobs, primaries: Primaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of the old primary that it reads first says nothing of the time in between."""
    written = await write(jobs, primaries)
    era = await jobs.ready()
    on_its_way = [new_job()]
    now = time.monotonic()
    monkeypatch.setattr(recent, "time", SimpleNamespace(monotonic=lambda: now + 10 * recent.KEEP_SECONDS))
    jobs.add(on_its_way, [answer(job) for job in on_its_way], era)
    primaries.replace()
    await jobs.ready()
    assert primaries.has == [*written, *on_its_way]


async def test_due_times_stay_and_holders_are_left_to_their_producers(jobs: RecentJobs, primaries: Primaries) -> None:
    later, second = new_job(delay=60.0), new_job(unique_key="key")
    jobs.add([later, second], [answer(later, due=1000.0), holder(second)], await jobs.ready())
    primaries.replace()
    await jobs.ready()
    assert primaries.has == [later._replace(delay=0.0, run_at=1000.0)]


async def test_a_unique_key_is_held_for_what_is_left_of_its_time(jobs: RecentJobs, primaries: Primaries) -> None:
    job = new_job(unique_key="key", unique_seconds=60.0)
    jobs.add([job], [answer(job)], await jobs.ready())
    primaries.replace()
    await jobs.ready()
    assert primaries.has[0].unique_seconds is not None
    assert 0 < primaries.has[0].unique_seconds < 60.0


async def test_what_was_found_behind_a_lost_answer_is_looked_for(jobs: RecentJobs, primaries: Primaries) -> None:
    """It is not known which primary has it."""
    found = new_job()
    jobs.keep([found])
    await jobs.ready()
    assert primaries.has == [found]


@pytest.mark.parametrize("others", [0, 2])
async def test_what_another_one_has_the_key_of_does_not_come_back_once_it_is_free(
    jobs: RecentJobs, primaries: Primaries, others: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "queue_core.delivery")
    unique, rest = new_job(unique_key="key", payload="xx"), [new_job() for _ in range(others)]
    jobs.add([unique, *rest], [answer(job) for job in (unique, *rest)], await jobs.ready())
    primaries.replace()
    primaries.taken = {"key"}
    await jobs.ready()
    assert f"looked for: {1 + others}, inserted again: {others}" in caplog.text

    primaries.taken = set()
    primaries.replace()
    await jobs.ready()
    assert primaries.has == rest
    assert jobs._jobs == others
    assert jobs._characters == 2 * others
