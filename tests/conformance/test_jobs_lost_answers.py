"""Claims whose answers get lost or come late: what they gave runs soon, and nobody is blamed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_core import JobContext, JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim
from queue_core.ports.store import ClaimRequest
from tests.conformance.working import PATIENCE, until, working

LEASE = "300s"
"""No test waits for the end of one."""
Claiming = Callable[[ClaimRequest], Awaitable[list[Claim]]]


@pytest.fixture
def ran(jobs: JobQueue) -> list[tuple[str, int, int]]:
    """Job, token and attempt of what handlers of the type `task` have run."""
    ran: list[tuple[str, int, int]] = []

    @jobs.task(queue="work", timeout=0)
    async def task(ctx: JobContext) -> int:
        ran.append((ctx.job_id, ctx.token, ctx.attempt))
        return ctx.token

    return ran


def instead(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch, claim: Callable[[Claiming, Any], Any]) -> None:
    """Let claims go through a function that is given the real one."""
    real = jobs.store.claim

    async def claiming(request: ClaimRequest) -> list[Claim]:
        claims: list[Claim] = await claim(real, request)
        return claims

    monkeypatch.setattr(jobs.store, "claim", claiming)


async def unblamed(jobs: JobQueue, job_id: str) -> None:
    job = await jobs.inspector.get(job_id)
    assert (job.status, job.losses, job.crashes, job.retry_count) == ("completed", 0, 0, 0)


async def test_what_a_lost_answer_gave_runs_soon(
    jobs: JobQueue, ran: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Claim] = []

    async def swallow(real: Claiming, request: ClaimRequest) -> list[Claim]:
        claims = await real(request)
        if claims and not lost:
            lost.extend(claims)
            raise StoreUnavailable("store", "the answer got lost")
        return claims

    instead(jobs, monkeypatch, swallow)
    handles = await jobs.enqueue_many("task", [{}] * 3, queue="work")
    async with working(jobs, lease=LEASE, heartbeat="0.2s"):
        for handle in handles:
            await handle.result(PATIENCE)
    assert lost
    assert {(claim.id, claim.token) for claim in lost}.isdisjoint({run[:2] for run in ran})
    assert {attempt for _, _, attempt in ran} == {1}
    for handle in handles:
        await unblamed(jobs, handle.id)


async def test_what_is_carried_out_after_nobody_waits_runs_soon(
    jobs: JobQueue, ran: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stood still; the worker has given up by the time that it goes on."""
    late: list[asyncio.Task[list[Claim]]] = []

    async def stand_still(real: Claiming, request: ClaimRequest) -> list[Claim]:
        if late and not late[0].done():
            return []

        async def later() -> list[Claim]:
            await asyncio.sleep(1.0)
            return await real(request)

        if not late:
            late.append(asyncio.create_task(later()))
            raise StoreUnavailable("store", "no answer in time")
        return await real(request)

    handle = await jobs.enqueue("task", queue="work")
    instead(jobs, monkeypatch, stand_still)
    async with working(jobs, lease=LEASE, heartbeat="0.2s"):
        await handle.result(PATIENCE)
    (claim,) = await late[0]
    assert [(job_id, token > claim.token) for job_id, token, _ in ran] == [(handle.id, True)]
    await unblamed(jobs, handle.id)


async def test_a_claim_that_is_answered_late_keeps_what_it_gave(
    jobs: JobQueue, ran: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats come and go between the claim and its answer: the worker still waits for it."""
    beats = 0
    given: list[Claim] = []
    real_heart = jobs.store.open_heartbeat

    def heart() -> Any:
        found = real_heart()
        real_beat = found.renew

        def beat(*args: Any) -> Any:
            nonlocal beats
            beats += 1
            return real_beat(*args)

        monkeypatch.setattr(found, "renew", beat)
        return found

    async def answer_late(real: Claiming, request: ClaimRequest) -> list[Claim]:
        claims = await real(request)
        if claims:
            given.extend(claims)
            before = beats

            async def passed() -> bool:
                return beats >= before + 3

            await until(passed)
        return claims

    monkeypatch.setattr(jobs.store, "open_heartbeat", heart)
    instead(jobs, monkeypatch, answer_late)
    handle = await jobs.enqueue("task", queue="work")
    async with working(jobs, lease=LEASE, heartbeat="0.2s"):
        await handle.result(PATIENCE)
        await asyncio.sleep(0.5)  # some more beats, which might name it
    assert ran == [(handle.id, given[0].token, 1)]
    await unblamed(jobs, handle.id)


async def test_what_is_still_in_doubt_at_the_end_is_handed_back(
    jobs: JobQueue, ran: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends before its heartbeat has asked."""
    lost = asyncio.Event()

    async def swallow(real: Claiming, request: ClaimRequest) -> list[Claim]:
        claims = await real(request)
        if claims:
            lost.set()
            raise StoreUnavailable("store", "the answer got lost")
        return claims

    handle = await jobs.enqueue("task", queue="work")
    with monkeypatch.context() as patch:
        instead(jobs, patch, swallow)
        async with working(jobs, lease=LEASE):
            async with asyncio.timeout(PATIENCE):
                await lost.wait()
    async with working(jobs, lease=LEASE):
        await handle.result(PATIENCE)
    assert [attempt for _, _, attempt in ran] == [1]
    await unblamed(jobs, handle.id)


# -- claims without a worker


async def run_all(jobs: JobQueue, count: int) -> list[str]:
    """Claim and complete so many jobs one by one; return their ids."""
    done: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(done) < count:
            job = await jobs.claim_next("work", wait=5)
            if job is not None:
                await job.complete()
                done.append(job.id)
    return done


async def test_cancelled_claims_leave_nothing_leased(jobs: JobQueue) -> None:
    """At whatever moment the caller lets go of them."""
    handles = await jobs.enqueue_many("task", [{}] * 40, queue="work")
    first = await jobs.claim_next("work", wait=PATIENCE)
    assert first is not None
    await first.release()
    got = 0
    chance = random.Random(1)
    for _ in range(60):
        claiming = asyncio.create_task(jobs.claim_next("work"))
        await asyncio.sleep(chance.uniform(0, 0.004))
        claiming.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            if (job := await claiming) is not None:
                got += 1
                await job.complete()
    left = len(handles) - got
    assert len(await run_all(jobs, left)) == left
    for handle in handles:
        await unblamed(jobs, handle.id)


async def test_what_a_lost_answer_gave_to_a_program_is_given_back(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def swallow(real: Claiming, request: ClaimRequest) -> list[Claim]:
        if await real(request):
            raise StoreUnavailable("store", "the answer got lost")
        return []

    handle = await jobs.enqueue("task", queue="work")
    with monkeypatch.context() as patch:
        instead(jobs, patch, swallow)
        with pytest.raises(StoreUnavailable):
            await jobs.claim_next("work", wait=PATIENCE)
    assert await run_all(jobs, 1) == [handle.id]
    await unblamed(jobs, handle.id)
