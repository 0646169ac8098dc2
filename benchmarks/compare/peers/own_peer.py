"""This queue in one of its modes, which the environment names; its rules are for the second table."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

from jobconsole.bench.record import Recorder
from queue_core import JobQueue, Worker
from queue_core.backends import migrate
from queue_core.configuration import load
from queue_core.worker.process import run_loop

CONFIGS = [{"concurrency": 100}, {"concurrency": 500}]
QUEUE = "default"
TYPE = "noop"
RULES: dict[str, Any] = json.loads(os.environ.get("PEER_RULES", "{}"))
"""Of the queue: see `JobQueue.queue`."""
KEYS = int(os.environ.get("PEER_KEYS", "0"))
"""So many ordering keys take turns; 0: none."""
SECONDS = float(os.environ.get("PEER_SECONDS", "0"))
"""What a job takes; 0: it does nothing."""

recorder = Recorder()


def make() -> JobQueue:
    """Return a queue object with the task and the rules."""
    jobs = JobQueue.from_settings()
    if RULES:
        jobs.queue(QUEUE, **RULES)

    if SECONDS:

        @jobs.task(name=TYPE)
        async def waiting(number: int, sent: float, customer: str, text: str) -> None:
            await asyncio.sleep(SECONDS)
            recorder.note(number, sent)

    else:

        @jobs.task(name=TYPE)
        async def noop(number: int, sent: float, customer: str, text: str) -> None:
            recorder.note(number, sent)

    return jobs


async def prepare() -> None:
    """Make the schema."""
    settings = load().settings
    if settings.postgres.url is not None:
        migrate(settings)


class Client:
    async def open(self) -> None:
        self._jobs = make()
        await self._jobs.__aenter__()

    async def one(self, payload: dict[str, Any]) -> None:
        await self._jobs.enqueue(TYPE, payload)

    async def many(self, payloads: Sequence[dict[str, Any]]) -> None:
        if not KEYS:
            await self._jobs.enqueue_many(TYPE, payloads)
            return
        # One list has one key: single calls at a time become one batch of jobs whose keys take turns.
        keyed = (
            self._jobs.enqueue(TYPE, payload, ordering_key=f"key-{payload['number'] % KEYS}") for payload in payloads
        )
        await asyncio.gather(*keyed)

    async def left(self) -> int:
        overview = await self._jobs.inspector.overview()
        return sum(queue.pending + queue.running for queue in overview.queues)

    async def close(self) -> None:
        await self._jobs.close()


def work(config: dict[str, int]) -> None:
    run_loop(_work(config))


async def _work(config: dict[str, int]) -> None:
    jobs = make()
    try:
        await Worker(jobs, concurrency=config["concurrency"]).run()
    finally:
        await jobs.close()
