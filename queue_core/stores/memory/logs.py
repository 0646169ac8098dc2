"""What workers write about jobs in memory: lines of logs, and stacks of running ones."""

from __future__ import annotations

from queue_core.model.job import MAX_LOG_LINES, LogEntry, LogLine, placed
from queue_core.model.report import JobStack
from queue_core.ports.operations import STACKS_IN_ALL, STACKS_OF_A_JOB
from queue_core.ports.store import StackRequest
from queue_core.stores.memory.records import moment
from queue_core.stores.memory.state import MemoryState


def append(state: MemoryState, line: LogLine) -> bool:
    """Append a line to the log of its job if the token of its attempt still holds."""
    row = state.jobs.get(line.id)
    if row is None or row.lease is None or row.lease.token != line.token:
        return False
    for place, _ in placed(row.log_end, [line]):
        at = moment(state.clock.now() - line.age)
        row.log.append(LogEntry(place.number, place.token, at, line.text))
        row.log_end = place
    while row.log and row.log[0].number <= row.log_end.number - MAX_LOG_LINES:
        row.log.popleft()
    return True


# Callers of the functions about stacks hold the lock of the state.

ASKED_SECONDS = 60.0
"""How long a request for a stack waits for its answer."""


def ask_stack(state: MemoryState, job_id: str) -> JobStack | None:
    """Ask the worker of a running job where that is; None: it does not run."""
    row = state.running.get(job_id)
    if row is None or row.lease is None:
        return None
    number, now = max(state.stacks, default=0) + 1, state.clock.now()
    _forget_stacks(state, job_id, number, now)
    state.stacks[number] = JobStack(number, job_id, row.lease.worker, moment(now), None, "")
    return state.stacks[number]


def _forget_stacks(state: MemoryState, job_id: str, number: int, now: float) -> None:
    """Make room for one more stack of a job: keep its last ones, and no requests that were not answered in time."""
    of_job = [one for one in state.stacks.values() if one.job_id == job_id]
    gone = {one.number for one in sorted(of_job, key=lambda one: -one.number)[STACKS_OF_A_JOB - 1 :]}
    over = moment(now - ASKED_SECONDS)
    gone |= {one.number for one in of_job if one.taken_at is None and one.requested_at < over}
    gone |= {one for one in state.stacks if one <= number - STACKS_IN_ALL}
    for old in gone:
        del state.stacks[old]


def read_stacks(state: MemoryState, job_id: str) -> list[JobStack]:
    """Return the stacks of a job that were taken, the newest first."""
    found = [one for one in state.stacks.values() if one.job_id == job_id and one.taken_at is not None]
    return sorted(found, key=lambda one: -one.number)


def stack_requests(state: MemoryState, worker: str) -> list[StackRequest]:
    """Return the requests that a worker has not answered."""
    asked = [one for one in state.stacks.values() if one.worker == worker and one.taken_at is None]
    return [StackRequest(one.number, one.job_id) for one in asked]


def give_stack(state: MemoryState, request: StackRequest, text: str) -> None:
    """Keep an answer, unless the request is over."""
    asked = state.stacks.get(request.number)
    if asked is not None and asked.taken_at is None:
        state.stacks[request.number] = asked._replace(taken_at=moment(state.clock.now()), text=text)
