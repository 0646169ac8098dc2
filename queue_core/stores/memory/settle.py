"""How attempts end: by the worker's outcome, or because the worker was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from queue_core.model.job import Attempt, Failure, Outcome, Reclaimed, Settled, summary
from queue_core.model.outcome import failure_of_loss
from queue_core.model.states import Status
from queue_core.stores.memory.records import JobRow, Lease, moment
from queue_core.stores.memory.state import MemoryState


def settle(state: MemoryState, outcome: Outcome) -> Settled:
    """End one attempt if its token still holds; accept an outcome again that was written before."""
    row = state.jobs.get(outcome.id)
    if row is None:
        return Settled(outcome.id, False)
    if row.lease is None or row.lease.token != outcome.token:
        return Settled(outcome.id, row.endings.get(outcome.token) == outcome.kind)
    row.endings[outcome.token] = outcome.kind
    if outcome.failure is not None and outcome.failure.kind == "timeout":
        state.tallies.note(row, "timed_out", state.clock.now())
    if row.lease.cancel and outcome.kind in {"retrying", "released"}:
        return _cancel_instead(state, row, row.lease, outcome)
    return _ENDINGS[outcome.kind](state, row, row.lease, outcome)


def _complete(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> Settled:
    _measure(state, row, lease, outcome)
    state.finish(row, Status.COMPLETED)
    row.last, row.result = replace(lease, progress=100, message=""), outcome.result
    return Settled(row.id, True)


def _cancel(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> Settled:
    _measure(state, row, lease, outcome)
    state.finish(row, Status.CANCELLED)
    row.last = replace(lease, progress=0, message="")
    return Settled(row.id, True)


def _cancel_instead(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> Settled:
    """Cancel a job whose request came too late for this attempt; it must not run another one."""
    if outcome.kind == "released":
        _note_loss(state, row, lease, outcome)
    else:
        _note(state, row, lease, outcome.failure, row.ended + 1)
    return _cancel(state, row, lease, outcome._replace(kind="cancelled"))._replace(cancelled=True)


def _retry(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> Settled:
    now = state.clock.now()
    state.tallies.note(row, "retried", now, run_us=outcome.run_us)
    row.retry_count += 1
    _note(state, row, lease, outcome.failure, row.ended)
    state.wait(row, Status.RETRYING, now + outcome.delay)
    return Settled(row.id, True, due=row.run_at)


def _bury(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> Settled:
    failure, now = outcome.failure, state.clock.now()
    _measure(state, row, lease, outcome)
    _note(state, row, lease, failure, row.ended + 1)
    if failure is not None:
        row.crashes += failure.kind == "poison"
        row.losses += failure.kind == "lost"
        state.tallies.death(row, failure.signature, now, lease)
    state.finish(row, Status.DEAD)
    return Settled(row.id, True)


def _release(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> Settled:
    now = state.clock.now()
    _note_loss(state, row, lease, outcome)
    state.tallies.note(row, "released", now, run_us=outcome.run_us)
    if not outcome.to_back:
        state.ready(row)
        return Settled(row.id, True, rank=row.rank)
    run_at = max(now, now + outcome.delay if outcome.run_at is None else outcome.run_at)
    state.again(row, Status.SCHEDULED if run_at > now else Status.QUEUED, run_at)
    if run_at > now:
        return Settled(row.id, True, due=run_at)
    return Settled(row.id, True, rank=None if row.blocked else row.rank)


_ENDINGS: dict[str, Callable[[MemoryState, JobRow, Lease, Outcome], Settled]] = {
    "completed": _complete,
    "cancelled": _cancel,
    "retrying": _retry,
    "dead": _bury,
    "released": _release,
}


def reclaim(state: MemoryState, row: JobRow, lease: Lease, bound: int) -> Reclaimed:
    """Take a job back from a worker that was lost."""
    now = state.clock.now()
    if not lease.started:
        return _release_unstarted(state, row, lease)
    row.losses += 1
    failure = failure_of_loss(lease.worker, row.losses, bound)
    state.tallies.note(row, "crashed", now)
    _note(state, row, lease, failure, row.ended)
    if row.losses >= bound:
        state.tallies.note(row, "dead", now)
        state.tallies.death(row, failure.signature, now, lease)
        state.tallies.count_run(row.given.type, lease, "dead", now)
        state.finish(row, Status.DEAD)
    elif lease.cancel:
        state.tallies.note(row, "cancelled", now)
        state.finish(row, Status.CANCELLED)
        row.last = replace(lease, progress=0, message="")
    else:
        state.ready(row)
    rank = row.rank if row.status is Status.QUEUED else None
    cancelled = row.status is Status.CANCELLED
    return Reclaimed(row.id, row.queue, row.given.type, lease.token, lease.worker, row.losses, rank, cancelled)


def _release_unstarted(state: MemoryState, row: JobRow, lease: Lease) -> Reclaimed:
    """Give a job back that was only waiting in its worker for a slot."""
    job = Reclaimed(row.id, row.queue, row.given.type, lease.token, lease.worker, row.losses, row.rank, started=False)
    if lease.cancel:
        state.tallies.note(row, "cancelled", state.clock.now())
        state.finish(row, Status.CANCELLED)
        row.last = replace(lease, progress=0, message="")
        return job._replace(rank=None, cancelled=True)
    state.tallies.note(row, "released", state.clock.now())
    state.ready(row)
    return job._replace(rank=row.rank)


def _note_loss(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> None:
    if outcome.failure is not None:
        row.losses += outcome.failure.kind == "lost"
        _note(state, row, lease, outcome.failure, row.ended)


def _measure(state: MemoryState, row: JobRow, lease: Lease, outcome: Outcome) -> None:
    wait_us = max(0, round((lease.started_at - row.run_at) * 1_000_000))
    now = state.clock.now()
    state.tallies.note(row, outcome.kind, now, wait_us=wait_us, run_us=outcome.run_us)
    state.tallies.count_run(row.given.type, lease, outcome.kind, now)


def _note(state: MemoryState, row: JobRow, lease: Lease, failure: Failure | None, number: int) -> None:
    if failure is None:
        return
    now = state.clock.now()
    state.signatures.setdefault(failure.signature, (failure.title, now))
    row.error = summary(failure)
    row.attempts.append(
        Attempt(
            job_id=row.id,
            token=lease.token,
            number=number,
            kind=failure.kind,
            exception=failure.exception,
            message=failure.message,
            traceback=failure.traceback,
            signature=failure.signature,
            worker=lease.worker,
            started_at=moment(lease.started_at),
            finished_at=moment(now),
            release=lease.release,
        )
    )
