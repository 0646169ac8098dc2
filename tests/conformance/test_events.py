"""The event bus: hints that reach every subscriber in order, or the word that some were lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from queue_core.backends import open_backend
from queue_core.model.events import Event, EventBatch, EventName
from queue_core.model.settings import JobsSettings
from queue_core.ports.delivery import EventBus
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE


@pytest.fixture
async def bus(mode_settings: JobsSettings) -> AsyncIterator[EventBus]:
    """The event bus of the mode under test."""
    backend = open_backend(mode_settings)
    yield backend.bus
    await backend.close()
    await backend.close()


@pytest.fixture
async def speaker(mode_settings: JobsSettings, bus: EventBus) -> AsyncIterator[EventBus]:
    """The event bus of another process; of the same one in memory, which no other one reaches."""
    other = open_backend(mode_settings)
    yield bus if other.store.name == "memory" else other.bus
    await other.close()


def event(name: EventName = EventName.COMPLETED, queue: str = "a", **extra: object) -> Event:
    return Event(name, queue, new_job().id, "task", 7, dict(extra) or None)


class Ear:
    """What one subscriber hears."""

    def __init__(self) -> None:
        self.batches: list[EventBatch] = []
        self._changed = asyncio.Event()

    async def listen(self, bus: EventBus) -> None:
        async for batch in bus.subscribe():
            self.batches.append(batch)
            self._changed.set()

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch.events if event.queue != "probe"]

    async def until_heard(self, last: Event, bus: EventBus | None = None) -> None:
        """Wait for an event; with a bus, say it until it is heard."""
        async with asyncio.timeout(PATIENCE):
            while not any(one.id == last.id for batch in self.batches for one in batch.events):
                self._changed.clear()
                if bus is not None:
                    await bus.publish([last])
                    # Seldom: what a process sends in a second is bounded.
                    await asyncio.sleep(0.1)
                else:
                    await self._changed.wait()

    async def until_gap(self, queue: str) -> None:
        """Wait for a gap of a queue."""
        async with asyncio.timeout(PATIENCE):
            while not any(batch.gap and batch.queue == queue for batch in self.batches):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def listening(bus: EventBus) -> AsyncIterator[Ear]:
    """Listen from a moment on from which nothing is missed."""
    ear = Ear()
    task = asyncio.create_task(ear.listen(bus))
    try:
        await ear.until_heard(event(EventName.QUEUE, "probe"), bus)
        ear.batches.clear()
        yield ear
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def heard_bus(bus: EventBus) -> AsyncIterator[EventBus]:
    """The event bus while what is published on it provably arrives."""
    async with listening(bus):
        yield bus


async def test_a_subscriber_hears_what_is_said(bus: EventBus) -> None:
    said = [event(EventName.CREATED, priority=5), event(EventName.CLAIMED, worker="w"), event(ms=12.5)]
    async with listening(bus) as ear:
        await bus.publish(said)
        await ear.until_heard(said[-1])
    assert ear.events == said


async def test_every_subscriber_hears_it(bus: EventBus) -> None:
    said = event()
    async with listening(bus) as first, listening(bus) as second:
        await bus.publish([said])
        await first.until_heard(said)
        await second.until_heard(said)
    assert said in first.events
    assert said in second.events


async def test_the_messages_of_a_queue_are_numbered(bus: EventBus) -> None:
    said = [event() for _ in range(5)]
    async with listening(bus) as ear:
        for one in said:
            await bus.publish([one])
        await ear.until_heard(said[-1])
    mine = [batch for batch in ear.batches if batch.queue == "a"]
    assert [one.id for batch in mine for one in batch.events] == [one.id for one in said]
    assert len({batch.generation for batch in mine}) == 1
    numbers = [batch.number for batch in mine]
    assert numbers == list(range(numbers[0], numbers[0] + len(mine)))
    assert not any(batch.gap for batch in mine)


async def test_queues_have_their_own_messages(bus: EventBus) -> None:
    said = [event(queue="a"), event(queue="b"), event(queue="a")]
    async with listening(bus) as ear:
        await bus.publish(said)
        await ear.until_heard(said[1])
        await ear.until_heard(said[2])
    for batch in ear.batches:
        assert {one.queue for one in batch.events} <= {batch.queue}
    assert sorted(one.id for one in ear.events) == sorted(one.id for one in said)


async def test_many_events_arrive_or_are_missed_aloud(bus: EventBus) -> None:
    said = [event(priority=number) for number in range(5000)]
    async with listening(bus) as ear:
        await bus.publish(said)
        await asyncio.sleep(0)
        last = event()
        await ear.until_heard(last, bus)
    heard = {one.id for one in ear.events}
    lost = [one for one in said if one.id not in heard]
    assert not lost or any(batch.gap for batch in ear.batches)


async def test_hostile_text_is_carried(bus: EventBus) -> None:
    text = "🦀 \u202e \x1b[31m ' \" {} \\ \n NULL"
    said = event(EventName.FAILED, queue="ü a", error=text)
    async with listening(bus) as ear:
        await bus.publish([said])
        await ear.until_heard(said)
    assert ear.events == [said]


async def test_saying_nothing(bus: EventBus) -> None:
    await bus.publish([])


@pytest.mark.parametrize("name", [EventName.COMPLETED, EventName.DEAD, EventName.CANCELLED])
async def test_who_waits_for_a_job_is_told_of_its_end(heard_bus: EventBus, name: EventName) -> None:
    end = event(name)
    async with heard_bus.watch("a", end.id) as wait:
        waiting = asyncio.ensure_future(wait(PATIENCE))
        await heard_bus.publish([event(name), end])
        assert await waiting


async def test_also_of_an_end_before_the_wait_began(heard_bus: EventBus) -> None:
    end = event()
    async with heard_bus.watch("a", end.id) as wait:
        await heard_bus.publish([end])
        assert await wait(PATIENCE)


async def test_other_jobs_and_other_events_do_not_tell(heard_bus: EventBus) -> None:
    job = event(EventName.RETRYING)
    async with heard_bus.watch("a", job.id) as wait:
        await heard_bus.publish([job, job._replace(event=EventName.PROGRESS), event(), event(queue="b")])
        start = time.monotonic()
        assert not await wait(0.05)
        assert time.monotonic() - start >= 0.04


async def test_an_end_is_told_once(heard_bus: EventBus) -> None:
    """Who reads the store and finds the job unfinished waits again, without turning in a circle."""
    end = event(EventName.CANCELLED)
    async with heard_bus.watch("a", end.id) as wait:
        await heard_bus.publish([end])
        assert await wait(PATIENCE)
        assert not await wait(0.1)


async def test_many_wait_for_the_same_and_for_others(heard_bus: EventBus) -> None:
    ends = [event() for _ in range(10)]

    async def told(end: Event) -> bool:
        async with heard_bus.watch("a", end.id) as wait:
            inside.release()
            return await wait(PATIENCE)

    inside = asyncio.Semaphore(0)
    waiting = [asyncio.create_task(told(end)) for end in ends for _ in range(2)]
    for _ in waiting:
        await inside.acquire()
    await heard_bus.publish(ends)
    assert all(await asyncio.gather(*waiting))


async def test_long_lists_have_events_where_somebody_listens(mode_settings: JobsSettings, bus: EventBus) -> None:
    other = open_backend(mode_settings)
    # What is in memory is in one process.
    async with listening(bus if other.store.name == "memory" else other.bus):
        await until_told(bus, omits=False)
    await other.close()


async def test_what_long_lists_leave_out_nobody_listens_to_or_it_shows_as_a_gap(bus: EventBus) -> None:
    async with listening(bus) as ear:
        await bus.publish([event()])
        sent = 0
        while sent < 100 and not await bus.omits({"a"}):
            sent += 1
            await bus.publish([event()])
        await ear.until_heard(event(), bus)
    assert sent == 100 or any(batch.gap for batch in ear.batches)


async def test_what_is_left_out_shows_as_a_gap_also_if_nothing_follows(bus: EventBus, speaker: EventBus) -> None:
    async with listening(bus) as ear:
        await ear.until_heard(event(), speaker)
        ear.batches.clear()
        speaker.report_gap({"a"})
        await ear.until_gap("a")


async def test_a_gap_shows_also_to_those_who_have_heard_nothing_of_the_queue(bus: EventBus, speaker: EventBus) -> None:
    async with listening(bus) as ear:
        await ear.until_heard(event(EventName.QUEUE, "probe"), speaker)
        speaker.report_gap({"a"})
        await speaker.publish([event()])
        await ear.until_gap("a")


async def test_what_the_last_second_of_a_process_leaves_out_shows_as_a_gap(bus: EventBus, speaker: EventBus) -> None:
    """In PostgreSQL, whose messages of that second are used up."""
    if speaker is bus:
        pytest.skip("what is in memory is in one process")
    async with listening(bus) as ear:
        await ear.until_heard(event(), speaker)
        ear.batches.clear()
        said = [event() for _ in range(100)]
        for one in said:
            await speaker.publish([one])
        lost = await speaker.omits({"a"})
        await speaker.close()
        if lost:
            await ear.until_gap("a")
        else:
            await ear.until_heard(said[-1])


async def test_an_event_that_is_too_long_for_a_message_shows_as_a_gap(bus: EventBus) -> None:
    """In PostgreSQL, which takes 8,000 bytes."""
    name = "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 200
    said = [event(EventName.FAILED, name, error="\x01" * 900) for _ in range(10)]
    said += [event(EventName.FAILED, name, error="\x01" * 4000), event(queue=name)]
    async with listening(bus) as ear:
        await bus.publish(said)
        await ear.until_heard(said[-1])
        heard = {one.id for one in ear.events}
        if lost := [one for one in said if one.id not in heard]:
            await ear.until_gap(name)
            assert lost == [said[-2]]


async def test_the_end_of_a_burst_that_is_left_out_shows_as_a_gap(bus: EventBus) -> None:
    """In PostgreSQL, which has room for some messages in a second."""
    async with listening(bus) as ear:
        said = [event() for _ in range(100)]
        for one in said:
            await bus.publish([one])
        if await bus.omits({"a"}):
            await ear.until_gap("a")
        else:
            await ear.until_heard(said[-1])


async def until_told(bus: EventBus, omits: bool) -> None:
    """Wait until a bus would leave out long lists, or not: some ask once a second."""
    async with asyncio.timeout(PATIENCE):
        while await bus.omits({"a"}) != omits:  # noqa: ASYNC110 - nothing notifies of that
            await asyncio.sleep(0.1)
