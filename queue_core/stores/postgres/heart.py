"""The heartbeat's own blocking connection, used by one thread."""

from __future__ import annotations

from typing import Any

import psycopg

from queue_core.settings import PostgresSettings
from queue_core.store import BeatReply, WorkerBeat
from queue_core.stores.postgres.bounded import BROKEN, FORGOTTEN
from queue_core.stores.postgres.connecting import BlockingConnection, connect_blocking, found_pooler, hot_options
from queue_core.stores.postgres.lane import translate
from queue_core.stores.postgres.records import EVERY_TYPE
from queue_core.stores.postgres.sql import load, plain_array, text_array


class PostgresHeart:
    """One statement a heartbeat: leases, progress, the worker's entry and its orders."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._connection: BlockingConnection | None = None

    def beat(self, beat: WorkerBeat) -> BeatReply:
        """Prolong the leases that still hold and renew the worker's entry.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        try:
            rows = self._execute(beat)
        except (*BROKEN, psycopg.DatabaseError) as error:
            if isinstance(error, FORGOTTEN):
                found_pooler(self._settings, str(error))
            self.close()
            raise translate(error) from error
        # The other rows name jobs of this worker that are to be cancelled, whatever the attempt.
        alive = {row[0] for row in rows if not row[1]}
        return BeatReply(
            lost=tuple(lease.id for lease in beat.leases if lease.id not in alive),
            cancel=tuple(row[0] for row in rows if row[0] and row[1]),
            command=next((row[2] for row in rows if not row[0]), ""),
        )

    def _execute(self, beat: WorkerBeat) -> list[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            # Milliseconds; a heartbeat that hangs longer than its lease helps nobody.
            limit = max(1000, int(min(self._settings.timeout, beat.lease / 3) * 1000))
            options = hot_options(self._settings, limit)
            options["tcp_user_timeout"] = limit
            self._connection = connect_blocking(self._settings, options)
        cursor = self._connection.execute(
            load("worker/beat"),
            {
                "id": plain_array(lease.id for lease in beat.leases),
                "token": plain_array(lease.token for lease in beat.leases),
                "progress": plain_array(lease.progress for lease in beat.leases),
                "message": text_array(lease.message for lease in beat.leases),
                "begun": plain_array("t" if lease.begun else "f" for lease in beat.leases),
                "lease": beat.lease,
                "worker": beat.worker,
                "host": beat.host,
                "pid": beat.pid,
                "version": beat.version,
                "queues": text_array(beat.queues),
                "types": text_array(EVERY_TYPE if beat.types is None else beat.types),
                "concurrency": beat.concurrency,
                "busy": beat.busy,
                "quiet": beat.quiet,
                "interval": beat.interval,
            },
            binary=True,
        )
        return cursor.fetchall()

    def close(self) -> None:
        """Give the connection back; doing it twice is safe."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
