"""Pages of jobs in order, from all states together; and pages of dead jobs in which a text is looked for."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from sqlite3 import Row
from typing import Any

from queue_core.errors import FilterError
from queue_core.model.filters import Filter, Searched, Term
from queue_core.model.report import Order
from queue_core.model.states import Status
from queue_core.stores.sqlite.dialect import SqliteConditions, conditions
from queue_core.stores.sqlite.session import Transaction

_DEAD = Term("status", "=", Status.DEAD.value)
PAGE_TEXT = 4096
"""Characters of a payload and of a result that a page carries."""


def merged(
    transaction: Transaction, wanted: SqliteConditions, query: str, limit: int, order: Order, **more: Any
) -> list[Row]:
    """Return the first rows of all places together; each is read in order and no further than that."""
    text = wanted.query(query, order)
    params = wanted.params | {"limit": limit, "room": PAGE_TEXT} | more
    rows = [row for state in wanted.places for row in transaction.records(text, params | {"state": state})]
    rows.sort(key=lambda row: (row["updated_at"], row["number"]), reverse=order == "newest")
    return rows[:limit]


def cursor_of(row: Row) -> str:
    """Return the place behind a row."""
    return f"{row['updated_at']!r} {row['number']}"


def after(cursor: str) -> dict[str, Any]:
    """Return the parameters of the page behind a cursor.

    Raises:
        FilterError: no page gave this cursor.
    """
    at, _, number = cursor.partition(" ")
    # A number of more digits is none that SQLite can have given out.
    if number.isdecimal() and len(number) < 19:
        with suppress(ValueError):
            if isfinite(seconds := float(at)):
                return {"at": seconds, "number": int(number)}
    raise FilterError("this is no cursor that a page gave", cursor, 0)


def search(transaction: Transaction, where: Filter, most: int, cursor: dict[str, Any] | None) -> Searched:
    """Look at the next dead jobs, whether they match or not, and return those that do.

    The states that are named have chosen the place: what else a dead job's filter asks for sifts the page.
    """
    where = where.having(_DEAD)
    wanted = conditions(where, transaction.now)
    if not wanted.places or most <= 0:
        return Searched((), 0, None)
    terms = [term for term in where.terms if term.field != "status"]
    leading, total = wanted.of(terms, where.leading), 0
    params = wanted.params | {"state": wanted.places[0], "limit": most}
    if cursor is None:
        total = int(transaction.records(leading.query("search/total"), params)[0][0])
    else:
        leading = leading.also("after newest", **cursor)
    # Other parameters than those of a part are left alone.
    rows = transaction.records(leading.query("search/page", sifting=wanted.text()), params | leading.params)
    more = None if len(rows) < most else cursor_of(rows[-1])
    return Searched(tuple(row["id"] for row in rows if row["found"]), len(rows), more, total)
