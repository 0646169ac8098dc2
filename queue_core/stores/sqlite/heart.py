"""The heartbeat's own blocking connection, used by one thread."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from queue_core.store import BeatReply, Neighbour, Stray, WorkerBeat
from queue_core.stores.sqlite.file import SqliteFile
from queue_core.stores.sqlite.link import Mode, Transaction
from queue_core.stores.sqlite.sql import texts
from queue_core.stores.sqlite.timekeeping import keep_time


class SqliteHeart:
    """One transaction a heartbeat: leases, progress, the worker's entry and its orders."""

    def __init__(self, file: SqliteFile) -> None:
        self._timeout = file.settings.timeout
        self._link = file.link()

    def beat(self, beat: WorkerBeat) -> BeatReply:
        """Prolong the leases that still hold, record their progress, and renew the worker's entry.

        Raises:
            StoreUnavailable: no lock in time.
        """
        # A heartbeat that waits longer than its leases last helps nobody.
        deadline = time.monotonic() + min(self._timeout, beat.lease / 3)
        return self._link.transact(lambda transaction: _beat(transaction, beat), Mode.SOFT, deadline)

    def hand_back(self, worker: str, begun: Sequence[str]) -> None:
        """End the leases of a worker but for these jobs, as not begun."""
        given = {"worker": worker, "begun": texts(begun)}
        deadline = time.monotonic() + self._timeout
        self._link.transact(lambda transaction: transaction.run("worker/hand_back", given), Mode.SOFT, deadline)

    def close(self) -> None:
        """Give the connection back; doing it twice is safe."""
        self._link.close()


def _beat(transaction: Transaction, beat: WorkerBeat) -> BeatReply:
    keep_time(transaction)
    ids = texts(lease.id for lease in beat.leases)
    tokens: dict[str, int] = dict(transaction.rows("worker/held", (ids,)))
    held = [lease for lease in beat.leases if tokens.get(lease.id) == lease.token]
    until = transaction.now + beat.lease
    transaction.run_many("worker/renew", [(until, lease.begun, lease.id) for lease in held if lease.progress is None])
    transaction.run_many(
        "worker/renew_progress",
        [
            (until, lease.begun, max(0, min(lease.progress, 100)), lease.message, lease.id)
            for lease in held
            if lease.progress is not None
        ],
    )
    return BeatReply(
        lost=tuple(lease.id for lease in beat.leases if tokens.get(lease.id) != lease.token),
        cancel=tuple(row[0] for row in transaction.rows("worker/unwanted", (beat.worker,))),
        command=_register(transaction, beat),
        neighbours=_neighbours(transaction, beat) if beat.look else None,
        strays=_strays(transaction, beat) if beat.doubts else (),
    )


def _neighbours(transaction: Transaction, beat: WorkerBeat) -> tuple[Neighbour, ...]:
    return tuple(Neighbour._make(row) for row in transaction.rows("worker/neighbours", (beat.place, beat.worker)))


def _strays(transaction: Transaction, beat: WorkerBeat) -> tuple[Stray, ...]:
    asked = {"worker": beat.worker, "claims": json.dumps([doubt.number for doubt in beat.doubts])}
    return tuple(Stray._make(row) for row in transaction.rows("worker/strays", asked))


def _register(transaction: Transaction, beat: WorkerBeat) -> str:
    rows = transaction.rows("worker/command", (beat.worker,))
    entry = {
        "id": beat.worker,
        "host": beat.host,
        "pid": beat.pid,
        "version": beat.version,
        "queues": json.dumps(beat.queues),
        "types": json.dumps(beat.types),
        "concurrency": beat.concurrency,
        "busy": beat.busy,
        "quiet": beat.quiet,
        "interval": beat.interval,
        "place": beat.place,
        "process": beat.process,
        "stuck": beat.stuck,
        "now": transaction.now,
    }
    transaction.run("worker/entry", entry)
    return str(rows[0][0]) if rows else ""
