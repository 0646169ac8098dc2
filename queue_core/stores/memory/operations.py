"""Operations in memory: the reference that every other store is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from queue_core.errors import OperationNotFound, QueueNotFound
from queue_core.model.operation import (
    AS_IT_WAS,
    MOVES,
    Changed,
    MemberJob,
    MemberVerb,
    NewOperation,
    Operation,
    OperationState,
    Outcomes,
    Step,
    Way,
    WorkerOrder,
)
from queue_core.model.states import FINAL, Status
from queue_core.stores.memory.change import change
from queue_core.stores.memory.records import MemberRow, OperationRow, moment
from queue_core.stores.memory.store import MemoryStore
from queue_core.stores.memory.upkeep import abandon_operations


class MemoryOperations:
    """See queue_core.ports.operations.OperationStore for what each method does."""

    def __init__(self, store: MemoryStore) -> None:
        self._state = store.state
        self._rows = store.state.operations

    async def close(self) -> None:
        """The operations stay until the store itself goes."""

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: Way = AS_IT_WAS) -> Changed:
        with self._state.lock:
            return change(self._state, verb, ids, options)

    async def pause(self, queue: str) -> bool:
        return self._set_paused(queue, True)

    async def resume(self, queue: str) -> bool:
        return self._set_paused(queue, False)

    def _set_paused(self, queue: str, paused: bool) -> bool:
        with self._state.lock:
            found = self._state.queues.get(queue)
            if found is None:
                raise QueueNotFound(queue)
            changed, found.paused = found.paused is not paused, paused
            return changed

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        with self._state.lock:
            found = self._state.workers.get(worker)
            if found is not None:
                found.command = order
            return found is not None

    async def create(self, asked: NewOperation) -> Operation:
        with self._state.lock:
            number, now = max(self._rows, default=0) + 1, moment(self._state.clock.now())
            view = Operation(number, asked, "preparing", "", 0, 0, 0, 0, 0, 0, now, now, None, None)
            self._rows[number] = OperationRow(view)
            return view

    async def add(self, number: int, ids: Sequence[str]) -> Operation:
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
            changed = change(self._state, view.asked.verb, [member.id for member in same], view.asked.way)  # type: ignore[arg-type]
            for member in same:
                member.changed = member.id in changed.ids
            rate = view.asked.pace.rate
            if rate:
                row.next_at = max(row.next_at, now) + count / rate
            done, processed = len(changed.ids), view.processed + len(changed.ids)
            self._write(row, done=view.done + count, processed=processed, skipped=view.skipped + count - done)
            return Step(self._end(row), changed, max(0.0, row.next_at - now) if rate else 0.0)

    async def err(self, number: int, note: str) -> Operation:
        with self._state.lock:
            row = self._row(number)
            view = row.view
            if view.state == "running" and view.done < view.barrier:
                self._write(row, done=view.done + 1, errored=view.errored + 1, note=note)
            return self._end(row)

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
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
        with self._state.lock:
            row = self._row(number)
            if row.view.state != "running" or not row.view.in_canary:
                return False
            self._write(row, barrier=row.view.total)
            return True

    async def abandon(self) -> None:
        with self._state.lock:
            abandon_operations(self._state, self._state.clock.now())

    async def outcomes(self, number: int, last: int) -> Outcomes:
        with self._state.lock:
            changed = [member for member in self._row(number).members if member.changed][-last:] if last > 0 else []
            states = Counter(self._state.jobs[one.id].status for one in changed if one.id in self._state.jobs)
            unfinished = sum(count for status, count in states.items() if status not in FINAL)
            return Outcomes(len(changed), states[Status.COMPLETED], states[Status.DEAD], unfinished)

    async def get(self, number: int) -> Operation:
        with self._state.lock:
            return self._row(number).view

    async def find(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        with self._state.lock:
            return [
                row.view
                for number, row in sorted(self._rows.items(), reverse=True)
                if (before is None or number < before)
                and not (unfinished and row.view.ended)
                and (signature is None or signature in row.view.asked.signatures)
            ][: max(limit, 0)]

    async def of_job(self, job_id: str, limit: int) -> list[Operation]:
        with self._state.lock:
            found = [row.view for _, row in sorted(self._rows.items(), reverse=True) if _has_changed(row, job_id)]
            return found[: max(limit, 0)]

    async def changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
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


def _has_changed(row: OperationRow, job_id: str) -> bool:
    return any(member.changed for member in row.members if member.id == job_id)
