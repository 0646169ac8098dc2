"""Trap 16: events are numbered where they are published, and who missed one knows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from queue_core import JobQueue
from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.events import Event, EventBatch, EventName
from queue_core.model.settings import RedisSettings
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import make_pipelined
from queue_core.redis.scripts import Call

PATIENCE = 60.0


@asynccontextmanager
async def subscribed(bus: RedisEventBus) -> AsyncIterator[AsyncIterator[EventBatch]]:
    """Give a subscription that hears from now on."""
    batches = bus.subscribe()
    first = await asyncio.wait_for(anext(batches), PATIENCE)
    assert (first.gap, first.events) == (True, ()), "what was before is not known"
    yield batches
    await batches.aclose()  # type: ignore[attr-defined]


async def heard(batches: AsyncIterator[EventBatch]) -> EventBatch:
    return await asyncio.wait_for(anext(batches), PATIENCE)


def event(job_id: str = "a-job", queue: str = "work") -> Event:
    return Event(EventName.CREATED, queue, job_id, "task")


async def test_trap_16_each_queue_counts_its_messages(bus: RedisEventBus) -> None:
    async with subscribed(bus) as batches:
        for queue in ("work", "work", "mail", "work"):
            await bus.publish([event(queue=queue)])
        found = [await heard(batches) for _ in range(4)]
    assert [(batch.queue, batch.number, batch.gap) for batch in found] == [
        ("work", 1, False),
        ("work", 2, False),
        ("mail", 1, False),
        ("work", 3, False),
    ]


async def test_trap_16_many_events_are_one_message(bus: RedisEventBus) -> None:
    async with subscribed(bus) as batches:
        await bus.publish([event(str(number)) for number in range(1500)])
        first, second = await heard(batches), await heard(batches)
    assert [len(batch.events) for batch in (first, second)] == [1000, 500]
    assert [one.id for batch in (first, second) for one in batch.events] == [str(number) for number in range(1500)]
    assert (first.number, second.number) == (1, 2)


async def test_trap_16_a_lost_message_is_a_gap(bus: RedisEventBus, client: Redis, redis_prefix: str) -> None:
    async with subscribed(bus) as batches:
        await bus.publish([event()])
        assert not (await heard(batches)).gap
        # Somebody's message was numbered and never came.
        await client.incr(f"{redis_prefix}{{work}}:event_seq")
        await bus.publish([event()])
        after = await heard(batches)
        assert (after.number, after.gap) == (3, True)
        await bus.publish([event()])
        assert not (await heard(batches)).gap


async def test_trap_16_numbers_that_begin_again_are_a_gap(
    bus: RedisEventBus, dispatcher: RedisDispatcher, client: Redis, redis_prefix: str
) -> None:
    """Judged by (queue, generation, number): also where the number happens to be the next one."""
    await dispatcher.mark_current("work")
    async with subscribed(bus) as batches:
        await bus.publish([event()])
        first = await heard(batches)
        await client.delete(f"{redis_prefix}{{work}}:event_seq", f"{redis_prefix}{{work}}:generation")
        await client.incr(f"{redis_prefix}{{work}}:event_seq")
        await dispatcher.mark_current("work")
        await bus.publish([event()])
        second = await heard(batches)
    assert (first.number, second.number, second.gap) == (1, 2, True)
    assert first.generation != second.generation


async def test_trap_16_a_broken_connection_is_a_gap(bus: RedisEventBus, client: Redis) -> None:
    """The client library subscribes again in silence; what was said meanwhile is gone."""
    async with subscribed(bus) as batches:
        await bus.publish([event("before")])
        await heard(batches)
        await client.client_kill_filter(_type="pubsub")
        batch = await heard(batches)
        assert batch.gap
        while batch.gap and not batch.events:
            await bus.publish([event("after")])
            batch = await heard(batches)
        assert [one.id for one in batch.events] == ["after"]


NO_TIMES = b"null", b"NaN", b"1e999", b"-1e999", b"1e300", b"-1e14"
"""No seconds since the epoch that a calendar has."""


async def test_trap_16_rubbish_on_the_channel_is_passed_over(
    bus: RedisEventBus, client: Redis, redis_prefix: str
) -> None:
    rubbish = [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'{"v":2}',
        b'{"v":1,"queue":"q","gen":"","n":1,"at":1,"events":[[]]}',
        b'{"v":1,"queue":"q","gen":"","n":1,"at":1,"events":[1]}',
        b'{"v":1,"queue":"q","gen":"","n":1,"at":1,"events":1}',
        b'{"v":1,"queue":"q","gen":"","n":"x","at":1,"events":[]}',
        b'{"v":1,"queue":["q"],"gen":"","n":1,"at":1,"events":[]}',
        b'{"v":1,"queue":"q","gen":"","n":1,"at":1,"events":[{"event":"claimed","id":"bad","token":"x"}]}',
        *(
            b'{"v":1,"queue":"q","gen":"","n":1,"at":%b,"events":[{"event":"claimed","id":"bad"}]}' % at
            for at in NO_TIMES
        ),
        b"[" * 100_000,
    ]
    async with subscribed(bus) as batches:
        for text in rubbish:
            await client.publish(f"{redis_prefix}events", text)
        await bus.publish([event("good")])
        while not (batch := await heard(batches)).events:
            pass
    assert [one.id for one in batch.events] == ["good"]


@pytest.mark.parametrize("listens", [False, True])
async def test_a_long_list_publishes_nothing_where_nobody_listens(
    postgres_url: str, redis_url: str, redis_prefix: str, client: Redis, listens: bool
) -> None:
    async with client.pubsub() as pubsub:
        if listens:
            await pubsub.psubscribe(f"{redis_prefix}*")
            assert await pubsub.get_message(timeout=PATIENCE) is not None
        before = await published(client)
        async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
            await jobs.enqueue_many("task", [{}] * 100)
        assert (await published(client) > before) is listens


async def test_many_ends_that_are_heard_by_none_reach_those_who_wait_for_a_job_and_count_for_no_gap(
    bus: RedisEventBus, client: Redis
) -> None:
    ends = [Event(EventName.COMPLETED, "work", str(number), "task", 1, {"ms": 1.0}) for number in range(1000)]
    async with bus.watch("work", "700") as wait:
        before = await published(client)
        await bus.publish(ends)
        assert await wait(PATIENCE)
        assert await published(client) == before + 1, "the one that is waited for"
    async with subscribed(bus) as batches:
        await bus.publish(ends)
        first = await heard(batches)
        assert (first.number, first.gap, first.events) == (1, False, ends)


async def test_events_are_not_left_out_while_the_end_of_a_job_of_their_queues_is_waited_for(bus: RedisEventBus) -> None:
    assert await bus.omits({"work", "mail"})
    async with bus.watch("work", "700"):
        assert not await bus.omits({"mail", "work"})
        assert await bus.omits({"mail"})


async def test_trap_16_what_could_not_be_sent_shows_as_a_gap_when_the_server_is_there_again(
    bus: RedisEventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its subscribers may have been connected all the time, and nothing may follow."""

    async def unreachable(calls: Sequence[Call]) -> list[Any]:
        monkeypatch.undo()
        raise DispatchUnavailable

    async with subscribed(bus) as batches:
        await bus.publish([event("first")])
        assert not (await heard(batches)).gap
        monkeypatch.setattr(bus._scripts, "run_many", unreachable)
        await bus.publish([event("second")])
        found = await heard(batches)
    assert (found.queue, found.gap, found.events) == ("work", True, [])


async def published(client: Redis) -> int:
    stats = await client.info("commandstats")
    return int(stats.get("cmdstat_publish", {}).get("calls", 0))


async def test_events_are_sent_where_the_server_does_not_say_who_listens(
    settings: RedisSettings, bus: RedisEventBus, client: Redis
) -> None:
    assert await bus.omits({"a"})
    await client.execute_command("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-pubsub")
    address = settings.url.get_secret_value().replace("://", "://narrow:x@", 1)
    narrow = settings.model_copy(update={"url": SecretStr(address)})
    other = RedisEventBus(narrow, CircuitBreaker("redis"), make_pipelined(narrow))
    try:
        assert not await other.omits({"a"})
    finally:
        await other.close()
        await client.execute_command("ACL", "DELUSER", "narrow")
