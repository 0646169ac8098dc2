"""The heartbeat's own connection, on a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from queue_core.model.job import Stray
from queue_core.model.settings import PostgresSettings
from queue_core.model.text import storable
from queue_core.ports.store import HeartbeatReply, HeartbeatRequest, Neighbour, StackRequest
from queue_core.stores.postgres.dialect import EVERY_TYPE, load, plain_array, text_array
from queue_core.stores.postgres.session.bounds import closed_by_server, limits
from queue_core.stores.postgres.session.connection import (
    BlockingConnection,
    connect_blocking,
    found_pooler,
    hot_options,
    prepares,
)
from queue_core.stores.postgres.session.failures import BROKEN, FORGOTTEN, translate

ANSWER_GRACE = 0.5
"""Seconds beyond its own limit for a server to answer that it has ended a statement."""


class PostgresHeartbeat:
    """One statement a heartbeat: leases, progress, the worker's entry and its orders."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._connection: BlockingConnection | None = None
        # how many have been opened
        self._connections = 0
        # whether the others at this place were notified of the worker: resting ones do not search for new ones
        self._announced = False

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Prolong the leases that still hold and renew the worker's entry.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        with self._in_time():
            rows = self._execute(request)
            strays = self._strays(request) if request.doubts or request.doubt_until else []
            if request.place and not self._announced:
                self._run("heartbeat/arrived", {"place": request.place}, request.lease / 3)
                self._announced = True
        # The others name jobs of this worker that are to be cancelled, whatever the attempt, and (null) other workers.
        alive = {row[0] for row in rows if row[1] is False}
        return HeartbeatReply(
            lost=tuple(lease.id for lease in request.leases if lease.id not in alive),
            cancel=tuple(row[0] for row in rows if row[0] and row[1]),
            command=next((row[2] for row in rows if not row[0]), ""),
            neighbours=tuple(Neighbour(row[0], row[2]) for row in rows if row[1] is None)
            if request.with_neighbours
            else None,
            strays=tuple(Stray._make(row) for row in strays),
            # Where another server takes over, the connections to the one before have ended.
            marks={"": str(self._connections)},
        )

    def hand_back(self, worker: str, started: Sequence[str], last: int) -> None:
        """End the leases of a worker's claims up to a number, of all other jobs than these, as not started.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        with self._in_time():
            given = {"worker": worker, "started": plain_array(started), "last": last}
            self._run("heartbeat/hand_back", given, self._settings.timeout)

    def stack_requests(self, worker: str) -> list[StackRequest]:
        """Return requests for stacks that a worker has not answered.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        with self._in_time():
            rows = self._run("heartbeat/stack_requests", {"worker": worker}, self._settings.timeout)
        return [StackRequest._make(row) for row in rows]

    def give_stack(self, request: StackRequest, text: str) -> None:
        """Keep the answer to a request.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        with self._in_time():
            given = {"number": request.number, "text": storable(text)}
            self._run("heartbeat/give_stack", given, self._settings.timeout)

    def _execute(self, request: HeartbeatRequest) -> list[tuple[Any, ...]]:
        return self._run(
            "heartbeat/beat",
            {
                "id": plain_array(lease.id for lease in request.leases),
                "token": plain_array(lease.token for lease in request.leases),
                "progress": plain_array(lease.progress for lease in request.leases),
                "message": text_array(lease.message for lease in request.leases),
                "started": plain_array("t" if lease.started else "f" for lease in request.leases),
                "lease": request.lease,
                "worker": request.worker,
                "host": request.host,
                "pid": request.pid,
                "version": request.version,
                "queues": text_array(request.queues),
                "types": text_array(EVERY_TYPE if request.types is None else request.types),
                "concurrency": request.concurrency,
                "busy": request.busy,
                "quiet": request.quiet,
                "interval": request.interval,
                "place": request.place,
                "process": request.process,
                "stuck": request.stuck,
                "release": request.release,
                "look": request.with_neighbours,
            },
            request.lease / 3,
        )

    def _strays(self, request: HeartbeatRequest) -> list[tuple[Any, ...]]:
        claims = plain_array(doubt.number for doubt in request.doubts)
        asked = {"worker": request.worker, "claims": claims, "until": request.doubt_until}
        return self._run("heartbeat/strays", asked, request.lease / 3)

    def _run(self, query: str, params: Mapping[str, Any], seconds: float) -> list[tuple[Any, ...]]:
        """Run a query file; a heartbeat that hangs longer than its lease is useless."""
        seconds = max(1.0, min(self._settings.timeout, seconds))
        connection = self._connected(seconds)
        connection.ends = time.monotonic() + seconds + ANSWER_GRACE
        if prepares(self._settings):
            cursor = connection.execute(load(query, self._settings.schema), params, binary=True)
            return cursor.fetchall() if cursor.description else []
        # Behind a pooler the bounds come with the statement; see `bounds.run_bounded`.
        with psycopg.ClientCursor(connection) as bounded:
            bounded.execute(limits(seconds, patient=True) + load(query, self._settings.schema), params)
            while bounded.nextset():
                pass
            return bounded.fetchall() if bounded.description else []

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except (*BROKEN, psycopg.DatabaseError) as error:
            if isinstance(error, FORGOTTEN):
                found_pooler(self._settings, str(error))
            self.close()
            raise translate(error) from error

    def _connected(self, seconds: float) -> BlockingConnection:
        if self._connection is None or closed_by_server(self._connection):
            self.close()
            limit = int(seconds * 1000)
            options = hot_options(self._settings, limit)
            options["tcp_user_timeout"] = limit
            self._connection = connect_blocking(self._settings, options)
            self._connections += 1
        return self._connection

    def close(self) -> None:
        """Close the connection; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
