"""What is told of enqueued jobs, behind the back of the callers: in order, bounded, and never in their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import pytest

from queue_core import JobQueue
from queue_core.client import effects
from queue_core.client.effects import LONG_LIST, MAX_WAITING_JOBS, events_of, ready_of
from queue_core.delivery.local import LocalDispatcher
from queue_core.model.events import Event, EventName
from queue_core.model.job import Outcome, OutcomeKind, Ready, Settled
from tests.conformance.making import failure
from tests.waiting import PATIENCE


class HangingDispatcher(LocalDispatcher):
    """Answers no offer while it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.asked: list[str] = []

    async def offer(self, ready: Sequence[Ready]) -> None:
        self.asked += [job.id for job in ready]
        await self.answers.wait()


class AnnouncingDispatcher(LocalDispatcher):
    """Carries events, too; keeps what each of its sends had."""

    def __init__(self) -> None:
        super().__init__()
        self.sends: list[tuple[list[str], list[str]]] = []
        self.sent = asyncio.Event()

    async def announce(self, ready: Sequence[Ready], events: Sequence[Event]) -> None:
        self.sends.append(([job.id for job in ready], [event.id for event in events]))
        self.sent.set()


@pytest.fixture
def dispatcher() -> HangingDispatcher:
    """Whose server hangs."""
    return HangingDispatcher()


@pytest.fixture
async def jobs(dispatcher: HangingDispatcher) -> AsyncIterator[JobQueue]:
    """A queue object in memory with this dispatcher."""
    jobs = JobQueue(memory=True)
    jobs.swap(jobs._backend._replace(dispatcher=dispatcher))
    async with jobs:
        yield jobs
        dispatcher.answers.set()


async def test_no_enqueue_waits_for_offers(jobs: JobQueue, dispatcher: HangingDispatcher) -> None:
    async with asyncio.timeout(PATIENCE):
        handles = [await jobs.enqueue("anything") for _ in range(20)]
    assert len(dispatcher.asked) <= 1
    dispatcher.answers.set()
    await jobs._enqueuer.drain()
    assert dispatcher.asked == [handle.id for handle in handles]


async def test_what_waits_to_be_told_is_bounded(
    jobs: JobQueue, dispatcher: HangingDispatcher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who listens learns that there is more than it hears of."""
    gaps: list[Collection[str]] = []
    monkeypatch.setattr(jobs.bus, "report_gap", gaps.append)
    async with asyncio.timeout(PATIENCE):
        for _ in range(MAX_WAITING_JOBS // 1000 + 10):
            await jobs.enqueue_many("anything", [{}] * 1000)
    assert jobs._enqueuer._effects._jobs <= MAX_WAITING_JOBS
    assert len(gaps) >= 9
    assert set().union(*gaps) == {"default"}
    assert caplog.text.count("the audit offers what comes now") == 1
    dispatcher.answers.set()
    await jobs._enqueuer.drain()
    handle = await jobs.enqueue("anything")
    await jobs._enqueuer.drain()
    assert dispatcher.asked[-1] == handle.id


async def test_one_long_list_is_no_sign_of_a_slow_server(caplog: pytest.LogCaptureFixture) -> None:
    async with JobQueue(memory=True) as jobs, asyncio.timeout(PATIENCE):
        for _ in range(3):
            await jobs.enqueue_many("anything", [{}] * (MAX_WAITING_JOBS + 1))
        await asyncio.gather(jobs.enqueue_many("anything", [{}] * (MAX_WAITING_JOBS + 1)), jobs.enqueue("anything"))
        await jobs._enqueuer.drain()
    assert caplog.text == ""


async def test_what_waits_behind_a_long_list_is_bounded(
    jobs: JobQueue, dispatcher: HangingDispatcher, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "PRODUCER_WAIT_EACH", 0.0)
    async with asyncio.timeout(PATIENCE):
        await jobs.enqueue_many("anything", [{}] * (MAX_WAITING_JOBS + 1))
        await jobs.enqueue("anything")
        assert caplog.text == ""
        await jobs.enqueue("anything")
    assert caplog.text.count("the audit offers what comes now") == 1
    assert jobs._enqueuer._effects._jobs == MAX_WAITING_JOBS + 2


async def test_jobs_one_after_the_other_share_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "SEND_SPACING", 3600.0)
    announcing = AnnouncingDispatcher()
    jobs = JobQueue(memory=True)
    jobs.swap(jobs._backend._replace(dispatcher=announcing))
    async with jobs:
        async with asyncio.timeout(PATIENCE):
            first = await jobs.enqueue("anything")
            await announcing.sent.wait()  # at once: a worker may wait
            later = [await jobs.enqueue("anything", delay=60.0 * (place % 2)) for place in range(4)]
            assert len(announcing.sends) == 1
            await jobs._enqueuer.drain()  # waits for no pause
    ids = [handle.id for handle in later]
    assert announcing.sends == [([first.id], [first.id]), (ids[::2], ids)]


async def test_many_jobs_wait_for_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "SEND_SPACING", 3600.0)
    announcing = AnnouncingDispatcher()
    jobs = JobQueue(memory=True)
    jobs.swap(jobs._backend._replace(dispatcher=announcing))
    async with jobs, asyncio.timeout(PATIENCE):
        for _ in range(2 * LONG_LIST):
            await jobs.enqueue("anything")
        while sum(len(ids) for ids, _ in announcing.sends) < LONG_LIST:
            announcing.sent.clear()
            await announcing.sent.wait()


def test_an_attempt_that_failed_is_cancelled_where_somebody_asked_for_that() -> None:
    """Subscribers hear of its job's end, and of no retry that never comes."""
    failed = Outcome("a", 1, "default", "task", "retrying", failure=failure())
    (event,) = events_of(failed, Settled("a", True, cancelled=True))
    assert (event.event, event.id) == (EventName.CANCELLED, "a")


def test_what_an_end_has_opened_is_ready() -> None:
    opened = Ready("b", "default", 1), Ready("c", "default", 2)
    ended = Outcome("a", 1, "default", "task", "completed")
    assert ready_of([(ended, Settled("a", True, unblocked=opened))]) == [*opened]


@pytest.mark.parametrize(("kind", "becomes"), [("released", EventName.RELEASED), ("dead", EventName.DEAD)])
def test_an_attempt_that_was_lost_has_failed_whatever_becomes_of_its_job(kind: OutcomeKind, becomes: EventName) -> None:
    lost = Outcome("a", 1, "default", "task", kind, failure=failure(kind="lost"))
    events = events_of(lost, Settled("a", True, rank=1))
    assert [(event.event, event.extra.get("kind")) for event in events] == [
        (EventName.FAILED, "lost"),
        (becomes, "lost"),
    ]
