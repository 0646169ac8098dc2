"""pgqueuer on PostgreSQL: batches claimed with SKIP LOCKED, acknowledged from a buffer, woken by NOTIFY."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver

from jobconsole.bench.record import Recorder

CONFIGS = [{"batch_size": 500}, {"batch_size": 2000}, {"batch_size": 4000}]

recorder = Recorder()


async def connect() -> asyncpg.Connection:
    url = urlsplit(os.environ["PEER_POSTGRES_URL"])
    folder = unquote(parse_qs(url.query)["host"][0])
    return await asyncpg.connect(host=folder, user=url.username, database=url.path.removeprefix("/"))


async def prepare() -> None:
    """Make the tables."""
    connection = await connect()
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


class Client:
    async def open(self) -> None:
        self._connection = await connect()
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def one(self, payload: dict[str, Any]) -> None:
        await self._queries.enqueue("noop", json.dumps(payload).encode())

    async def many(self, payloads: Sequence[dict[str, Any]]) -> None:
        bodies: list[bytes | None] = [json.dumps(payload).encode() for payload in payloads]
        await self._queries.enqueue(["noop"] * len(bodies), bodies, [0] * len(bodies))

    async def left(self) -> int:
        return int(await self._connection.fetchval("SELECT count(*) FROM pgqueuer"))

    async def close(self) -> None:
        await self._connection.close()


def work(config: dict[str, int]) -> None:
    uvloop.run(_work(config))


async def _work(config: dict[str, int]) -> None:
    queue = PgQueuer.from_asyncpg_connection(await connect())

    @queue.entrypoint("noop")
    async def noop(job: Any) -> None:
        recorder.note(**{name: value for name, value in json.loads(job.payload).items() if name in ("number", "sent")})

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
    await queue.qm.run(batch_size=config["batch_size"])
