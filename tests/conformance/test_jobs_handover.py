"""Workers claim the next jobs in the trip that ends those they waited for, in every mode; and nothing else changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from queue_core import JobContext, JobHandle, JobQueue
from queue_core.errors import InvalidJob, StoreUnavailable
from queue_core.model import outcome as outcomes
from queue_core.model.job import Claim, Outcome, Settled
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from queue_core.worker import fetcher
from queue_core.worker.attempt import RunningAttempt
from tests.conformance.working import PATIENCE, until, working

LEASE = "300s"
"""No test waits for the end of one."""
KEY = "customer-1"
Answer = tuple[list[Settled], list[Claim]]
Handing = Callable[[Sequence[Outcome], Sequence[ClaimRequest]], Awaitable[Answer]]


@pytest.fixture(autouse=True)
def _slow_machines_hand_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "HAND_ON_SECONDS", PATIENCE)


@pytest.fixture
def ran(jobs: JobQueue) -> list[int]:
    """What handlers of the type `task` have run, in order."""
    ran: list[int] = []

    @jobs.task
    async def task(ctx: JobContext, number: int) -> int:
        ran.append(number)
        return number

    return ran


def instead(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch, hand: Callable[[Handing, Any, Any], Any]) -> None:
    """Let what ends and claims in one trip go through a function that is given the real one."""
    real = jobs.store.settle_and_claim  # type: ignore[attr-defined]

    async def handing(outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]) -> Answer:
        answer: Answer = await hand(real, outcomes, requests)
        return answer

    monkeypatch.setattr(jobs.store, "settle_and_claim", handing)


async def yes(condition: object) -> bool:
    return bool(condition)


async def fill(jobs: JobQueue, count: int, **options: Any) -> list[JobHandle]:
    return [await jobs.enqueue("task", {"number": n}, **options) for n in range(count)]


async def finished(jobs: JobQueue, handles: Sequence[JobHandle]) -> None:
    """Wait for all of them, and check that no attempt was lost or repeated."""
    for handle in handles:
        await handle.result(PATIENCE)
        job = await jobs.inspector.get(handle.id)
        assert (str(job.status), job.losses, job.crashes, job.retry_count) == ("completed", 0, 0, 0)


async def running(jobs: JobQueue, handles: Sequence[JobHandle]) -> list[str]:
    return [handle.id for handle in handles if str((await jobs.inspector.get(handle.id)).status) == "running"]


async def test_jobs_of_a_key_follow_each_other_so(
    jobs: JobQueue, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[str] = []

    async def note(real: Handing, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]) -> Answer:
        settled, claims = await real(outcomes, requests)
        handed.extend(claim.id for claim in claims)
        return settled, claims

    instead(jobs, monkeypatch, note)
    handles = await fill(jobs, 30, ordering_key=KEY)
    async with working(jobs, lease=LEASE):
        await finished(jobs, handles)
    assert ran == list(range(30))
    assert len(handed) >= 25, "all but the first ones, of which the store may have to learn who is next"
    assert handed == [handle.id for handle in handles if handle.id in handed]


async def test_a_lost_answer_loses_and_repeats_nothing(
    jobs: JobQueue, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends are stored and the next job is claimed, and the worker knows of neither."""
    calls = 0

    async def swallow(real: Handing, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]) -> Answer:
        nonlocal calls
        calls += 1
        answer = await real(outcomes, requests)
        if calls in {3, 4, 9}:
            raise StoreUnavailable("store", "the answer got lost")
        return answer

    instead(jobs, monkeypatch, swallow)
    handles = await fill(jobs, 20, ordering_key=KEY)
    async with working(jobs, lease=LEASE, heartbeat="0.2s") as worker:
        await finished(jobs, handles)
    assert calls >= 9
    assert ran == list(range(20))
    assert worker.refused == 0


@pytest.mark.parametrize("error", [StoreUnavailable("store", "the claim fails"), InvalidJob("the claim cannot be")])
async def test_a_claim_that_cannot_be_carried_out_keeps_no_end_from_being_stored(
    jobs: JobQueue, ran: list[int], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whatever becomes of the ends in that trip."""

    async def refuse(real: Handing, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]) -> Answer:
        raise error

    instead(jobs, monkeypatch, refuse)
    handles = await fill(jobs, 5, ordering_key=KEY)
    async with working(jobs, lease=LEASE, heartbeat="0.2s"):
        await finished(jobs, handles)
    assert ran == list(range(5))


async def test_nothing_is_handed_over_to_a_quiet_worker_or_one_that_drains(
    jobs: JobQueue, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[int] = []
    handles = await fill(jobs, 12, ordering_key=KEY)
    async with working(jobs, lease=LEASE, stops=True) as worker:

        async def stop(real: Handing, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]) -> Answer:
            if worker.stopping or worker._fetcher.quiet:
                late.append(len(requests))
            if len(ran) >= 3:
                worker.apply_command("quiet")
            return await real(outcomes, requests)

        instead(jobs, monkeypatch, stop)
        await until(lambda: yes(worker._fetcher.quiet))
        worker.stop()
    assert late == []
    assert ran == list(range(len(ran)))
    assert await running(jobs, handles) == []
    monkeypatch.undo()
    async with working(jobs, lease=LEASE):
        await finished(jobs, handles)
    assert ran == list(range(12))


async def test_what_is_handed_over_to_a_worker_that_stops_meanwhile_goes_back(
    jobs: JobQueue, ran: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    handles = await fill(jobs, 8, ordering_key=KEY)
    async with working(jobs, lease=LEASE, stops=True) as worker:

        async def stop(real: Handing, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]) -> Answer:
            settled, claims = await real(outcomes, requests)
            if claims and not worker.stopping:
                given.extend(claim.id for claim in claims)
                worker.stop()
                for _ in range(20):  # it drains, and gives back what waits
                    await asyncio.sleep(0)
            return settled, claims

        instead(jobs, monkeypatch, stop)
        await until(lambda: yes(worker.stopping))
    assert given
    assert await running(jobs, handles) == []
    monkeypatch.undo()
    async with working(jobs, lease=LEASE):
        await finished(jobs, handles)
    assert ran == list(range(8))


async def test_a_limited_queue_never_runs_more_than_it_may(mode_settings: JobsSettings) -> None:
    """Two workers hand on their places; what they run together stays within the limit."""
    settings = mode_settings.model_copy(update={"queues": {"default": QueueRules(concurrency=3)}})
    running = 0
    most = 0
    done: list[int] = []
    async with JobQueue(settings=settings) as jobs, JobQueue(settings=settings) as other:
        for queue in (jobs, other):

            @queue.task
            async def task(number: int) -> None:
                nonlocal running, most
                running += 1
                most = max(most, running)
                await asyncio.sleep(0.002)
                running -= 1
                done.append(number)

        handles = await fill(jobs, 120)
        async with working(jobs, lease=LEASE), working(other, lease=LEASE):
            await finished(jobs, handles)
    assert sorted(done) == list(range(120))
    assert most == 3


async def test_other_queues_have_their_turn(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slot, and a chain of jobs that would hand it on for long."""
    monkeypatch.setattr(fetcher, "HAND_ON_SECONDS", 0.05)
    order: list[str] = []

    @jobs.task
    async def task(number: int) -> None:
        order.append("chain")
        await asyncio.sleep(0.005)

    @jobs.task(queue="other")
    async def else_where() -> None:
        order.append("other")

    handles = await fill(jobs, 60, ordering_key=KEY)
    last = await jobs.enqueue("else_where", queue="other")
    async with working(jobs, lease=LEASE, concurrency=1):
        await last.result(PATIENCE)
        assert len(order) < 60, "it waits for a part of the chain at most"
        await finished(jobs, handles)


async def test_the_turn_of_a_slot_is_counted_from_the_first_job_that_it_ran(jobs: JobQueue) -> None:
    """Counted from each job by itself, a chain of short ones would never end it."""
    since: dict[int, float] = {}

    @jobs.task
    async def task(ctx: JobContext, number: int) -> None:
        since[number] = worker._held[ctx.job_id].since

    handles = await fill(jobs, 20, ordering_key=KEY)
    async with working(jobs, lease=LEASE) as worker:
        await finished(jobs, handles)
    assert len(since) == 20
    assert len(set(since.values())) <= 6, "but for the first ones, of which the store may have to learn who is next"


async def test_a_slot_is_not_handed_on_for_ever(jobs: JobQueue, ran: list[int]) -> None:
    """Its turn is over, whatever became of it meanwhile."""
    await jobs.enqueue("task", {"number": 0}, ordering_key=KEY)
    (claim,) = await jobs.store.claim(ClaimRequest("default", "w", None, 1, 300.0))
    now = time.monotonic()
    async with working(jobs, lease=LEASE) as worker:
        for age, asked in ((0.0, 1), (2 * fetcher.HAND_ON_SECONDS, 0)):
            held = {claim.id: RunningAttempt(claim, now - age)}
            requests = worker._fetcher.ask([outcomes.cancelled(claim, 0)], held)
            worker._fetcher.give_up(requests)
            assert (len(requests), ran) == (asked, [])


async def test_a_slot_is_handed_on_to_no_more_jobs_than_a_worker_may_run(jobs: JobQueue, ran: list[int]) -> None:
    """Nor is it lost with a claim whose answer does not come."""
    await jobs.enqueue("task", {"number": 0}, ordering_key=KEY)
    (claim,) = await jobs.store.claim(ClaimRequest("default", "w", None, 1, 300.0))
    held = {claim.id: RunningAttempt(claim, time.monotonic())}
    async with working(jobs, lease=LEASE, concurrency=1) as worker:
        for left, asked in ((1, 1), (1, 1), (0, 0)):
            worker.limit_jobs(left)
            requests = worker._fetcher.ask([outcomes.cancelled(claim, 0)], held)
            worker._fetcher.give_up(requests)
            assert (len(requests), ran) == (asked, [])


async def test_nothing_is_claimed_behind_what_is_given_back(jobs: JobQueue, ran: list[int]) -> None:
    """It would be the same job, once more."""
    await jobs.enqueue("task", {"number": 0}, ordering_key=KEY)
    (claim,) = await jobs.store.claim(ClaimRequest("default", "w", None, 1, 300.0))
    held = {claim.id: RunningAttempt(claim, time.monotonic())}
    async with working(jobs, lease=LEASE) as worker:
        assert worker._fetcher.ask([outcomes.released(claim, 0)], held) == []
    assert ran == []


async def test_of_several_ends_the_longest_turn_counts(jobs: JobQueue, ran: list[int]) -> None:
    claims = []
    for key in ("one", "other"):
        await jobs.enqueue("task", {"number": 0}, ordering_key=key)
        claims += await jobs.store.claim(ClaimRequest("default", "w", None, 1, 300.0))
    now = time.monotonic()
    held = {claim.id: RunningAttempt(claim, now - place) for place, claim in enumerate(claims)}
    async with working(jobs, lease=LEASE) as worker:
        (request,) = worker._fetcher.ask([outcomes.cancelled(claim, 0) for claim in claims], held)
        _, since = worker._fetcher._handing[request.number]
        worker._fetcher.give_up([request])
    assert (since, ran) == (now - 1, [])


async def test_better_ranks_of_the_queue_have_theirs(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "HAND_ON_SECONDS", 0.05)
    order: list[int] = []

    @jobs.task
    async def task(number: int) -> None:
        order.append(number)
        await asyncio.sleep(0.005)

    handles = await fill(jobs, 60, ordering_key=KEY)
    async with working(jobs, lease=LEASE, concurrency=1):
        await until(lambda: yes(len(order) >= 5))
        urgent = await jobs.enqueue("task", {"number": 100}, priority=20)
        await urgent.result(PATIENCE)
        assert len(order) < 60
        await finished(jobs, handles)
    assert [number for number in order if number < 100] == list(range(60))


async def test_no_more_jobs_than_a_worker_may_run(jobs: JobQueue, ran: list[int]) -> None:
    handles = await fill(jobs, 10, ordering_key=KEY)
    async with working(jobs, lease=LEASE) as worker:
        worker.limit_jobs(4)
        await until(lambda: yes(worker.used_up))
    assert ran == list(range(len(ran)))
    assert len(ran) <= 4
    async with working(jobs, lease=LEASE):
        await finished(jobs, handles)
    assert ran == list(range(10))
