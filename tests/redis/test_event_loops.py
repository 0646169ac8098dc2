"""What is a lost server: a connection that was cut, on each event loop, and not a loop that was held up."""

from __future__ import annotations

import asyncio
import time

import pytest
import redis
import uvloop

from queue_core.model.settings import RedisSettings
from queue_core.ports.delivery import DispatchUnavailable
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import LATE_SECONDS, make_client, within

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_command_on_a_connection_that_was_cut_meets_a_lost_server(loop: str, settings: RedisSettings) -> None:
    async def work() -> None:
        client = make_client(settings)
        connection = client.connection_pool.make_connection()
        await connection.connect()
        # As after a reset of the peer, between the pool's look at a connection and the command.
        connection._writer.transport.abort()
        await asyncio.sleep(0)
        with pytest.raises(redis.ConnectionError):
            await connection.send_command("PING")
        await connection.disconnect()
        assert await client.ping()
        await client.aclose(close_connection_pool=True)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(work())


@pytest.mark.parametrize("seconds", [0.0, LATE_SECONDS + 0.5])
async def test_a_loop_that_was_held_up_is_no_loss_of_redis(seconds: float) -> None:
    """The answer came long ago: a handler that blocks had the log say that Redis was lost, and back at once."""
    circuit = CircuitBreaker("redis")

    async def call() -> None:
        async with within(0.01, circuit):
            time.sleep(seconds)  # noqa: ASYNC251 - what such a handler does
            await asyncio.Event().wait()

    with pytest.raises(DispatchUnavailable):
        await call()
    assert (circuit.lost_since is None) == (seconds > LATE_SECONDS)
