"""Statements by their names, and plans of several that run in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from queue_core.blocks import blocks_of

T = TypeVar("T")


# Work that takes several statements in one transaction, written once for every kind of connection.
#
# A plan is a generator: it yields a query's name with its parameters and is sent the rows. Whoever carries it out
# brings the transaction: a lane, the operations path's pool, or a caller's own connection. Plans rest on READ
# COMMITTED: a statement sees what was committed while the one before it waited for a lock.

ANSWER = 96 << 10
"""Bytes of an answer under a lock, about. So much finds room on the way even where its reader is frozen. A server with
more to send heeds no bound and keeps its locks; a Unix socket takes some 200 KB, and has no time limit of its own."""
ROW = 80
"""Bytes of a row of such an answer, about, besides what is said of it."""

Rows = list[tuple[Any, ...]]
Plan = Generator[tuple[str, Mapping[str, Any]], Rows, T]


async def carry_out(plan: Plan[T], run: Callable[[str, Mapping[str, Any]], Awaitable[Rows]]) -> T:
    """Run a plan's queries one after the other and return what it makes of their rows."""
    try:
        query, params = next(plan)
        while True:
            query, params = plan.send(await run(query, params))
    except StopIteration as end:
        result: T = end.value
        return result


@cache
def load(name: str) -> bytes:
    """Return a query by its name, such as `claim/by_ids`: that block of the file `claim.sql`, without comment lines.

    Raises:
        KeyError, FileNotFoundError: no query has this name.
    """
    file, _, block = name.partition("/")
    lines = _blocks(file)[block].splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip().encode()


@cache
def _blocks(file: str) -> dict[str, str]:
    return blocks_of(files("queue_core.stores.postgres").joinpath("sql", f"{file}.sql").read_text(encoding="utf-8"))


def plain_array(values: Iterable[object]) -> str:
    """Return the array literal of numbers or uuids; None becomes NULL.

    Batches go to the server as a handful of array literals: building them costs a tenth of what the driver takes to
    adapt lists value by value.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def text_array(values: Iterable[str | None]) -> str:
    """Return the array literal of texts, quoted; None becomes NULL."""
    parts = [
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    ]
    return "{" + ",".join(parts) + "}"
