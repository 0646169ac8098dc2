"""Fixed records of operations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from queue_core.model.operation import (
    UNCHANGED,
    UNTHROTTLED,
    Author,
    ChangeOptions,
    Operation,
    OperationRequest,
    Rollout,
)

NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)


def operation(
    number: int, verb: str = "retry", ago: float = 60.0, why: str = "",
    options: ChangeOptions = UNCHANGED, rollout: Rollout = UNTHROTTLED,
    label: str = "TimeoutError: smtp <host>:<n>", signatures: tuple[str, ...] = (), **given: Any,
) -> Operation:  # fmt: skip
    """Return an operation that was asked for some seconds ago; what is not given is nothing."""
    at = NOW - timedelta(seconds=ago)
    asked = OperationRequest(verb, label, Author("ana", "desk-7"), why, options, rollout, signatures)
    counts = {"total": 0, "done": 0, "processed": 0, "skipped": 0, "errored": 0, "barrier": given.get("total", 0)}
    times = {"created_at": at, "updated_at": at, "started_at": at, "finished_at": None}
    return Operation(**{"number": number, "request": asked, "state": "running", "note": "", **counts, **times, **given})
