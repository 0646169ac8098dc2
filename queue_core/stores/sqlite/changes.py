"""What operators change: each change finds the jobs in the states it acts on and writes them in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import uniform
from typing import Literal, NamedTuple

from queue_core.errors import QueueNotFound
from queue_core.inspection import Changed
from queue_core.job import Ready
from queue_core.priorities import rank
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.inserting import next_numbers, tell_arrived
from queue_core.stores.sqlite.link import Transaction
from queue_core.stores.sqlite.records import known_ids
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.tallying import Tallying
from queue_core.stores.sqlite.upkeep import remove
from queue_core.text import storable

WHOLE_BACKLOG = 1_000_000
"""Told as arrived when a queue is resumed: others look until nothing is left."""


class _Job(NamedTuple):
    """The columns of change/jobs."""

    number: int
    id: str
    queue_id: int
    queue: str
    type: str
    place: str
    priority: int
    cancel: int


class Changes:
    """See queue_core.inspection.Inspector for what each method does."""

    _file: SqliteFile

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead (trash included) and completed jobs to queued with retry count 0; token and crash count stay.

        With `spread`, to scheduled, each due at a random moment within so many seconds.
        """
        places = ("dead", "trashed", "completed")
        return await self._change(ids, places, lambda transaction, jobs: _retry(transaction, jobs, spread))

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        return await self._change(ids, ("dead",), _delete)

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        return await self._change(ids, ("trashed",), _restore)

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good; the totals go on counting them."""
        return await self._change(ids, ("trashed",), _purge)

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return await self._change(ids, ("scheduled", "queued", "retrying", "running"), _cancel)

    async def _change(
        self,
        ids: Sequence[str],
        places: Sequence[str],
        change: Callable[[Transaction, list[_Job]], Changed],
    ) -> Changed:
        known = known_ids(ids)

        def work(transaction: Transaction) -> Changed:
            jobs = map(_Job._make, transaction.rows("change/jobs", (texts(known),)))
            return change(transaction, [job for job in jobs if job.place in places])

        return await self._file.write(work) if known else Changed(())

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue; False when it was paused already.

        Raises:
            QueueNotFound: no queue has this name.
        """
        return await self._switch("change/pause", queue)

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again; False when it was not paused.

        Raises:
            QueueNotFound: no queue has this name.
        """
        return await self._switch("change/resume", queue)

    async def _switch(self, step: str, queue: str) -> bool:
        def work(transaction: Transaction) -> bool:
            found = transaction.rows("insert/queues", (texts([storable(queue)]),))
            if not found:
                raise QueueNotFound(queue)
            params = {"number": found[0][1], "now": transaction.now, "backlog": WHOLE_BACKLOG}
            return transaction.run(step, params) > 0

        return await self._file.write(work)

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings; False when there is no such worker."""
        params = (command, storable(worker))
        return await self._file.write(lambda transaction: transaction.run("change/command", params) > 0)


def _retry(transaction: Transaction, jobs: list[_Job], spread: float) -> Changed:
    seq, now = next_numbers(transaction, len(jobs)), transaction.now
    rows, ready = [], []
    for turn, job in enumerate(jobs, seq + 1):
        at = None if spread > 0 else rank(job.priority, turn)
        place = "scheduled" if at is None else "queued"
        rows.append((place, turn, at, now + uniform(0, max(spread, 0.0)), now, job.number))
        if at is not None:
            ready.append(Ready(job.id, job.queue, at))
    transaction.run_many("change/retry", rows)
    tell_arrived(transaction, Counter(job.queue_id for job in jobs if spread <= 0))
    _count(transaction, jobs, "retried_by_operator")
    return Changed(tuple(job.id for job in jobs), tuple(ready))


def _delete(transaction: Transaction, jobs: list[_Job]) -> Changed:
    transaction.run_many("change/delete", [(transaction.now, job.number) for job in jobs])
    return _changed(jobs)


def _restore(transaction: Transaction, jobs: list[_Job]) -> Changed:
    transaction.run_many("change/restore", [(job.number,) for job in jobs])
    return _changed(jobs)


def _purge(transaction: Transaction, jobs: list[_Job]) -> Changed:
    remove(transaction, [job.number for job in jobs])
    _count(transaction, jobs, "purged")
    return _changed(jobs)


def _cancel(transaction: Transaction, jobs: list[_Job]) -> Changed:
    running = [job for job in jobs if job.place == "running" and not job.cancel]
    waiting = [job for job in jobs if job.place != "running"]
    transaction.run_many("change/ask", [(job.number,) for job in running])
    transaction.run_many("change/cancel", [(transaction.now, job.number) for job in waiting])
    _count(transaction, waiting, "cancelled")
    return _changed(running + waiting)


def _count(transaction: Transaction, jobs: list[_Job], outcome: str) -> None:
    tallying = Tallying()
    for job in jobs:
        tallying.note(job.queue_id, job.type, outcome)
    tallying.write(transaction)


def _changed(jobs: list[_Job]) -> Changed:
    return Changed(tuple(job.id for job in jobs))
