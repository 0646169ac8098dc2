"""Operations in PostgreSQL: a step writes its changes and its counts in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from queue_core.errors import OperationNotFound, QueueNotFound, SchemaError, StoreRefused
from queue_core.model import operation
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.job import new_id
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
    Outcomes,
    Rollout,
    StepResult,
    WorkerOrder,
)
from queue_core.model.rules import Rules
from queue_core.model.settings import PostgresSettings
from queue_core.model.text import storable
from queue_core.model.triage.signatures import SignatureFacts
from queue_core.ports.operations import MemberJob
from queue_core.stores.postgres.change import NoSuchQueue, TargetJob, change, members_of
from queue_core.stores.postgres.dialect import DIALECT, Rows, load, plain_array, text_array
from queue_core.stores.postgres.schedules import rehearse_schedule
from queue_core.stores.postgres.session.bounds import bounds
from queue_core.stores.postgres.session.failures import lacks_a_day
from queue_core.stores.postgres.session.plans import Plan, run_plan
from queue_core.stores.postgres.session.pool import ConnectionPool
from queue_core.stores.postgres.session.queue_ids import create_queues
from queue_core.stores.postgres.statistics.signatures import set_facts, set_filter
from queue_core.stores.postgres.upkeep import abandon_operations
from queue_core.stores.sql.records import id_or_none, known_ids

T = TypeVar("T")
Transition = Callable[[OperationRecord, T, float], OperationRecord | None]


class StoredOperation(NamedTuple):
    """An operation as it was read."""

    record: OperationRecord
    # seconds since the epoch, of the server
    now: float


def operation_of(row: tuple[Any, ...]) -> StoredOperation:
    """Return the operation in a row of operations/read."""
    number, verb, label, user, host, why, delay, spread, queue, priority, canary, rate, stop, signatures = row[:14]
    early, ramp, begin_at, release, counted = row[28:33]
    rollout = Rollout(canary, rate, stop, early, tuple(ramp), DIALECT.moment_or_none(begin_at), release)
    options = ChangeOptions(delay, spread, queue, priority)
    request = OperationRequest(verb, label, Author(user, host), why, options, rollout, tuple(signatures))
    times = [DIALECT.moment_or_none(stored) for stored in row[22:26]]
    view = Operation(number, request, *row[14:22], *times)
    if counted is not None:
        view = replace(view, outcomes=Outcomes(*counted))
    return StoredOperation(OperationRecord(view, row[26]), row[27])


def create(request: OperationRequest, query: str = "operations/create") -> Plan[int]:
    """Write a new operation, preparing and without members, and return its number."""
    user, host = request.author
    texts = {"verb": request.verb, "label": request.label, "user": user, "host": host, "why": request.why}
    given: dict[str, Any] = {name: storable(text) for name, text in texts.items()}
    given |= request.options._asdict() | request.rollout._asdict()
    given |= {"ramp": plain_array(request.rollout.ramp), "counted": request.verb != "retry"}
    rows = yield query, given | {"signatures": text_array([storable(one) for one in request.signatures])}
    return int(rows[0][0])


def read(number: int) -> Plan[Operation]:
    """Return an operation.

    Raises:
        OperationNotFound: there is none of this number.
    """
    return (yield from _read(number)).record.view


def _read(number: int) -> Plan[StoredOperation]:
    rows = yield "operations/read", {"numbers": plain_array([number])}
    if not rows:
        raise OperationNotFound(number)
    return operation_of(rows[0])


def add(number: int, texts: list[str], ids: list[str | None], chosen: float | None = None) -> Plan[Operation]:
    """Append members to an operation that is preparing; `ids`: as they are stored, where they can be ids."""
    view = (yield from _lock(number)).record.view
    if texts and view.state == "preparing":
        yield "operations/add", dict(number=number, texts=text_array(texts), ids=plain_array(ids), chosen=chosen)
    return (yield from read(number))


def step(number: int, most: int, rules: Rules) -> Plan[StepResult]:
    """Change the next members of a running operation, and count them.

    Raises:
        NoSuchQueue: their new queue must be created first.
    """
    record, now = yield from _lock(number)
    view = record.view
    count, wait = operation.next_members(record, most, now)
    if not count:
        return StepResult(view, wait=wait)
    place = {"number": number, "done": view.done, "count": count}
    rows = yield "operations/members", place
    members = [TargetJob(job_id, token) for job_id, token in rows if token is not None]
    changed = Changed(())
    if members:
        changed = yield from change(view.request.verb, members, view.request.options, rules)  # type: ignore[arg-type]
    if changed.ids:
        yield "operations/mark", place | {"changed": text_array(changed.ids)}
    record = operation.step(record, count, len(changed.ids), now)
    yield from _write(record)
    return StepResult(record.view, changed, max(0.0, record.next_at - now))


def transition(number: int, go: Transition[T], to: T) -> Plan[Operation]:
    """Make a transition of an operation, and return what came of it; where there is none it stays as it is."""
    record, now = yield from _lock(number)
    changed = go(record, to, now)
    if changed is None:
        return record.view
    yield from _write(changed)
    return changed.view


def move(number: int, state: OperationState, note: str) -> Plan[bool]:
    """Move an operation to another state."""
    record, now = yield from _lock(number)
    moved = operation.move(record, state, note, now)
    if moved is None:
        return False
    if record.view.state == "preparing" and state == "done":
        yield "operations/mark_all", {"number": number}
    yield from _write(moved)
    if record.view.state == "preparing" and state == "running":
        yield "operations/notify", {}
    return True


def pass_barrier(number: int, barrier: int) -> Plan[bool]:
    """Move a running operation from this barrier to its next."""
    record, now = yield from _lock(number)
    passed = operation.pass_barrier(record, barrier, now)
    if passed is not None:
        yield from _write(passed)
    return passed is not None


def _lock(number: int) -> Plan[StoredOperation]:
    yield "operations/lock", {"number": number}
    return (yield from _read(number))


def _write(record: OperationRecord) -> Plan[None]:
    view = record.view
    columns = {name: getattr(view, name) for name in _WRITTEN}
    yield "operations/write", columns | {"stop_percent": view.request.rollout.stop_percent, "next_at": record.next_at}


_WRITTEN = (
    "number", "state", "note", "total", "done", "processed", "skipped", "errored", "barrier", "updated_at",
    "started_at", "finished_at",
)  # fmt: skip


JOBS_PER_TRANSACTION = 1000
"""Jobs changed in one transaction: its locks and its answer stay small for any length of the list."""
MAX_INTEGER = 2**31 - 1
"""The highest number and place."""


class PostgresOperations:
    """Operators' changes; see queue_core.ports.operations.OperationStore. Connects at its first use."""

    def __init__(self, settings: PostgresSettings, rules: Rules | None = None) -> None:
        self._pool = ConnectionPool(settings)
        self._rules = rules or {}

    async def close(self) -> None:
        await self._pool.close()

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        jobs, changed = members_of(known_ids(ids)), Changed(())
        for start in range(0, len(jobs), JOBS_PER_TRANSACTION):
            part = jobs[start : start + JOBS_PER_TRANSACTION]
            done = await self._change(partial(change, verb, part, options, self._rules))
            changed = Changed(changed.ids + done.ids, changed.ready + done.ready)
        return changed

    async def _change(self, begin: Callable[[], Plan[T]]) -> T:
        """Run a plan that changes jobs; create their new queue if it does not exist."""
        while True:
            try:
                return await self._pool.run_plan(begin)
            except NoSuchQueue as missing:
                # In a transaction of its own: creating a queue blocks all others that name it.
                await self._pool.rows(*create_queues([missing.queue]))

    async def pause(self, queue: str) -> bool:
        return await self._switch("operations/pause", queue)

    async def resume(self, queue: str) -> bool:
        return await self._switch("operations/resume", queue)

    async def set_closed(self, queue: str, closed: bool) -> bool:
        return await self._switch("operations/close" if closed else "operations/open", queue)

    async def _switch(self, query: str, queue: str) -> bool:
        ((exists, changed),) = await self._pool.change(query, params={"queue": storable(queue)})
        if not exists:
            raise QueueNotFound(queue)
        return bool(changed)

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        params = {"worker": storable(worker), "command": order}
        return bool(await self._pool.change("operations/command", params=params))

    async def set_facts(self, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
        return await self._pool.run_plan(lambda: set_facts(signature, before, after))

    async def set_filter(self, name: str, before: int, after: SavedFilter | None) -> bool:
        return await self._pool.run_plan(lambda: set_filter(name, before, after))

    async def create(self, request: OperationRequest) -> Operation:
        return await self.get(await self._pool.run_plan(lambda: create(request)))

    async def add(self, number: int, ids: Sequence[str], chosen: float | None = None) -> Operation:
        known = {text: id_or_none(text) for text in dict.fromkeys(map(storable, ids))}
        # The same job may be named in several ways.
        members = dict.fromkeys((found or text, found) for text, found in known.items())
        texts, found = [text for text, _ in members], [job_id for _, job_id in members]
        return await self._run(number, lambda: add(number, texts, found, chosen))

    async def step(self, number: int, most: int) -> StepResult:
        return await self._change(partial(step, _known(number), most, self._rules))

    async def fail_member(self, number: int, note: str) -> Operation:
        return await self._run(number, lambda: transition(number, operation.fail_member, storable(note)))

    async def note_drain(self, number: int, left: int) -> Operation:
        return await self._run(number, lambda: transition(number, operation.note_drain, left))

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        return await self._run(number, lambda: move(number, state, storable(note)))

    async def pass_barrier(self, number: int, barrier: int) -> bool:
        return await self._run(number, lambda: pass_barrier(number, barrier))

    async def forget(self, number: int) -> None:
        await self._pool.rows("operations/forget", {"number": _known(number)})

    async def abandon(self) -> None:
        await self._pool.rows(*abandon_operations())

    async def outcomes(self, number: int, last: int, behind: int = 0, until: int | None = None) -> Outcomes:
        await self.get(number)
        places = {"behind": max(behind, 0), "until": MAX_INTEGER if until is None else min(until, MAX_INTEGER)}
        (counts,) = await self._pool.rows("operations/outcomes", {"number": number, "last": max(last, 0), **places})
        return Outcomes(*counts)

    async def note_outcomes(self, number: int, outcomes: Outcomes | None, final: bool) -> None:
        counts = None if outcomes is None else plain_array(outcomes)
        await self._pool.rows("operations/note_outcomes", {"number": number, "outcomes": counts, "final": final})

    async def list_uncounted(self, limit: int) -> list[Operation]:
        return await self._read("operations/uncounted", {"limit": max(limit, 0)})

    async def get(self, number: int) -> Operation:
        return await self._run(number, lambda: read(number))

    async def list_operations(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        params = {
            "limit": max(limit, 0),
            "before": None if before is None else max(0, min(before, MAX_INTEGER)),
            "unfinished": unfinished,
            "signature": None if signature is None else storable(signature),
        }
        return await self._read("operations/find", params)

    async def list_for_job(self, job_id: str, limit: int) -> list[Operation]:
        text = storable(job_id)
        return await self._read("operations/of_job", {"job": id_or_none(text) or text, "limit": max(limit, 0)})

    async def list_members(self, number: int, after: int, limit: int) -> list[MemberJob]:
        await self.get(number)
        params = {"number": number, "after": max(0, min(after, MAX_INTEGER)), "limit": max(limit, 0)}
        return [MemberJob(*row) for row in await self._pool.rows("operations/changed", params)]

    async def pending(self, number: int, limit: int) -> list[str]:
        return [row[0] for row in await self._pool.rows("operations/pending", {"number": number, "limit": limit})]

    async def _read(self, query: str, params: Mapping[str, object]) -> list[Operation]:
        numbers = [row[0] for row in await self._pool.rows(query, params)]
        rows = await self._pool.rows("operations/read", {"numbers": plain_array(numbers)}) if numbers else []
        return [operation_of(row).record.view for row in rows]

    async def _run(self, number: int, begin: Callable[[], Plan[T]]) -> T:
        _known(number)
        return await self._pool.run_plan(begin)


def _known(number: int) -> int:
    if not 0 < number <= MAX_INTEGER:
        raise OperationNotFound(number)
    return number


AUTHOR = Author("doctor", "doctor")
CREATE = "operations/rehearse_create"
REHEARSED: tuple[tuple[MemberVerb, ChangeOptions, int], ...] = (
    # every verb, how, and to which of two dead jobs, in an order that each of them can be carried out in
    ("move", ChangeOptions(priority=7), 0),
    ("delete", ChangeOptions(), 0),
    ("restore", ChangeOptions(), 0),
    ("retry", ChangeOptions(), 0),
    ("move", ChangeOptions(priority=8), 0),
    ("cancel", ChangeOptions(), 0),
    ("delete", ChangeOptions(), 1),
    ("purge", ChangeOptions(), 1),
)


async def dry_run(pool: ConnectionPool, rules: Rules) -> str:
    """Run every operator's change, roll it back, and return the error that prevented it; "" without one.

    Raises:
        StoreUnavailable: no connection or no answer in time, its disk is full, or others were in the way.
    """
    try:
        async with pool.connection() as connection, connection.transaction(force_rollback=True):
            await connection.execute(bounds(pool.settings.timeout * 0.9), prepare=False)

            async def run(query: str, params: Mapping[str, Any]) -> Rows:
                cursor = await connection.execute(load(query, pool.settings.schema), params)
                return await cursor.fetchall() if cursor.description else []

            return await run_plan(_everything(rules), run)
    except (StoreRefused, SchemaError) as error:
        if getattr(error, "passing", False) and not lacks_a_day(error.__cause__):
            raise
        return getattr(error, "reason", str(error))


def _everything(rules: Rules) -> Plan[str]:
    queue, jobs = f"doctor {new_id()}", [new_id(), new_id()]
    yield create_queues([queue])
    yield "operations/rehearse_dead", {"queue": queue, "ids": plain_array(jobs)}
    for verb, options, which in REHEARSED:
        request = OperationRequest(verb, "", AUTHOR, options=options, rollout=Rollout(rate=1e6))
        changed = yield from _operation(request, jobs[which], rules)
        if changed != 1:
            return f"a {verb} changed {changed} of 1 job"
    yield from _at_once(queue)
    return ""


def _operation(request: OperationRequest, job: str, rules: Rules) -> Plan[int]:
    """Run every change of an operation, and return how many jobs it has changed."""
    number = yield from create(request, CREATE)
    yield from add(number, [job, "no id"], [job, None])
    for state in ("running", "paused", "running"):
        yield from move(number, state, "")
    yield from pass_barrier(number, 0)
    yield from step(number, 1, rules)
    yield from transition(number, operation.fail_member, "")
    yield "operations/changed", {"number": number, "after": 0, "limit": 1}
    yield "operations/of_job", {"job": job, "limit": 1}
    yield "operations/outcomes", {"number": number, "last": 1, "behind": 0, "until": 1}
    yield "operations/note_outcomes", {"number": number, "outcomes": None, "final": True}
    yield "operations/uncounted", {"limit": 1}
    return (yield from read(number)).processed


def _at_once(queue: str) -> Plan[None]:
    """Run the changes of operations that are done at once and only recorded."""
    number = yield from create(OperationRequest("pause", queue, AUTHOR), CREATE)
    yield from move(number, "done", "")
    yield "operations/pause", {"queue": queue}
    yield "operations/close", {"queue": queue}
    yield "operations/open", {"queue": queue}
    yield "operations/resume", {"queue": queue}
    yield "operations/command", {"worker": queue, "command": "quiet"}
    yield from rehearse_schedule(queue)
