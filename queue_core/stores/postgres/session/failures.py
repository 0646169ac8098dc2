"""What the errors of the driver and the server mean."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as pg

from queue_core.errors import (
    InvalidJob,
    QueueCoreError,
    SchemaError,
    SchemaMissing,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.ports.locks import LockHeld

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
"""Prepared statements that are not in the session, or another client's: a pooler in transaction mode swaps sessions."""

FULL = (pg.DiskFull, pg.OutOfMemory, pg.InsufficientResources, pg.ConfigurationLimitExceeded)
"""The server has no room for one statement: disk, memory. It goes on with others, and with this one later."""

AWAY = ("08", "25006", "25P", "28", "3D", "53", "57", "58")
"""How the codes of errors begin after which the server cannot be used now: connection, standby, idle for too long,
login, no such database, resources (see `FULL`), shut down or out of time, disk."""

_PLACE = re.compile(r'"(\w+)\.\w+"')
"""The schema in an error about a table, in any language of the server."""

_READ_ONLY = re.compile("session is read-only|server is in hot standby mode")
"""Of libpq, whose errors about an address have no codes."""


def is_broken(error: BaseException) -> bool:
    """Return whether an error makes its connection unusable."""
    return isinstance(error, BROKEN) and not isinstance(error, (pg.LockNotAvailable, *RETRIED)) and not is_full(error)


def is_full(error: BaseException) -> bool:
    """Return whether the server lacks room for a statement, and has ended nothing but that."""
    return isinstance(error, FULL) and error.diag.severity_nonlocalized == "ERROR"


class NoRoom(StoreRefused):
    """The server's disk, or another store of its, is full; the statement has changed nothing."""


class QueuesLost(StoreUnavailable):
    """The database does not know a queue under the number that this process remembers; nothing was written."""


class IdsKnown(InvalidJob):
    """Jobs with some of these ids are stored already; nothing was written."""


def translate(error: BaseException) -> QueueCoreError:
    """Return the error of this package's tree that a driver's error means."""
    if isinstance(error, pg.NotNullViolation) and error.diag.column_name == "queue_id":
        return QueuesLost("postgres", "it has lost the row of a queue, or numbers it otherwise")
    if isinstance(error, pg.UniqueViolation) and error.diag.constraint_name == "jobs_pkey":
        return IdsKnown("there is a job of this id already")
    if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName):
        return SchemaMissing(0, 1, found[1] if (found := _PLACE.search(str(error))) else "")
    if isinstance(error, pg.LockNotAvailable):
        return LockHeld("postgres")
    text = str(error).strip().splitlines()
    if isinstance(error, pg.SyntaxErrorOrAccessRuleViolation):
        return SchemaError(f"the database's schema does not fit this version: {text[0]}")
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError) and not lacks_a_day(error):
        return InvalidJob(f"the database refused a value: {text[0] if text else type(error).__name__}")
    if answered(error):
        return refused(error)
    return unavailable(error)


def unavailable(error: BaseException) -> StoreUnavailable:
    """Return what is raised for a server that cannot be used now: it is away, or accepts no writes."""
    return (StoreReadOnly if takes_no_writes(error) else StoreUnavailable)("postgres", _reason(error))


def takes_no_writes(error: BaseException) -> bool:
    """Return whether the server is there, but can only be read."""
    return isinstance(error, pg.ReadOnlySqlTransaction) or _READ_ONLY.search(_reason(error)) is not None


def found_reader(error: BaseException) -> bool:
    """Return whether an address led to a server that can only be read, perhaps beside others that are not there."""
    return _READ_ONLY.search(str(error)) is not None


def _reason(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "no answer in time")


def lacks_a_day(error: BaseException | None) -> bool:
    """Return whether the history has no partition for today yet; its own constraints have names."""
    return isinstance(error, pg.CheckViolation) and error.diag.constraint_name is None


def answered(error: BaseException) -> bool:
    """Return whether the server only refused a statement; else it is unreachable, ends, or is a standby."""
    state = getattr(error, "sqlstate", None)
    return is_full(error) or (state is not None and not state.startswith(AWAY))


def refused(error: psycopg.Error | BaseException) -> StoreRefused:
    """Return what is raised for a statement that the server refused."""
    text = str(error).strip().splitlines()
    if is_full(error):
        return NoRoom("postgres", text[0], passing=True)
    passing = isinstance(error, (*RETRIED, pg.LockNotAvailable)) or lacks_a_day(error)
    return StoreRefused("postgres", text[0] if text else type(error).__name__, passing)
