"""A connection that was cut is a lost server on each event loop: uvloop calls its use an error in the program."""

from __future__ import annotations

import asyncio

import pytest
import redis
import uvloop

from queue_core.model.settings import RedisSettings
from queue_core.redis.client import make_client

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
