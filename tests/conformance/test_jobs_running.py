"""Workers: order, concurrency, delays, progress, and jobs that other workers left behind."""

import asyncio
import threading
import time

import pytest

from queue_core.client.context import JobContext
from queue_core.model.events import EventName
from queue_core.model.retry import Retry
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from queue_core.worker import fetcher
from queue_core.worker.claims import MAX_NUMBER, Claims
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE, subscribed, until, working


async def test_the_end_of_a_job_lets_the_next_one_of_its_queue_start(
    mode_settings: JobsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker leaves a queue whose concurrency is used up to others for a while, but not after jobs of its own."""
    monkeypatch.setattr(fetcher, "LIMITED_COOL_DOWN_SECONDS", 4.0)  # 15 of them are more than the patience
    jobs = JobQueue(settings=mode_settings)
    jobs.queue("narrow", concurrency=2)
    now = most = 0
    async with jobs:

        @jobs.task(queue="narrow")
        async def work() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1

        handles = await work.enqueue_many([{} for _ in range(30)])
        async with working(jobs):
            await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert most == 2


async def test_priority_first_then_arrival(jobs: JobQueue) -> None:
    ran: list[int] = []

    @jobs.task
    async def note(n: int) -> None:
        ran.append(n)

    order = [(5, 0), (0, 1), (10, 2), (5, 3), (-9, 4), (10, 5)]
    handles = [await note.options(priority=priority).enqueue(n) for priority, n in order]
    # An enqueue returns when the row is durable; the worker must not begin between the offers.
    await jobs._enqueuer.drain()
    async with working(jobs, concurrency=1):
        await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert ran == [2, 5, 0, 3, 1, 4]


async def test_no_queue_waits_behind_the_backlog_of_another(jobs: JobQueue) -> None:
    """Wherever it is among the queues of a worker, and however long theirs are."""
    ran: list[str] = []

    @jobs.task
    async def note(queue: str) -> None:
        ran.append(queue)

    names = ("a", "b", "c")
    for queue in names:
        await note.options(queue=queue).enqueue_many([{"queue": queue}] * (1 if queue == "c" else 600))
    await jobs._enqueuer.drain()
    async with working(jobs, concurrency=1, queues=names):

        async def done() -> bool:
            return len(ran) == 1201

        await until(done)
    for queue in names:
        assert ran.index(queue) < 600


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_no_more_at_a_time_than_allowed(jobs: JobQueue, concurrency: int) -> None:
    now, most = 0, 0

    @jobs.task
    async def work() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1

    handles = await work.enqueue_many([{}] * 30)
    async with working(jobs, concurrency=concurrency):
        await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert most == concurrency


async def test_plain_functions_run_beside_each_other_and_beside_the_loop(jobs: JobQueue) -> None:
    together = threading.Barrier(3, timeout=PATIENCE)

    @jobs.task
    def meet() -> str:
        together.wait()
        return threading.current_thread().name

    handles = await meet.enqueue_many([{}] * 3)
    async with working(jobs, concurrency=3):
        names = await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert len(set(names)) == 3
    assert threading.main_thread().name not in names


async def test_a_worker_that_is_waiting_starts_at_once(jobs: JobQueue) -> None:
    @jobs.task
    async def now() -> float:
        return time.monotonic()

    async with working(jobs):
        await (await now.enqueue()).result(PATIENCE)
        waits = []
        for _ in range(5):
            before = time.monotonic()
            waits.append(await (await now.enqueue()).result(PATIENCE) - before)
    assert min(waits) < 0.5  # the audit alone would take a second


async def test_claims_begin_at_the_first_number_again_behind_the_last(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Claims.begin

    def near_the_end(self: Claims, queue: str, number: int = 0) -> int:
        if not self._last:
            self._last = MAX_NUMBER - 2
        return real(self, queue, number)

    monkeypatch.setattr(Claims, "begin", near_the_end)

    @jobs.task(queue="work")
    async def task() -> None: ...

    async with working(jobs, concurrency=1):
        for _ in range(6):
            await (await task.enqueue()).result(PATIENCE)


async def test_two_workers_share(jobs: JobQueue) -> None:
    both = asyncio.Barrier(2)

    @jobs.task
    async def meet() -> None:
        async with asyncio.timeout(PATIENCE):
            await both.wait()

    async with working(jobs, concurrency=1), working(jobs, concurrency=1):
        handles = await meet.enqueue_many([{}] * 2)
        await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
        workers = {(await jobs.inspector.get(handle.id)).worker for handle in handles}
    assert len(workers) == 2, "each ran one of them"


async def test_every_job_runs_once(jobs: JobQueue) -> None:
    ran: list[int] = []

    @jobs.task
    async def note(n: int) -> None:
        ran.append(n)

    async with working(jobs, concurrency=20), working(jobs, concurrency=20):
        handles = await note.enqueue_many([{"n": n} for n in range(1000)])
        await until(lambda: _completed(jobs, 1000))
    assert sorted(ran) == list(range(1000))
    assert len(handles) == 1000
    where = await jobs.inspector.conservation()
    assert (where.completed, where.unfinished, where.dead, where.cancelled) == (1000, 0, 0, 0)


async def _completed(jobs: JobQueue, count: int) -> bool:
    return (await jobs.inspector.conservation()).completed == count


async def test_all_queues_of_its_tasks(jobs: JobQueue) -> None:
    @jobs.task(queue="a")
    async def first() -> str:
        return "a"

    @jobs.task(queue="b")
    async def second() -> str:
        return "b"

    async with working(jobs):
        assert await (await first.enqueue()).result(PATIENCE) == "a"
        assert await (await second.enqueue()).result(PATIENCE) == "b"


async def test_only_the_queues_it_was_told(jobs: JobQueue) -> None:
    @jobs.task
    async def where(ctx: JobContext) -> str:
        return ctx.queue

    async with working(jobs, queues=["b"]):
        other = await where.options(queue="a").enqueue()
        mine = await where.options(queue="b").enqueue()
        assert await mine.result(PATIENCE) == "b"
        assert await other.status() == "queued"


async def test_types_it_does_not_know_stay_and_hold_nobody_up(jobs: JobQueue) -> None:
    @jobs.task
    async def known() -> str:
        return "done"

    strange = await jobs.enqueue_many("strange", [{}] * 20, priority=20)
    async with working(jobs, concurrency=2):
        for _ in range(3):
            assert await (await known.enqueue()).result(PATIENCE) == "done"
    assert {await handle.status() for handle in strange} == {"queued"}


async def test_a_delayed_job_runs_when_it_is_due_and_not_before(jobs: JobQueue) -> None:
    @jobs.task
    async def late() -> None: ...

    async with working(jobs):
        handle = await late.options(delay=0.3).enqueue()
        assert await handle.status() == "scheduled"
        await handle.result(PATIENCE)
    job = await jobs.inspector.get(handle.id)
    assert job.started_at is not None
    assert job.started_at >= job.run_at


async def test_jobs_that_come_to_a_resting_leader_are_not_late(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other processes too: nobody tells the leader of them."""
    monkeypatch.setattr("queue_core.worker.leader.LEADER_TICK", 3600.0)

    @jobs.task(retry=Retry(delay=0.2))
    async def flaky(ctx: JobContext) -> int:
        if ctx.attempt == 1:
            raise OSError("once")
        return ctx.attempt

    async with working(jobs):
        await (await flaky.enqueue()).result(PATIENCE)
        job = new_job(queue="default", type="flaky", delay=0.2)
        await jobs.store.insert([job])
        assert await jobs.result(job.id, PATIENCE) == 2


async def test_progress_is_seen_while_it_runs(jobs: JobQueue) -> None:
    release = asyncio.Event()

    @jobs.task
    async def work(ctx: JobContext) -> None:
        for percent in range(40):
            await ctx.progress(percent, "reading")
        await ctx.progress(40, "decoded")
        await release.wait()

    async with working(jobs):
        handle = await work.enqueue()

        async def seen() -> bool:
            job = await jobs.inspector.get(handle.id)
            return (job.progress, job.progress_message) == (40, "decoded")

        await until(seen)
        release.set()
        await handle.result(PATIENCE)
    assert (await jobs.inspector.get(handle.id)).progress == 100


async def test_progress_out_of_a_thread_and_out_of_bounds(jobs: JobQueue) -> None:
    release = threading.Event()

    @jobs.task
    def work(ctx: JobContext) -> None:
        ctx.progress_now(1e9, "far too much" * 1000)
        release.wait(PATIENCE)

    async with working(jobs):
        handle = await work.enqueue()

        async def seen() -> bool:
            return (await jobs.inspector.get(handle.id)).progress == 100

        try:
            await until(seen)
            message = (await jobs.inspector.get(handle.id)).progress_message
            assert message.startswith("far too much")
            assert len(message) < 2_000, "it is cut"
        finally:
            release.set()
        await handle.result(PATIENCE)


async def test_a_tight_loop_of_progress_costs_little(jobs: JobQueue) -> None:
    @jobs.task
    async def work(ctx: JobContext) -> None:
        for n in range(100_000):
            await ctx.progress(n / 1000, "on")

    heard_any, told = asyncio.Event(), 0

    async def listen() -> None:
        nonlocal told
        async for batch in jobs.bus.subscribe():
            heard_any.set()
            told += sum(event.event == EventName.PROGRESS for event in batch.events)

    listening = asyncio.create_task(listen())
    await subscribed(jobs, heard_any)
    async with working(jobs):
        await (await work.enqueue()).result(PATIENCE)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    assert told < 1_000, "not each of the 100,000 calls is told"


async def test_a_long_job_keeps_its_lease(jobs: JobQueue) -> None:
    runs = 0

    @jobs.task
    async def long() -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(2.5)

    async with working(jobs, lease="1s", heartbeat="0.2s"):
        await (await long.enqueue()).result(PATIENCE)
    assert runs == 1


async def test_what_a_lost_worker_left_is_run_again(jobs: JobQueue) -> None:
    @jobs.task(queue="work")
    async def task(ctx: JobContext) -> list[int]:
        return [ctx.attempt, ctx.token]

    job = new_job()
    await jobs.store.insert([job])
    await jobs.store.acquire_leadership("test", "test", 0)
    (lost,) = await jobs.store.claim(ClaimRequest("work", "lost", ("task",), 1, lease=0.2))
    async with working(jobs, lease="1s"):
        attempt, token = await jobs.result(job.id, PATIENCE)
    assert attempt == 2
    assert token > lost.token
    found = await jobs.inspector.get(job.id)
    assert (found.losses, found.retry_count, found.status) == (1, 0, "completed")


async def test_the_events_of_a_life(jobs: JobQueue) -> None:
    tries = 0

    @jobs.task(retry=Retry(delay=0.01))
    async def flaky() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("once")

    heard_any = asyncio.Event()
    heard: list[str] = []
    tokens: list[int] = []
    batches = jobs.bus.subscribe()

    async def listen() -> None:
        async for batch in batches:
            heard_any.set()
            for event in batch.events:
                if event.type == "flaky":
                    heard.append(str(event.event))
                    tokens.append(event.token)
            if {"created", "completed"} <= set(heard):
                return

    listening = asyncio.create_task(listen())
    await subscribed(jobs, heard_any)
    async with working(jobs):
        await flaky.enqueue()
        async with asyncio.timeout(PATIENCE):
            await listening
    # The producer offers a job before it says that there is one: a worker may be faster.
    created = heard.index(EventName.CREATED)
    del heard[created], tokens[created]
    assert heard == [
        EventName.CLAIMED,
        EventName.FAILED,
        EventName.RETRYING,
        EventName.CLAIMED,
        EventName.COMPLETED,
    ]
    assert tokens == sorted(tokens)
