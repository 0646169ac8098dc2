"""Statements of the store sent by hand, so that two of them can be interleaved as a race would."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg

from queue_core.model.job import Claim, NewJob, Outcome, new_id
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.dialect import load, plain_array, text_array
from queue_core.stores.postgres.scans.ranks import EVERYWHERE
from queue_core.stores.postgres.scans.ranks import rank_parameters as parameters_of
from queue_core.stores.postgres.settle import by_statement, group_parameters
from queue_core.stores.postgres.settle import reclaim_parameters as reclaiming
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER

PATIENCE = 60.0
"""Seconds until something that has to happen counts as not happening; a machine under load is slow."""

Row = tuple[Any, ...]
T = TypeVar("T")


def without(text: bytes, *clauses: str) -> bytes:
    """Return a statement with some of its clauses taken out, to show that a test sees them missing."""
    for clause in clauses:
        assert clause.encode() in text, f"the statement has no longer: {clause}"
        text = text.replace(clause.encode(), b"")
    return text


class Hand:
    """One connection, and a thread in which its statements may wait for another hand's."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._thread = ThreadPoolExecutor(1)

    @property
    def pid(self) -> int:
        """The server's process of this connection."""
        return self._connection.info.backend_pid

    def do(self, statement: str | bytes, params: dict[str, Any] | None = None) -> list[Row]:
        """Run a statement, or a query file by its name, and return its rows."""
        named = isinstance(statement, str) and re.fullmatch(r"\w+/\w+", statement)
        text = load(statement, SCHEMA) if isinstance(statement, str) and named else statement
        cursor = self._connection.execute(text, params)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def later(self, statement: str | bytes, params: dict[str, Any] | None = None) -> Future[list[Row]]:
        """Run a statement that may have to wait."""
        return self._thread.submit(self.do, statement, params)

    def work(self, work: Callable[[], T]) -> Future[T]:
        """Do something with this hand that may have to wait."""
        return self._thread.submit(work)

    def waits_or_ends(self, other: Future[Any], watcher: Hand) -> bool:
        """Wait until this hand's statement waits for a lock (True) or has ended (False)."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if other.done():
                return False
            if watcher.do("select cardinality(pg_blocking_pids(%(pid)s))", {"pid": self.pid})[0][0]:
                return True
            time.sleep(0.01)
        raise AssertionError("the statement neither waits nor ends")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what stands inside at its end."""
        self.do("begin")
        yield
        self.do("commit")

    def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        self._thread.shutdown()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._connection.closed:
            self._connection.cancel_safe(timeout=5)
        self.close()


def new_job(**given: Any) -> NewJob:
    """Return a job that is ready at once."""
    return NewJob(**{"id": new_id(), "queue": QUEUE, "type": TYPE, "payload": "{}"} | given)


def insert_parameters(jobs: Sequence[NewJob], queue_id: int) -> dict[str, Any]:
    """Return what insert/jobs takes."""
    return {
        "id": plain_array(job.id for job in jobs),
        "queue_id": plain_array(queue_id for _ in jobs),
        "names": text_array([QUEUE]),
        "numbers": plain_array([queue_id]),
        "type": text_array(job.type for job in jobs),
        "payload": text_array(job.payload for job in jobs),
        "priority": plain_array(job.priority for job in jobs),
        "delay": plain_array(job.delay for job in jobs),
        "run_at": plain_array(job.run_at for job in jobs),
        "max_retries": plain_array(job.max_retries for job in jobs),
        "tags": plain_array(None for _ in jobs),
        "headers": plain_array([]),
    }


def claim_parameters(queue_id: int, ids: Sequence[str] | None = None, **given: Any) -> dict[str, Any]:
    """Return what claim/by_ids takes, and without ids claim/by_rank."""
    params: dict[str, Any] = {
        "queue_id": queue_id,
        "queue": QUEUE,
        "types": text_array([TYPE]),
        "limit": 100,
        "starting": 100,
        "worker": WORKER,
        "inline": None,
        "within": False,
        "lease": LEASE,
        "claim": 0,
        "release": 0,
        "synchronous": "off",
    } | given
    return params | (parameters_of([EVERYWHERE]) if ids is None else {"ids": plain_array(ids)})


def settle_parameters(outcomes: Sequence[Outcome]) -> tuple[str, dict[str, Any]]:
    """Return the settle statement of outcomes of one kind, and what it takes."""
    ((statement, group),) = by_statement(outcomes).items()
    return statement, group_parameters(statement, group)


def beat_parameters(claims: Sequence[Claim], **given: Any) -> dict[str, Any]:
    """Return what heartbeat/beat takes."""
    return {
        "id": plain_array(claim.id for claim in claims),
        "token": plain_array(claim.token for claim in claims),
        "progress": plain_array(None for _ in claims),
        "message": text_array("" for _ in claims),
        "started": plain_array("t" for _ in claims),
        "lease": LEASE,
        "worker": WORKER,
        "host": "host-1",
        "pid": 4711,
        "version": "1.2.3",
        "queues": text_array([QUEUE]),
        "types": text_array([TYPE]),
        "concurrency": 10,
        "busy": 0,
        "quiet": False,
        "interval": 10.0,
        "place": "",
        "process": "",
        "stuck": 0,
        "release": 0,
        "look": False,
    } | given


def reclaim_parameters() -> dict[str, Any]:
    """Return what settle/reclaim takes."""
    return reclaiming(100)


def new_lease(hand: Hand) -> str:
    """Give a new job a lease of another worker that lasts an hour, and return its id."""
    job = new_job()
    hand.do(f"""
        insert into queues (name) values ('{QUEUE}') on conflict do nothing;
        insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries)
        values ('{job.id}', 1, 122::bigint << 45 | 1, 1, 5, 'queued', now(), 'task', '{{}}', 3);
        insert into leases (id, token, queue_id, worker, started_at, expires_at)
        values ('{job.id}', 1, 1, 'lost', now(), now() + interval '1 hour')
    """)
    return job.id
