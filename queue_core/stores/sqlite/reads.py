"""Jobs as people look at them: one, pages, counts, attempts."""

from __future__ import annotations

from sqlite3 import Row

from queue_core.errors import JobNotFound
from queue_core.filters import Filter
from queue_core.inspection import Order, Page
from queue_core.job import Attempt, Job
from queue_core.stores.sqlite.conditions import Conditions, conditions
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.records import after, attempt_of, cursor_of, id_or_none, job_of
from queue_core.stores.sqlite.sql import load

PAGE_TEXT = 4096
"""Characters of a payload and of a result that a page carries."""
LONGEST_PAGE = 10_000


class Reads:
    """See queue_core.inspection.Inspector for what each method does."""

    _file: SqliteFile

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: no job has this id.
        """
        found = id_or_none(job_id)
        rows = [] if found is None else await self._file.look(lambda t: t.records(load("inspect/job"), (found,)))
        if not rows:
            raise JobNotFound(job_id)
        return job_of(rows[0])

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change.

        Raises:
            FilterError: no page gave this cursor.
        """
        behind = None if cursor is None else after(cursor)
        limit = min(limit, LONGEST_PAGE)
        if limit <= 0:
            return Page((), None)

        def read(transaction: Transaction) -> list[Row]:
            wanted = conditions(where, transaction.now)
            if behind is not None:
                wanted = wanted.also(f"after {order}", **behind)
            # One more than asked for tells whether there is a next page.
            return _merged(transaction, wanted, "inspect/page", limit + 1, order)

        rows = await self._file.look(read)
        more = cursor_of(rows[limit - 1]) if len(rows) > limit else None
        return Page(tuple(job_of(row) for row in rows[:limit]), more)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""

        def read(transaction: Transaction) -> int:
            wanted, total = conditions(where, transaction.now), 0
            for place in wanted.places:
                params = wanted.params | {"place": place, "limit": max(at_most - total, 0)}
                total += transaction.records(wanted.query("inspect/count"), params)[0][0]
            return total

        return await self._file.look(read)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first."""
        if limit <= 0:
            return []

        def read(transaction: Transaction) -> list[str]:
            wanted = conditions(where, transaction.now)
            return [row["id"] for row in _merged(transaction, wanted, "inspect/ids", limit, "newest")]

        return await self._file.look(read)

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        found = id_or_none(job_id)

        def read(transaction: Transaction) -> list[Attempt] | None:
            known = transaction.rows("insert/known", (f'["{found}"]',))
            return [attempt_of(row) for row in transaction.rows("inspect/attempts", (found,))] if known else None

        attempts = None if found is None else await self._file.look(read)
        if attempts is None:
            raise JobNotFound(job_id)
        return attempts


def _merged(transaction: Transaction, wanted: Conditions, query: str, limit: int, order: Order) -> list[Row]:
    """Return the first rows of all places together; each is read in order and no further than that."""
    text = wanted.query(query, order)
    params = wanted.params | {"limit": limit, "room": PAGE_TEXT}
    rows = [row for place in wanted.places for row in transaction.records(text, params | {"place": place})]
    rows.sort(key=lambda row: (row["updated_at"], row["number"]), reverse=order == "newest")
    return rows[:limit]
