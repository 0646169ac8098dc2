"""The heartbeat: it renews what is held, carries news, and gives up in time when it cannot."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from queue_core import ConfigurationError, JobContext, JobQueue, Worker
from queue_core.errors import StoreUnavailable
from queue_core.model.events import EventName
from queue_core.ports.store import ClaimRequest, HeartbeatReply, HeartbeatRequest
from tests.conformance.working import working
from tests.waiting import PATIENCE, eventually
from tests.worker.breaking import BreakingHeart, BreakingStore

LEASE = 2.0


async def stopped_after(jobs: JobQueue, store: BreakingStore, how: str) -> float:
    """Return the seconds between the last renewal of a job's lease and the moment that its handler was stopped."""
    started = asyncio.Event()
    stopped: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    renewed = 0.0

    @jobs.task(timeout=0)
    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            stopped.set_result(time.monotonic() - renewed)
            raise

    handle = await jobs.enqueue("work")

    def note(beat: HeartbeatRequest) -> None:
        nonlocal renewed
        if beat.leases:
            renewed = time.monotonic()

    store.on_beat = note
    async with working(jobs, lease=LEASE, heartbeat=0.2):
        await asyncio.wait_for(started.wait(), PATIENCE)
        assert await eventually(lambda: renewed)
        if how == "away":
            store.away = True
        elif how == "hangs":
            store.heart_hangs.set()
        else:
            store.failing["renew"] = ZeroDivisionError("nobody has thought of this")
        after = await asyncio.wait_for(stopped, PATIENCE)
        store.away = False
        store.failing.clear()
        store.heart_hangs.clear()
        store.heart_goes_on.set()
    job = await jobs.inspector.get(handle.id)
    assert (job.retry_count, job.error) == (0, None), "nothing is stored of an attempt that may be another's by now"
    return after


@pytest.mark.parametrize("how", ["away", "hangs", "breaks"])
async def test_jobs_are_stopped_before_their_lease_ends(jobs: JobQueue, store: BreakingStore, how: str) -> None:
    """From then on another worker may have them."""
    after = await stopped_after(jobs, store, how)
    assert LEASE * 0.5 < after < LEASE, "not at the first failure, and not too late"


async def test_a_lease_counts_from_before_its_renewal_was_sent(jobs: JobQueue, store: BreakingStore) -> None:
    """The store may have renewed it at the beginning of all the time that the call took."""
    renewed: list[float] = []
    begun: list[float] = []
    gate = asyncio.Event()

    @jobs.task(timeout=0)
    async def work() -> None:
        await gate.wait()

    def note(beat: HeartbeatRequest) -> None:
        for lease in beat.leases:
            renewed.append(worker._held[lease.id].renewed)
            begun.append(time.monotonic())
            time.sleep(0.02)

    await jobs.enqueue("work")
    async with working(jobs, lease=LEASE, heartbeat=0.05) as worker:
        store.on_beat = note
        assert await eventually(lambda: len(begun) >= 4)
        gate.set()
    assert all(at <= before for at, before in zip(renewed[1:], begun[:-1], strict=True))


async def test_the_thread_survives_whatever_a_handler_tells(jobs: JobQueue, store: BreakingStore) -> None:
    """Texts that no store takes, and floods of them; the lease is held all the time."""
    told: list[str] = []

    def note(beat: HeartbeatRequest) -> None:
        told.extend(lease.message for lease in beat.leases if lease.message)

    store.on_beat = note

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> str:
        for message in ("nul \0 inside", "half a \ud800 letter", "x" * 100_000):
            await ctx.progress(50, message)
            assert await eventually(lambda message=message: told and told[-1][:3] == message[:3])
        return "done"

    handle = await jobs.enqueue("work")
    async with working(jobs, lease=LEASE, heartbeat=0.2):
        assert await handle.result(PATIENCE) == "done"
    assert "\0" not in "".join(told)
    assert "".join(told).encode()
    assert max(map(len, told)) <= 250


async def test_a_failure_is_logged_once_and_not_at_every_beat(
    jobs: JobQueue, store: BreakingStore, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    async def work() -> None: ...

    async with working(jobs, lease=LEASE, heartbeat=0.2):
        assert await eventually(lambda: store.calls["renew"] > 1)
        with caplog.at_level(logging.WARNING):
            store.failing["renew"] = StoreUnavailable("memory", "away")
            beats = store.calls["renew"]
            assert await eventually(lambda: store.calls["renew"] > beats + 3)
            store.failing.clear()
    assert caplog.text.count("heartbeat failed") == 1


async def test_progress_in_a_tight_loop_is_one_word_a_beat(jobs: JobQueue, store: BreakingStore) -> None:
    heard: list[int | None] = []
    store.on_beat = lambda beat: heard.extend(lease.progress for lease in beat.leases if lease.progress)

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> int:
        calls = 0
        while len(heard) < 3:
            for percent in range(1, 100):
                await ctx.progress(percent)
                calls += 1
            await asyncio.sleep(0.001)
        return calls

    handle = await jobs.enqueue("work")
    async with working(jobs, lease="10s", heartbeat="0.1s"):
        calls = await handle.result(PATIENCE)
        beats = store.calls["renew"]
    assert calls > 10 * len(heard)
    assert len(heard) <= beats


async def test_progress_is_not_told_after_the_end(jobs: JobQueue, store: BreakingStore) -> None:
    """A beat that was on its way while the job ended: its news is older than the end that subscribers know of."""
    told: list[str] = []
    publish = jobs.bus.publish

    async def noting(events):  # type: ignore[no-untyped-def]
        told.extend(str(event.event) for event in events)
        await publish(events)

    jobs.bus.publish = noting  # type: ignore[method-assign]
    beating = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note(beat: HeartbeatRequest) -> None:
        if any(lease.progress for lease in beat.leases):
            loop.call_soon_threadsafe(beating.set)
            store.heart_goes_on.wait(PATIENCE)

    store.on_beat = note

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> None:
        await ctx.progress(50)
        await beating.wait()

    handle = await jobs.enqueue("work")
    async with working(jobs, lease="10s", heartbeat="0.1s"):
        await handle.result(PATIENCE)
        assert await eventually(lambda: EventName.COMPLETED in told)
        beats = store.calls["renew"]
        store.heart_goes_on.set()
        assert await eventually(lambda: store.calls["renew"] > beats + 1)
    assert EventName.PROGRESS not in told


async def test_the_loss_of_an_earlier_attempt_does_not_stop_the_next(jobs: JobQueue, store: BreakingStore) -> None:
    """This worker slept beyond its lease, and has its own job again before it hears that the lease is over."""
    attempts: list[int] = []
    stopped: list[int] = []
    beaten = asyncio.Event()
    loop = asyncio.get_running_loop()

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> int:
        attempts.append(ctx.token)
        try:
            await asyncio.sleep(PATIENCE if len(attempts) == 1 else 1.0)
        except asyncio.CancelledError:
            stopped.append(ctx.token)
            raise
        return ctx.token

    def note(beat: HeartbeatRequest) -> None:
        if attempts and not beaten.is_set() and any(lease.token == attempts[0] for lease in beat.leases):
            # The beat is under way with the first token; meanwhile the job is taken back and claimed again.
            reclaim()
            loop.call_soon_threadsafe(beaten.set)
            deadline = time.monotonic() + PATIENCE
            while len(attempts) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)

    def reclaim() -> None:
        for row in store._store.state.running.values():
            row.lease.expires_at = 0.0

    store.on_beat = note
    handle = await jobs.enqueue("work")
    async with working(jobs, lease="10s", heartbeat="0.2s"):
        assert await handle.result(PATIENCE) == attempts[1]
        assert stopped == attempts[:1], "the earlier attempt does not run on beside the next"
    assert len(attempts) == 2


async def test_a_request_to_cancel_an_earlier_attempt_does_not_stop_the_next(
    jobs: JobQueue, store: BreakingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came too late for that attempt, which has completed; an operator had the job run again before it arrived."""
    attempts: list[int] = []
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()
    renew = BreakingHeart.renew

    def late(heart: BreakingHeart, beat: HeartbeatRequest) -> HeartbeatReply:
        reply = renew(heart, beat)
        if reply.cancel and not answered.is_set():
            loop.call_soon_threadsafe(answered.set)
            deadline = time.monotonic() + PATIENCE
            while len(attempts) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
        return reply

    monkeypatch.setattr(BreakingHeart, "renew", late)

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> int:
        attempts.append(ctx.token)
        await (answered.wait() if len(attempts) == 1 else asyncio.sleep(0.5))
        return len(attempts)

    handle = await jobs.enqueue("work")
    async with working(jobs, lease="10s", heartbeat="0.2s"):
        assert await eventually(lambda: attempts)
        await jobs.operations.change("cancel", [handle.id])
        assert await handle.result(PATIENCE) == 1
        await jobs.operations.change("retry", [handle.id])
        assert await handle.result(PATIENCE) == 2


async def test_progress_of_a_beat_that_failed_is_in_the_next(jobs: JobQueue, store: BreakingStore) -> None:
    """Subscribers hear of it, too; the heartbeat that renews all leases would only write it down."""
    failed = 0
    told = asyncio.Event()
    publish = jobs.bus.publish

    async def noting(events):  # type: ignore[no-untyped-def]
        if any(event.event == EventName.PROGRESS for event in events):
            told.set()
        await publish(events)

    jobs.bus.publish = noting  # type: ignore[method-assign]

    def fail(beat: HeartbeatRequest) -> None:
        nonlocal failed
        if not failed and any(lease.progress for lease in beat.leases):
            failed += 1
            raise StoreUnavailable("memory", "away for a moment")

    store.on_beat = fail

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> None:
        await ctx.progress(50)
        await told.wait()

    handle = await jobs.enqueue("work")
    async with working(jobs, lease="60s", heartbeat="0.1s"):
        await handle.result(PATIENCE)
    assert failed == 1


async def test_that_a_job_has_begun_which_waited_is_told_at_once(jobs: JobQueue, store: BreakingStore) -> None:
    """Until then the loss of its worker is not held against it, and a lease is renewed once in minutes."""
    begun: list[str] = []

    def note(beat: HeartbeatRequest) -> None:
        begun.extend(lease.id for lease in beat.leases if lease.started)

    @jobs.task
    async def work() -> None:
        assert await eventually(lambda: begun != [])

    store.on_beat = note
    async with working(jobs, lease="1h", heartbeat="20m") as worker:
        worker._fetcher.pause_claims()
        assert await eventually(lambda: store.calls["renew"] > 0)
        handle = await work.enqueue()
        claims = await jobs.store.claim(ClaimRequest("default", worker.id, None, 1, 3600.0, start_count=0))
        worker._runner.accept(claims, time.monotonic(), 0)
        await handle.result(PATIENCE)
    assert set(begun) == {handle.id}


async def test_a_renewal_that_failed_is_repeated_with_the_next_beat(jobs: JobQueue, store: BreakingStore) -> None:
    """Not when the one after it would be due: leases may last for two of them."""
    beats: list[bool] = []

    def note(beat: HeartbeatRequest) -> None:
        beats.append(bool(beat.leases))
        if beats.count(True) == 1 and beats[-1]:
            raise StoreUnavailable("memory", "just this once")

    @jobs.task
    async def work() -> None:
        assert await eventually(lambda: beats.count(True) == 2)

    store.on_beat = note
    async with working(jobs, lease="8s", heartbeat="4s"):
        await (await work.enqueue()).result(PATIENCE)
    first = beats.index(True)
    assert beats[first + 1]


@pytest.mark.parametrize(("lease", "heartbeat"), [("10s", "5.1s"), ("10s", "0s"), (None, "4h")])
def test_a_heartbeat_that_comes_too_late_for_its_lease_is_refused(
    jobs: JobQueue, lease: str | None, heartbeat: str
) -> None:
    """One that fails has to leave time for another."""

    @jobs.task
    async def work() -> None: ...

    with pytest.raises(ConfigurationError, match="at most half of the lease"):
        Worker(jobs, lease=lease, heartbeat=heartbeat)
    Worker(jobs, lease="10s", heartbeat="5s")
