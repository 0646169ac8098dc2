"""The hot path on SQLite: each call one transaction, in the order of the calls."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from queue_core.errors import QueueCoreError
from queue_core.model.job import (
    MAX_LOSSES,
    Claim,
    Inserted,
    JobResult,
    LogLine,
    NewJob,
    Outcome,
    Ready,
    Reclaimed,
    Settled,
)
from queue_core.model.report import JobStack
from queue_core.model.rules import Rules
from queue_core.model.settings import RetentionSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.sql.callers import driver_connection
from queue_core.stores.sqlite import claim, insert, logs, settle, upkeep
from queue_core.stores.sqlite.claim import SqliteHeartbeat
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.statistics.releases import register_release
from queue_core.stores.sqlite.upkeep import SqliteUpkeep


class SqliteStore:
    """Jobs in one file; see queue_core.ports.store.JobStore for what each method does.

    Enqueues and settles are on the disk when they return. Claims, heartbeats and sweeps survive the crash of any
    process, but a loss of power may take the last ones back, which only runs those jobs again under a higher token.
    """

    name = "sqlite"

    def __init__(
        self, file: SqliteFile, retention: RetentionSettings | None = None, rules: Rules | None = None
    ) -> None:
        self._file = file
        self._rules = rules or {}
        retention = retention or RetentionSettings()
        self._upkeep = SqliteUpkeep(file, retention, self._rules)
        self._results = retention.results
        self._reserved = False
        self._giving_back: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open the file, making it with its schema if there is nothing.

        Raises:
            SchemaMissing, SchemaNewer, SchemaError: the file cannot be used by this program.
            StoreUnavailable: it cannot be opened, or not be written.
        """
        await self._file.check()

    async def close(self) -> None:
        """Finish what is on its way and disconnect; doing it twice is safe."""
        await asyncio.gather(*self._giving_back, return_exceptions=True)
        await self._file.close()

    # -- producers

    async def insert(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write the jobs, all or none; an id that is known already stays as it was."""
        if not jobs:
            return []
        return await self._file.write(lambda transaction: insert.insert(transaction, jobs, self._rules))

    async def prepare(self, jobs: Sequence[NewJob]) -> None:
        """Do nothing: queues are created in the caller's transaction, too, which holds the file's only write lock."""

    async def insert_on(self, connection: Any, jobs: Sequence[NewJob], prepared: object = None) -> list[Inserted]:
        driver = await driver_connection(
            connection, (sqlite3.Connection,), "a sqlite3 connection, or an SQLAlchemy or Django connection over one"
        )
        return insert.insert_on(driver, self._file, jobs, self._rules)

    async def results(self, ids: Sequence[str]) -> list[JobResult]:
        """Return what is known about these jobs, unknown ids left out."""
        return await self._file.read(partial(settle.results, ids=ids, kept=self._results))

    # -- workers

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        claiming_ = asyncio.create_task(self._claim(request))
        try:
            return await asyncio.shield(claiming_)
        except asyncio.CancelledError:
            # Jobs claimed from here on would wait until their leases end.
            giving = asyncio.create_task(self._give_back(claiming_))
            self._giving_back.add(giving)
            giving.add_done_callback(self._giving_back.discard)
            raise

    async def _claim(self, request: ClaimRequest) -> list[Claim]:
        while True:
            if not self._reserved:
                await self._file.write(claim.reserve_tokens)
                self._reserved = True
            try:
                return await self._file.write_soft(partial(claim.claim, request=request, rules=self._rules))
            except claim.TokensUsedUp:
                self._reserved = False

    async def _give_back(self, claiming_: asyncio.Task[list[Claim]]) -> None:
        # When it fails, the leases end by themselves.
        with suppress(QueueCoreError):
            claims = await claiming_
            await self.settle([Outcome(claim.id, claim.token, claim.queue, claim.type, "released") for claim in claims])

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Settled]:
        if not outcomes:
            return []
        return await self._file.write(lambda transaction: settle.settle(transaction, outcomes, self._rules))

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        reserved = self._reserved
        answer = await self._file.write(
            lambda transaction: settle.settle_and_claim(transaction, outcomes, requests, self._rules, reserved)
        )
        self._reserved = True
        return answer

    async def log(self, lines: Sequence[LogLine]) -> list[bool]:
        """Append lines to the logs of jobs; return for each whether its token still holds."""
        return await self._file.write_soft(lambda transaction: logs.append(transaction, lines)) if lines else []

    async def ask_stack(self, job_id: str) -> JobStack | None:
        return await self._file.write(lambda transaction: logs.ask_stack(transaction, job_id))

    async def stacks(self, job_id: str) -> list[JobStack]:
        return await self._file.read(lambda transaction: logs.read_stacks(transaction, job_id))

    async def register_types(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the JSON Schema of the payloads that each of these types takes, where it has changed."""
        await self._file.write_soft(lambda transaction: logs.register_types(transaction, types))

    async def register_release(self, name: str) -> int:
        return await self._file.write_soft(partial(register_release, name=name))

    async def write_off(self, workers: Sequence[str], place: str) -> None:
        await self._file.write_soft(lambda transaction: upkeep.write_off(transaction, workers))

    async def unregister_worker(self, worker: str, place: str = "") -> None:
        await self._file.write_soft(lambda transaction: upkeep.unregister_worker(transaction, worker))

    def open_heartbeat(self) -> SqliteHeartbeat:
        return SqliteHeartbeat(self._file)

    # -- the leader

    async def promote(self, limit: int) -> list[Ready]:
        """Move due scheduled and retrying jobs to queued."""
        return await self._file.write_soft(lambda transaction: upkeep.promote(transaction, limit, self._rules))

    async def next_due(self) -> float | None:
        """Return the seconds until the next scheduled or retrying job is due, or None."""
        return await self._file.read(upkeep.next_due)

    async def reclaim(self, limit: int, bound: int = MAX_LOSSES) -> list[Reclaimed]:
        """Move jobs whose lease expired to queued with one loss more, or bury them as lost where that makes `bound`."""
        return await self._file.write_soft(lambda transaction: settle.reclaim(transaction, limit, bound, self._rules))

    async def list_claimable(self, queue: str, limit: int) -> list[Ready]:
        return await self._file.read(lambda transaction: claim.list_claimable(transaction, queue, limit))

    async def list_claimable_in(self, queues: Sequence[str], limit: int) -> list[Ready]:
        """Return what `list_claimable` returns of each of these queues."""
        return [ready for queue in queues for ready in await self.list_claimable(queue, limit)]

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused."""
        return [name for name, paused in (await self.queues()).items() if not paused]

    async def filter_claimable(self, queue: str, ids: Sequence[str]) -> list[Ready]:
        """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
        wanted = list(dict.fromkeys(ids))
        return await self._file.read(lambda transaction: claim.filter_claimable(transaction, queue, wanted))

    async def list_ready(self, queue: str, rank: int, limit: int, whole: bool = True) -> list[Ready]:
        """Return ready jobs of a queue with a higher rank than this, in order, always all."""
        return await self._file.read(lambda transaction: claim.list_ready(transaction, queue, rank, limit))

    async def queues(self) -> dict[str, bool]:
        rows = await self._file.read(lambda transaction: transaction.rows("store/queues"))
        return {name: bool(paused) for name, paused in rows}

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        return await self._file.write_soft(
            partial(upkeep.acquire_leadership, duty=duty, worker=worker, seconds=seconds)
        )

    async def prepare_history(self) -> None:
        """Do nothing: there is always room."""

    async def upkeep(self) -> None:
        """Remove what is over its retention, in bounded steps."""
        await self._upkeep.run()
