"""What the leader of the workers publishes and offers of the jobs that it takes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from queue_core import JobContext, JobQueue
from queue_core.delivery.audit import DeliveryAudit
from queue_core.errors import StoreRefused
from queue_core.model.events import Event, EventName
from queue_core.model.filters import Filter
from queue_core.model.job import NewJob, Ready, new_id
from queue_core.model.schedule import Announcement, Schedule
from queue_core.ports.locks import LockHeld
from queue_core.ports.store import ClaimRequest, DueWork
from queue_core.worker import leader
from queue_core.worker.worker import Worker
from tests.conformance.working import PATIENCE, until, working
from tests.worker.breaking import BreakingStore


async def lose(jobs: JobQueue, store: BreakingStore) -> int:
    """Let a worker claim the first job, and be gone; return the token."""
    (claim,) = await jobs.store.claim(ClaimRequest("default", "gone", None, 1, 60.0))
    for row in store._store.state.running.values():
        row.lease.expires_at = 0.0
    return claim.token


@pytest.mark.parametrize(("cancelled", "becomes"), [(False, EventName.RELEASED), (True, EventName.CANCELLED)])
async def test_an_attempt_that_was_lost_has_failed(
    jobs: JobQueue, store: BreakingStore, cancelled: bool, becomes: EventName
) -> None:
    """Subscribers hear of that first, and then what becomes of its job."""
    published: list[Event] = []
    publish = jobs.bus.publish

    async def noting(events: Sequence[Event]) -> None:
        published.extend(events)
        await publish(events)

    jobs.bus.publish = noting  # type: ignore[method-assign]

    @jobs.task
    async def task(ctx: JobContext) -> int:
        return ctx.token

    handle = await task.enqueue()
    token = await lose(jobs, store)
    if cancelled:
        await jobs.operations.change("cancel", [handle.id])

    def of_the_lost() -> list[EventName]:
        return [event.event for event in published if event.token == token]

    async def two() -> bool:
        return len(of_the_lost()) >= 2

    async with working(jobs):
        await until(two)
        if not cancelled:
            assert await handle.result(PATIENCE) > token
    assert of_the_lost() == [EventName.FAILED, becomes]


async def test_who_listens_learns_that_a_lost_worker_may_have_said_less_than_it_did(
    jobs: JobQueue, store: BreakingStore
) -> None:
    """It may have ended other jobs, and died before it could publish that."""

    @jobs.task
    async def task() -> None:
        """Do nothing."""

    await jobs.store.insert([NewJob(new_id(), "default", "task", "{}")])
    await lose(jobs, store)
    batches = jobs.bus.subscribe()
    await anext(batches)
    async with asyncio.timeout(PATIENCE), working(jobs):
        while not ((batch := await anext(batches)).gap and batch.queue == "default"):
            pass


async def test_what_the_end_of_a_lost_attempt_lets_through_is_offered(
    jobs: JobQueue, store: BreakingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next job of its ordering key need not wait for the audit."""
    offered: list[str] = []
    dispatcher: Any = jobs.dispatcher
    offer = dispatcher.offer

    async def noting(ready: Sequence[Ready]) -> None:
        offered.extend(one.id for one in ready)
        await offer(ready)

    @jobs.task
    async def task() -> None: ...

    first, second = [await task.options(ordering_key="one").enqueue() for _ in range(2)]
    await lose(jobs, store)
    await jobs.operations.change("cancel", [first.id])
    monkeypatch.setattr(dispatcher, "offer", noting)
    async with working(jobs):
        await second.result(PATIENCE)
    assert str(await first.status()) == "cancelled"
    assert offered == [second.id]


async def test_all_that_is_lost_or_due_is_taken_in_one_round(
    jobs: JobQueue, store: BreakingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are of them: the next round is half a second away."""
    monkeypatch.setattr(leader, "RECLAIM_LIMIT", 2)
    monkeypatch.setattr(leader, "PROMOTE_LIMIT", 2)
    lost = await jobs.enqueue_many("task", [{}] * 5)
    await jobs.store.claim(ClaimRequest("default", "gone", None, 5, 60.0))
    for row in store._store.state.running.values():
        row.lease.expires_at = 0.0
    due = await jobs.enqueue_many("task", [{}] * 5, delay=60)
    state = store._store.state
    state.due = [(0.0, *rest) for _, *rest in state.due]
    for handle in due:
        state.jobs[handle.id].run_at = 0.0
    sweeper = Worker(jobs)._sweeper
    assert (await sweeper.reclaim(), await sweeper.promote()) == (5, 5)
    assert {str(await handle.status()) for handle in (*lost, *due)} == {"queued"}


async def test_what_has_become_due_is_offered_at_once(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the audit, which comes once a second and looks at the heads of queues alone."""

    async def nothing(audit: DeliveryAudit) -> int:
        return 0

    monkeypatch.setattr(DeliveryAudit, "run_once", nothing)

    @jobs.task
    async def task() -> str:
        return "done"

    async with working(jobs):
        assert await (await task.options(delay=0.2).enqueue()).result(PATIENCE) == "done"


async def test_the_job_of_a_tick_is_offered_and_published_at_once(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would wait for the audit, and no subscriber would hear of it."""
    sweeper = Worker(jobs)._sweeper
    offered: list[str] = []
    published: list[Event] = []

    async def noting(ready: Sequence[Ready]) -> None:
        offered.extend(one.id for one in ready)

    monkeypatch.setattr(jobs.dispatcher, "offer", noting)
    monkeypatch.setattr(sweeper._publisher, "publish", published.append)
    nightly = Schedule("nightly", "0 3 * * *", "UTC", "task", "{}", "default")
    await sweeper._scheduler._store.announce([Announcement(nightly, 1.0)])
    assert await sweeper.schedule() == 1
    (job,) = (await jobs.inspector.jobs(Filter(), 10)).jobs
    assert offered == [job.id]
    assert [(one.event, one.id, one.queue) for one in published] == [(EventName.CREATED, job.id, "default")]


@pytest.mark.parametrize(
    ("end", "levels"), [("queued", ["WARNING"]), ("cancelled", ["WARNING"]), ("dead", ["WARNING", "ERROR"])]
)
async def test_only_a_lost_job_that_is_buried_is_logged_as_dead(
    jobs: JobQueue, store: BreakingStore, caplog: pytest.LogCaptureFixture, end: str, levels: list[str]
) -> None:
    job_id = new_id()
    await jobs.store.insert([NewJob(job_id, "default", "task", "{}")])
    await lose(jobs, store)
    if end == "cancelled":
        await jobs.operations.change("cancel", [job_id])
    sweeper = Worker(jobs)._sweeper
    sweeper._duty = sweeper._duty._replace(max_losses=1 if end == "dead" else 20)
    with caplog.at_level("WARNING"):
        assert await sweeper.reclaim() == 1
    assert await jobs.status_of(job_id) == end
    assert [record.levelname for record in caplog.records] == levels


async def test_a_duty_that_fails_keeps_no_other_from_being_done(jobs: JobQueue, store: BreakingStore) -> None:
    """A store may refuse one statement for ever, for a right that is missing or a row that nothing can read."""

    @jobs.task
    async def task() -> str:
        return "done"

    store.failing["reclaim"] = RuntimeError("no such function")
    async with working(jobs):
        assert await (await task.options(delay=0.2).enqueue()).result(PATIENCE) == "done"


@pytest.mark.parametrize("failure", [RuntimeError("no such function"), StoreRefused("memory", "permission denied")])
async def test_a_leader_whose_rounds_fail_leaves_the_duty_to_others_for_a_while(
    jobs: JobQueue, store: BreakingStore, failure: Exception
) -> None:
    """What fails may fail for its process alone: another role, another release."""
    sweeper = Worker(jobs)._sweeper
    sweeper._leadership = 0.01
    store.failing["promote"] = failure
    for _ in range(leader.RESIGN_AFTER):
        with pytest.raises(type(failure)):
            await sweeper.run_once()
    before = store.calls["acquire_leadership"]
    sweeper._resigned_until += 3600
    assert not await sweeper.run_once()
    assert store.calls["acquire_leadership"] == before
    sweeper._resigned_until -= 3600
    del store.failing["promote"]
    await until(sweeper.run_once)


async def test_who_has_left_the_duty_does_not_take_it_again_at_once(jobs: JobQueue, store: BreakingStore) -> None:
    """Others have to find it free, and look for it only now and then."""
    sweeper = Worker(jobs)._sweeper
    sweeper._leadership = 3600.0
    store.failing["promote"] = RuntimeError("no such function")
    for _ in range(leader.RESIGN_AFTER):
        with pytest.raises(RuntimeError):
            await sweeper.run_once()
    assert not await sweeper.run_once()


NOTHING = DueWork(None, None, False, False, False)


@pytest.mark.parametrize(
    ("work", "duties"),
    [
        (NOTHING, set()),
        (NOTHING._replace(due=60.0, lease=60.0), set()),
        (NOTHING._replace(busy=True), {"reclaim"}),
        (NOTHING._replace(lease=0.0), {"reclaim"}),
        (NOTHING._replace(due=0.0), {"promote"}),
        (NOTHING._replace(keys_pending=True), {"promote"}),
    ],
)
async def test_a_round_does_what_the_store_says_is_to_be_done(
    jobs: JobQueue, store: BreakingStore, work: DueWork, duties: set[str]
) -> None:
    async def next_work() -> DueWork:
        return work

    sweeper = Worker(jobs)._sweeper
    sweeper._notifying = SimpleNamespace(next_work=next_work)  # type: ignore[assignment]
    assert await sweeper._round()
    assert {duty for duty in ("reclaim", "promote") if store.calls[duty]} == duties


async def test_a_leader_that_waits_for_a_lock_keeps_the_duty(jobs: JobQueue, store: BreakingStore) -> None:
    """Others would wait for it, too."""
    sweeper = Worker(jobs)._sweeper
    store.failing["promote"] = LockHeld("memory")
    for _ in range(2 * leader.RESIGN_AFTER):
        with pytest.raises(LockHeld):
            await sweeper.run_once()
