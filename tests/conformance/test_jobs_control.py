"""Operators and workers: cancel, pause, quiet, stop; and a shutdown that loses nothing."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from queue_core.client.context import JobContext
from queue_core.errors import InvalidArgument, JobCancelled, QueueNotFound, ScheduleNotFound, SignatureNotFound
from queue_core.model.events import EventName
from queue_core.model.operation import WorkerOrder
from queue_core.queue import JobQueue
from queue_core.worker.worker import Worker
from tests.conformance.working import PATIENCE, until, until_status, working


async def test_a_running_job_is_cancelled(jobs: JobQueue) -> None:
    stopped = asyncio.Event()

    @jobs.task
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(jobs):
        handle = await endless.enqueue()
        await until_status(jobs, handle.id, "running")
        assert (await jobs.operations.change("cancel", [handle.id])).ids == (handle.id,)
        with pytest.raises(JobCancelled):
            await handle.result(PATIENCE)
    assert stopped.is_set()
    assert await handle.status() == "cancelled"


async def test_a_waiting_job_is_cancelled_and_never_runs(jobs: JobQueue) -> None:
    ran = False

    @jobs.task
    async def task() -> None:
        nonlocal ran
        ran = True

    @jobs.task
    async def other() -> str:
        return "done"

    handles = [await task.enqueue(), await task.options(delay=0.2).enqueue()]
    await jobs.operations.change("cancel", [handle.id for handle in handles])
    async with working(jobs):
        assert await (await other.options(delay=0.4).enqueue()).result(PATIENCE) == "done"
    assert not ran
    assert {await handle.status() for handle in handles} == {"cancelled"}


async def test_names_that_no_store_can_have_are_not_found_in_any(jobs: JobQueue) -> None:
    for name in ("\ud800", "\0", "a\udfffb"):
        for on_queue in (jobs.operations.pause_queue, jobs.operations.resume_queue, jobs.operations.drain_queue):
            with pytest.raises(QueueNotFound):
                await on_queue(name)
        for on_schedule in (jobs.schedules.pause, jobs.schedules.resume, jobs.schedules.trigger):
            with pytest.raises(ScheduleNotFound):
                await on_schedule(name)
        for read in (jobs.signatures.get, jobs.signatures.known):
            with pytest.raises(SignatureNotFound):
                await read(name)
        assert not await jobs.operations.command(name, "quiet")
        assert await jobs.operations.list_operations(signature=name) == []


@pytest.mark.parametrize("name", [5, None, b"nightly"])
async def test_names_that_are_no_texts(jobs: JobQueue, name: Any) -> None:
    operations, schedules = jobs.operations, jobs.schedules
    for verb in (operations.pause_queue, operations.resume_queue, operations.drain_queue):
        with pytest.raises(InvalidArgument, match="a queue's name is a text"):
            await verb(name)
    for act in (schedules.get, schedules.pause, schedules.resume, schedules.trigger, schedules.ticks, schedules.remove):
        with pytest.raises(InvalidArgument, match="a schedule's name is a text"):
            await act(name)


async def test_a_paused_queue_waits(jobs: JobQueue) -> None:
    @jobs.task(queue="images")
    async def resize() -> str:
        return "done"

    @jobs.task(queue="mail")
    async def send() -> str:
        return "sent"

    await jobs.store.insert([])
    first = await resize.enqueue()
    await jobs.operations.pause_queue("images")
    async with working(jobs):
        second = await resize.enqueue()
        for _ in range(3):
            assert await (await send.enqueue()).result(PATIENCE) == "sent"
        assert {await first.status(), await second.status()} == {"queued"}
        await jobs.operations.resume_queue("images")
        assert await first.result(PATIENCE) == "done"
        assert await second.result(PATIENCE) == "done"


async def test_a_quiet_worker_claims_nothing_until_told(jobs: JobQueue) -> None:
    @jobs.task
    async def task() -> str:
        return "done"

    async with working(jobs) as worker:
        await (await task.enqueue()).result(PATIENCE)
        await until(lambda: jobs.operations.command(worker.id, "quiet"))

        async def quiet() -> bool:
            return any(one.quiet for one in (await jobs.inspector.overview()).workers)

        await until(quiet)
        handle = await task.enqueue()
        await asyncio.sleep(0.3)
        assert await handle.status() == "queued"
        await jobs.operations.command(worker.id, "resume")
        assert await handle.result(PATIENCE) == "done"


async def test_an_order_is_announced_once_the_store_shows_it(jobs: JobQueue) -> None:
    """A worker with nothing to do sent no heartbeat for 15 s after it, and was shown as it was before."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen() -> None:
        async for batch in jobs.bus.subscribe():
            for event in batch.events:
                if event.event == EventName.WORKER:
                    heard.put_nowait((event.extra or {}).get("state", ""))

    @jobs.task
    async def task() -> None: ...

    listening = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(PATIENCE), working(jobs, lease="60s", heartbeat="30s") as worker:
            states: tuple[tuple[WorkerOrder, str, bool], ...] = ("quiet", "quiet", True), ("resume", "resumed", False)
            for order, state, quiet in states * 2:

                async def announced(order: WorkerOrder = order, state: str = state) -> bool:
                    # Again, if need be: neither the worker nor the one who listens need be there yet.
                    await jobs.operations.command(worker.id, order)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(3.0):
                            while await heard.get() != state:
                                pass
                            return True
                    return False

                await until(announced)
                (shown,) = (await jobs.inspector.overview()).workers
                assert shown.quiet is quiet
    finally:
        listening.cancel()


async def test_a_worker_is_stopped_by_order(jobs: JobQueue) -> None:
    @jobs.task
    async def task() -> None: ...

    worker = Worker(jobs, lease="10s", heartbeat="0.2s")
    running = asyncio.create_task(worker.run())
    await until(lambda: jobs.operations.command(worker.id, "stop"))
    async with asyncio.timeout(PATIENCE):
        await running
    assert (await jobs.inspector.overview()).workers == ()


async def test_a_worker_that_lets_its_jobs_finish_is_shown_as_one_that_claims_none(jobs: JobQueue) -> None:
    began, end = asyncio.Event(), asyncio.Event()

    @jobs.task(queue="images")
    async def resize() -> None:
        began.set()
        await end.wait()

    async with working(jobs) as worker:
        await resize.enqueue()
        async with asyncio.timeout(PATIENCE):
            await began.wait()

        async def seen() -> list[tuple[str, bool]]:
            return [(one.state, one.runs("images", "resize")) for one in (await jobs.inspector.overview()).workers]

        async def stopping() -> bool:
            return await seen() == [("quiet", False)]

        async def at_work() -> bool:
            return await seen() == [("busy", True)]

        await until(at_work)
        worker.stop()
        await until(stopping)
        end.set()


async def test_a_worker_announces_itself(jobs: JobQueue) -> None:
    @jobs.task(queue="images")
    async def resize() -> None: ...

    async with working(jobs, concurrency=7) as worker:

        async def there() -> bool:
            return bool((await jobs.inspector.overview()).workers)

        await until(there)
        (info,) = (await jobs.inspector.overview()).workers
        assert (info.id, info.queues, info.types) == (worker.id, ("images",), ("resize",))
        assert (info.concurrency, info.quiet, info.lost) == (7, False, False)
    assert (await jobs.inspector.overview()).workers == ()


async def test_a_stop_lets_running_jobs_finish_and_starts_no_more(jobs: JobQueue) -> None:
    release, both = asyncio.Event(), asyncio.Event()
    started: list[int] = []

    @jobs.task
    async def work(n: int) -> int:
        started.append(n)
        if len(started) == 2:
            both.set()
        await release.wait()
        return n

    handles = await work.enqueue_many([{"n": n} for n in range(6)])
    async with working(jobs, stops=True, concurrency=2) as worker:
        async with asyncio.timeout(PATIENCE):
            await both.wait()
        worker.stop()
        await asyncio.sleep(0.1)
        release.set()
    assert started == [0, 1]
    jobs_now = [await jobs.inspector.get(handle.id) for handle in handles]
    assert [job.status for job in jobs_now] == ["completed"] * 2 + ["queued"] * 4
    assert all((job.retry_count, job.crashes, job.error) == (0, 0, None) for job in jobs_now)


async def test_nothing_begins_once_a_stop_was_asked_for(jobs: JobQueue) -> None:
    """Not even what was claimed, handed over and on its way into its handler at that moment."""
    began: list[int] = []
    stopped = asyncio.Event()

    @jobs.task
    async def stopping(n: int) -> None:
        began.append(n)
        worker.stop()
        stopped.set()

    handles = await stopping.enqueue_many([{"n": n} for n in range(20)])
    async with working(jobs, stops=True, concurrency=10) as worker:
        async with asyncio.timeout(PATIENCE):
            await stopped.wait()
    assert began == [0]
    assert [str(await handle.status()) for handle in handles] == ["completed"] + ["queued"] * 19


async def test_after_the_grace_the_jobs_are_given_back_without_using_an_attempt(jobs: JobQueue) -> None:
    started = asyncio.Event()
    runs: list[int] = []

    @jobs.task
    async def stubborn(ctx: JobContext) -> str:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            started.set()
            await asyncio.Event().wait()
        return "the second time"

    async with working(jobs, grace="0.1s"):
        handle = await stubborn.enqueue()
        async with asyncio.timeout(PATIENCE):
            await started.wait()
        await until_status(jobs, handle.id, "running")
    job = await jobs.inspector.get(handle.id)
    assert (job.status, job.retry_count, job.crashes) == ("queued", 0, 0)
    async with working(jobs):
        assert await handle.result(PATIENCE) == "the second time"
    assert runs == [1, 1]


async def test_a_second_stop_does_not_wait_for_the_grace(jobs: JobQueue) -> None:
    @jobs.task
    async def endless() -> None:
        await asyncio.Event().wait()

    async with working(jobs, stops=True, grace="1h") as worker:
        handle = await endless.enqueue()
        await until_status(jobs, handle.id, "running")
        worker.stop()
        worker.stop()
    assert await handle.status() == "queued"


async def test_a_plain_function_may_finish_within_the_grace(jobs: JobQueue) -> None:
    started, release = threading.Event(), threading.Event()

    @jobs.task
    def work() -> str:
        started.set()
        release.wait(PATIENCE)
        return "done"

    async with working(jobs, stops=True) as worker:
        handle = await work.enqueue()
        await asyncio.to_thread(started.wait, PATIENCE)
        worker.stop()
        release.set()
    assert await handle.result(PATIENCE) == "done"


async def test_stopping_an_idle_worker(jobs: JobQueue) -> None:
    @jobs.task
    async def task() -> None: ...

    for _ in range(3):
        async with working(jobs):
            pass
    assert (await jobs.inspector.overview()).workers == ()


async def test_opening_and_closing_twice(jobs: JobQueue) -> None:
    await jobs.open()
    await jobs.open()
    await jobs.close()
    await jobs.close()
    assert (await jobs.enqueue("again.open")).created
