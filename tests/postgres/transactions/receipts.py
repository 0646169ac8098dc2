"""What the handlers of these tests write, and how it is looked at."""

from __future__ import annotations

from typing import Any

import psycopg

from queue_core import JobQueue, Retry

ONCE = Retry(max_retries=0)
AGAIN = Retry(max_retries=3, delay=0.01)
INSERT = "INSERT INTO receipts (job, token) VALUES (%s, %s)"


class Books:
    """The table that handlers write to, looked at from outside."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute("CREATE TABLE receipts (job text, token bigint, note text)")

    def do(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement, params)
        return cursor.fetchall() if cursor.description else []

    @property
    def tokens(self) -> list[int]:
        """The tokens of the attempts whose writing is there."""
        return [token for (token,) in self.do("SELECT token FROM receipts ORDER BY token")]

    @property
    def notes(self) -> list[str]:
        return [note for (note,) in self.do("SELECT note FROM receipts ORDER BY note")]

    def close(self) -> None:
        self._connection.close()


async def failures_of(jobs: JobQueue, job_id: str) -> list[str]:
    return [f"{one.exception}: {one.message}" for one in await jobs.inspector.attempts(job_id)]
