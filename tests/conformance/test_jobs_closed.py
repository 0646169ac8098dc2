"""Draining a queue through the queue object: closed to new jobs, emptied by workers or moved away, opened again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from queue_core import InvalidArgument, JobQueue, QueueClosed, QueueNotFound, ReadOnly
from queue_core.model.operation import Author, Operation
from queue_core.model.report import QueueInfo
from queue_core.worker import leader
from tests.conformance.working import PATIENCE, until, working

ANA = Author("ana", "bastion-1")


async def info(jobs: JobQueue, name: str) -> QueueInfo:
    (found,) = [one for one in (await jobs.inspector.overview()).queues if one.name == name]
    return found


async def reached(jobs: JobQueue, number: int, holds: Callable[[Operation], bool]) -> Operation:
    async def there() -> bool:
        return holds(await jobs.operations.get(number))

    await until(there)
    return await jobs.operations.get(number)


async def test_workers_empty_it(jobs: JobQueue) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @jobs.task(queue="bulk")
    async def work() -> None:
        begun.set()
        await go_on.wait()

    for _ in range(3):
        await work.enqueue()
    async with working(jobs, concurrency=1):
        await begun.wait()
        operation = await jobs.operations.drain_queue("bulk", author=ANA, why="moves to another host")
        assert (operation.state, operation.total, operation.request.label) == ("running", 3, "queue bulk")
        assert (operation.request.verb, operation.request.why) == ("drain", "moves to another host")
        for enqueue in (work.enqueue, work.try_enqueue):
            with pytest.raises(QueueClosed, match=r"queue 'bulk' is closed.*queue resume"):
                await enqueue()
        with pytest.raises(QueueClosed):
            await jobs.enqueue_many("work", [{}, {}])
        assert (await info(jobs, "bulk")).state == "draining"
        go_on.set()
        done = await reached(jobs, operation.number, lambda one: one.ended)
        assert (done.state, done.done, done.total) == ("done", 3, 3)
        assert (await info(jobs, "bulk")).state == "closed"
        (opened,) = await jobs.operations.undo(operation.number, ANA)
        assert (opened.request.verb, opened.request.why) == ("resume", f"undoes #{operation.number}")
        assert await (await work.enqueue()).result(PATIENCE) is None


async def test_callers_at_one_moment_are_refused_each_alone(jobs: JobQueue) -> None:
    await jobs.enqueue("work", queue="bulk")
    await jobs.operations.drain_queue("bulk")
    queues = ["bulk", "other", "bulk", "third", "other"]
    found = await asyncio.gather(*(jobs.enqueue("work", queue=name) for name in queues), return_exceptions=True)
    assert [type(one) is QueueClosed for one in found] == [name == "bulk" for name in queues]
    written = [one for one in found if not isinstance(one, BaseException)]
    assert all(one.created for one in written)
    assert {one.queue for one in [await jobs.get(handle.id) for handle in written]} == {"other", "third"}
    assert (await jobs.inspector.conservation()).unfinished == 4


async def test_what_waits_moves_and_comes_back(jobs: JobQueue) -> None:
    waits = await jobs.enqueue_many("work", [{}, {}], queue="bulk")
    later = await jobs.enqueue("work", queue="bulk", delay=3600)
    claimed = await jobs.claim_next("bulk", types=["work"], wait=PATIENCE)
    assert claimed is not None
    with pytest.raises(InvalidArgument, match="cannot be moved to 'bulk'"):
        await jobs.operations.drain_queue("bulk", "bulk")
    assert not (await info(jobs, "bulk")).closed
    operation = await jobs.operations.drain_queue("bulk", "slow", author=ANA)
    move, drain = await jobs.operations.list_operations(2)
    assert (move.request.verb, move.total, move.request.why) == ("move", 2, f"drains #{operation.number}")
    assert (drain.number, drain.total, drain.request.options.queue) == (operation.number, 3, "slow")
    assert (await jobs.operations.run(move.number)).state == "done"
    left = [one.id for one in (*waits, later) if one.id != claimed.id]
    assert {(await jobs.get(one)).queue for one in left} == {"slow"}
    executor = jobs.operations.executor()
    await executor.run_once()
    assert (await jobs.operations.get(operation.number)).done == 2
    await claimed.complete()
    assert (await jobs.operations.run(operation.number)).state == "done"
    opened, back = await jobs.operations.undo(operation.number, ANA)
    assert opened.state == "done"
    assert (await jobs.operations.run(back.number)).processed == 2
    assert {(await jobs.get(one)).queue for one in left} == {"bulk"}
    await jobs.enqueue("work", queue="bulk")


async def test_whoever_resumes_it_ends_the_drain(jobs: JobQueue) -> None:
    await jobs.enqueue("work", queue="bulk")
    first = await jobs.operations.drain_queue("bulk")
    await jobs.operations.drain_queue("bulk")
    await jobs.enqueue("work", queue="other")
    other = await jobs.operations.drain_queue("other")
    assert await jobs.operations.resume_queue("bulk")
    states = {one.number: (one.state, one.note) for one in await jobs.operations.list_operations(10)}
    assert states == {
        first.number: ("cancelled", "the queue was opened"),
        first.number + 1: ("cancelled", "the queue was opened"),
        other.number: ("running", ""),
    }
    await jobs.enqueue("work", queue="bulk")


async def test_the_undo_of_a_drain_leaves_a_later_one_alone(jobs: JobQueue) -> None:
    waits = await jobs.enqueue("work", queue="bulk")
    first = await jobs.operations.drain_queue("bulk", "slow", author=ANA)
    (move,) = [one for one in await jobs.operations.list_operations(2) if one.request.verb == "move"]
    await jobs.operations.run(move.number)
    await jobs.operations.resume_queue("bulk")
    await jobs.enqueue("work", queue="bulk")
    later = await jobs.operations.drain_queue("bulk", author=Author("bo", "bastion-2"))
    assert await jobs.operations.undo(first.number, ANA) == []
    assert (await info(jobs, "bulk")).closed
    assert (await jobs.operations.get(later.number)).state == "running"
    assert (await jobs.get(waits.id)).queue == "slow"
    with pytest.raises(QueueClosed):
        await jobs.enqueue("work", queue="bulk")
    (opened,) = await jobs.operations.undo(later.number, ANA)
    assert opened.request.verb == "resume"
    assert not (await info(jobs, "bulk")).closed


async def test_the_undo_of_a_drain_that_was_opened_only_brings_back(jobs: JobQueue) -> None:
    await jobs.enqueue("work", queue="bulk")
    plain = await jobs.operations.drain_queue("bulk")
    await jobs.operations.resume_queue("bulk")
    assert await jobs.operations.undo(plain.number, ANA) == []
    moved = await jobs.operations.drain_queue("bulk", "slow")
    await jobs.operations.run(moved.number + 1)
    await jobs.operations.resume_queue("bulk")
    (back,) = await jobs.operations.undo(moved.number, ANA)
    assert (back.request.verb, back.total) == ("move", 1)


async def test_a_queue_that_is_not_there(jobs: JobQueue) -> None:
    with pytest.raises(QueueNotFound):
        await jobs.operations.drain_queue("nowhere")
    (failed,) = await jobs.operations.list_operations(1)
    assert (failed.state, failed.note) == ("failed", "no queue named 'nowhere'")
    with pytest.raises(ReadOnly):
        await jobs.operations.read_only().drain_queue("nowhere")


async def test_a_schedule_says_once_that_its_queue_is_closed(jobs: JobQueue, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.cron("* * * * * *", queue="bulk")
    async def tick() -> None:
        pass

    await jobs.enqueue("work", queue="bulk")
    await jobs.operations.drain_queue("bulk")
    await jobs.schedules.announce()
    caplog.set_level(logging.WARNING, "queue_core.worker")

    async def passed() -> bool:
        return len([one for one in await jobs.schedules.ticks("tick") if one.job_id is None]) >= 2

    async with working(jobs):
        await until(passed)
        said = [one.getMessage() for one in caplog.records if "tick" in one.getMessage()]
        assert len(said) == 1
        assert said[0].startswith("ticks of schedule tick pass without jobs: queue 'bulk' is closed")
        await jobs.operations.resume_queue("bulk")

        async def brought() -> bool:
            return any(one.job_id for one in await jobs.schedules.ticks("tick"))

        await until(brought)


async def test_jobs_of_a_resumed_queue_start_without_the_audit(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have taken them for candidates while it was paused, in vain."""
    monkeypatch.setattr(leader, "UPKEEP_INTERVAL", 600.0)
    monkeypatch.setattr(leader, "IDLE_UPKEEP_INTERVAL", 600.0)

    @jobs.task(queue="bulk")
    async def work(n: int) -> int:
        return n

    async with working(jobs):
        assert await (await work.enqueue(n=1)).result(PATIENCE) == 1
        for n in range(2, 5):
            await jobs.operations.pause_queue("bulk")
            handle = await work.enqueue(n=n)
            await asyncio.sleep(0.1)  # a worker takes it, and finds the queue paused
            await jobs.operations.resume_queue("bulk")
            assert await handle.result(PATIENCE) == n
