"""Jobs as people look at them: one, pages, counts, attempts."""

from __future__ import annotations

from queue_core.errors import JobNotFound
from queue_core.filters import Filter
from queue_core.inspection import Order, Page
from queue_core.job import Attempt, Job
from queue_core.stores.postgres.conditions import conditions, fragments, template
from queue_core.stores.postgres.pool import Pool
from queue_core.stores.postgres.records import after, attempt_of, cursor_of, id_or_none, job_of

PAGE_TEXT = 4096
"""Characters of a payload and of a result that a page carries."""
LONGEST_PAGE = 10_000


class Reads:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            JobNotFound: no job has this id.
        """
        found = id_or_none(job_id)
        rows = await self._pool.records(template("inspect/job").format(), {"id": found}) if found else []
        if not rows:
            raise JobNotFound(job_id)
        return job_of(rows[0])

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs by the time of their last change.

        Raises:
            FilterError: no page gave this cursor.
        """
        wanted = conditions(where)
        if wanted is None or limit <= 0:
            return Page((), None)
        limit = min(limit, LONGEST_PAGE)
        if cursor is not None:
            wanted = wanted.also(f"after {order}", **after(cursor))
        query = template("inspect/page").format(
            places=wanted.union("inspect/page_place", order), order=fragments()[f"all {order}"]
        )
        # One more than asked for tells whether there is a next page.
        rows = await self._pool.records(query, {**wanted.params, "limit": limit + 1, "room": PAGE_TEXT})
        more = cursor_of(rows[limit - 1]) if len(rows) > limit else None
        return Page(tuple(job_of(row) for row in rows[:limit]), more)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match, counting no further than `at_most`."""
        wanted = conditions(where)
        if wanted is None or at_most <= 0:
            return 0
        query = template("inspect/count").format(places=wanted.union("inspect/count_place"))
        rows = await self._pool.rows(query, wanted.params | {"limit": at_most})
        return min(int(rows[0][0]), at_most)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs, newest first."""
        wanted = conditions(where)
        if wanted is None or limit <= 0:
            return []
        query = template("inspect/ids").format(
            places=wanted.union("inspect/ids_place"), order=fragments()["all newest"]
        )
        return [row[0] for row in await self._pool.rows(query, wanted.params | {"limit": limit})]

    async def attempts(self, job_id: str) -> list[Attempt]:
        """Return the failed attempts of a job, oldest first.

        Raises:
            JobNotFound: no job has this id.
        """
        found = id_or_none(job_id)
        rows = await self._pool.rows("inspect/attempts", {"id": found}) if found else []
        if not rows and not (found and (await self._pool.rows("inspect/exists", {"id": found}))[0][0]):
            raise JobNotFound(job_id)
        return [attempt_of(row) for row in rows]
