"""Transactions of several round trips whose locks outlive no client: a frozen one holds others up for a second.

The bounds are set in the transaction itself, since behind a pooler no session is ours. A client that was only slow
finds its session ended and nothing committed, and tries again.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import AsyncRowFactory

from queue_core.stores.postgres.sql import load

T = TypeVar("T")

SILENT_MS = 1000
"""How long the server waits for the next statement of a transaction. A process that is frozen there, or cut off, holds
up all others that want the same rows; a live one takes microseconds, and one that did not may try again."""
BYTES_PER_MS = 2000
"""For the server, a client is silent while it sends a statement: a slow network gets this time besides."""
PATIENCE_MS = 1500
"""How long a statement waits for a lock: longer than a silent client has it, so that whoever waits behind one gets it.
Of those who gave up waiting, no server process is left behind."""
UNREAD_MS = 2000
"""How long the server keeps an answer that nobody takes: while it sends, it heeds no other bound. Unix sockets have
nothing like it, so answers are short as long as locks are held."""

ATTEMPTS = 3
"""Deadlocks and serialization failures are tried again this often; nothing was written by them."""

RETRIED = (pg.DeadlockDetected, pg.SerializationFailure)
BROKEN = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.ReadOnlySqlTransaction,
    pg.IdleInTransactionSessionTimeout,
    OSError,
    TimeoutError,
)
"""Errors after which a connection is not used again; a read-only server is an old primary, so look for the new one."""

FORGOTTEN = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
"""Prepared statements that are not in the session, or somebody else's: a pooler in transaction mode swaps sessions."""

HELD = "others hold rows that this needs, and do not let go of them"

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


def is_broken(error: BaseException) -> bool:
    """Tell whether the connection that an error came by is not used again."""
    return isinstance(error, BROKEN) and not isinstance(error, (pg.LockNotAvailable, *RETRIED))


class Try:
    """One try of a piece of work, and what is known of its fate when its connection is lost."""

    def __init__(self, ends: float, seconds: float, light: bool = False) -> None:
        # of the loop's clock
        self.ends = ends
        # plans that were made a while ago will do
        self.light = light
        self.late = asyncio.Event()
        self._seconds = seconds
        # in a transaction of several statements
        self._begun = False
        self._committing = False
        # this process, and not the server, has not done anything for long
        self._slept = False

    def overdue(self) -> None:
        """Note that the time is over, and whether this process was frozen meanwhile."""
        self._slept = asyncio.get_running_loop().time() > self.ends + SILENT_MS / 1000
        self.late.set()

    def again(self, error: BaseException, attempt: int) -> bool:
        """Tell whether the work is done again after an error: for certain nothing was done, and there is time."""
        if isinstance(error, pg.LockNotAvailable):
            return asyncio.get_running_loop().time() + PATIENCE_MS / 1000 <= self.ends
        if attempt >= ATTEMPTS:
            return False
        return isinstance(error, (*RETRIED, *FORGOTTEN)) or (is_broken(error) and self._unharmed(error))

    def _unharmed(self, error: BaseException) -> bool:
        if isinstance(error, pg.IdleInTransactionSessionTimeout):
            return True
        return self._begun and not self._committing and (self._slept or not self.late.is_set())

    def next_ends(self) -> float:
        """Return when the next try has to end: a process that was frozen has all of its time again."""
        now = asyncio.get_running_loop().time()
        return now + self._seconds if now > self.ends else self.ends

    @asynccontextmanager
    async def transaction(
        self, connection: Connection, seconds: float, silent: int = SILENT_MS, begin: str = "lane/begin"
    ) -> AsyncIterator[None]:
        """Commit what stands inside, on a connection in autocommit mode; an exception rolls it back.

        Each statement may take so many seconds; `silent`: how many milliseconds the server waits for the next one.
        """
        try:
            await connection.execute(load(begin) + b";\n" + bounds(seconds, silent), prepare=False)
            self._begun = True
            yield
        except BaseException:
            if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                with suppress(psycopg.Error):
                    await connection.execute(load("lane/rollback"), prepare=False)
            raise
        if closed_by_server(connection):  # it has waited for too long; a commit sent now would leave that in doubt
            raise psycopg.OperationalError("the server has ended the session")
        self._committing = True
        await connection.execute(load("lane/commit"), prepare=False)


def silent_ms(weight: int) -> int:
    """Return how many milliseconds the server waits for a statement of a client that sends about so many bytes."""
    return SILENT_MS + weight // BYTES_PER_MS


def bounds(seconds: float, silent: int = SILENT_MS) -> bytes:
    """Return what bounds the transaction in which it is said; each statement may take so many seconds."""
    statement = max(1, round(seconds * 1000))
    return load("lane/bounds") % {
        b"silent": silent,
        b"patience": min(PATIENCE_MS, statement),
        b"statement": statement,
        b"unread": UNREAD_MS,
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


def limits(seconds: float, patient: bool = False) -> bytes:
    """Return what stands before a statement in its message, so that it ends by itself when its client has given up.

    Who is not `patient` tries again when a lock is not to be had soon.
    """
    statement = max(1, round(seconds * 1000))
    patience = statement if patient else min(PATIENCE_MS, statement)
    return load("lane/limits") % {b"patience": patience, b"statement": statement} + b"\n"


def closed_by_server(connection: Connection | psycopg.Connection[Any]) -> bool:
    """Tell without a round trip whether the server has closed a connection while it was idle, or it is closed here.

    Whatever an idle connection has to say counts as its end: the server's last words come before the socket is closed,
    and everything else that comes unasked, such as a parameter that was set anew for all, is rare.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
