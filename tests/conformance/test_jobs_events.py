"""What happens to one job, from its state at the start to its end, whatever is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from queue_core import JobContext, JobNotFound, JobQueue, Retry
from queue_core.client.feed import Gap, Received
from queue_core.model.events import Event, EventBatch, EventName
from tests.conformance.working import PATIENCE, subscribed, until_status, working


async def names(events: AsyncIterator[Event]) -> list[str]:
    """Read to the end; progress and states may repeat, so that each name is listed once in a row."""
    found: list[str] = []
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            name = f"state {(event.extra or {})['status']}" if event.event == "state" else event.event
            if not found or found[-1] != name:
                found.append(name)
    return found


class TestOneJob:
    async def test_from_waiting_to_its_end(self, jobs: JobQueue) -> None:
        failed = asyncio.Event()
        seen = asyncio.Event()

        @jobs.task(retry=Retry(max_retries=1, delay=0))
        async def twice(ctx: JobContext) -> int:
            await ctx.progress(40, "half")
            if not failed.is_set():
                failed.set()
                raise ValueError("no")
            await seen.wait()
            return 1

        handle = await twice.enqueue()
        found: list[Event] = []

        async def read() -> None:
            async for event in handle.events():
                found.append(event)
                if event.event == EventName.PROGRESS and failed.is_set():
                    seen.set()

        reading = asyncio.create_task(read())
        async with asyncio.timeout(PATIENCE):
            while not found:  # noqa: ASYNC110  the reading task may fail, too
                await asyncio.sleep(0.01)
            async with working(jobs):
                await reading
        assert found[0].event == "state"
        assert (found[0].extra or {})["status"] == "queued"
        assert "completed" in (found[-1].event, (found[-1].extra or {}).get("status"))
        assert {event.id for event in found} == {handle.id}
        tokens = [event.token for event in found]
        assert tokens == sorted(tokens)
        names = [event.event for event in found]
        assert "retrying" in names or "state" in names[1:], "a state takes the place of events that were lost"

    async def test_of_a_job_that_has_ended_only_its_state(self, jobs: JobQueue) -> None:
        @jobs.task
        async def quick() -> None: ...

        handle = await quick.enqueue()
        async with working(jobs):
            await handle.result(PATIENCE)
        assert await names(handle.events()) == ["state completed"]

    async def test_a_cancelled_job_ends_it(self, jobs: JobQueue) -> None:
        handle = await jobs.enqueue("nothing")
        reading = asyncio.create_task(names(handle.events()))
        await asyncio.sleep(0)
        await jobs.cancel(handle.id)
        assert (await reading)[-1] in {"state cancelled", "cancelled"}

    async def test_an_end_that_no_message_reported(self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("queue_core.client.results.MAX_READ_BACK", 0.05)
        handle = await jobs.enqueue("nothing")
        events = handle.events()
        assert (await anext(events)).event == "state"
        await jobs.backend()
        (changed,) = (await jobs._backend.operations.change("cancel", [handle.id])).ids  # without its event
        assert changed == handle.id
        assert await names(events) == ["state cancelled"]

    async def test_a_job_that_is_not_there(self, jobs: JobQueue) -> None:
        handle = await jobs.enqueue("nothing")
        handle.id = "0197b3c2-5a1e-7c88-9b3e-56e26719422c"
        with pytest.raises(JobNotFound):
            await names(handle.events())

    async def test_any_number_read_at_once(self, jobs: JobQueue) -> None:
        @jobs.task
        async def quick() -> None: ...

        handles = [await quick.enqueue() for _ in range(5)]
        reading = [asyncio.create_task(names(handle.events())) for handle in handles * 2]
        async with working(jobs):
            assert {found[-1] for found in await asyncio.gather(*reading)} <= {"completed", "state completed"}
        for handle in handles:
            await until_status(jobs, handle.id, "completed")


class _Bus:
    """A bus whose messages the test hands out."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[EventBatch] = asyncio.Queue()
        self.subscriptions = 0

    async def subscribe(self) -> AsyncIterator[EventBatch]:
        self.subscriptions += 1
        yield EventBatch("", "", 0, 0.0, (), gap=True)
        while True:
            yield await self.batches.get()

    def say(self, *ids: str, gap: bool = False) -> None:
        events = tuple(Event("created", "q", one, "t") for one in ids)
        self.batches.put_nowait(EventBatch("q", "g", 1, 0.0, events, gap))


class TestFeed:
    async def test_a_slow_reader_learns_how_much_it_lost_and_the_others_lose_nothing(self) -> None:
        from queue_core.client.feed import EventFeed

        bus = _Bus()
        feed = EventFeed(bus)  # type: ignore[arg-type]
        async with feed.reading(buffer=2) as slow, feed.reading() as quick, feed.reading(job_id="4") as one:
            bus.say("1", "2", "3", "4")
            bus.say("5")
            got = [await quick.next(PATIENCE) for _ in range(5)]
            assert [item.event.id for item in got if isinstance(item, Received)] == ["1", "2", "3", "4", "5"]
            item = await one.next(PATIENCE)
            assert isinstance(item, Received)
            assert item.event.id == "4"
            items = [await slow.next(0.0) for _ in range(4)]
            assert [item.event.id for item in items if isinstance(item, Received)] == ["1", "2"]
            assert isinstance(items[2], Gap)
            assert items[2].dropped == 3
            assert items[3] is None
            bus.say(gap=True)
            for reader in (slow, quick, one):
                item = await reader.next(PATIENCE)
                assert isinstance(item, Gap)
                assert item.dropped == 0
            assert bus.subscriptions == 1
        async with feed.reading():
            assert bus.subscriptions == 2
        await feed.close()

    async def test_readers_share_one_subscription_and_are_closed_with_it(self, jobs: JobQueue) -> None:
        heard = asyncio.Event()

        async def read() -> None:
            async with jobs.feed.reading(lambda event: event.id == "probe") as reader:
                while True:
                    if isinstance(await reader.next(PATIENCE), Received):
                        heard.set()

        reading = asyncio.create_task(read())
        await subscribed(jobs, heard)
        await jobs.close()
        with pytest.raises(Exception, match="was closed while its events were read"):
            await reading
