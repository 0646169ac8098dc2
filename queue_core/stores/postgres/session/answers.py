"""The answers of one connection, whose socket the event loop watches from one statement to the next."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.generators import execute
from psycopg.pq import DiagnosticField, TransactionStatus
from psycopg.pq.abc import PGresult

CHECK_INTERVAL = 0.2
"""Seconds between two looks at a socket of which nothing is heard. uvloop ends a watch at an error, such as that of a
server that was killed with a statement unread, and calls nothing; the driver looks each 0.1 s for itself."""


class Answers:
    """Waits for the results of what was sent on a connection.

    The driver begins and ends to watch the socket for each statement: six calls of the system, a tenth of the client's
    time for a lone enqueue.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        # that watches the socket, by a descriptor of its own: the driver closes its one when the connection is lost,
        # and to end the watch by that number afterwards would end the one of the next connection that has it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor = -1
        self._answer: asyncio.Future[list[PGresult]] | None = None
        # of the answer that is awaited
        self._results: list[PGresult] = []
        # one timer for many answers, and its loop
        self._timer: asyncio.TimerHandle | None = None
        self._timed: asyncio.AbstractEventLoop | None = None

    async def wait(self) -> list[PGresult]:
        """Return the results of what was sent.

        Raises:
            psycopg.OperationalError: the connection is lost.
        """
        pgconn = self._connection.pgconn
        if pgconn.flush():  # the rest does not find room on the way yet
            results: list[PGresult] = await self._connection.wait(execute(pgconn))
            return results
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._watch(loop)
        self._results = []
        self._answer = loop.create_future()
        if self._timer is None or self._timed is not loop:
            self._timer, self._timed = loop.call_later(CHECK_INTERVAL, self._check, loop), loop
        try:
            return await self._answer
        except asyncio.CancelledError:
            # As the driver does: the server is to be done with it when the caller goes on. It may close the socket.
            self.leave()
            if pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error, OSError):
                    await self._connection.cancel_safe()
                    await self._connection.wait(execute(pgconn))
            raise
        finally:
            self._answer = None

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._answer is not None and not self._answer.done():
            self._read()
            self._timer = loop.call_later(CHECK_INTERVAL, self._check, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self.leave()
        self._descriptor = os.dup(self._connection.pgconn.socket)
        loop.add_reader(self._descriptor, self._read)
        self._loop = loop

    def _read(self) -> None:
        answer, pgconn = self._answer, self._connection.pgconn
        if answer is None or answer.done():
            self.leave()  # the server has ended an idle session: who takes it next looks itself
            return
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    answer.set_result(self._results)
                    return
                self._results.append(result)
        except psycopg.Error as error:
            self.leave()
            # Why the server has ended the session comes before the end of the connection, and is worth more: nothing of
            # a transaction is committed that was silent for too long.
            if self._results and self._results[-1].error_field(DiagnosticField.SQLSTATE):
                answer.set_result(self._results)
            else:
                answer.set_exception(error)

    def leave(self) -> None:
        """Have the socket watched no more: the driver is going to, or it is closed."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        if not loop.is_closed():
            loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


class WatchedConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection with `answers`; the driver may wait on it, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers = Answers(self)
        self._home = asyncio.get_running_loop()
        self._process = os.getpid()

    def __del__(self, *args: Any) -> None:
        # In a loop that has ended, no code could have closed it; the session of a parent is none of its child's.
        if self._home.is_closed() and self._process == os.getpid():
            self.answers.leave()
            self.pgconn.finish()
        super().__del__()

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        self.answers.leave()
        return await super().wait(*args, **kwargs)

    async def close(self) -> None:
        self.answers.leave()
        await super().close()
