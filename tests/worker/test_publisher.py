"""Events of a worker's jobs: gathered, and those of many jobs made only for listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from queue_core.delivery.local import LocalEventBus
from queue_core.model import outcome as outcomes
from queue_core.model.events import RESULT_BYTES, Event, EventName
from queue_core.model.job import Claim, Outcome, Settled
from queue_core.model.rules import QueueRules
from queue_core.model.settings import Limits
from queue_core.worker import journal
from queue_core.worker.journal import CHECK_LISTENERS_FROM, SMALL_VALUE, EventPublisher

FEW, LONG = 3, "x" * (SMALL_VALUE + 1)


class NotingBus(LocalEventBus):
    """Notes what is published and of which queues it is asked whether their events may be left out."""

    def __init__(self, heard: bool) -> None:
        super().__init__()
        self.listened = heard
        self.published: list[Event] = []
        self.asked: list[set[str]] = []

    async def publish(self, events: Sequence[Event]) -> None:
        self.published += events

    async def omits(self, queues: Collection[str]) -> bool:
        self.asked.append(set(queues))
        return not self.listened


def claim(number: int, payload: str = "{}") -> Claim:
    return Claim(f"job-{number}", number, "work", "task", payload, 50, number, 0, 3, 0, 0.0, ())


def completed(number: int, result: str = "null") -> Outcome:
    return outcomes.completed(claim(number), 1500, result, Limits())


async def sent(publisher: EventPublisher) -> None:
    loop = asyncio.create_task(publisher.run())
    await publisher.close(loop)


def run(publisher: EventPublisher, count: int) -> None:
    for number in range(count):
        publisher.started(claim(number))
        publisher.ended(completed(number), Settled(f"job-{number}", True))


@pytest.mark.parametrize("count", [FEW, CHECK_LISTENERS_FROM])
async def test_all_events_are_sent_where_somebody_listens(count: int) -> None:
    bus = NotingBus(heard=True)
    publisher = EventPublisher(bus, "worker-1")
    run(publisher, count)
    await sent(publisher)
    begun = {"priority": 50, "attempt": 1, "worker": "worker-1"}
    assert bus.published == [
        event
        for number in range(count)
        for event in (
            Event(EventName.CLAIMED, "work", f"job-{number}", "task", number, begun),
            Event(EventName.COMPLETED, "work", f"job-{number}", "task", number, {"ms": 1.5}),
        )
    ]
    assert bus.asked == ([{"work"}] if count == CHECK_LISTENERS_FROM else [])


async def test_where_nobody_listens_the_ends_that_tell_more_are_sent_alone() -> None:
    """Progress and failures go to channels of their own, too; results wait for whoever asks."""
    bus = NotingBus(heard=False)
    publisher = EventPublisher(bus, "worker-1", {"told": QueueRules(publish_results=True)})
    run(publisher, CHECK_LISTENERS_FROM)
    publisher.publish(Event(EventName.PROGRESS, "work", "job-1", "task", 1, {"progress": 5}))
    publisher.ended(completed(2)._replace(queue="told", result="7"), Settled("job-2", True))
    publisher.ended(outcomes.cancelled(claim(3), 10), Settled("job-3", True))
    await sent(publisher)
    assert [(event.event, event.id, event.result) for event in bus.published] == [
        ("progress", "job-1", None),
        ("completed", "job-2", "7"),
        ("cancelled", "job-3", None),
    ]
    assert bus.asked == [{"work"}]


async def test_few_events_are_sent_without_asking() -> None:
    bus = NotingBus(heard=False)
    publisher = EventPublisher(bus, "worker-1")
    run(publisher, FEW)
    await sent(publisher)
    assert len(bus.published) == 2 * FEW
    assert not bus.asked


async def test_no_large_payload_or_result_is_kept_for_an_event() -> None:
    publisher = EventPublisher(NotingBus(heard=True), "worker-1")
    publisher.started(claim(1, LONG))
    publisher.ended(completed(1, LONG), Settled("job-1", True))
    publisher.started(claim(2))
    assert [type(noted) for noted in publisher._buffer] == [Event, Event, Claim]


async def test_what_found_no_room_shows_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_EVENTS", FEW)
    bus = LocalEventBus()
    publisher = EventPublisher(bus, "worker-1")
    batches = bus.subscribe()
    await anext(batches)
    run(publisher, FEW)
    await sent(publisher)
    received = [await anext(batches) for _ in range(2)]
    assert [(len(batch.events), batch.gap) for batch in received] == [(FEW, False), (0, True)]


async def test_who_waits_for_the_end_of_one_of_many_jobs_hears_of_it() -> None:
    bus = LocalEventBus()
    publisher = EventPublisher(bus, "worker-1")
    async with bus.watch("work", "job-7") as wait:
        run(publisher, CHECK_LISTENERS_FROM)
        await sent(publisher)
        assert await wait(0.0)


async def test_a_result_that_is_too_large_for_a_channel_is_left_out() -> None:
    bus = NotingBus(heard=True)
    publisher = EventPublisher(bus, "worker-1", {"told": QueueRules(publish_results=True)})
    for number, size in enumerate((RESULT_BYTES, RESULT_BYTES + 1)):
        publisher.ended(completed(number)._replace(queue="told", result="x" * size), Settled(f"job-{number}", True))
    await sent(publisher)
    assert [len(event.result or "") for event in bus.published] == [RESULT_BYTES, 0]
    assert bus.published[1].result == "", "there is one to be read"
