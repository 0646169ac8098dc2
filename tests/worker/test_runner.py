"""Slots: how many jobs are held, what a stop does to them, and that a handler's end is its own affair."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import time
from typing import Any

import pytest

from queue_core import JobContext, JobQueue
from queue_core.model.job import Claim, NewJob, new_id
from queue_core.model.states import Status
from queue_core.ports.store import ClaimRequest
from queue_core.worker.runner import MAX_AHEAD, Runner
from tests.conformance.working import until_status, working
from tests.waiting import PATIENCE, eventually
from tests.worker.breaking import BreakingStore


async def test_slow_jobs_are_not_hoarded(jobs: JobQueue) -> None:
    """At most what will start within about 100 ms is held beyond the free slots."""
    gate = asyncio.Event()

    @jobs.task(timeout=0)
    async def slow() -> None:
        await gate.wait()

    await jobs.enqueue_many("slow", [{}] * 100)
    async with working(jobs, concurrency=10) as worker:
        assert await eventually(lambda: worker._runner.busy == 10)
        await asyncio.sleep(0.3)
        assert len(worker._held) <= 12
        gate.set()


async def test_slow_jobs_behind_fast_ones_are_not_hoarded(jobs: JobQueue) -> None:
    """Whatever the run times were until a moment ago: another worker must get its share of the slow ones."""
    gate = asyncio.Event()
    fast_ended = 0

    @jobs.task
    async def fast() -> None:
        nonlocal fast_ended
        fast_ended += 1

    @jobs.task(timeout=0)
    async def slow() -> None:
        await gate.wait()

    await jobs.enqueue_many("fast", [{}] * 3000)
    async with working(jobs, concurrency=10) as worker:
        assert await eventually(lambda: fast_ended == 3000)
        await jobs.enqueue_many("slow", [{}] * 500)
        assert await eventually(lambda: worker._runner.busy == 10)
        assert await eventually(lambda: len(worker._held) <= 30, 20), f"{len(worker._held)} jobs are held"
        gate.set()


async def test_fast_jobs_are_fetched_ahead_within_a_bound(jobs: JobQueue, store: BreakingStore) -> None:
    most = 0

    @jobs.task
    async def fast() -> None: ...

    await jobs.enqueue_many("fast", [{}] * 5000)
    async with working(jobs, concurrency=10) as worker:
        ended = asyncio.create_task(until_empty(jobs))
        while not ended.done():
            most = max(most, len(worker._runner._waiting))
            await asyncio.sleep(0)
    assert most <= MAX_AHEAD
    assert store.calls["claim"] < 2000, "it does not go to the store for each"


async def test_what_is_claimed_ahead_does_not_count_as_started(
    jobs: JobQueue, store: BreakingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of its worker would be held against it."""
    requests: list[ClaimRequest] = []
    claim = store._store.claim

    async def noted(request: ClaimRequest) -> Any:
        requests.append(request)
        return await claim(request)

    monkeypatch.setattr(store._store, "claim", noted)

    @jobs.task
    async def fast() -> None: ...

    await jobs.enqueue_many("fast", [{}] * 3000)
    async with working(jobs, concurrency=10):
        await until_empty(jobs)
    assert max(request.limit for request in requests) > 10, "none was claimed ahead"
    assert max(request.start_count or 0 for request in requests) <= 10


async def until_empty(jobs: JobQueue) -> None:
    async def empty() -> bool:
        return (await jobs.inspector.conservation()).unfinished == 0

    assert await eventually(empty)


async def test_what_waits_for_a_slot_is_given_back_at_a_stop(jobs: JobQueue) -> None:
    gate = asyncio.Event()
    runs = 0

    @jobs.task(timeout=0)
    async def work() -> None:
        nonlocal runs
        runs += 1
        await gate.wait()

    handles = await jobs.enqueue_many("work", [{}] * 5)
    async with working(jobs, stops=True, concurrency=2) as worker:
        assert await eventually(lambda: runs == 2)
        worker.stop()
        for handle in handles[2:]:
            await until_status(jobs, handle.id, "queued")
        gate.set()
    assert runs == 2
    assert [(await jobs.inspector.get(handle.id)).crashes for handle in handles] == [0] * 5


async def test_what_waited_too_long_for_the_token_that_it_took_is_given_back(jobs: JobQueue) -> None:
    runs = 0

    @jobs.task
    async def work() -> None:
        nonlocal runs
        runs += 1

    async with working(jobs) as worker:
        worker._fetcher.pause_claims()
        handle = await jobs.enqueue("work")
        claims = await jobs.store.claim(ClaimRequest("default", worker.id, None, 1, 60.0))
        now = time.monotonic()
        worker._runner.accept(claims, now - 1, 0, start_by=now - 0.5)
        await until_status(jobs, handle.id, "queued")
        assert (runs, worker._held) == (0, {})
        assert worker._runner.left == sys.maxsize, "it does not count among those that this worker has run"
        worker._fetcher.resume()
        await until_status(jobs, handle.id, "completed")
    assert runs == 1


@pytest.mark.parametrize("how", ["timeout", "cancel", "release"])
async def test_a_handler_whose_cleaning_up_fails_ended_for_the_reason_it_was_stopped_for(
    jobs: JobQueue, how: str
) -> None:
    """Neither is a release an attempt used up, nor a time limit an OSError."""
    started = asyncio.Event()

    @jobs.task(timeout=0.2 if how == "timeout" else 0)
    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            raise OSError("cannot remove the temporary folder")

    handle = await jobs.enqueue("work", max_retries=0)
    async with working(jobs, stops=how == "release", grace=0) as worker:
        await asyncio.wait_for(started.wait(), PATIENCE)
        if how == "cancel":
            await jobs.operations.change("cancel", [handle.id])
        if how == "release":
            worker.stop()
        else:
            await until_status(jobs, handle.id, "dead" if how == "timeout" else "cancelled")
    job = await jobs.inspector.get(handle.id)
    expected = {"timeout": Status.DEAD, "cancel": Status.CANCELLED, "release": Status.QUEUED}
    assert (job.status, job.retry_count) == (expected[how], 0)
    if how == "timeout":
        assert job.failure_kind == "timeout"
        assert "cannot remove the temporary folder" in str(job.traceback)


async def test_a_handler_that_will_not_be_stopped_is_not_believed(jobs: JobQueue, store: BreakingStore) -> None:
    """It goes on after its lease is lost, and returns in the end: nothing of it is stored."""
    stopped = asyncio.Event()
    runs = 0

    @jobs.task(timeout=0)
    async def stubborn(ctx: JobContext) -> str:
        nonlocal runs
        runs += 1
        if ctx.crashes if hasattr(ctx, "crashes") else ctx.attempt > 1:
            return "the second"
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            stopped.set()
        await asyncio.sleep(0.1)
        return "the first"

    handle = await jobs.enqueue("stubborn")
    async with working(jobs, lease="10s", heartbeat="0.1s"):
        assert await eventually(lambda: runs == 1)
        for row in store._store.state.running.values():
            row.lease.expires_at = 0.0
        await jobs.store.reclaim(10)
        await asyncio.wait_for(stopped.wait(), PATIENCE)
        assert await handle.result(PATIENCE) == "the second"


CORRUPTED = [
    "no JSON at all",
    "[]",
    "null",
    '{"a":',
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"number":' + "9" * 100_000 + "}",
    "\x00",
]


@pytest.mark.parametrize("text", CORRUPTED, ids=lambda text: f"{text[:10]!a} {len(text)}")
async def test_a_corrupted_payload_is_buried_and_the_next_job_runs(jobs: JobQueue, text: str) -> None:
    @jobs.task
    async def work() -> str:
        return "done"

    bad = NewJob(new_id(), "default", "work", text)
    await jobs.store.insert([bad])
    handle = await jobs.enqueue("work")
    async with working(jobs):
        assert await handle.result(PATIENCE) == "done"
        await until_status(jobs, bad.id, "dead")
    job = await jobs.inspector.get(bad.id)
    assert (job.failure_kind, job.retry_count) == ("invalid_payload", 0)


class Unshowable:
    """A result with code of its own."""

    def __repr__(self) -> str:
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    "result", [Unshowable(), {"deep": Unshowable()}, "half a \ud800 letter", "nul \0", float("nan"), {1, 2}]
)
async def test_work_that_was_done_is_not_failed_for_its_result(jobs: JobQueue, result: object) -> None:
    @jobs.task
    async def work() -> object:
        return result

    handle = await jobs.enqueue("work")
    async with working(jobs):
        await handle.result(PATIENCE)
    assert await handle.status() is Status.COMPLETED


class Unspeakable(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("not now")


async def test_an_exception_with_code_of_its_own_is_a_failure_like_others(jobs: JobQueue) -> None:
    @jobs.task
    async def work() -> None:
        raise Unspeakable

    handle = await jobs.enqueue("work", max_retries=0)
    async with working(jobs):
        await until_status(jobs, handle.id, "dead")
    assert (await jobs.inspector.get(handle.id)).failure_kind == "error"


async def test_threads_that_were_given_up_leave_their_slots_to_others(jobs: JobQueue) -> None:
    """As many as there are slots run on for ever; jobs of plain functions still start."""
    import threading

    gate = threading.Event()

    @jobs.task(timeout=0.3)
    def stuck() -> None:
        gate.wait(PATIENCE)

    @jobs.task(timeout=0)
    def plain() -> str:
        return "done"

    try:
        handles = [await jobs.enqueue("stuck", max_retries=0) for _ in range(2)]
        async with working(jobs, concurrency=2):
            for handle in handles:
                await until_status(jobs, handle.id, "dead")
            assert await (await jobs.enqueue("plain")).result(20) == "done"
    finally:
        gate.set()


async def test_what_waits_for_a_slot_is_cancelled_at_once(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when its turn would come, and it never runs."""
    monkeypatch.setattr(Runner, "_ahead", lambda self: 4)
    ran: list[str] = []
    gate = asyncio.Event()

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> None:
        ran.append(ctx.job_id)
        await gate.wait()

    first, second = await jobs.enqueue_many("work", [{}] * 2)
    async with working(jobs, concurrency=1, lease="300s") as worker:
        assert await eventually(lambda: len(worker._held) == 2)
        await jobs.operations.change("cancel", [second.id])
        await until_status(jobs, second.id, "cancelled")
        assert await eventually(lambda: set(worker._held) == {first.id})
        gate.set()
    assert ran == [first.id]


async def test_nothing_begins_in_the_turn_of_the_loop_in_which_its_worker_is_stopped(jobs: JobQueue) -> None:
    """Its task is there and has not run."""
    runs = 0

    @jobs.task
    async def work() -> None:
        nonlocal runs
        runs += 1

    async with working(jobs, stops=True) as worker:
        started = worker._publisher.started

        def stopping(claim: Claim) -> None:
            worker.stop()
            started(claim)

        worker._publisher.started = stopping  # type: ignore[method-assign]
        handle = await jobs.enqueue("work")
        await until_status(jobs, handle.id, "queued")
    assert runs == 0


@pytest.mark.parametrize("lost", [False, True])
async def test_what_is_stopped_in_the_turn_of_the_loop_in_which_it_begins_leaves_its_slot(
    jobs: JobQueue, lost: bool
) -> None:
    """Its task is there and has not run: one that is cancelled then would never run at all."""
    runs = 0

    @jobs.task
    async def work() -> None:
        nonlocal runs
        runs += 1

    async with working(jobs, concurrency=1) as worker:
        stopped: list[str] = []
        started = worker._publisher.started

        def stopping(claim: Claim) -> None:
            if not stopped:
                stopped.append(claim.id)
                worker.stop_jobs([claim.id], lost)
            started(claim)

        worker._publisher.started = stopping  # type: ignore[method-assign]
        first, second = await jobs.enqueue_many("work", [{}] * 2)
        await until_status(jobs, second.id, "completed")
        assert (stopped, runs, worker.stuck) == ([first.id], 1, 0)
        assert not worker._held
        assert str((await jobs.inspector.get(first.id)).status) == ("running" if lost else "cancelled")


@pytest.mark.parametrize("how", ["async", "thread"])
async def test_a_signal_to_a_child_that_a_handler_forks_is_not_one_to_the_worker(jobs: JobQueue, how: str) -> None:
    def start_and_end() -> int | None:
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(PATIENCE,))
        child.start()
        child.terminate()
        child.join()
        return child.exitcode

    async def in_the_loop() -> int | None:
        return start_and_end()

    jobs.task(in_the_loop if how == "async" else start_and_end, name="fork")
    async with working(jobs) as worker:
        for _ in range(2):
            handle = await jobs.enqueue("fork")
            assert await handle.result(timeout=PATIENCE) == -signal.SIGTERM
        assert not worker.stopping
