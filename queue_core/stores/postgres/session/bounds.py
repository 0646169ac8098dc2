"""Bounds of statements and transactions: what is slow or frozen ends, on both sides, and is tried again.

The bounds are set in a transaction itself, since behind a pooler no session is ours: a frozen client holds others up
for a second. A client that was only slow finds its session ended and nothing committed, and tries again.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import AsyncRowFactory

from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.session.failures import FORGOTTEN, RETRIED, is_broken

T = TypeVar("T")

IDLE_IN_TRANSACTION_MS = 1000
"""How long the server waits for the next statement of a transaction. A process that is frozen there, or cut off, holds
up all others that want the same rows; a live one takes microseconds, and one that did not may try again."""
BYTES_PER_MS = 2000
"""For the server, a client is silent while it sends a statement: a slow network gets this time besides."""
LOCK_TIMEOUT_MS = 1500
"""How long a statement waits for a lock: longer than a silent client has it, so that one waiting behind it gets it.
No server process is left behind by clients that stopped waiting."""
UNREAD_ANSWER_MS = 2000
"""How long the server keeps an answer that is not read: while it sends, it ignores all other limits. Unix sockets have
no such limit, so answers are short as long as locks are held."""

TRANSACTION_ATTEMPTS = 3
"""Deadlocks and serialization failures are tried again this often; nothing was written by them."""

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


class Try:
    """One try of a piece of work, and what is known of its fate when its connection is lost."""

    def __init__(self, ends: float, seconds: float, light: bool = False) -> None:
        # of the loop's clock
        self.ends = ends
        # plans that were made a while ago will do
        self.light = light
        # whether the time was over before it ended
        self.late = False
        self._seconds = seconds
        # in a transaction of several statements
        self._started = False
        self._committing = False
        # this process, and not the server, has not done anything for long
        self._slept = False

    def overdue(self) -> None:
        """Note that the time is over, and whether this process was frozen meanwhile."""
        self._slept = asyncio.get_running_loop().time() > self.ends + IDLE_IN_TRANSACTION_MS / 1000
        self.late = True

    def again(self, error: BaseException, attempt: int) -> bool:
        """Return whether to retry the work after an error: certainly nothing was done, and there is time."""
        if isinstance(error, pg.LockNotAvailable):
            return asyncio.get_running_loop().time() + LOCK_TIMEOUT_MS / 1000 <= self.ends
        if attempt >= TRANSACTION_ATTEMPTS:
            return False
        return isinstance(error, (*RETRIED, *FORGOTTEN)) or (is_broken(error) and self._unharmed(error))

    def _unharmed(self, error: BaseException) -> bool:
        if isinstance(error, pg.IdleInTransactionSessionTimeout):
            return True
        return self._started and not self._committing and (self._slept or not self.late)

    def started(self) -> None:
        """Note that a transaction has begun, or is about to: unless it is committed, nothing of it stays."""
        self._started = True

    def committing(self) -> None:
        """Note that it is committed from here on, with or without an answer."""
        self._committing = True

    def next_ends(self) -> float:
        """Return when the next try has to end: a process that was frozen has all of its time again."""
        now = asyncio.get_running_loop().time()
        return now + self._seconds if now > self.ends else self.ends

    @asynccontextmanager
    async def transaction(
        self,
        connection: Connection,
        seconds: float,
        silent: int = IDLE_IN_TRANSACTION_MS,
        begin: str = "bounds/begin",
        patience: int = LOCK_TIMEOUT_MS,
    ) -> AsyncIterator[None]:
        """Commit the statements of the block, on a connection in autocommit mode; an exception rolls it back.

        Each statement may take so many seconds; `silent`: how many milliseconds the server waits for the next one;
        `patience`: how many it waits for a lock.
        """
        try:
            await connection.execute(bounded_begin(seconds, silent, begin, patience), prepare=False)
            self.started()
            yield
        except BaseException:
            await rollback(connection)
            raise
        if closed_by_server(connection):  # it has waited for too long; a commit sent now would leave that in doubt
            raise psycopg.OperationalError("the server has ended the session")
        self.committing()
        await connection.execute(commit(), prepare=False)


def silent_ms(weight: int) -> int:
    """Return how many milliseconds the server waits for a statement of a client that sends about so many bytes."""
    return IDLE_IN_TRANSACTION_MS + weight // BYTES_PER_MS


def bounded_begin(
    seconds: float, silent: int = IDLE_IN_TRANSACTION_MS, begin: str = "bounds/begin", patience: int = LOCK_TIMEOUT_MS
) -> bytes:
    """Return what begins a transaction with its bounds, in one message."""
    return load(begin) + b";\n" + bounds(seconds, silent, patience)


def commit() -> bytes:
    """Return what ends a transaction."""
    return load("bounds/commit")


async def rollback(connection: Connection) -> None:
    """Undo the transaction of a connection, if it is in one."""
    if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        with suppress(psycopg.Error):
            await connection.execute(load("bounds/rollback"), prepare=False)


def bounds(seconds: float, silent: int = IDLE_IN_TRANSACTION_MS, patience: int = LOCK_TIMEOUT_MS) -> bytes:
    """Return the statement that bounds its transaction; each statement may take so many seconds."""
    statement = max(1, round(seconds * 1000))
    return load("bounds/bounds") % {
        b"silent": silent,
        b"patience": min(patience, statement),
        b"statement": statement,
        b"unread": UNREAD_ANSWER_MS,
    }


async def run_bounded(
    connection: Connection, limits: bytes, statement: bytes, params: Mapping[str, Any] | None, rows: AsyncRowFactory[T]
) -> list[T]:
    """Run a single statement behind a pooler, whose sessions have no bounds of ours.

    One message brings the bounds, the statement and its values: no client can fall silent in between.
    """
    async with psycopg.AsyncClientCursor(connection, row_factory=rows) as cursor:
        await cursor.execute(limits + statement, params)
        while cursor.nextset():
            pass
        return await cursor.fetchall() if cursor.description else []


def patient_ms(statement: int) -> int:
    """Return how long to wait for a lock at most, given for how many milliseconds a statement may run.

    A little less, so that the error has what it waited for.
    """
    return max(1, statement * 8 // 9)


def limits(seconds: float, patient: bool = False) -> bytes:
    """Return the prefix of a statement's message with which it ends by itself when its client has given up.

    Who is not `patient` tries again when a lock is not to be had soon.
    """
    statement = max(1, round(seconds * 1000))
    patience = patient_ms(statement) if patient else min(LOCK_TIMEOUT_MS, statement)
    return load("bounds/limits") % {b"patience": patience, b"statement": statement} + b"\n"


def closed_by_server(connection: Connection | psycopg.Connection[Any]) -> bool:
    """Return without a round trip whether the server has closed an idle connection, or it is closed here.

    Any input on an idle connection counts as its end: the server's last message comes before the socket is closed,
    and all other unrequested messages, such as a parameter that was changed for all, are rare.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def cut(connection: Connection, one: Try) -> None:
    """Shut a connection's socket, so that its waiting caller gets an error at once.

    Cancelling the task instead makes the driver ask the server to cancel the query, and wait for it to do so.
    """
    one.overdue()
    if not connection.closed:
        with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
