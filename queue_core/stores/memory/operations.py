"""Operations in memory: the reference that every other store is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from queue_core.errors import OperationNotFound
from queue_core.model.operation import MOVES, MemberJob, NewOperation, Operation, OperationState, Outcomes, Step
from queue_core.model.states import FINAL, Status
from queue_core.stores.memory import change
from queue_core.stores.memory.records import JobRow, MemberRow, OperationRow, moment
from queue_core.stores.memory.state import MemoryState
from queue_core.stores.memory.store import MemoryStore
from queue_core.stores.memory.upkeep import abandon_operations


class MemoryOperations:
    """See queue_core.ports.operations.OperationStore for what each method does."""

    def __init__(self, store: MemoryStore) -> None:
        self._state = store.state
        self._rows = store.state.operations

    async def close(self) -> None:
        """The operations stay until the store itself goes."""

    async def create(self, asked: NewOperation) -> Operation:
        """Write a new operation, preparing and without members."""
        with self._state.lock:
            number, now = max(self._rows, default=0) + 1, moment(self._state.clock.now())
            view = Operation(number, asked, "preparing", "", 0, 0, 0, 0, 0, 0, now, now, None, None)
            self._rows[number] = OperationRow(view)
            return view

    async def add(self, number: int, ids: Sequence[str]) -> Operation:
        """Append members to a preparing operation, as their jobs are now."""
        with self._state.lock:
            row = self._row(number)
            if row.view.state != "preparing":
                return row.view
            there = {member.id for member in row.members}
            for job_id in dict.fromkeys(ids):
                if job_id not in there:
                    job = self._state.jobs.get(job_id)
                    token, queue = (None, "") if job is None else (job.token, job.queue)
                    row.members.append(MemberRow(job_id, token, queue))
            return self._write(row, total=len(row.members))

    async def step(self, number: int, most: int) -> Step:
        """Change the next members that are as they were frozen, and count all of them."""
        with self._state.lock:
            row, now = self._row(number), self._state.clock.now()
            view = row.view
            count = min(max(most, 0), view.barrier - view.done)
            if view.state != "running" or count <= 0:
                return Step(view)
            if now < row.next_at:
                return Step(view, wait=row.next_at - now)
            members = row.members[view.done : view.done + count]
            same = [member for member in members if self._unchanged(member)]
            changed = change.change(self._state, _verb(view.asked), [member.id for member in same])
            for member in same:
                member.changed = member.id in changed.ids
            rate = view.asked.pace.rate
            if rate:
                row.next_at = max(row.next_at, now) + count / rate
            done, processed = len(changed.ids), view.processed + len(changed.ids)
            self._write(row, done=view.done + count, processed=processed, skipped=view.skipped + count - done)
            return Step(self._end(row), changed, max(0.0, row.next_at - now) if rate else 0.0)

    async def err(self, number: int, note: str) -> Operation:
        """Count the next member as errored."""
        with self._state.lock:
            row = self._row(number)
            view = row.view
            if view.state == "running" and view.done < view.barrier:
                self._write(row, done=view.done + 1, errored=view.errored + 1, note=note)
            return self._end(row)

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        """Move an operation to another state."""
        with self._state.lock:
            row = self._row(number)
            before = row.view.state
            if state not in MOVES[before]:
                return False
            self._write(row, state=state, note=note)
            if before == "preparing":
                self._begin(row)
            elif before == "stopped" and state == "running":
                asked = row.view.asked
                free = replace(asked, pace=asked.pace._replace(stop_percent=None))
                self._write(row, asked=free, barrier=row.view.total)
            if row.view.ended:
                self._write(row, finished_at=row.view.updated_at)
            self._end(row)
            return True

    async def release(self, number: int) -> bool:
        """Let a running operation go on behind its canary."""
        with self._state.lock:
            row = self._row(number)
            if row.view.state != "running" or not row.view.in_canary:
                return False
            self._write(row, barrier=row.view.total)
            return True

    async def abandon(self) -> None:
        """Cancel operations that are still preparing long after their last change."""
        with self._state.lock:
            abandon_operations(self._state, self._state.clock.now())

    async def outcomes(self, number: int, last: int) -> Outcomes:
        """Return what became of the last members that were changed."""
        with self._state.lock:
            changed = [member for member in self._row(number).members if member.changed][-last:] if last > 0 else []
            states = Counter(self._state.jobs[one.id].status for one in changed if one.id in self._state.jobs)
            unfinished = sum(count for status, count in states.items() if status not in FINAL)
            return Outcomes(len(changed), states[Status.COMPLETED], states[Status.DEAD], unfinished)

    async def get(self, number: int) -> Operation:
        """Return an operation."""
        with self._state.lock:
            return self._row(number).view

    async def find(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        """Return operations, the newest first."""
        with self._state.lock:
            return [
                row.view
                for number, row in sorted(self._rows.items(), reverse=True)
                if (before is None or number < before)
                and not (unfinished and row.view.ended)
                and (signature is None or signature in row.view.asked.signatures)
            ][: max(limit, 0)]

    async def of_job(self, job_id: str, limit: int) -> list[Operation]:
        """Return the operations that have changed a job, the newest first."""
        with self._state.lock:
            found = [row.view for _, row in sorted(self._rows.items(), reverse=True) if _has_changed(row, job_id)]
            return found[: max(limit, 0)]

    async def changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        with self._state.lock:
            members = enumerate(self._row(number).members, 1)
            found = [MemberJob(place, one.id, one.queue) for place, one in members if one.changed and place > after]
            return found[: max(limit, 0)]

    def _row(self, number: int) -> OperationRow:
        try:
            return self._rows[number]
        except KeyError:
            raise OperationNotFound(number) from None

    def _unchanged(self, member: MemberRow) -> bool:
        job = self._state.jobs.get(member.id)
        return job is not None and job.token == member.token

    def _begin(self, row: OperationRow) -> None:
        view = row.view
        if view.state == "running":
            canary, total = view.asked.pace.canary, view.total
            self._write(row, barrier=canary if 0 < canary < total else total, started_at=view.updated_at)
        elif view.state == "done":
            for member in row.members:
                member.changed = True
            self._write(row, done=view.total, processed=view.total, barrier=view.total, started_at=view.updated_at)

    def _write(self, row: OperationRow, **fields: object) -> Operation:
        row.view = replace(row.view, updated_at=moment(self._state.clock.now()), **fields)  # type: ignore[arg-type]
        return row.view

    def _end(self, row: OperationRow) -> Operation:
        """Let a running operation be done behind its last member."""
        if row.view.state == "running" and row.view.done == row.view.total:
            self._write(row, state="done", finished_at=moment(self._state.clock.now()))
        return row.view


def _verb(asked: NewOperation) -> Callable[[MemoryState, JobRow], bool]:
    if asked.verb == "retry":
        return partial(change.retry, way=asked.way)
    if asked.verb == "move":
        return partial(change.move, way=asked.way)
    return {
        "delete": change.delete,
        "restore": change.restore,
        "purge": change.purge,
        "cancel": change.cancel,
    }[asked.verb]


def _has_changed(row: OperationRow, job_id: str) -> bool:
    return any(member.changed for member in row.members if member.id == job_id)
