"""What the tests hand to a store: jobs, outcomes and heartbeats with everything unimportant filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from queue_core.model.job import Claim, Failure, NewJob, Outcome, new_id
from queue_core.ports.store import HeartbeatRequest, LeaseRenewal

QUEUE = "work"
TYPE = "task"
WORKER = "worker-1"
UNKNOWN = "00000000-0000-7000-8000-000000000000"
LEASE = 60.0
"""Seconds; tests move time by more or less than this, never by just this much."""


def new_job(**given: Any) -> NewJob:
    """Return a job that is ready at once."""
    return NewJob(**{"id": new_id(), "queue": QUEUE, "type": TYPE, "payload": "{}"} | given)


class Listed:
    """Jobs that are handed out in parts, as those of a long list are while it is built."""

    def __init__(self, jobs: Sequence[NewJob], size: int, between: Callable[[int], None] = lambda part: None) -> None:
        """`between` is called before each part is handed out for the first time, with its number from 0."""
        self._jobs = jobs
        self._size = size
        self._between = between
        self._built = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def parts(self) -> Iterator[Sequence[NewJob]]:
        """See queue_core.ports.streams.JobParts."""
        for number, start in enumerate(range(0, len(self._jobs), self._size)):
            if number >= self._built:
                self._between(number)
                self._built = number + 1
            yield self._jobs[start : start + self._size]


def failure(message: str = "no such file", **given: Any) -> Failure:
    """Return why an attempt failed."""
    fields = {
        "kind": "error",
        "exception": "builtins.OSError",
        "message": message,
        "traceback": f"Traceback (most recent call last):\nOSError: {message}",
        "signature": "0123456789ab",
        "title": "OSError: no such file",
    }
    return Failure(**fields | given)


def outcome(claim: Claim, kind: str, **given: Any) -> Outcome:
    """Return how the worker ends the attempt of this claim."""
    fields: dict[str, Any] = {
        "id": claim.id,
        "token": claim.token,
        "queue": claim.queue,
        "type": claim.type,
        "kind": kind,
    }
    if kind in {"retrying", "dead"}:
        fields["failure"] = failure()
    if kind == "retrying":
        fields["delay"] = LEASE
    return Outcome(**fields | given)


def worker_beat(*leases: LeaseRenewal, **given: Any) -> HeartbeatRequest:
    """Return a heartbeat of the worker."""
    fields = {
        "worker": WORKER,
        "host": "host-1",
        "pid": 4711,
        "version": "1.2.3",
        "queues": (QUEUE,),
        "types": (TYPE,),
        "concurrency": 10,
        "busy": len(leases),
        "quiet": False,
        "lease": LEASE,
        "interval": 10.0,
        "leases": leases,
    }
    return HeartbeatRequest(**fields | given)


def held(claim: Claim, progress: int | None = None, message: str = "") -> LeaseRenewal:
    """Return the part of a heartbeat that prolongs this claim."""
    return LeaseRenewal(claim.id, claim.token, progress, message)
