"""A result comes soon although the event of the job's end is one of those that PostgreSQL has no room for."""

from __future__ import annotations

import asyncio

import pytest

from queue_core import JobQueue, Worker
from queue_core.client import results
from queue_core.stores.postgres.delivery import events

PATIENCE = 60


@pytest.mark.parametrize("same_process", [False, True], ids=["another process", "the worker's process"])
async def test_an_end_without_an_event_is_read_soon(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, same_process: bool
) -> None:
    monkeypatch.setenv("JOBS__POSTGRES__URL", postgres_url)
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "postgres")
    monkeypatch.setattr(events, "MAX_MESSAGES_A_SECOND", 0)
    # what a caller would wait where all ends are told of
    monkeypatch.setattr(results, "FIRST_READ_BACK", 3600.0)

    def made() -> JobQueue:
        jobs = JobQueue.from_settings()

        @jobs.task(name="double")
        async def double(number: int) -> int:
            return 2 * number

        return jobs

    working = made()
    asking = working if same_process else made()
    worker = Worker(working)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(PATIENCE):
        for number in range(5):
            handle = await asking.enqueue("double", {"number": number})
            assert await handle.result() == 2 * number
    worker.stop()
    await running
    for jobs in {working, asking}:
        await jobs.close()
