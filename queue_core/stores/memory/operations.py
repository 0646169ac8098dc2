"""Operations in memory: the reference that every other store is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from queue_core.errors import OperationNotFound, QueueNotFound
from queue_core.model import operation
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.operation import (
    UNCHANGED,
    Changed,
    ChangeOptions,
    MemberVerb,
    Operation,
    OperationRecord,
    OperationRequest,
    OperationState,
    Outcomes,
    StepResult,
    WorkerOrder,
)
from queue_core.model.states import FINAL, Status
from queue_core.model.triage.signatures import UNTOUCHED, SignatureFacts, resolved_of
from queue_core.ports.operations import MemberJob
from queue_core.stores.memory.change import change
from queue_core.stores.memory.records import MemberRow, OperationRow
from queue_core.stores.memory.store import MemoryStore
from queue_core.stores.memory.upkeep import abandon_operations


class MemoryOperations:
    """See queue_core.ports.operations.OperationStore for what each method does."""

    def __init__(self, store: MemoryStore) -> None:
        self._state = store.state
        self._rows = store.state.operations

    async def close(self) -> None:
        """The operations stay until the store itself goes."""

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        with self._state.lock:
            return change(self._state, verb, ids, options)

    async def pause(self, queue: str) -> bool:
        return self._switch(queue, paused=True)

    async def resume(self, queue: str) -> bool:
        return self._switch(queue, paused=False, closed=False)

    async def set_closed(self, queue: str, closed: bool) -> bool:
        return self._switch(queue, closed=closed)

    def _switch(self, queue: str, **flags: bool) -> bool:
        with self._state.lock:
            found = self._state.queues.get(queue)
            if found is None:
                raise QueueNotFound(queue)
            changed = any(getattr(found, name) is not flag for name, flag in flags.items())
            for name, flag in flags.items():
                setattr(found, name, flag)
            return changed

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        with self._state.lock:
            found = self._state.workers.get(worker)
            if found is not None:
                found.command = order
            return found is not None

    async def set_facts(self, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
        with self._state.lock:
            if self._state.facts.get(signature, UNTOUCHED).changed_by != before.changed_by:
                return False
            self._state.facts[signature] = after
            resolved = resolved_of(after)
            if resolved is not None:
                self._state.tallies.resolved[signature] = resolved
            return True

    async def set_filter(self, name: str, before: int, after: SavedFilter | None) -> bool:
        with self._state.lock:
            if self._state.filters.get(name, SavedFilter(name)).changed_by != before:
                return False
            self._state.filters.pop(name, None)
            if after is not None:
                self._state.filters[name] = after
            return True

    async def create(self, request: OperationRequest) -> Operation:
        with self._state.lock:
            self._state.last_operation = number = self._state.last_operation + 1
            record = operation.begin(number, request, self._state.clock.now())
            self._rows[number] = OperationRow(record, counted=request.verb != "retry")
            return self._rows[number].view

    async def add(self, number: int, ids: Sequence[str], chosen: float | None = None) -> Operation:
        with self._state.lock:
            row = self._row(number)
            there = {member.id for member in row.members}
            new = [job_id for job_id in dict.fromkeys(ids) if job_id not in there]
            if self._write(row, operation.add(row.record, len(new), self._state.clock.now())):
                for job_id in new:
                    job = self._state.jobs.get(job_id)
                    same = job is not None and (chosen is None or (job.status in FINAL and job.updated_at <= chosen))
                    token = job.token if job is not None and same else None
                    row.members.append(MemberRow(job_id, token, "" if job is None else job.queue))
            return row.view

    async def step(self, number: int, most: int) -> StepResult:
        with self._state.lock:
            row, now = self._row(number), self._state.clock.now()
            view = row.view
            count, wait = operation.next_members(row.record, most, now)
            if not count:
                return StepResult(view, wait=wait)
            same = [member for member in row.members[view.done : view.done + count] if self._unchanged(member)]
            changed = change(self._state, view.request.verb, [member.id for member in same], view.request.options)  # type: ignore[arg-type]
            for member in same:
                member.changed = member.id in changed.ids
            row.record = operation.step(row.record, count, len(changed.ids), now)
            return StepResult(row.view, changed, max(0.0, row.record.next_at - now))

    async def fail_member(self, number: int, note: str) -> Operation:
        with self._state.lock:
            row = self._row(number)
            self._write(row, operation.fail_member(row.record, note, self._state.clock.now()))
            return row.view

    async def note_drain(self, number: int, left: int) -> Operation:
        with self._state.lock:
            row = self._row(number)
            self._write(row, operation.note_drain(row.record, left, self._state.clock.now()))
            return row.view

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        with self._state.lock:
            row = self._row(number)
            at_once = row.view.state == "preparing" and state == "done"
            moved = self._write(row, operation.move(row.record, state, note, self._state.clock.now()))
            if moved and at_once:
                for member in row.members:
                    member.changed = True
            return moved

    async def pass_barrier(self, number: int, barrier: int) -> bool:
        with self._state.lock:
            row = self._row(number)
            return self._write(row, operation.pass_barrier(row.record, barrier, self._state.clock.now()))

    async def forget(self, number: int) -> None:
        with self._state.lock:
            if (row := self._rows.get(number)) is not None and row.view.state == "preparing":
                del self._rows[number]

    async def abandon(self) -> None:
        with self._state.lock:
            abandon_operations(self._state, self._state.clock.now())

    async def outcomes(self, number: int, last: int, behind: int = 0, until: int | None = None) -> Outcomes:
        with self._state.lock:
            members = self._row(number).members[max(behind, 0) : until]
            changed = [member for member in members if member.changed][-last:] if last > 0 else []
            jobs = [self._state.jobs[one.id] for one in changed if one.id in self._state.jobs]
            states = Counter(job.status for job in jobs)
            failed = Counter(job.status for job in jobs if job.retry_count)
            return Outcomes(
                len(changed),
                states[Status.COMPLETED],
                states[Status.DEAD],
                sum(count for status, count in states.items() if status not in FINAL),
                sum(count for status, count in failed.items() if status not in FINAL),
                failed[Status.COMPLETED],
            )

    async def note_outcomes(self, number: int, outcomes: Outcomes | None, final: bool) -> None:
        with self._state.lock:
            row = self._rows.get(number)
            if row is not None and not row.counted:
                row.record = row.record._replace(view=replace(row.view, outcomes=outcomes))
                row.counted = final

    async def list_uncounted(self, limit: int) -> list[Operation]:
        with self._state.lock:
            rows = [row for _, row in sorted(self._rows.items(), reverse=True) if not row.counted]
            return [row.view for row in rows if row.view.state != "preparing"][: max(limit, 0)]

    async def get(self, number: int) -> Operation:
        with self._state.lock:
            return self._row(number).view

    async def list_operations(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        with self._state.lock:
            return [
                row.view
                for number, row in sorted(self._rows.items(), reverse=True)
                if (before is None or number < before)
                and not (unfinished and row.view.ended)
                and (signature is None or signature in row.view.request.signatures)
            ][: max(limit, 0)]

    async def list_for_job(self, job_id: str, limit: int) -> list[Operation]:
        with self._state.lock:
            found = [row.view for _, row in sorted(self._rows.items(), reverse=True) if _has_changed(row, job_id)]
            return found[: max(limit, 0)]

    async def list_members(self, number: int, after: int, limit: int) -> list[MemberJob]:
        with self._state.lock:
            members = enumerate(self._row(number).members, 1)
            found = [MemberJob(place, one.id, one.queue) for place, one in members if one.changed and place > after]
            return found[: max(limit, 0)]

    async def pending(self, number: int, limit: int) -> list[str]:
        with self._state.lock:
            row = self._row(number)
            return [member.id for member in row.members[row.view.done :][: max(limit, 0)]]

    def _row(self, number: int) -> OperationRow:
        try:
            return self._rows[number]
        except KeyError:
            raise OperationNotFound(number) from None

    def _unchanged(self, member: MemberRow) -> bool:
        job = self._state.jobs.get(member.id)
        return job is not None and job.token == member.token

    def _write(self, row: OperationRow, record: OperationRecord | None) -> bool:
        """Keep a transition; False when there was none."""
        if record is not None:
            row.record = record
        return record is not None


def _has_changed(row: OperationRow, job_id: str) -> bool:
    return any(member.changed for member in row.members if member.id == job_id)
