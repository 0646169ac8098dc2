"""Writing operations: first all members, then the start; what is not started never runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from queue_core.errors import (
    InvalidArgument,
    InvalidJob,
    NotFound,
    OutcomeUnknown,
    QueueClosed,
    QueueCoreError,
    QueueFull,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.model.operation import VERBS, Operation, OperationRequest
from queue_core.model.states import FINAL
from queue_core.ports.operations import OperationStore

MEMBERS_PER_WRITE = 1000
"""Members written at a time: some 40 ms, so that it succeeds on a busy machine, too."""
REFUSED = (InvalidArgument, InvalidJob, NotFound, QueueClosed, QueueFull)
"""Errors of changes that have changed nothing, since they were asked for what cannot be, or cannot be now."""
NOT_WRITTEN = "its jobs could not be written down, and none was changed"
"""The note of an operation that has not begun."""


async def submit(
    store: OperationStore,
    request: OperationRequest,
    ids: Sequence[str],
    progress: Callable[[Operation], None],
    chosen: float | None,
) -> Operation:
    """Write an operation on these jobs, and start it, unless it was cancelled meanwhile; see `Operations.submit`."""
    operation = await store.create(request)
    try:
        progress(operation)
        operation = await _add(store, operation, ids, progress, chosen)
    except BaseException:
        await _give_up(store, operation.number)
        raise
    return operation if operation.ended else await _begin(store, operation)


async def write(store: OperationStore, operation: Operation, ids: Sequence[str]) -> None:
    """Write these jobs into a preparing operation that several may write, and start it; a failure ends nothing.

    Raises:
        StoreUnavailable: it has not begun, or it is not known whether it has; another call goes on with it.
    """
    operation = await _add(store, operation, ids, lambda written: None, None)
    if operation.state == "preparing":
        await store.move(operation.number, "running")


async def _add(
    store: OperationStore,
    operation: Operation,
    ids: Sequence[str],
    progress: Callable[[Operation], None],
    chosen: float | None,
) -> Operation:
    """Write members until all are, or the operation has ended; return it."""
    if not VERBS[operation.request.verb].states <= FINAL:
        chosen = None
    elif chosen is None:
        chosen = operation.created_at.timestamp()
    for start in range(0, len(ids), MEMBERS_PER_WRITE):
        if operation.ended:
            break
        operation = await store.add(operation.number, ids[start : start + MEMBERS_PER_WRITE], chosen)
        progress(operation)
    return operation


async def _give_up(store: OperationStore, number: int) -> None:
    """End an operation that has not begun; executors later abandon one that cannot be ended now."""
    with contextlib.suppress(QueueCoreError):
        await store.move(number, "cancelled", NOT_WRITTEN)


async def _begin(store: OperationStore, operation: Operation) -> Operation:
    """Start an operation, and return it. It runs from the commit on, so no later failure is raised."""
    number = operation.number
    try:
        await store.move(number, "running")
    except StoreRefused:
        await _give_up(store, number)
        raise
    except StoreUnavailable as error:
        return await _started_after_all(store, number, error)
    with contextlib.suppress(StoreUnavailable):
        return await store.get(number)
    barrier = operation.request.rollout.barriers(operation.total)[0]
    return replace(operation, state="running", barrier=barrier, started_at=operation.updated_at)


async def _started_after_all(store: OperationStore, number: int, error: StoreUnavailable) -> Operation:
    """Return whether a call without an answer has started an operation."""
    try:
        found = await store.get(number)
    except StoreUnavailable:
        raise OutcomeUnknown(error.backend, error.reason, number) from error
    if found.state == "preparing":
        await _give_up(store, number)
        raise error
    return found
