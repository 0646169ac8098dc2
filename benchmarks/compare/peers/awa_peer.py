"""awa on PostgreSQL: a worker written in Rust around Python handlers, fenced by receipts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import awa
import psycopg
import uvloop

from jobconsole.bench.record import Recorder

CONFIGS = [
    {"max_workers": 256},
    {"max_workers": 1024},
    {"max_workers": 1024, "deadline_duration_ms": 0},
]
QUEUE = "noop"
# Its driver wants a host before the "/", also where the folder of a socket follows.
URL = os.environ["PEER_POSTGRES_URL"].replace("@/", "@localhost/", 1)
# A count over its own view of unfinished jobs reads every receipt again for each of them: seconds for 5,000 jobs.
LEFT = (
    "SELECT (SELECT count(*) FROM awa.ready_entries)"
    " - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)"
)

recorder = Recorder()


@dataclass
class Noop:
    number: int
    sent: float
    customer: str
    text: str


async def prepare() -> None:
    """Make the tables; the first worker prepares the storage of the queue."""
    client = awa.AsyncClient(URL)
    await client.migrate()

    @client.task(Noop, queue=QUEUE)
    async def noop(job: Any) -> None:
        """There is no job yet."""

    await client.start([(QUEUE, 1)])
    await client.shutdown()
    await client.close()


class Client:
    async def open(self) -> None:
        self._client = awa.AsyncClient(URL)
        self._reader = await psycopg.AsyncConnection.connect(URL, autocommit=True)

    async def one(self, payload: dict[str, Any]) -> None:
        await self._client.insert(Noop(**payload), queue=QUEUE)

    async def many(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._client.enqueue_many_copy([Noop(**payload) for payload in payloads], queue=QUEUE)

    async def left(self) -> int:
        row = await (await self._reader.execute(LEFT)).fetchone()
        return int(row[0]) if row else 0

    async def close(self) -> None:
        await self._reader.close()
        await self._client.close()


def work(config: dict[str, int]) -> None:
    uvloop.run(_work(config))


async def _work(config: dict[str, int]) -> None:
    client = awa.AsyncClient(URL, max_connections=20)

    @client.task(Noop, queue=QUEUE)
    async def noop(job: Any) -> None:
        recorder.note(job.args.number, job.args.sent)

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await client.start([{"name": QUEUE, **config}], poll_interval_ms=200)
    await stopped.wait()
    await client.shutdown()
