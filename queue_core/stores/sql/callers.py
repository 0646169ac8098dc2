"""Connections that callers hand in with `connection=`: the driver's one behind what an application works with."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from queue_core.errors import InvalidJob

T = TypeVar("T")


async def driver_connection(given: Any, kinds: tuple[type, ...], wanted: str) -> Any:
    """Return the driver's connection: what was given, or what is behind an object of SQLAlchemy or Django.

    `wanted` names in a sentence what would do. SQLAlchemy's transaction has begun then, as its own first statement
    begins it: what is written past it, its `commit()` and `rollback()` would not know of.

    Raises:
        InvalidJob: it leads to no connection of these kinds.
    """
    found = given
    if _is_of("sqlalchemy", given):
        wrapper = await _connection_of(given)
        found = await _behind_sqlalchemy(wrapper)
        if isinstance(found, kinds):
            await _begin(wrapper)
    elif _is_of("django", given) and hasattr(given, "ensure_connection"):
        given.ensure_connection()
        found = given.connection
    if isinstance(found, kinds):
        return found
    behind = "" if found is given else f" over {_name_of(found)}"
    raise InvalidJob(f"connection= takes {wanted}, not {_name_of(given)}{behind}")


def _name_of(given: object) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"


def _is_of(package: str, given: object) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in type(given).__mro__)


async def _connection_of(given: Any) -> Any:
    """Return a session's connection, whose transaction it begins; else what was given."""
    if not hasattr(given, "flush"):
        return given
    connection = given.connection()
    return await connection if hasattr(connection, "__await__") else connection


async def _behind_sqlalchemy(given: Any) -> Any:
    """Follow a connection to the driver's; an engine, a session's maker or a transaction is returned as it is."""
    if hasattr(given, "driver_connection"):  # the pool's, as from `raw_connection()`
        return given.driver_connection
    if hasattr(given, "get_raw_connection"):
        return (await given.get_raw_connection()).driver_connection
    return given.connection.driver_connection if hasattr(given, "in_transaction") else given


async def _begin(connection: Any) -> None:
    """Begin a transaction of SQLAlchemy's where there is none; in autocommit, too, where it does nothing."""
    if not hasattr(connection, "driver_connection") and not connection.in_transaction():
        beginning = connection.begin()
        if hasattr(beginning, "__await__"):
            await beginning


def check_blocking(given: object) -> None:
    """Refuse a connection whose methods are to be awaited, which a plain function cannot do.

    Raises:
        InvalidJob: it is an asynchronous one.
    """
    if hasattr(given, "__aenter__") and not hasattr(given, "__enter__"):
        raise InvalidJob(
            f"connection= of a blocking client takes a blocking connection, not {_name_of(given)}: "
            "where that one is used, await jobs.enqueue(…)"
        )


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, as one does that works on a blocking connection, in this thread."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise InvalidJob("connection= of a blocking client takes a blocking connection")
