"""Transactions in memory: what a handler's block yields where there is no database, and the jobs that it holds back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from queue_core.model.job import Inserted, NewJob


class MemoryCursor:
    """The rows of a statement that nothing ran: none."""

    rowcount = 0
    description = None

    async def execute(self, query: object, params: object = None) -> Self:
        """Do nothing: the transaction has recorded it."""
        return self

    async def fetchone(self) -> None:
        """Return no row."""

    async def fetchall(self) -> list[Any]:
        """Return no rows."""
        return []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing is open."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        raise StopAsyncIteration


class MemoryTransaction:
    """In place of a psycopg connection: it records statements, which no database runs, and holds back jobs.

    The jobs that are enqueued with it are written when its attempt is completed, and dropped when it is not.
    """

    def __init__(self) -> None:
        # with their parameters, in order
        self.statements: list[tuple[str, Any]] = []
        self.jobs: list[NewJob] = []

    async def execute(self, query: object, params: object = None) -> MemoryCursor:
        """Record a statement; it has no rows."""
        self.statements.append((str(query), params))
        return MemoryCursor()

    def cursor(self, *args: object, **options: object) -> MemoryCursor:
        """Return a cursor that has no rows."""
        return MemoryCursor()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Give a savepoint: an exception that leaves the block drops what was done in it."""
        statements, jobs = len(self.statements), len(self.jobs)
        try:
            yield self
        except BaseException:
            del self.statements[statements:], self.jobs[jobs:]
            raise

    def hold(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Hold jobs back; a unique key is looked up when they are written."""
        self.jobs += jobs
        return [Inserted(job.id, job.queue, None, None, True) for job in jobs]
