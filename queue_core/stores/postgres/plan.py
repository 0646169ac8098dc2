"""Work of several statements in one transaction, written once for every kind of connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# A plan is a generator: it yields a query's name with its parameters and is sent the rows. Its caller
# provides the transaction: a lane, the operations path's pool, or a caller's own connection. Plans rest on READ
# COMMITTED: a statement sees what was committed while the one before it waited for a lock.

ANSWER = 96 << 10
"""Bytes of an answer under a lock, about. So much finds room on the way even where its reader is frozen. A server with
more to send ignores limits and keeps locks; a Unix socket takes some 200 KB, and has no time limit of its own."""
ROW = 80
"""Bytes of a row of such an answer, about, without its values."""

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
