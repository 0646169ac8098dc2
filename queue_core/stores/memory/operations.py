"""What operators change: each function moves one job, or says that its state does not allow it."""

from __future__ import annotations

from random import uniform

from queue_core.states import WAITING, Status
from queue_core.stores.memory.rows import JobRow
from queue_core.stores.memory.state import MemoryState


def retry(state: MemoryState, row: JobRow, spread: float = 0.0) -> bool:
    """Move a dead or completed job to queued, or to scheduled when it is spread; token and crash count stay.

    It queues up anew, so that a bulk retry does not push in front of live work.
    """
    if row.status not in (Status.DEAD, Status.COMPLETED):
        return False
    now = state.clock.now()
    row.retry_count = 0
    state.again(row, Status.SCHEDULED if spread > 0 else Status.QUEUED, now + uniform(0, max(spread, 0.0)))
    state.totals.note(row, "retried_by_operator", now)
    return True


def delete(state: MemoryState, row: JobRow) -> bool:
    """Move a dead job to the trash."""
    if row.status is not Status.DEAD or row.trashed_at is not None:
        return False
    row.trashed_at = row.updated_at = state.clock.now()
    state.let_go(row)
    return True


def restore(_state: MemoryState, row: JobRow) -> bool:
    """Move a job from the trash back into the DLQ, where it stands at the time of its death."""
    if row.trashed_at is None or row.finished_at is None:
        return False
    row.trashed_at, row.updated_at = None, row.finished_at
    return True


def purge(state: MemoryState, row: JobRow) -> bool:
    """Remove a job in the trash for good."""
    if row.trashed_at is None:
        return False
    state.remove(row, "purged")
    return True


def cancel(state: MemoryState, row: JobRow) -> bool:
    """Move a waiting job to cancelled, or ask the worker of a running one to stop it."""
    if row.lease is not None:
        asked, row.lease.cancel = row.lease.cancel, True
        return not asked
    if row.status not in WAITING:
        return False
    state.finish(row, Status.CANCELLED)
    state.totals.note(row, "cancelled", state.clock.now())
    return True
