"""Schedules through a queue object: registered in code, ticking while workers run, in the hands of operators."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import pytest

from queue_core import ConfigurationError, InvalidJob, JobContext, JobQueue, Middleware, QueueFull, Retry
from queue_core.errors import ScheduleNotFound
from queue_core.model.filters import parse
from queue_core.model.job import Job, NewJob
from queue_core.model.rules import QueueRules
from queue_core.model.schedule import Announcement, PassedTick, Planned
from queue_core.model.settings import JobsSettings
from tests.conformance.working import PATIENCE, until, working

EACH_SECOND = "* * * * * *"
NEW_YEAR = "0 0 1 1 *"
"""Does not tick while a test runs, unless it is told to."""
DAY = 86400.0


async def planned(jobs: JobQueue, name: str) -> Planned:
    return await jobs.schedules.get(name)


async def make_due(jobs: JobQueue, name: str, since: float = DAY / 8) -> float:
    """Let the next tick have come so many seconds ago, less than mode redis keeps ticks for; return when."""
    now = float(int((await jobs.schedules.list()).now))
    one = (await planned(jobs, name)).schedule
    for announcement in (Announcement(one._replace(cron="0 0 2 1 *"), 0.0), Announcement(one, now - since)):
        await jobs.schedule_store.announce([announcement])
    again = await planned(jobs, name)
    assert again.next_at == now - since
    assert again.next_tick == datetime.fromtimestamp(again.next_at, UTC)
    return now - since


async def passed(jobs: JobQueue, name: str, least: int) -> Sequence[PassedTick]:
    """Wait until so many ticks have passed and return all of them."""

    async def there() -> bool:
        return len(await jobs.schedule_store.ticks(name, 100)) >= least

    await until(there)
    return await jobs.schedules.ticks(name)


async def of_type(jobs: JobQueue, type_: str) -> tuple[Job, ...]:
    return (await jobs.inspector.jobs(parse(f"type:{type_}"), 100)).jobs


async def test_a_function_runs_whenever_its_schedule_ticks(jobs: JobQueue) -> None:
    ran: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    @jobs.cron(
        EACH_SECOND, tz="Europe/Paris", queue="often", priority="high", payload={"n": 3}, retry=Retry(max_retries=7)
    )
    async def tick(ctx: JobContext, n: int) -> None:
        ran.put_nowait((ctx.job_id, n))

    async with working(jobs), asyncio.timeout(PATIENCE):
        done = [await ran.get() for _ in range(2)]
    ticks = {one.job_id: one.at for one in await passed(jobs, "tick", 2)}
    late = []
    for job_id, n in done:
        job = await jobs.inspector.get(job_id)
        assert (n, job.queue, job.priority, job.max_retries, job.payload) == (3, "often", 10, 7, {"n": 3})
        late.append(job.created_at.timestamp() - ticks[job_id])
    # Each comes after its time, and promptly where the machine lets it.
    assert min(late) >= 0
    assert min(late) < 0.5
    assert all(tick == int(tick) for tick in ticks.values())


async def test_one_job_a_tick_whatever_the_number_of_workers(jobs: JobQueue, mode_settings: JobsSettings) -> None:
    @jobs.cron(EACH_SECOND)
    async def tick() -> None: ...

    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(working(jobs))
        await passed(jobs, "tick", 2)
    ticks = await jobs.schedules.ticks("tick")
    assert sorted({one.at for one in ticks}) == [one.at for one in reversed(ticks)]
    assert sorted(job.id for job in await of_type(jobs, "tick")) == sorted(str(one.job_id) for one in ticks)


@asynccontextmanager
async def processes(number: int, settings: JobsSettings) -> AsyncIterator[list[subprocess.Popen[bytes]]]:
    """Run worker processes that have a schedule, until they are told to end."""
    addresses = {"postgres": settings.postgres.url, "redis": settings.redis.url}
    described = {name: url.get_secret_value() for name, url in addresses.items() if url is not None}
    described |= {"prefix": settings.redis.prefix} if "redis" in described else {}
    described = {"sqlite": settings.sqlite.path} if settings.mode == "sqlite" else described
    environment = os.environ | {"TEST_CRON_STORE": json.dumps(described)}
    command = [sys.executable, "-m", "tests.conformance.ticking"]
    start = partial(subprocess.Popen, command, env=environment, stdin=subprocess.PIPE)
    started = [start() for _ in range(number)]
    try:
        yield started
        codes = [await asyncio.to_thread(_ended, process) for process in started]
        assert codes == [0] * number
    finally:
        for process in started:
            process.kill()
            process.wait()


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Close a process's input, which tells it to end, and return its exit code."""
    process.communicate(timeout=PATIENCE)
    return process.returncode


async def test_one_job_a_tick_whatever_the_number_of_processes(jobs: JobQueue, mode_settings: JobsSettings) -> None:
    if mode_settings.mode == "memory":
        pytest.skip("memory is one process's own")
    async with processes(3, mode_settings):

        async def announced() -> bool:
            return len((await jobs.schedules.list()).schedules) == 1

        await until(announced)
        # The leader is not alone: whoever finds a tick due may fire it.
        before = len(await passed(jobs, "tick", 1))
        await passed(jobs, "tick", before + 2)
    ticks = await jobs.schedules.ticks("tick")
    assert sorted({one.at for one in ticks}) == [one.at for one in reversed(ticks)]
    assert sorted(job.id for job in await of_type(jobs, "tick")) == sorted(str(one.job_id) for one in ticks)


async def test_missed_ticks_run_once_late(jobs: JobQueue) -> None:
    ran = asyncio.Event()

    @jobs.cron("30 * * * *")
    async def hourly() -> None:
        ran.set()

    await jobs.schedules.announce()
    due = await make_due(jobs, "hourly", DAY / 3)
    async with working(jobs), asyncio.timeout(PATIENCE):
        await ran.wait()
    (tick,) = await jobs.schedules.ticks("hourly")
    (job,) = await of_type(jobs, "hourly")
    assert tick == PassedTick(due, job.id)
    assert (await planned(jobs, "hourly")).next_at > (await jobs.schedules.list()).now


async def test_a_worker_that_starts_again_keeps_what_is_planned(jobs: JobQueue) -> None:
    @jobs.cron(NEW_YEAR)
    async def yearly() -> None: ...

    await jobs.schedules.announce()
    async with working(jobs):
        first = await planned(jobs, "yearly")
        await jobs.schedules.pause("yearly")
    async with working(jobs):
        pass
    again = await planned(jobs, "yearly")
    assert (again.next_at, again.paused, again.schedule) == (first.next_at, True, first.schedule)
    assert again.next_at > (await jobs.schedules.list()).now
    assert await jobs.schedules.ticks("yearly") == []


async def test_paused_ticks_pass_and_a_resumed_schedule_goes_on_from_now(jobs: JobQueue) -> None:
    @jobs.cron(NEW_YEAR)
    async def yearly() -> None: ...

    @jobs.cron(EACH_SECOND)
    async def tick() -> None: ...

    await jobs.schedules.announce()
    due = await make_due(jobs, "yearly")
    assert await jobs.schedules.pause("yearly")
    assert not await jobs.schedules.pause("yearly")
    async with working(jobs):
        await passed(jobs, "tick", 2)
        one = await planned(jobs, "yearly")
        assert (one.paused, one.next_at, one.next_tick) == (True, due, None)
        assert await jobs.schedules.resume("yearly")
        assert not await jobs.schedules.resume("yearly")
        one = await planned(jobs, "yearly")
        assert not one.paused
        assert one.next_at > (await jobs.schedules.list()).now
        await passed(jobs, "tick", len(await jobs.schedules.ticks("tick")) + 1)
    assert await jobs.schedules.ticks("yearly") == []
    assert await of_type(jobs, "yearly") == ()


async def test_a_triggered_schedule_runs_now_and_ticks_as_before(jobs: JobQueue) -> None:
    @jobs.cron(NEW_YEAR, queue="rare", payload={"n": 2}, priority=-3)
    async def yearly(n: int) -> int:
        return 2 * n

    await jobs.schedules.announce()
    async with working(jobs):
        before = await planned(jobs, "yearly")
        handle = await jobs.schedules.trigger("yearly")
        assert await handle.result(PATIENCE) == 4
        await jobs.schedules.pause("yearly")
        assert await (await jobs.schedules.trigger("yearly")).result(PATIENCE) == 4
        await jobs.schedules.resume("yearly")
    job = await jobs.inspector.get(handle.id)
    assert (job.queue, job.priority, job.payload) == ("rare", -3, {"n": 2})
    assert await planned(jobs, "yearly") == before
    assert await jobs.schedules.ticks("yearly") == []


async def test_a_triggered_schedule_brings_the_job_that_its_ticks_bring(mode_settings: JobsSettings) -> None:
    """Also where this program has no task of its type; and in its place, where the queue has one order."""
    lined = mode_settings.model_copy(update={"queues": {"line": QueueRules(fifo=True)}})
    async with JobQueue(settings=lined) as jobs:
        jobs.schedule("given", NEW_YEAR, "report", queue="line", priority=12)
        await jobs.schedules.announce()
        one = (await planned(jobs, "given")).schedule._replace(max_retries=7)
        await jobs.schedule_store.announce([Announcement(one, 0.0)])
        job = await jobs.inspector.get((await jobs.schedules.trigger("given")).id)
    assert (job.queue, job.priority, job.max_retries) == ("line", 12, 7)
    assert (job.ordering_key, one.ordering_key) == (QueueRules(fifo=True).key_of(None),) * 2


async def test_a_schedule_of_a_type_that_others_have(jobs: JobQueue) -> None:
    jobs.schedule(
        "report-paris", NEW_YEAR, "report", {"city": "Paris"}, tz="Europe/Paris", queue="reports", priority="low"
    )
    jobs.schedule("report-rome", NEW_YEAR, "report", {"city": "Roma"}, tz="Europe/Rome")
    await jobs.schedules.announce()
    paris, rome = (one.schedule for one in (await jobs.schedules.list()).schedules)
    assert paris == ("report-paris", NEW_YEAR, "Europe/Paris", "report", '{"city":"Paris"}', "reports", 0, 3, None)
    assert rome == ("report-rome", NEW_YEAR, "Europe/Rome", "report", '{"city":"Roma"}', "default", 5, 3, None)
    handle = await jobs.schedules.trigger("report-paris")
    assert (await jobs.inspector.get(handle.id)).payload == {"city": "Paris"}


async def test_a_schedule_takes_from_a_task_what_it_leaves_open(jobs: JobQueue) -> None:
    jobs.schedule("before", NEW_YEAR, "report", {"day": "2026-01-02"})

    @jobs.task(queue="reports", priority="urgent", retry=Retry(max_retries=1))
    async def report(day: str) -> None: ...

    jobs.schedule("after", NEW_YEAR, "report", {"day": "2026-01-03"}, priority=1)
    await jobs.schedules.announce()
    after, before = (one.schedule for one in (await jobs.schedules.list()).schedules)
    assert (before.queue, before.priority, before.max_retries) == ("reports", 20, 1)
    assert (after.queue, after.priority, after.max_retries) == ("reports", 1, 1)
    with pytest.raises(InvalidJob, match="day"):
        jobs.schedule("wrong", NEW_YEAR, "report", {"date": "2026-01-03"})


async def test_a_removed_schedule_ticks_no_more(jobs: JobQueue) -> None:
    @jobs.cron(EACH_SECOND)
    async def tick() -> None: ...

    @jobs.cron(EACH_SECOND)
    async def other() -> None: ...

    async with working(jobs):
        await passed(jobs, "tick", 1)
        await jobs.schedules.remove("tick")
        count = len(await of_type(jobs, "tick"))
        await passed(jobs, "other", len(await jobs.schedules.ticks("other")) + 1)
        assert len(await of_type(jobs, "tick")) == count
    assert [one.schedule.name for one in (await jobs.schedules.list()).schedules] == ["other"]
    await jobs.schedules.announce()
    assert len((await jobs.schedules.list()).schedules) == 2


async def test_a_name_that_is_not_there(jobs: JobQueue) -> None:
    jobs.schedule("nightly", NEW_YEAR, "report")
    await jobs.schedules.announce()
    verbs = jobs.schedules
    for verb in (verbs.get, verbs.pause, verbs.resume, verbs.trigger, verbs.remove, verbs.ticks):
        with pytest.raises(ScheduleNotFound, match="no schedule named 'nihgtly'; did you mean 'nightly'") as raised:
            await verb("nihgtly")
        assert raised.value.nearest == "nightly"
    with pytest.raises(ScheduleNotFound, match=r"no schedule named 'else'$"):
        await verbs.pause("else")


@pytest.mark.parametrize("error", [QueueFull("default", 5), InvalidJob("not today")])
async def test_a_tick_whose_job_is_refused_passes_without_it(
    jobs: JobQueue, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(Middleware):
        async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
            if jobs[0].type == "yearly":
                raise error

    jobs.middleware(Refusing())

    @jobs.cron(NEW_YEAR)
    async def yearly() -> None: ...

    @jobs.cron(EACH_SECOND)
    async def tick() -> None: ...

    await jobs.schedules.announce()
    due = await make_due(jobs, "yearly")
    async with working(jobs):
        assert await passed(jobs, "yearly", 1) == [PassedTick(due, None)]
        await passed(jobs, "tick", 1)
    one = await planned(jobs, "yearly")
    assert (one.last_at, one.last_job) == (due, None)
    assert await of_type(jobs, "yearly") == ()
    said = [line for line in caplog.messages if "a tick of schedule yearly passes without a job" in line]
    assert len(said) == 1
    assert str(error) in said[0]


async def test_a_schedule_of_a_zone_that_is_not_known_here_is_left_to_others(
    jobs: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.cron(NEW_YEAR)
    async def yearly() -> None: ...

    @jobs.cron(EACH_SECOND)
    async def tick() -> None: ...

    await jobs.schedules.announce()
    one = (await planned(jobs, "yearly")).schedule
    await jobs.schedule_store.announce([Announcement(one._replace(name="martian", tz="Mars/Olympus"), 1000.0)])
    async with working(jobs):
        await passed(jobs, "tick", 2)
    assert (await planned(jobs, "martian")).next_at == 1000.0
    said = [line for line in caplog.messages if "martian" in line]
    assert said == ["schedule martian is left to other workers: there is no time zone 'Mars/Olympus'"]


def test_what_is_wrong_with_a_schedule_is_said_when_it_is_registered() -> None:
    jobs = JobQueue(memory=True)

    with pytest.raises(ConfigurationError, match="cron expression '0 25 \\* \\* \\*' cannot be read: its field hour"):

        @jobs.cron("0 25 * * *")
        async def first() -> None: ...

    with pytest.raises(ConfigurationError, match="did you mean 'Europe/Paris'"):

        @jobs.cron("0 9 * * *", tz="Europe/Pari")
        async def second() -> None: ...

    with pytest.raises(InvalidJob, match="'n'"):

        @jobs.cron("0 9 * * *")
        async def third(n: int) -> None: ...

    with pytest.raises(InvalidJob, match="'n'"):

        @jobs.cron("0 9 * * *", payload={"n": "many"})
        async def fourth(n: int) -> None: ...

    jobs.schedule("taken", "0 9 * * *", "first")
    with pytest.raises(ConfigurationError, match="there is a schedule named 'taken' already"):
        jobs.schedule("taken", "0 10 * * *", "first")
    for given in ({"queue": ""}, {"queue": "a{b"}, {"priority": 200}, {"payload": {"n": float("nan")}}):
        with pytest.raises(InvalidJob):
            jobs.schedule("other", "0 9 * * *", "first", **given)
    for names in (("", "type"), ("a\nb", "type"), ("name", ""), ("x" * 201, "type")):
        with pytest.raises(InvalidJob):
            jobs.schedule(names[0], "0 9 * * *", names[1])
    with pytest.raises(TypeError, match="qeue"):

        @jobs.cron("0 9 * * *", qeue="images")  # type: ignore[call-arg]
        async def fifth() -> None: ...


def test_a_cron_task_is_a_task_like_any_other() -> None:
    jobs = JobQueue(memory=True)

    @jobs.cron("0 9 * * *", name="digest.daily", timeout=5)
    def digest() -> str:
        return "sent"

    assert digest() == "sent"
    assert (digest.name, digest.definition.timeout) == ("digest.daily", 5)
    assert jobs.tasks.types() == ("digest.daily",)
