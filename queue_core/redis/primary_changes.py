"""Connections to a primary that has a successor are closed as soon as Sentinels announce it, or one leads to that.

A primary that is demoted as planned (`SENTINEL FAILOVER`) takes commands for another 10 s, until Sentinels make a
replica of it; so does one that was frozen and continues. What it accepts by then is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

import redis
from redis.asyncio.connection import AbstractConnection

from queue_core.model.addresses import Host

logger = logging.getLogger("queue_core.delivery")

CHANNEL = "+switch-master"
PROBE_AFTER = 5.0
"""Seconds without a message after which it is made sure that the Sentinel is there, and whether it is needed."""
FIRST_PAUSE, MAX_PAUSE = 0.2, 5.0
"""Seconds until the next Sentinel is listened to after one was lost, doubling."""


class PrimaryChanges:
    """Listens to one Sentinel at a time for the next primary, as long as an event loop has connections to this one."""

    def __init__(
        self,
        name: str,
        connect_to: Callable[[int], AbstractConnection],
        find: Callable[[], Awaitable[Host]],
        moved: Callable[[Host, Host], None],
    ) -> None:
        self._name = name
        # returns a connection to a Sentinel, of a number that counts up
        self._connect_to = connect_to
        self._find = find
        # gets the address of a primary, and that of its successor
        self._moved = moved
        self._open: WeakKeyDictionary[asyncio.StreamWriter, Host] = WeakKeyDictionary()
        # of those that have shown that they lead to a primary: which one
        self._primaries: WeakKeyDictionary[asyncio.StreamWriter, str] = WeakKeyDictionary()
        self._last = ""
        # how often the primary was another one than before
        self.era = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, writer: asyncio.StreamWriter, host: Host) -> None:
        """Look after a connection until it is closed."""
        self._open[writer] = host
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def note_primary(self, writer: asyncio.StreamWriter, primary: str) -> None:
        """Note which primary a connection leads to; those to another one are closed, and what they wrote is doubtful.

        The name of a primary is another one after each promotion and each restart.
        """
        self._primaries[writer] = primary
        if primary == self._last:
            return
        if self._last:
            self.era += 1
        self._last = primary
        for other, its in list(self._primaries.items()):
            if its != primary and not other.transport.is_closing():
                other.transport.abort()

    def close_connections(self) -> None:
        """Close all connections: they lead to a server that is no primary any more."""
        for writer in list(self._open):
            if not writer.transport.is_closing():
                writer.transport.abort()

    def stop(self) -> None:
        """Stop listening, unless there are connections."""
        if self._task is not None and not self._is_needed():
            self._task.cancel()
            self._task = None

    def _is_needed(self) -> bool:
        return any(not writer.transport.is_closing() for writer in list(self._open))

    async def _run(self) -> None:
        pause, number = FIRST_PAUSE, 0
        try:
            while self._is_needed():
                try:
                    await self._listen(number)
                    pause = FIRST_PAUSE
                except (redis.RedisError, OSError, TimeoutError) as error:
                    logger.debug("announcements of Sentinels are interrupted: %s", error)
                    await asyncio.sleep(pause)
                    pause = min(MAX_PAUSE, pause * 2)
                number += 1
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    async def _listen(self, number: int) -> None:
        """Listen to a Sentinel until it is lost, or no connection is left."""
        connection = self._connect_to(number)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command("SUBSCRIBE", CHANNEL, check_health=False)
            await connection.read_response()
            self._follow(await self._find())  # what was not heard until now
            while self._is_needed():
                message = await connection.read_response(timeout=PROBE_AFTER)
                if message is None:
                    await connection.send_command("PING", check_health=False)
                    message = await connection.read_response(timeout=PROBE_AFTER)
                    if message is None:
                        raise redis.ConnectionError("no answer in time")
                self._take(message)
        finally:
            await connection.disconnect(nowait=True)

    def _take(self, message: Any) -> None:
        if message[0] == "message":
            name, _, _, host, port = str(message[2]).split(" ")
            if name == self._name:
                self._follow((host, int(port)))

    def _follow(self, primary: Host) -> None:
        """Close the connections to other servers than this one."""
        for writer, host in list(self._open.items()):
            if host != primary and not writer.transport.is_closing():
                self._moved(host, primary)
                writer.transport.abort()
