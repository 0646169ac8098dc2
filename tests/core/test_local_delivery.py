"""Events within one process: a slow subscriber is told of its gap, one that goes is forgotten."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from queue_core.delivery import audit
from queue_core.delivery.audit import DeliveryAudit
from queue_core.delivery.local import LocalDispatcher, LocalEventBus, QueueHints
from queue_core.model.events import Event, EventBatch, EventName
from queue_core.model.job import NewJob, Ready, new_id
from queue_core.runtime import SystemClock
from queue_core.stores.memory.store import MemoryStore
from tests.redis.conftest import announce


def event(number: int) -> Event:
    return Event(EventName.PROGRESS, "work", f"job-{number}")


async def read(batches: AsyncIterator[EventBatch], count: int) -> list[EventBatch]:
    async with asyncio.timeout(10):
        return [await anext(batches) for _ in range(count)]


async def test_a_subscription_begins_with_a_gap() -> None:
    bus = LocalEventBus()
    await bus.publish([event(0)])
    batches = bus.subscribe()
    await bus.publish([event(1)])
    first, second = await read(batches, 2)
    assert (first.events, first.gap) == ((), True)
    assert (second.events, second.gap, second.number) == ((event(1),), False, 2)


async def test_a_slow_subscriber_is_told_that_it_missed_some() -> None:
    bus = LocalEventBus(buffer=4)
    slow, quick = bus.subscribe(), bus.subscribe()
    heard = await read(quick, 1)
    for number in range(10):
        await bus.publish([event(number)])
        heard += await read(quick, 1)
    assert [batch.gap for batch in heard] == [True] + [False] * 10
    assert [batch.events for batch in await read(slow, 4)][1:] == [(event(0),), (event(1),), (event(2),)]
    await bus.publish([event(10)])
    (late,) = await read(slow, 1)
    assert (late.events, late.gap) == ((event(10),), True)
    await bus.publish([event(11)])
    assert not (await read(slow, 1))[0].gap


async def test_a_slow_subscriber_is_told_also_if_nothing_follows() -> None:
    bus = LocalEventBus(buffer=2)
    slow = bus.subscribe()
    for number in range(3):
        await bus.publish([event(number)])
    assert [(batch.events, batch.gap) for batch in await read(slow, 3)][1:] == [((event(0),), False), ((), True)]


async def test_a_subscriber_that_goes_leaves_nothing_behind() -> None:
    bus = LocalEventBus()
    batches = bus.subscribe()
    await read(batches, 1)
    assert len(bus._mailboxes) == 1
    del batches
    gc.collect()
    for _ in range(3):
        await asyncio.sleep(0)  # the loop ends what was being read
    assert len(bus._mailboxes) == 0


async def test_who_watched_leaves_nothing_behind() -> None:
    bus = LocalEventBus()
    async with bus.watch("work", "job-1") as first, bus.watch("work", "job-1"):
        assert not await first(0.01)
    assert bus._watching == {}


async def test_a_hint_is_taken_that_comes_in_the_round_of_the_loop_in_which_the_wait_ends() -> None:
    hints = QueueHints()
    await hints.take(["work"], 0.01)  # a new queue is looked at once
    waiting = asyncio.create_task(hints.take(["work"], 0.02))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, hints.hint, ["work"])
    time.sleep(0.05)  # noqa: ASYNC251  both timers are due
    taken = await waiting or await hints.take(["work"], 0.01)
    assert taken is not None, "nothing else would name the queue"


async def test_as_many_waiters_are_woken_as_jobs_were_offered() -> None:
    dispatcher = LocalDispatcher()
    await dispatcher.take(["work"], 1, 0.01)  # a new queue is looked at once
    waiting = [asyncio.create_task(dispatcher.take(["work"], 1, 10)) for _ in range(5)]
    await asyncio.sleep(0)
    await dispatcher.offer([Ready(f"job-{number}", "work", number) for number in range(3)])
    done, sleeping = await asyncio.wait(waiting, timeout=0.1)
    assert (len(done), len(sleeping)) == (3, 2)
    assert done == set(waiting[:3])
    await dispatcher.offer([Ready("job-4", "work", 4), Ready("job-5", "work", 5)])
    assert all(taken is not None for taken in await asyncio.gather(*sleeping))


async def test_an_audit_reads_no_more_than_the_first_jobs_where_the_dispatcher_holds_no_ids() -> None:
    """There is nothing that it could lack."""
    store, asked = MemoryStore(SystemClock()), []
    await store.insert([NewJob(new_id(), "work", "task", "{}") for _ in range(30)])
    read = store.list_claimable_in

    async def noted(queues: Sequence[str], limit: int) -> list[Ready]:
        asked.append(limit)
        return await read(queues, limit)

    store.list_claimable_in = noted  # type: ignore[method-assign]
    announce(store, "task", queues=("work",))
    assert await DeliveryAudit(store, LocalDispatcher()).run_once() == 1
    assert set(asked) == {1}


async def test_a_rebuild_ends_while_jobs_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives behind the last of its pages is offered by its producers."""
    monkeypatch.setattr(audit, "PAGE_JOBS", 10)
    store, dispatcher, offered = MemoryStore(SystemClock()), LocalDispatcher(), list[list[str]]()
    jobs = [NewJob(new_id(), "work", "task", "{}") for _ in range(25)]
    await store.insert(jobs)

    async def missing(heads: Sequence[Ready]) -> list[Ready]:
        assert len(offered) < 3, "one page for each job that has arrived meanwhile"
        offered.append([one.id for one in heads])
        await store.insert([NewJob(new_id(), "work", "task", "{}")])
        return list(heads)

    monkeypatch.setattr(dispatcher, "missing", missing)
    await DeliveryAudit(store, dispatcher).rebuild("work")
    assert [len(page) for page in offered] == [10, 10, 7]
    assert [one for page in offered for one in page][:25] == [job.id for job in jobs]


async def test_a_hint_that_a_cancelled_look_was_given_is_not_lost() -> None:
    """It was cancelled in the round of the event loop in which the hint came."""
    hints = QueueHints()
    assert hints.pick(["work"]) == "work"
    looking = asyncio.create_task(hints.take(["work"], 60.0))
    await asyncio.sleep(0)
    hints.hint(["work"])
    looking.cancel()
    await asyncio.wait([looking])
    assert looking.cancelled()
    assert hints.pick(["work"]) == "work"
