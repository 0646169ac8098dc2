"""A worker that slept beyond its lease: what it had claimed and not begun is others' by then, and it begins none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Event as ThreadEvent
from typing import Any

import pytest

from queue_core import JobContext, JobQueue
from queue_core.worker.heartbeat import Heartbeat
from queue_core.worker.runner import Runner
from queue_core.worker.worker import Worker
from tests.around import Around
from tests.conformance.working import PATIENCE, until_status, working
from tests.waiting import eventually

LEASE = 1.0


class HeldClaims(Around):
    """A store whose answers to claims come late."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.claimed, self.answers = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any) -> Any:
        claims = await self._store.claim(*args)
        if claims:
            self.claimed.set()
            await self.answers.wait()
        return claims


@dataclass
class Runs:
    """What handlers ran, by the worker and the number of the job; one of them waits."""

    ran: list[tuple[str, int]] = field(default_factory=list)
    waits_in: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    def register(self, jobs: JobQueue) -> None:
        @jobs.task(timeout=0)
        async def work(ctx: JobContext, n: int) -> None:
            self.ran.append((ctx.worker, n))
            if ctx.worker == self.waits_in:
                self.begun.set()
                await self.goes_on.wait()


@asynccontextmanager
async def asleep(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Let a worker claim and renew nothing, and miss no renewal, as while its process is stopped."""
    awake = ThreadEvent()
    run_once, give_up = Heartbeat.run_once, Heartbeat._give_up_in_time

    def is_it(heartbeat: Heartbeat) -> bool:
        return heartbeat._identity().worker == worker.id

    def run_later(heartbeat: Heartbeat) -> None:
        if is_it(heartbeat):
            awake.wait(PATIENCE)
        run_once(heartbeat)

    def give_up_others(heartbeat: Heartbeat, now: float) -> None:
        if not is_it(heartbeat):
            give_up(heartbeat, now)

    worker._fetcher.pause_claims()
    with monkeypatch.context() as patch:
        patch.setattr(Heartbeat, "run_once", run_later)
        patch.setattr(Heartbeat, "_give_up_in_time", give_up_others)
        try:
            yield
        finally:
            awake.set()


async def test_what_waits_for_its_slot_does_not_begin(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "_ahead", lambda self: 4)
    runs = Runs()
    runs.register(jobs)
    first, second = [await jobs.enqueue("work", {"n": n}) for n in range(2)]
    async with working(jobs, concurrency=1, lease=LEASE) as sleeper:
        runs.waits_in = sleeper.id
        await asyncio.wait_for(runs.begun.wait(), PATIENCE)
        assert await eventually(lambda: set(sleeper._held) == {first.id, second.id})
        async with asleep(sleeper, monkeypatch):
            async with working(jobs) as other:
                for handle in (first, second):
                    await until_status(jobs, handle.id, "completed")
            runs.goes_on.set()
            assert await eventually(lambda: not sleeper._held)
    assert sorted(runs.ran) == sorted([(sleeper.id, 0), (other.id, 0), (other.id, 1)])


async def test_what_its_claim_gave_while_it_slept_does_not_begin(jobs: JobQueue) -> None:
    runs = Runs()
    runs.register(jobs)
    async with working(jobs, lease=LEASE) as sleeper:
        held = HeldClaims(jobs.store)
        sleeper._fetcher._store = held
        handle = await jobs.enqueue("work", {"n": 0})
        await asyncio.wait_for(held.claimed.wait(), PATIENCE)
        async with working(jobs) as other:
            await until_status(jobs, handle.id, "completed")
        sleeper._fetcher.pause_claims()
        held.answers.set()
        assert await eventually(lambda: sleeper.refused == 1)
        assert not sleeper._held
    assert runs.ran == [(other.id, 0)]


async def test_a_program_gets_no_job_that_its_claim_gave_while_it_slept(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await jobs.claim_next()
    assert first is None
    assert jobs._manual is not None
    held = HeldClaims(jobs.store)
    backend = jobs._manual._backend
    monkeypatch.setattr(jobs._manual, "_backend", backend._replace(store=held))
    runs = Runs()
    runs.register(jobs)
    handle = await jobs.enqueue("work", {"n": 0})
    claiming = asyncio.create_task(jobs.claim_next(lease=LEASE, wait=PATIENCE))
    await asyncio.wait_for(held.claimed.wait(), PATIENCE)
    async with working(jobs) as other:
        await until_status(jobs, handle.id, "completed")
    another = await jobs.enqueue("work", {"n": 1})
    held.answers.set()
    job = await asyncio.wait_for(claiming, PATIENCE)
    assert job is not None
    assert job.id == another.id
    await job.complete()
    assert runs.ran == [(other.id, 0)]
