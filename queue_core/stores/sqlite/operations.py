"""Operations in the file: a step, what it changes and what it counts are one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from queue_core.errors import OperationNotFound
from queue_core.model import operation
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.operation import (
    UNCHANGED,
    Author,
    Changed,
    ChangeOptions,
    MemberVerb,
    Operation,
    OperationRecord,
    OperationRequest,
    OperationState,
    OperationVerb,
    Outcomes,
    Rollout,
    StepResult,
    WorkerOrder,
)
from queue_core.model.rules import Rules
from queue_core.model.text import storable
from queue_core.model.triage.signatures import SignatureFacts
from queue_core.ports.operations import MemberJob
from queue_core.stores.sql.records import id_or_none, known_ids
from queue_core.stores.sqlite.change import change, command, set_closed, switch
from queue_core.stores.sqlite.claim import keep_time
from queue_core.stores.sqlite.dialect import DIALECT, moment, texts
from queue_core.stores.sqlite.session import RowTuple, SqliteFile, Transaction
from queue_core.stores.sqlite.statistics.signatures import set_facts, set_filter
from queue_core.stores.sqlite.upkeep import abandon_operations, forget_operation

MAX_INTEGER = 2**63 - 1
"""The last whole number that SQLite has."""


def create(transaction: Transaction, request: OperationRequest) -> Operation:
    """Write a new operation, preparing and without members."""
    fields: dict[str, Any] = {
        "verb": request.verb,
        "label": request.label,
        "why": request.why,
        "signatures": json.dumps(request.signatures),
        "now": transaction.now,
    }
    fields |= request.author._asdict() | request.options._asdict() | request.rollout._asdict()
    at = request.rollout.begin_at
    fields |= {"ramp": json.dumps(request.rollout.ramp), "begin_at": None if at is None else at.timestamp()}
    fields["counted"] = request.verb != "retry"
    ((number,),) = transaction.rows("operations/create", fields)
    transaction.run_many("operations/sign", [(signature, number) for signature in request.signatures])
    return stored_operation(transaction, number).view


def stored_operation(transaction: Transaction, number: int) -> OperationRecord:
    """Return an operation.

    Raises:
        OperationNotFound: there is none of this number.
    """
    found = records(transaction, [number]) if abs(number) <= MAX_INTEGER else []
    if not found:
        raise OperationNotFound(number)
    return found[0]


def records(transaction: Transaction, numbers: Sequence[int]) -> list[OperationRecord]:
    """Return operations by their numbers."""
    return [_stored(*row) for row in transaction.rows("operations/records", (texts(numbers),))]


def add(transaction: Transaction, number: int, ids: Sequence[str], chosen: float | None = None) -> Operation:
    """Append members to a preparing operation, as their jobs are now; `chosen`: those that had ended at that time."""
    record = stored_operation(transaction, number)
    if record.view.state != "preparing":
        return record.view
    added = 0
    for job_id in dict.fromkeys(ids):
        place = record.view.total + added + 1
        member = {"number": number, "position": place, "id": member_id(job_id), "chosen": chosen}
        added += transaction.run("operations/add", member)
    return write(transaction, operation.add(record, added, transaction.now) or record)


def member_id(job_id: str) -> str:
    """Return the id that a member is stored under, whether or not there can be such a job."""
    return id_or_none(job_id) or storable(job_id)


def step(transaction: Transaction, number: int, most: int, rules: Rules) -> StepResult:
    """Change the next members that are as they were frozen, and count all of them."""
    keep_time(transaction)
    record, now = stored_operation(transaction, number), transaction.now
    view = record.view
    count, wait = operation.next_members(record, most, now)
    if not count:
        return StepResult(view, wait=wait)
    same = transaction.rows("operations/unchanged", (number, view.done, view.done + count))
    places = {job_id: position for position, job_id in same}
    changed = change(transaction, rules, view.request.verb, list(places), view.request.options)  # type: ignore[arg-type]
    transaction.run_many("operations/mark", [(number, places[job_id]) for job_id in changed.ids])
    record = operation.step(record, count, len(changed.ids), now)
    return StepResult(write(transaction, record), changed, max(0.0, record.next_at - now))


def fail_member(transaction: Transaction, number: int, note: str) -> Operation:
    """Count the next member as errored."""
    record = stored_operation(transaction, number)
    failed = operation.fail_member(record, note, transaction.now)
    return record.view if failed is None else write(transaction, failed)


def note_drain(transaction: Transaction, number: int, left: int) -> Operation:
    """Note how many jobs are left in the queue that an operation drains."""
    record = stored_operation(transaction, number)
    noted = operation.note_drain(record, left, transaction.now)
    return record.view if noted is None else write(transaction, noted)


def move(transaction: Transaction, number: int, state: OperationState, note: str) -> bool:
    """Move an operation to another state."""
    record = stored_operation(transaction, number)
    moved = operation.move(record, state, note, transaction.now)
    if moved is None:
        return False
    if record.view.state == "preparing" and state == "done":
        transaction.run("operations/mark_all", (number,))
    write(transaction, moved)
    return True


def pass_barrier(transaction: Transaction, number: int, barrier: int) -> bool:
    """Move a running operation from this barrier to its next."""
    passed = operation.pass_barrier(stored_operation(transaction, number), barrier, transaction.now)
    if passed is not None:
        write(transaction, passed)
    return passed is not None


def write(transaction: Transaction, record: OperationRecord) -> Operation:
    """Write what a transition has made of an operation, and return that."""
    view = record.view
    columns: dict[str, Any] = {name: getattr(view, name) for name in _COUNTED}
    for name in ("updated_at", "started_at", "finished_at"):
        at = getattr(view, name)
        columns[name] = None if at is None else at.timestamp()
    columns |= {"next_at": record.next_at, "stop_percent": view.request.rollout.stop_percent}
    transaction.run("operations/write", columns)
    return view


_COUNTED = ("number", "state", "note", "total", "done", "processed", "skipped", "errored", "barrier")


def _stored(
    number: int, verb: OperationVerb, label: str, user: str, host: str, why: str, *rest: Any
) -> OperationRecord:
    delay, spread, queue, priority, canary, rate, stop_percent, signatures, state, note, *counts = rest
    total, done, processed, skipped, errored, barrier, *times, next_at = counts[:11]
    early, ramp, begin_at, release, outcomes = counts[11:]
    created_at, updated_at, started_at, finished_at = times
    request = OperationRequest(
        verb=verb,
        label=label,
        author=Author(user, host),
        why=why,
        options=ChangeOptions(delay, spread, queue, priority),
        rollout=Rollout(
            canary, rate, stop_percent, bool(early), tuple(json.loads(ramp)), DIALECT.moment_or_none(begin_at), release
        ),
        signatures=tuple(json.loads(signatures)),
    )
    view = Operation(
        number=number,
        request=request,
        state=state,
        note=note,
        total=total,
        done=done,
        processed=processed,
        skipped=skipped,
        errored=errored,
        barrier=barrier,
        created_at=moment(created_at),
        updated_at=moment(updated_at),
        started_at=DIALECT.moment_or_none(started_at),
        finished_at=DIALECT.moment_or_none(finished_at),
        outcomes=None if outcomes is None else Outcomes(*json.loads(outcomes)),
    )
    return OperationRecord(view, next_at)


MEMBERS_PER_TRANSACTION = 1_000
"""Members written in one transaction: some 20 ms, in which no other process can write."""

_ENDED = frozenset({"completed", "cancelled", "dead", "trashed", None})
"""Where jobs are whose outcome is known; None: gone."""


class SqliteOperations:
    """See queue_core.ports.operations.OperationStore for what each method does; what it changes is on the disk."""

    def __init__(self, file: SqliteFile, rules: Rules | None = None) -> None:
        self._file = file
        self._rules = rules or {}

    async def close(self) -> None:
        """The file is closed by the store."""

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        known = known_ids(ids)
        if not known:
            return Changed(())
        return await self._file.write(partial(change, rules=self._rules, verb=verb, ids=known, options=options))

    async def pause(self, queue: str) -> bool:
        return await self._file.write(partial(switch, queue=queue, paused=True))

    async def resume(self, queue: str) -> bool:
        return await self._file.write(partial(switch, queue=queue, paused=False))

    async def set_closed(self, queue: str, closed: bool) -> bool:
        return await self._file.write(partial(set_closed, queue=queue, closed=closed))

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        return await self._file.write(partial(command, worker=worker, order=order))

    async def set_facts(self, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
        return await self._file.write(partial(set_facts, signature=signature, before=before, after=after))

    async def set_filter(self, name: str, before: int, after: SavedFilter | None) -> bool:
        return await self._file.write(partial(set_filter, name=name, before=before, after=after))

    async def create(self, request: OperationRequest) -> Operation:
        return await self._file.write(partial(create, request=request))

    async def add(self, number: int, ids: Sequence[str], chosen: float | None = None) -> Operation:
        added = await self._file.write(partial(add, number=number, ids=ids[:MEMBERS_PER_TRANSACTION], chosen=chosen))
        for start in range(MEMBERS_PER_TRANSACTION, len(ids), MEMBERS_PER_TRANSACTION):
            more = ids[start : start + MEMBERS_PER_TRANSACTION]
            added = await self._file.write(partial(add, number=number, ids=more, chosen=chosen))
        return added

    async def step(self, number: int, most: int) -> StepResult:
        return await self._file.write(partial(step, number=number, most=most, rules=self._rules))

    async def fail_member(self, number: int, note: str) -> Operation:
        return await self._file.write(partial(fail_member, number=number, note=storable(note)))

    async def note_drain(self, number: int, left: int) -> Operation:
        return await self._file.write(partial(note_drain, number=number, left=left))

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        return await self._file.write(partial(move, number=number, state=state, note=storable(note)))

    async def pass_barrier(self, number: int, barrier: int) -> bool:
        return await self._file.write(partial(pass_barrier, number=number, barrier=barrier))

    async def forget(self, number: int) -> None:
        await self._file.write(partial(forget_operation, number=number))

    async def abandon(self) -> None:
        await self._file.write(abandon_operations)

    async def outcomes(self, number: int, last: int, behind: int = 0, until: int | None = None) -> Outcomes:
        places = (_bounded(behind), MAX_INTEGER if until is None else _bounded(until), _bounded(last))
        rows = await self._rows(number, "operations/outcomes", *places)
        found: Counter[str | None] = Counter()
        failed: Counter[str | None] = Counter()
        for state, count, again in rows:
            found[state], failed[state] = count, again
        open_ = [state for state in found if state not in _ENDED]
        return Outcomes(
            looked=found.total(),
            completed=found["completed"],
            dead=found["dead"] + found["trashed"],
            unfinished=sum(found[state] for state in open_),
            retrying=sum(failed[state] for state in open_),
            recovered=failed["completed"],
        )

    async def note_outcomes(self, number: int, outcomes: Outcomes | None, final: bool) -> None:
        counts = None if outcomes is None else json.dumps(outcomes)
        await self._file.write_soft(lambda on: on.run("operations/note_outcomes", (counts, int(final), number)))

    async def list_uncounted(self, limit: int) -> list[Operation]:
        return await self._find(lambda transaction: transaction.rows("operations/uncounted", (_bounded(limit),)))

    async def get(self, number: int) -> Operation:
        return await self._file.read(lambda transaction: stored_operation(transaction, number).view)

    async def list_operations(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        query = "operations/unfinished" if unfinished else "operations/newest"
        older = MAX_INTEGER if before is None else _bounded(before)
        wanted: dict[str, object] = {"before": older, "limit": _bounded(limit)}
        if signature is not None:
            query = "operations/by_signature"
            wanted |= {"signature": storable(signature), "unfinished": unfinished}
        return await self._find(lambda transaction: transaction.rows(query, wanted))

    async def list_for_job(self, job_id: str, limit: int) -> list[Operation]:
        wanted = (member_id(job_id), _bounded(limit))
        return await self._find(lambda transaction: transaction.rows("operations/of_job", wanted))

    async def list_members(self, number: int, after: int, limit: int) -> list[MemberJob]:
        rows = await self._rows(number, "operations/changed", _bounded(after), _bounded(limit))
        return [MemberJob(*row) for row in rows]

    async def pending(self, number: int, limit: int) -> list[str]:
        return [job_id for (job_id,) in await self._rows(number, "operations/pending", _bounded(limit))]

    async def _rows(self, number: int, query: str, *params: int) -> list[RowTuple]:
        def read(transaction: Transaction) -> list[RowTuple]:
            stored_operation(transaction, number)
            return transaction.rows(query, (number, *params))

        return await self._file.read(read)

    async def _find(self, numbers: Callable[[Transaction], list[RowTuple]]) -> list[Operation]:
        def read(transaction: Transaction) -> list[Operation]:
            return [row.view for row in records(transaction, [number for (number,) in numbers(transaction)])]

        return await self._file.read(read)


def _bounded(number: int) -> int:
    return max(0, min(number, MAX_INTEGER))
