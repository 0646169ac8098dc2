"""One connection for many callers: answers go to who asked, and nobody waits for a caller that gave up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
import redis
import uvloop
from redis.asyncio import Redis

from queue_core.model.settings import RedisSettings
from queue_core.redis import pipeline
from queue_core.redis.client import make_pipelined, make_thread_client
from queue_core.redis.pipeline import PipelinedConnection
from tests.waiting import eventually

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
PING = [("PING",)]


@pytest.fixture
async def pipelined(settings: RedisSettings) -> AsyncIterator[PipelinedConnection]:
    connection = make_pipelined(settings)
    yield connection
    await connection.close()


async def number_of(pipelined: PipelinedConnection) -> int:
    (number,) = await pipelined.execute([("CLIENT", "ID")])
    return int(number)


async def reads(client: Redis) -> int:
    return int((await client.info("stats"))["total_reads_processed"])


async def test_callers_share_a_send(pipelined: PipelinedConnection, client: Redis, redis_prefix: str) -> None:
    await pipelined.execute(PING)
    before = await reads(client)
    answers = await asyncio.gather(*(pipelined.execute([("ECHO", f"{n}"), ("ECHO", f"{n}")]) for n in range(10)))
    assert answers == [[f"{n}", f"{n}"] for n in range(10)]
    # The other one read the question itself.
    assert await reads(client) - before == 2


async def test_an_error_is_the_answer_of_its_command_alone(pipelined: PipelinedConnection, redis_prefix: str) -> None:
    key = f"{redis_prefix}list"
    answers = await pipelined.execute([("RPUSH", key, "x"), ("GET", key), ("EVALSHA", "0" * 40, 0), ("LLEN", key)])
    assert answers[0] == answers[3] == 1
    assert isinstance(answers[1], redis.ResponseError)
    assert str(answers[1]).startswith("WRONGTYPE")
    assert isinstance(answers[2], redis.exceptions.NoScriptError)


async def test_a_caller_that_gives_up_disturbs_nobody(
    pipelined: PipelinedConnection, client: Redis, redis_prefix: str
) -> None:
    first = await number_of(pipelined)
    hanging = asyncio.create_task(pipelined.execute([("BLPOP", f"{redis_prefix}list", 0)]))
    behind = asyncio.create_task(pipelined.execute([("ECHO", "behind")]))
    assert await eventually(lambda: blocked(client, first))
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    # Later commands need not wait for the one that hangs, those before keep their place behind it.
    assert await pipelined.execute([("ECHO", "later")]) == ["later"]
    assert not behind.done()
    await client.rpush(f"{redis_prefix}list", "x")
    assert await behind == ["behind"]
    assert await number_of(pipelined) != first
    # The one that was given up is closed as soon as nobody waits for it.
    assert await eventually(lambda: closed(client, first))


async def blocked(client: Redis, number: int) -> bool:
    return any(int(one["id"]) == number and "b" in one["flags"] for one in await client.client_list())


async def closed(client: Redis, number: int) -> bool:
    return all(int(one["id"]) != number for one in await client.client_list())


async def test_who_waits_learns_that_the_connection_is_lost(
    pipelined: PipelinedConnection, client: Redis, redis_prefix: str
) -> None:
    number = await number_of(pipelined)
    waiting = [asyncio.create_task(pipelined.execute([("BLPOP", f"{redis_prefix}list", 0)])) for _ in range(3)]
    assert await eventually(lambda: blocked(client, number))
    await client.client_kill_filter(_id=str(number))
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in found] == [redis.ConnectionError] * 3
    assert await pipelined.execute(PING) == ["PONG"]


@pytest.mark.parametrize("loop", LOOPS)
def test_an_idle_connection_that_was_closed_is_replaced(loop: str, settings: RedisSettings) -> None:
    async def work() -> None:
        pipelined = make_pipelined(settings)
        async with Redis.from_url(settings.url.get_secret_value() if settings.url else "") as client:
            number = await number_of(pipelined)
            await client.client_kill_filter(_id=str(number))
            assert await eventually(lambda: closed(client, number))
            assert await number_of(pipelined) != number
        await pipelined.close()
        # Closed for good is not: as with a client, the next command connects.
        assert await pipelined.execute(PING) == ["PONG"]
        await pipelined.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(work())


async def test_a_connection_with_something_unasked_for_is_closed(
    pipelined: PipelinedConnection, client: Redis, settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server that has just answered is taken for one that is there.
    monkeypatch.setattr(pipeline, "CHECKED_SECONDS", 0.0)
    number = await number_of(pipelined)
    command = ("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", settings.prefix)
    _, tracking = await pipelined.execute([("HELLO", 3), command])
    if isinstance(tracking, redis.ResponseError):
        pytest.skip("only what is spoken from Redis 6 on knows messages that nobody has asked for")
    with make_thread_client(settings) as other:
        # Without a turn of the event loop: it is still in the socket. The second answer is sent after it.
        other.set(f"{settings.prefix}key", 1)
        other.ping()
    assert await number_of(pipelined) != number
    assert await eventually(lambda: closed(client, number))


async def test_a_server_that_cannot_be_reached(settings: RedisSettings) -> None:
    nowhere = settings.model_validate({"url": "redis://127.0.0.1:1/0", "prefix": settings.prefix})
    pipelined = make_pipelined(nowhere)
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            await pipelined.execute(PING)
    await pipelined.close()


async def test_closing_fails_who_waits(pipelined: PipelinedConnection, client: Redis, redis_prefix: str) -> None:
    number = await number_of(pipelined)
    waiting: Awaitable[object] = asyncio.ensure_future(pipelined.execute([("BLPOP", f"{redis_prefix}list", 0)]))
    assert await eventually(lambda: blocked(client, number))
    await pipelined.close()
    with pytest.raises(redis.ConnectionError):
        await waiting
