"""Pages of dead jobs in which a text is looked for, and the places in lists from which pages go on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from queue_core.errors import FilterError
from queue_core.model.filters import Filter, Searched, Term
from queue_core.model.states import Status
from queue_core.stores.postgres.dialect import conditions, filled, moment
from queue_core.stores.postgres.session.pool import ConnectionPool

_DEAD = Term("status", "=", Status.DEAD.value)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def cursor_of(row: Mapping[str, Any]) -> str:
    """Return the place behind a row, exact to the microsecond."""
    return f"{(moment(row['updated_at']) - _EPOCH) // _MICROSECOND}.{row['id']}"


def after(cursor: str) -> dict[str, Any]:
    """Return the parameters of the page behind a cursor.

    Raises:
        FilterError: no page gave this cursor.
    """
    at, _, job_id = cursor.partition(".")
    try:
        return {"at": _EPOCH + int(at) * _MICROSECOND, "id": str(UUID(job_id))}
    except (ValueError, OverflowError):
        raise FilterError("this is no cursor that a page gave", cursor, 0) from None


async def search(pool: ConnectionPool, where: Filter, most: int, cursor: str | None) -> Searched:
    """Look at the next dead jobs, whether they match or not, and return those that do.

    Each page is a short statement of its own: a snapshot that is held for minutes keeps ended rows from being vacuumed.

    Raises:
        FilterError: no page gave this cursor.
    """
    where = where.having(_DEAD)
    wanted = conditions(where, pool.settings.schema)
    if wanted is None or most <= 0:
        return Searched((), 0, None)
    total = 0 if cursor else await _searchable(pool, where)
    leading = wanted.of(where.terms, where.leading)
    if cursor is not None:
        leading = leading.also("after newest", **after(cursor))
    (view,) = wanted.places
    query = filled(
        "search/page", wanted.schema, view=wanted.view(view), leading=leading.text(), conditions=wanted.text(),
        order=wanted.pieces.fragments["newest"],
    )  # fmt: skip
    ((looked_at, last, ids),) = await pool.rows(query, wanted.params | leading.params | {"limit": most})
    more = None if looked_at < most else last
    return Searched(tuple(ids), looked_at, more, total)


async def _searchable(pool: ConnectionPool, where: Filter) -> int:
    """Return how many jobs a search looks at, from an index alone."""
    wanted = conditions(Filter((_DEAD, *where.leading), where.trash), pool.settings.schema)
    if wanted is None:
        return 0
    (view,) = wanted.places
    query = filled("search/total", wanted.schema, view=wanted.view(view), conditions=wanted.text())
    ((total,),) = await pool.rows(query, wanted.params)
    return int(total)
