"""Retention of the memory store: removes what has expired."""

from __future__ import annotations

from math import inf

from queue_core.model import operation
from queue_core.model.operation import ABANDONED_SECONDS, NEVER_STARTED
from queue_core.model.states import Status
from queue_core.stores.memory.records import JobRow
from queue_core.stores.memory.state import MemoryState

SERIES_SECONDS = 2 * 86400.0
"""How long minutes are kept."""
LOST_SECONDS = 86400.0
"""How long the entry of a lost worker is shown."""


def prune(state: MemoryState) -> None:
    """Remove finished jobs, minutes and entries of lost workers that are over their retention."""
    now = state.clock.now()
    for row in [row for row in state.jobs.values() if _over(state, row, now)]:
        state.remove(row, f"expired_{row.status}")
    for schedule in state.schedules.values():
        kept = now - _or_never(state.retention.completed)
        schedule.ticks = [tick for tick in schedule.ticks if tick.at >= kept]
    _prune_operations(state, now)
    state.unique.prune(state.jobs, now)
    state.tallies.forget_before(now - SERIES_SECONDS)
    _forget_titles(state, now)
    for name in [name for name, one in state.workers.items() if one.heartbeat_at < now - LOST_SECONDS]:
        del state.workers[name]


def _forget_titles(state: MemoryState, now: float) -> None:
    """Forget the titles of error signatures that no dead job has any more."""
    old = {signature for signature, (_, first_seen) in state.signatures.items() if first_seen < now - SERIES_SECONDS}
    if old:
        old -= {row.view().signature for row in state.jobs.values() if row.status is Status.DEAD}
    for signature in old:
        del state.signatures[signature]
        state.facts.pop(signature, None)
        state.tallies.forget(signature)


def _prune_operations(state: MemoryState, now: float) -> None:
    keep = _or_never(state.retention.operations)
    for number, row in list(state.operations.items()):
        age = now - row.view.updated_at.timestamp()
        if row.view.ended and age > keep:
            del state.operations[number]
    abandon_operations(state, now)


def abandon_operations(state: MemoryState, now: float) -> None:
    """Cancel operations that are still preparing long after their last change."""
    for row in state.operations.values():
        if row.view.state == "preparing" and now - row.view.updated_at.timestamp() > ABANDONED_SECONDS:
            row.record = operation.move(row.record, "cancelled", NEVER_STARTED, now) or row.record


def _over(state: MemoryState, row: JobRow, now: float) -> bool:
    if row.finished_at is None:
        return False
    if row.trashed_at is not None:
        return now - row.trashed_at > _or_never(state.retention.trash)
    keep = state.retention.dead if row.status is Status.DEAD else state.retention.completed
    return now - row.finished_at > _or_never(keep)


def _or_never(seconds: float | None) -> float:
    return inf if seconds is None else seconds
