"""The answers of one connection, whose socket the event loop watches from one statement to the next."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.generators import execute
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult


class Answers:
    """Waits for the results of what was sent on a connection.

    The driver begins and ends to watch the socket for each statement: six calls of the system, a tenth of the client's
    time for a lone enqueue.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        # that watches the socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = -1
        self._answer: asyncio.Future[list[PGresult]] | None = None
        # of the answer that is awaited
        self._results: list[PGresult] = []

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

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self.leave()
        self._socket = self._connection.pgconn.socket
        loop.add_reader(self._socket, self._read)
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
            answer.set_exception(error)

    def leave(self) -> None:
        """Have the socket watched no more: the driver is going to, or it is closed."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._socket)


class WatchedConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection with `answers`; the driver may wait on it, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers = Answers(self)

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        self.answers.leave()
        return await super().wait(*args, **kwargs)

    async def close(self) -> None:
        self.answers.leave()
        await super().close()
