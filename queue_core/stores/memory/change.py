"""What operators change: each function changes one job in a state that its verb acts on; False: it left it as it is.

A job that may be changed again gets a new token, so that an operation that had chosen it before passes it over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import uniform

from queue_core.model.operation import UNCHANGED, VERBS, Changed, ChangeOptions, MemberVerb
from queue_core.model.states import Status
from queue_core.stores.memory.records import JobRow
from queue_core.stores.memory.state import MemoryState


def retry(state: MemoryState, row: JobRow, options: ChangeOptions) -> bool:
    """Move a dead or completed job to queued, or to scheduled when it is put off; the crash count stays.

    It queues behind the others, so that a bulk retry does not push in front of live work.
    """
    now = state.clock.now()
    state.tallies.note(row, "retried_by_operator", now)
    row.retry_count = row.losses = 0
    if _elsewhere(row, options):
        state.transfer(row, options)
    put_off = options.delay > 0 or options.spread > 0
    due = now + max(options.delay, 0.0) + uniform(0, max(options.spread, 0.0))
    state.again(row, Status.SCHEDULED if put_off else Status.QUEUED, due)
    return True


def move(state: MemoryState, row: JobRow, options: ChangeOptions) -> bool:
    """Give a waiting or dead job to another queue or priority; its state and its times stay."""
    if not _elsewhere(row, options):
        return False
    state.transfer(row, options)
    return True


def _elsewhere(row: JobRow, options: ChangeOptions) -> bool:
    return options.queue not in (None, row.queue) or options.priority not in (None, row.given.priority)


def delete(state: MemoryState, row: JobRow, _options: ChangeOptions) -> bool:
    """Move a dead job to the trash."""
    row.trashed_at = row.updated_at = state.clock.now()
    state.release_key(row)
    return True


def restore(state: MemoryState, row: JobRow, _options: ChangeOptions) -> bool:
    """Move a job from the trash back into the DLQ, at the time of its death."""
    assert row.finished_at is not None
    row.trashed_at, row.updated_at = None, row.finished_at
    return True


def purge(state: MemoryState, row: JobRow, _options: ChangeOptions) -> bool:
    """Remove a job in the trash for good."""
    state.remove(row, "purged")
    return True


def cancel(state: MemoryState, row: JobRow, _options: ChangeOptions) -> bool:
    """Move a waiting job to cancelled, or ask the worker of a running one to stop it."""
    if row.lease is not None:
        asked, row.lease.cancel = row.lease.cancel, True
        return not asked
    state.finish(row, Status.CANCELLED)
    state.tallies.note(row, "cancelled", state.clock.now())
    return True


_VERBS: dict[MemberVerb, Callable[[MemoryState, JobRow, ChangeOptions], bool]] = {
    "retry": retry,
    "delete": delete,
    "restore": restore,
    "purge": purge,
    "cancel": cancel,
    "move": move,
}


def _changed(state: MemoryState, verb: MemberVerb, row: JobRow, options: ChangeOptions) -> bool:
    facts = VERBS[verb]
    if not (facts.acts_on(row.status, row.trashed_at is not None) and _VERBS[verb](state, row, options)):
        return False
    if facts.renews:
        state.renew(row)
    return True


def change(state: MemoryState, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
    """Change those of these jobs whose states allow it; the caller holds the lock."""
    rows = [state.jobs[job_id] for job_id in dict.fromkeys(ids) if job_id in state.jobs]
    changed = [row for row in rows if _changed(state, verb, row, options)]
    ready = tuple(row.ready() for row in changed if row.status is Status.QUEUED and not row.blocked)
    ids = tuple(row.id for row in changed)
    unblocked = (one for one in state.unblocked() if state.jobs[one.id].status is Status.QUEUED)
    # One that was let through first may have been changed itself afterwards.
    return Changed(ids, ready + tuple(one for one in unblocked if one.id not in ids))
