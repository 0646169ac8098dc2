"""What happens to an operation in one transaction: it is locked, so each of several executors takes other members."""

from __future__ import annotations

from typing import Any, NamedTuple

from queue_core.errors import OperationNotFound
from queue_core.inspection import Changed
from queue_core.operations import ENDED, MOVES, Author, NewOperation, Operation, OperationState, Pace, Step, Way
from queue_core.rules import Rules
from queue_core.stores.postgres.changing import Member, plan_of
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.records import utc_or_none
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.text import storable


class Locked(NamedTuple):
    """An operation that nobody else changes before this transaction ends."""

    operation: Operation
    # seconds until its rate lets the next step be taken
    wait: float


def operation_of(row: tuple[Any, ...]) -> Operation:
    """Return the operation in a row of operation/read."""
    number, verb, label, user, host, why, delay, spread, queue, priority, canary, rate, stop, signatures = row[:14]
    way, pace = Way(delay, spread, queue, priority), Pace(canary, rate, stop)
    asked = NewOperation(verb, label, Author(user, host), why, way, pace, tuple(signatures))
    return Operation(number, asked, *row[14:22], *[utc_or_none(moment) for moment in row[22:26]])


def create(asked: NewOperation, query: str = "operation/create") -> Plan[int]:
    """Write a new operation, preparing and without members, and return its number."""
    user, host = asked.author
    texts = {"verb": asked.verb, "label": asked.label, "user": user, "host": host, "why": asked.why}
    rows = yield (
        query,
        {name: storable(text) for name, text in texts.items()}
        | {
            **asked.way._asdict(),
            **asked.pace._asdict(),
            "signatures": text_array([storable(one) for one in asked.signatures]),
        },
    )
    return int(rows[0][0])


def read(number: int) -> Plan[Operation]:
    """Return an operation.

    Raises:
        OperationNotFound: there is none of this number.
    """
    rows = yield "operation/read", {"numbers": plain_array([number])}
    if not rows:
        raise OperationNotFound(number)
    return operation_of(rows[0])


def add(number: int, texts: list[str], ids: list[str | None]) -> Plan[Operation]:
    """Append members to an operation that is preparing; `ids`: as they are stored, where they can be ids."""
    locked = yield from _lock(number)
    if texts and locked.operation.state == "preparing":
        yield "operation/add", {"number": number, "texts": text_array(texts), "ids": plain_array(ids)}
    return (yield from read(number))


def step(number: int, most: int, rules: Rules) -> Plan[Step]:
    """Change the next members of a running operation, and count them.

    Raises:
        NoSuchQueue: the queue that they are to go to has to be made first.
    """
    operation, wait = yield from _lock(number)
    count = min(max(most, 0), operation.barrier - operation.done)
    if operation.state != "running" or count <= 0:
        return Step(operation)
    if wait > 0 and operation.asked.pace.rate is not None:
        return Step(operation, wait=wait)
    rows = yield "operation/members", {"number": number, "done": operation.done, "count": count}
    members = [Member(job_id, token) for job_id, token in rows if token is not None]
    changed = Changed(())
    if members:
        changed = yield from plan_of(operation.asked.verb, members, operation.asked.way, rules)
    wait = yield from _count(operation, count, changed)
    return Step((yield from read(number)), changed, wait)


def err(number: int, note: str) -> Plan[Operation]:
    """Count the next member of a running operation as errored."""
    operation, _ = yield from _lock(number)
    if operation.state != "running" or operation.done >= operation.barrier:
        return operation
    yield from _count(operation, 1, Changed(()), note)
    return (yield from read(number))


def turn(number: int, state: OperationState, note: str) -> Plan[bool]:
    """Move an operation to another state."""
    before = (yield from _lock(number)).operation.state
    if state not in MOVES[before]:
        return False
    query = {
        ("preparing", "running"): "operation/begin",
        ("preparing", "done"): "operation/finish",
        ("stopped", "running"): "operation/restart",
    }.get((before, state), "operation/turn")
    yield query, {"number": number, "state": state, "note": note, "ended": state in ENDED}
    return True


def release(number: int) -> Plan[bool]:
    """Let a running operation go on behind its canary."""
    yield from read(number)
    return bool((yield "operation/release", {"number": number}))


def _lock(number: int) -> Plan[Locked]:
    rows = yield "operation/lock", {"number": number}
    return Locked((yield from read(number)), rows[0][0] if rows else 0.0)


def _count(operation: Operation, count: int, changed: Changed, note: str | None = None) -> Plan[float]:
    rows = yield (
        "operation/count",
        {
            "number": operation.number,
            "done": operation.done,
            "count": count,
            "changed": text_array(changed.ids),
            "processed": len(changed.ids),
            "errored": 0 if note is None else 1,
            "note": note,
        },
    )
    return float(rows[0][0])
