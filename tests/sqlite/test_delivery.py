"""What one process does, others see: jobs that arrive or end, and events. Here two queue objects share a file."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path

import pytest

from queue_core.errors import StoreUnavailable
from queue_core.model.events import Event, EventBatch, EventName
from queue_core.queue import JobQueue
from queue_core.stores.sqlite import delivery
from queue_core.stores.sqlite.delivery import ALL_QUEUES_INTERVAL, FileWatcher
from queue_core.stores.sqlite.session import SqliteFile, Transaction
from queue_core.stores.sqlite.store import SqliteStore
from queue_core.testing import FakeClock
from tests.conformance.making import QUEUE, TYPE, new_job, outcome
from tests.conformance.working import PATIENCE, until, working
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST


@pytest.fixture
async def mine(path: Path) -> AsyncIterator[JobQueue]:
    async with JobQueue(sqlite=path) as jobs:
        yield jobs


@pytest.fixture
async def other(path: Path) -> AsyncIterator[JobQueue]:
    async with JobQueue(sqlite=path) as jobs:
        yield jobs


async def test_a_job_of_another_process_is_started_soon(mine: JobQueue, other: JobQueue) -> None:
    @mine.task
    async def now() -> float:
        return time.monotonic()

    async with working(mine):
        await (await other.enqueue("now")).result(PATIENCE)
        waits = []
        for _ in range(5):
            before = time.monotonic()
            waits.append(await (await other.enqueue("now")).result(PATIENCE) - before)
    # Neither the audit's second nor a look everywhere would be so fast.
    assert min(waits) < 0.5


async def taken(jobs: JobQueue, seconds: float) -> str | None:
    assert jobs.dispatcher is not None
    found = await jobs.dispatcher.take([QUEUE], 10, seconds)
    return None if found is None else found.queue


async def quiet(jobs: JobQueue) -> None:
    while await taken(jobs, 0.4):
        pass


@pytest.mark.parametrize("how", ["insert", "promote", "release", "reclaim", "retry", "resume"])
async def test_whatever_makes_a_job_ready_tells_the_others(mine: JobQueue, other: JobQueue, how: str) -> None:
    job = new_job(delay=0.01 if how == "promote" else 0.0)
    if how != "insert":
        await other.store.insert([job])
    claims = await other.store.claim(REQUEST._replace(lease=0.01 if how == "reclaim" else 60.0))
    if how == "retry":
        await other.store.settle([outcome(claims[0], "dead")])
    if how == "resume":
        await (await other.backend()).operations.pause(QUEUE)
    await asyncio.sleep(0.05)
    await quiet(mine)
    waiting = asyncio.create_task(taken(mine, PATIENCE))
    await asyncio.sleep(0.05)
    start = time.monotonic()
    if how == "insert":
        await other.store.insert([job])
    elif how == "promote":
        await other.store.promote(10)
    elif how == "release":
        await other.store.settle([outcome(claims[0], "released")])
    elif how == "reclaim":
        await other.store.reclaim(10)
    elif how == "retry":
        await (await other.backend()).operations.change("retry", [job.id])
    else:
        await (await other.backend()).operations.resume(QUEUE)
    assert await waiting == QUEUE
    assert time.monotonic() - start < ALL_QUEUES_INTERVAL / 2


async def test_what_others_do_to_jobs_that_are_not_ready_wakes_nobody(mine: JobQueue, other: JobQueue) -> None:
    await other.store.insert([new_job() for _ in range(5)])
    claims = await other.store.claim(REQUEST)
    await quiet(mine)
    await other.store.insert([new_job(delay=60)])
    await other.store.settle([outcome(claim, "completed") for claim in claims])
    await other.store.acquire_leadership("sweep", "w", 10)
    assert await taken(mine, 0.5) is None


async def test_a_hint_that_was_not_followed_comes_again(new_file: NewFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_core.stores.sqlite.delivery.ALL_QUEUES_INTERVAL", 0.2)
    file = new_file()
    watcher = FileWatcher(file)
    await SqliteStore(file).insert([new_job()])
    watcher.start()
    for _ in range(3):
        found = await watcher.hints.take([QUEUE], PATIENCE)
        assert found is not None
    await watcher.close()


async def test_a_result_of_another_process_is_awaited(mine: JobQueue, other: JobQueue) -> None:
    @mine.task
    async def double(n: int) -> int:
        return 2 * n

    async with working(mine):
        handles = [await other.enqueue("double", {"n": n}) for n in range(20)]
        assert await asyncio.gather(*(handle.result(PATIENCE) for handle in handles)) == [2 * n for n in range(20)]


async def test_its_end_is_told_before_the_next_read_back(mine: JobQueue, other: JobQueue) -> None:
    job = new_job()
    await other.store.insert([job])
    (claim,) = await other.store.claim(REQUEST)
    async with mine.bus.watch(QUEUE, job.id) as wait:
        assert not await wait(0.05)
        await other.store.settle([outcome(claim, "completed")])
        assert await wait(PATIENCE)


async def heard_of(batches: AsyncIterator[object], event: Event, say: JobQueue) -> Event:
    """Return the event as it arrives; said again and again, for at first nobody knows of the listener."""

    async def listen() -> Event:
        async for batch in batches:
            for one in batch.events:  # type: ignore[attr-defined]
                if one.id == event.id:
                    return one  # type: ignore[no-any-return]
        raise AssertionError("it ended")

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(PATIENCE):
        while not listening.done():
            await say.bus.publish([event])
            await asyncio.sleep(0.02)
    return await listening


async def test_events_of_another_process(mine: JobQueue, other: JobQueue) -> None:
    event = Event(EventName.COMPLETED, "ü a", new_job().id, TYPE, 7, {"ms": 12.5, "text": "🦀 \x1b ' \" {}"})
    assert await heard_of(mine.bus.subscribe(), event, other) == event


async def test_without_listeners_nothing_is_written(mine: JobQueue, other: JobQueue, new_file: NewFile) -> None:
    event = Event(EventName.COMPLETED, "a", new_job().id)
    await mine.bus.publish([event])
    await other.bus.publish([event])
    file = new_file()

    async def sent() -> int:
        rows = await file.read(lambda transaction: transaction.records("select count(*) from messages", ()))
        return int(rows[0][0])

    assert await sent() == 0
    assert await heard_of(mine.bus.subscribe(), event, other) == event
    assert await sent() > 0


async def test_its_own_events_are_heard_once(mine: JobQueue, other: JobQueue) -> None:
    warm = Event(EventName.COMPLETED, "a", new_job().id)
    theirs, own = other.bus.subscribe(), mine.bus.subscribe()
    await heard_of(theirs, warm, mine)  # from now on mine writes, for the other listens
    event = Event(EventName.DEAD, "a", new_job().id)
    last = Event(EventName.CANCELLED, "a", new_job().id)
    await mine.bus.publish([event])
    await asyncio.sleep(0.5)
    await mine.bus.publish([last])
    seen = []
    async with asyncio.timeout(PATIENCE):
        async for batch in own:
            seen += [one.id for one in batch.events]
            if last.id in seen:
                break
    assert seen.count(event.id) == 1


async def test_who_is_too_far_behind_is_told_of_a_gap(
    mine: JobQueue, other: JobQueue, new_file: NewFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_MESSAGES_KEPT", 3)
    batches = mine.bus.subscribe()
    await heard_of(batches, Event(EventName.COMPLETED, "a", new_job().id), other)
    file = new_file()

    def flood(transaction: Transaction) -> None:
        delivery.notify(transaction, "somebody", [message(n) for n in range(50)])

    await file.write(flood)
    numbers = []
    async with asyncio.timeout(PATIENCE):
        async for batch in batches:
            if batch.generation == "x":
                numbers.append(batch.number)
                if batch.number == 49:
                    break
            elif batch.gap:
                numbers.append(-1)
    assert numbers[-3:] == [47, 48, 49]
    assert -1 in numbers[:-3]


def message(number: int, who: str = "x") -> str:
    """Return a message of a process, with an event."""
    body = {"v": 1, "queue": "a", "gen": who, "n": number, "at": 1.0}
    return json.dumps(body | {"events": [Event(EventName.COMPLETED, "a", f"job {number}").body()]})


async def numbers_of(batches: AsyncIterator[EventBatch], last: int) -> list[tuple[int, bool]]:
    """Return the numbers of the messages of process x, up to the last one, each with whether there is a gap before."""
    numbers = []
    async with asyncio.timeout(PATIENCE):
        async for batch in batches:
            if batch.generation == "x":
                numbers.append((batch.number, batch.gap))
                if batch.number == last:
                    break
    return numbers


async def test_more_than_one_read_of_messages_is_read_on_at_once(
    mine: JobQueue, other: JobQueue, new_file: NewFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although nothing is written any more."""
    monkeypatch.setattr(delivery, "MESSAGES_PER_READ", 4)
    for name in ("ALL_QUEUES_INTERVAL", "LISTENER_RENEWAL"):  # it has no other reason to look again
        monkeypatch.setattr(delivery, name, inf)
    batches = mine.bus.subscribe()
    await heard_of(batches, Event(EventName.COMPLETED, "a", new_job().id), other)
    await other.close()

    def tell(transaction: Transaction) -> None:
        delivery.notify(transaction, "somebody", [message(number) for number in range(1, 15)])

    await new_file().write(tell)
    assert await numbers_of(batches, 14) == [(number, False) for number in range(1, 15)]


async def test_a_number_that_is_missing_is_a_gap(mine: JobQueue, other: JobQueue, new_file: NewFile) -> None:
    """What a process could not write shows so to all others."""
    batches = mine.bus.subscribe()
    await heard_of(batches, Event(EventName.COMPLETED, "a", new_job().id), other)

    def tell(transaction: Transaction) -> None:
        delivery.notify(transaction, "somebody", [message(1), message(2), message(1, "y"), message(4), message(5)])

    await new_file().write(tell)
    assert await numbers_of(batches, 5) == [(1, False), (2, False), (4, True), (5, False)]


async def test_who_listens_is_not_forgotten(new_file: NewFile) -> None:
    """Else nobody writes events for it, until it says again that it listens."""
    file = new_file()
    await file.write(lambda transaction: delivery.register(transaction, "somebody"))
    await SqliteStore(file).upkeep()
    assert await file.read(lambda transaction: delivery.heard(transaction, "me"))
    assert not await file.read(lambda transaction: delivery.heard(transaction, "somebody"))


async def test_messages_and_listeners_go(new_file: NewFile, path: Path) -> None:
    clock = FakeClock()
    file: SqliteFile = new_file(clock=clock)

    def tell(transaction: object) -> None:
        delivery.register(transaction, "somebody")  # type: ignore[arg-type]
        delivery.notify(transaction, "somebody", ["a message"])  # type: ignore[arg-type]

    await file.write(tell)
    clock.advance(100)
    await SqliteStore(file).upkeep()
    for table in ("messages", "listeners"):
        rows = await file.read(lambda transaction: transaction.records(f"select count(*) from {table}", ()))  # noqa: B023
        assert rows[0][0] == 0


def remove(path: Path) -> None:
    for file in path.parent.glob("jobs.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


async def test_what_is_not_seen_for_a_while_is_seen_later(path: Path, mine: JobQueue, other: JobQueue) -> None:
    """The watcher lives through errors of the file."""
    await other.store.insert([new_job()])
    await quiet(mine)
    await other.close()
    remove(path)
    path.joinpath("in the way").mkdir(parents=True)
    await asyncio.sleep(0.3)
    remove(path)
    async with JobQueue(sqlite=path) as again:
        await again.store.insert([new_job()])
        await until(lambda: taken(mine, 0.2))


async def test_what_could_not_be_written_shows_as_a_gap_also_if_nothing_follows(
    mine: JobQueue, other: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = mine.bus.subscribe()
    await heard_of(batches, Event(EventName.COMPLETED, "a", new_job().id), other)

    async def locked(self: SqliteFile, work: object) -> None:
        monkeypatch.undo()
        raise StoreUnavailable("sqlite", "the file stayed locked")

    monkeypatch.setattr(SqliteFile, "write_soft", locked)
    lost = Event(EventName.COMPLETED, "a", new_job().id)
    await other.bus.publish([lost])
    async with asyncio.timeout(PATIENCE):
        async for batch in batches:
            assert lost not in batch.events
            if batch.gap and batch.queue == "a":
                return
