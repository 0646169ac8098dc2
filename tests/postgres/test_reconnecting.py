"""Connections that the server has ended while they were idle: the next calls find it out, and nobody hears of it."""

from __future__ import annotations

import psycopg

from queue_core import JobQueue

END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_enqueue_and_status_survive_the_end_of_idle_connections(postgres_url: str) -> None:
    async with JobQueue(postgres=postgres_url) as jobs:
        handle = await jobs.enqueue("anything")
        for _ in range(2):
            assert await handle.status() == "queued"
            with psycopg.connect(postgres_url, autocommit=True) as hand:
                hand.execute(END_ALL)
            handle = await jobs.enqueue("anything")
            with psycopg.connect(postgres_url, autocommit=True) as hand:
                hand.execute(END_ALL)
            assert await handle.status() == "queued"
