"""Offers that ride on the notification before them are told of at the end of its time, not a whole one later.

The workers of the process that offers do not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from queue_core import JobQueue, Worker
from queue_core.errors import StoreUnavailable
from queue_core.model.events import Event, EventName
from queue_core.model.job import Ready
from queue_core.model.settings import PostgresSettings
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.stores.postgres.delivery import dispatcher as delivery
from queue_core.stores.postgres.delivery.dispatcher import PostgresDispatcher
from queue_core.stores.postgres.delivery.events import PostgresEventBus
from queue_core.stores.postgres.scans.ranks import read
from queue_core.stores.postgres.session.listening import Notifications
from tests.conformance.making import new_job


async def test_a_late_offer_waits_for_what_is_left_of_the_moment(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else offers that come a little slower than the moment are late by a whole one, each of them."""
    monkeypatch.setattr(delivery, "GATHER_SECONDS", 100.0)
    settings = PostgresSettings(url=postgres_url)
    dispatcher, other = PostgresDispatcher(settings), PostgresDispatcher(settings)
    while await other.take(["a", "b"], 10, 0.5):
        pass
    dispatcher._notified_at |= {"a": time.monotonic() - 99.5, "b": time.monotonic() - 60}
    await dispatcher.offer([Ready(new_job().id, queue, 1) for queue in ("b", "a")])
    async with asyncio.timeout(50):
        taken = await other.take(["a", "b"], 10, 50)
    assert taken is not None
    assert taken.queue == "a"
    assert dispatcher._late == {"b"}
    assert dispatcher._late_task is not None
    dispatcher._late_task.cancel()
    await dispatcher.close()
    await other.close()


async def test_a_worker_of_the_process_that_offers_does_not_wait(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "GATHER_SECONDS", 100.0)
    dispatcher = PostgresDispatcher(PostgresSettings(url=postgres_url))
    while await dispatcher.take(["a"], 10, 0.5):
        pass
    dispatcher._notified_at["a"] = time.monotonic()
    taking = asyncio.create_task(dispatcher.take(["a"], 10, 90))
    await asyncio.sleep(0)
    await dispatcher.offer([Ready(new_job().id, "a", 1)])
    async with asyncio.timeout(50):
        taken = await taking
    assert taken is not None
    assert taken.queue == "a"
    assert dispatcher._late == {"a"}
    assert dispatcher._late_task is not None
    dispatcher._late_task.cancel()
    await dispatcher.close()


async def test_ranks_that_could_not_be_named_are_named_with_the_next_offer(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims leave out what they have passed, and nothing else names what came back to such a place."""
    dispatcher, listening = PostgresDispatcher(PostgresSettings(url=postgres_url)), asyncio.Event()
    other, heard = Notifications(PostgresSettings(url=postgres_url)), list[str]()

    def hear(message: str) -> None:
        heard.append(message)
        listening.set()

    other.on("ranks", hear)
    await other.wait_until_listening(50)
    notify = dispatcher._notifications.notify_each

    async def fail(messages: Sequence[tuple[str, str]]) -> None:
        raise StoreUnavailable("postgres", "away")

    monkeypatch.setattr(dispatcher._notifications, "notify_each", fail)
    with pytest.raises(DispatchUnavailable):
        await dispatcher.offer([Ready(new_job().id, "a", rank) for rank in (900_000, 7)])
    monkeypatch.setattr(dispatcher._notifications, "notify_each", notify)
    dispatcher._notified_at.clear()
    await dispatcher.offer([Ready(new_job().id, "a", 400_000)])
    async with asyncio.timeout(50):
        await listening.wait()
    assert [read(message) for message in heard] == [("a", [(6, 7), (399_999, 400_000)])]
    await dispatcher.close()
    await other.close()


async def test_the_jobs_of_one_ordering_key_do_not_start_that_far_apart(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each becomes ready when the one before it is settled, in the same worker, offered or handed over."""
    monkeypatch.setattr(delivery, "GATHER_SECONDS", 100.0)
    ran: list[int] = []
    ended = asyncio.Event()
    async with JobQueue(postgres=postgres_url) as jobs:

        @jobs.task
        async def step(number: int) -> None:
            ran.append(number)
            if len(ran) == 8:
                ended.set()

        for number in range(8):
            await jobs.enqueue(step.name, {"number": number}, ordering_key="k")
        worker = Worker(jobs)
        working = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            await ended.wait()
        worker.stop()
        await working
        dispatcher = jobs.dispatcher
        assert isinstance(dispatcher, PostgresDispatcher)
        if dispatcher._late_task is not None:
            dispatcher._late_task.cancel()
    assert ran == list(range(8))


async def test_offers_and_events_of_new_jobs_wake_those_who_listen_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of jobs enqueued one after the other many share a notification."""
    settings = PostgresSettings(url=postgres_url)
    notifications, sent = Notifications(settings), []

    async def notify_each(messages: Sequence[tuple[str, str]]) -> None:
        sent.append([channel for channel, _ in messages])

    monkeypatch.setattr(notifications, "notify_each", notify_each)
    dispatcher = PostgresDispatcher(settings, notifications, PostgresEventBus(settings, notifications))
    first, second, third = (Ready(new_job().id, "a", rank) for rank in (1, 2, 3))
    created = {job: Event(EventName.CREATED, "a", job.id) for job in (first, second, third)}
    await dispatcher.announce([first], [created[first]])
    assert sent == [["ready", "events"]]
    await dispatcher.announce([second], [created[second]])
    await dispatcher.announce([third], [created[third]])
    assert len(sent) == 1
    assert dispatcher._late_task is not None
    await dispatcher._late_task
    assert sent[1:] == [["ready", "events"]]
    await dispatcher.announce([], [])
    await dispatcher.announce([], [created[first]])
    assert sent[2:] == [["events"]]
    await dispatcher.close()
