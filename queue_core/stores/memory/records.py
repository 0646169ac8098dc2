"""What the memory store keeps: one mutable row for each job, worker and queue."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import Any

from queue_core.model.job import (
    LOG_START,
    Attempt,
    Claim,
    Job,
    JobResult,
    LogEntry,
    LogPosition,
    NewJob,
    OutcomeKind,
    Ready,
    headers_text,
)
from queue_core.model.operation import Operation, OperationRecord
from queue_core.model.schedule import PassedTick, Planned
from queue_core.model.states import Status
from queue_core.ports.store import HeartbeatRequest
from queue_core.runtime import until_full


def moment(seconds: float) -> datetime:
    """Return the moment that many seconds after the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(slots=True)
class Lease:
    """The right of one worker to run one job until a time."""

    token: int
    worker: str
    started_at: float
    expires_at: float
    progress: int = 0
    message: str = ""
    # a cancel request was made while the job runs
    cancel: bool = False
    # the handler was started; until then the loss of the worker is no crash of the job
    started: bool = True
    # the number of its worker's claim that made it
    claim: int = 0
    # that of its worker; None: unknown
    release: str | None = None
    release_number: int = 0


@dataclass(slots=True)
class JobRow:
    """A job in whatever state it is. Times are seconds since the epoch."""

    given: NewJob
    # order of arrival in this store; only an operator's retry and a reschedule are new arrivals
    sequence: int
    # the order in its queue, which the worker's retries and releases do not change
    rank: int
    status: Status
    created_at: float
    updated_at: float
    run_at: float
    # it was released by its ordering key and holds it
    admitted: bool = False
    retry_count: int = 0
    crashes: int = 0
    losses: int = 0
    # the token of its last lease, or of what an operator changed since; nothing ever lowers it
    token: int = 0
    # token -> how the worker ended that attempt
    endings: dict[int, OutcomeKind] = field(default_factory=dict)
    # exactly while running
    lease: Lease | None = None
    # the lease of the last attempt of a job whose life has ended
    last: Lease | None = None
    # exactly in final states
    finished_at: float | None = None
    trashed_at: float | None = None
    result: str | None = None
    error: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    log: deque[LogEntry] = field(default_factory=deque)
    # the number of its last line
    log_end: LogPosition = LOG_START

    @property
    def id(self) -> str:
        """The id that the producer chose."""
        return self.given.id

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self.given.queue

    @property
    def key(self) -> str | None:
        """Its ordering key."""
        return self.given.ordering_key

    @property
    def ended(self) -> int:
        """Attempts that have failed, crashed or been lost."""
        return self.retry_count + self.crashes + self.losses

    @property
    def blocked(self) -> bool:
        """Whether it waits for its ordering key before it can be ready."""
        return self.key is not None and not self.admitted

    def ready(self) -> Ready:
        """Return the job as offered to a dispatcher."""
        return Ready(self.id, self.queue, self.rank)

    def claim(self, lease: Lease) -> Claim:
        """Return what the worker is handed."""
        return Claim(
            self.id,
            lease.token,
            self.queue,
            self.given.type,
            self.given.payload,
            self.given.priority,
            self.rank,
            self.retry_count,
            self.given.max_retries,
            self.crashes,
            self.created_at,
            self.given.tags,
            self.key,
            self.losses,
            headers_text(self.given),
        )

    def job_result(self, since: float) -> JobResult:
        """Return what `result()` reads back; a result from before `since` is over its retention."""
        kept = self.finished_at is not None and self.finished_at > since
        expired = self.status is Status.COMPLETED and not kept
        return JobResult(self.id, self.status, self.result if kept else None, self.error, expired)

    def view(self) -> Job:
        """Return the job as people see it."""
        lease = self.lease or self.last
        failed = self.attempts[-1] if self.attempts else None
        return Job(
            id=self.id,
            type=self.given.type,
            queue=self.queue,
            payload=_decoded(self.given.payload),
            payload_text=self.given.payload,
            status=self.status,
            priority=self.given.priority,
            created_at=moment(self.created_at),
            updated_at=moment(self.updated_at),
            run_at=moment(self.run_at),
            started_at=moment(lease.started_at) if lease else None,
            completed_at=None if self.finished_at is None else moment(self.finished_at),
            result=None if self.result is None else json.loads(self.result),
            error=self.error,
            retry_count=self.retry_count,
            max_retries=self.given.max_retries,
            crashes=self.crashes,
            progress=lease.progress if lease else 0,
            progress_message=lease.message if lease else "",
            tags=self.given.tags,
            token=self.token,
            worker=lease.worker if lease else None,
            lease_expires_at=moment(self.lease.expires_at) if self.lease else None,
            failure_kind=failed.kind if failed else None,
            signature=failed.signature if failed else None,
            traceback=failed.traceback if failed else None,
            trashed_at=None if self.trashed_at is None else moment(self.trashed_at),
            cancel_requested=self.lease is not None and self.lease.cancel,
            ordering_key=self.key,
            unique_key=self.given.unique_key,
            losses=self.losses,
            headers=dict(self.given.headers),
            release=lease.release if lease else None,
        )


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


@dataclass(slots=True)
class QueueRow:
    """A queue with its waiting jobs."""

    name: str
    paused: bool = False
    closed: bool = False
    # (rank, id) of ready jobs, sorted
    ready: list[tuple[int, str]] = field(default_factory=list)
    # waiting jobs by band of priority: scheduled, queued and retrying
    waiting: Counter[str] = field(default_factory=Counter)
    # the last arrival in microseconds since the epoch, where aging counts from it
    arrival_us: int = 0
    # starts that its rate allows, as of a time in seconds since the epoch
    tokens: float = inf
    refilled_at: float = 0.0


@dataclass(slots=True)
class WorkerRow:
    """A worker that announced itself."""

    request: HeartbeatRequest
    started_at: float
    heartbeat_at: float
    # the order that its next heartbeat brings
    command: str = ""

    def lost(self, now: float) -> bool:
        """Return whether three heartbeats in a row were missed."""
        return now - self.heartbeat_at > 3 * self.request.interval


@dataclass(slots=True)
class ScheduleRow:
    """A schedule."""

    planned: Planned
    # those that have passed, oldest first
    ticks: list[PassedTick] = field(default_factory=list)


@dataclass(slots=True)
class MemberRow:
    """A job that an operation was asked for."""

    id: str
    # as of when it was frozen; None: there was no such job
    token: int | None
    queue: str
    # the operation has changed it
    changed: bool = False


@dataclass(slots=True)
class OperationRow:
    """An operation."""

    record: OperationRecord
    members: list[MemberRow] = field(default_factory=list)
    # nothing more becomes known of its outcomes
    counted: bool = True

    @property
    def view(self) -> Operation:
        """As it is shown."""
        return self.record.view


def of_one_claim(rows: Iterable[JobRow]) -> list[JobRow]:
    """Return the first rows, as many as one claim hands out by the sizes of their payloads."""
    return list(until_full(rows, lambda row: len(row.given.payload)))
