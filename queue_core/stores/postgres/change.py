"""Changes by operators: the statements of each verb, and the jobs that they release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.model.job import Ready
from queue_core.model.operation import Changed, ChangeOptions, MemberVerb
from queue_core.model.rules import Rules, RulesForAll, key_in, mention, rules_of
from queue_core.stores.postgres.capacity import limited
from queue_core.stores.postgres.dialect import Rows, plain_array, text_array
from queue_core.stores.postgres.ordering import (
    Arrivals,
    KeyRequest,
    LockedKeys,
    OrderingKey,
    Unblocked,
    count_arrivals,
    keys_of_unfinished,
    lock_keys,
    take_unique,
    unblock_next,
)
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.session.queue_ids import QUEUES


class NoSuchQueue(Exception):
    """A queue must be created before anything is locked; nothing was written."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class Route(NamedTuple):
    """The old and new queue and keys of a moved job."""

    id: str
    # the ids of its queue and of the one that it goes to
    source_id: int
    target_id: int
    # the name of that one
    target: str
    # its ordering key there
    key: str | None
    # of the keys that it releases and of those that it waits for
    ordering_keys: tuple[OrderingKey, ...]
    # its unique key, where it is one while the job is unfinished
    unique: str | None
    # it has that key in its queue
    held: bool
    # it takes that key in its new queue
    takes: bool


def queue_id_of(queue: str | None) -> Plan[int | None]:
    """Return the id of a queue.

    Raises:
        NoSuchQueue: there is none of this name.
    """
    if queue is None:
        return None
    rows = yield "change/target", {"queue": queue}
    if not rows:
        raise NoSuchQueue(queue)
    return int(rows[0][0])


def route(row: tuple[Any, ...], options: ChangeOptions, target_id: int | None, rules: Rules) -> Route:
    """Return the route of a job in a row of `change/with_rules` or `change/movable`; `target_id`: of its new queue."""
    job_id, queue, source_id, key, admitted, priority, unique, held, takes = row
    target = options.queue or queue
    target_key = key_in(rules, target, queue, key)
    goes = target != queue or options.priority not in (None, priority)
    ordering_keys = [(queue, key)] if key is not None and admitted and goes else []
    ordering_keys += [(target, target_key)] if target_key is not None else []
    return Route(
        job_id,
        source_id,
        source_id if target_id is None else target_id,
        target,
        target_key,
        tuple(ordering_keys),
        unique,
        held,
        takes,
    )


def take_unique_keys(routes: Iterable[Route]) -> Plan[None]:
    """Take the free unique keys of the jobs' new queues, and lock those that they hold in their old ones.

    All in one order, which prevents deadlocks.
    """
    yield from take_unique(
        [
            KeyRequest(queue_id, one.unique, one.id)
            for one in routes
            if one.unique is not None
            for queue_id, needed in ((one.target_id, one.takes), (one.source_id, one.held))
            if needed
        ]
    )


def release_keys(routes: Iterable[Route], gone: Collection[str]) -> Plan[None]:
    """Release unique keys in the queues that jobs have left; jobs that stayed release those of the other queue."""
    left = [
        (one.source_id if one.id in gone else one.target_id, one.unique, one.id)
        for one in routes
        if one.unique is not None and one.target_id != one.source_id and (one.held if one.id in gone else one.takes)
    ]
    if left:
        yield (
            "change/unique_release",
            {
                "queue_id": plain_array([queue_id for queue_id, _, _ in left]),
                "key": text_array([key for _, key, _ in left]),
                "job_id": plain_array([job_id for _, _, job_id in left]),
            },
        )


class TargetJob(NamedTuple):
    """A job to be changed."""

    id: str
    # of the last attempt that it may have had; None: any
    token: int | None = None


Members = Sequence[TargetJob]


def members_of(ids: Iterable[str]) -> list[TargetJob]:
    """Return the jobs to change, at their present tokens."""
    return [TargetJob(job_id) for job_id in ids]


def retry(members: Members, options: ChangeOptions, rules: Rules) -> Plan[Changed]:
    """Move dead and completed jobs to queued, or to scheduled; they take their unique keys where these are free.

    Raises:
        NoSuchQueue: their new queue must be created first.
    """
    if isinstance(rules, RulesForAll):
        mention(rules, [row[0] for row in (yield QUEUES, {})])
    current = yield (
        "change/with_rules",
        arrays(members)
        | {
            "aging": text_array([name for name, one in rules.items() if one.aging]),
            "every": options.queue is not None or options.priority is not None,
        },
    )
    return (yield from _go(members, options, rules, current, "change/retry"))


def move(members: Members, options: ChangeOptions, rules: Rules) -> Plan[Changed]:
    """Move waiting and dead jobs to another queue or priority; waiting ones queue at its end.

    Raises:
        NoSuchQueue: their new queue must be created first.
    """
    current = yield "change/movable", arrays(members) | {"queue": options.queue, "priority": options.priority}
    if not current:
        return Changed(())
    found = {row[0] for row in current}
    return (yield from _go([one for one in members if one.id in found], options, rules, current, "change/move"))


def _go(members: Members, options: ChangeOptions, rules: Rules, current: Rows, query: str) -> Plan[Changed]:
    """Insert jobs into their new queues, under the keys, limits and aging there."""
    target = (yield from queue_id_of(options.queue)) if current else None
    # In the given order, so that the first of several with one key takes it.
    places = {one.id: place for place, one in enumerate(members)}
    routes = {row[0]: route(row, options, target, rules) for row in sorted(current, key=lambda row: places[row[0]])}
    yield from take_unique_keys(routes.values())
    locks = yield from lock_keys(key for one in routes.values() for key in one.ordering_keys)
    arrivals = yield from count_arrivals((one.target for one in routes.values()), rules)
    if query == "change/move":
        yield from _lock_jobs(members)
    rows = yield (
        query,
        arrays(members) | _change_parameters(members, options, target, routes, locks) | _arrivals(arrivals, rules),
    )
    if query == "change/retry" and options.later and rows:
        yield "change/put_off", {}
    yield from release_keys(routes.values(), {row[0] for row in rows})
    unblocked = yield from unblock_next(locks, rules)
    ready = tuple(Ready(*row) for row in rows if row[2] is not None)
    return in_order(members, Changed(tuple(row[0] for row in rows), ready + _ready(unblocked)))


def _change_parameters(
    members: Members, options: ChangeOptions, target: int | None, routes: Mapping[str, Route], locks: LockedKeys
) -> dict[str, Any]:
    found = [routes.get(one.id) for one in members]
    return {
        "delay": max(options.delay, 0.0),
        "spread": max(options.spread, 0.0),
        "queue": target,
        "priority": options.priority,
        "sources": plain_array([None if one is None else one.source_id for one in found]),
        "keys": text_array([None if one is None else one.key for one in found]),
        "locks": locks.accepted(),
    }


def _arrivals(arrivals: Arrivals, rules: Rules) -> dict[str, Any]:
    return {
        "limited": limited(rules),
        "aging": text_array(arrivals),
        "first_us": plain_array(arrivals.values()),
        "aging_us": plain_array([rules_of(rules, queue).aging_us for queue in arrivals]),
    }


def delete(members: Members, _options: ChangeOptions, rules: Rules) -> Plan[Changed]:
    """Move dead jobs to the trash, and release the next jobs of their ordering keys."""
    keyed = yield "change/keys_of_dead", {"ids": plain_array([one.id for one in members])}
    locks = yield from lock_keys((queue, key) for _, queue, key in keyed)
    rows = yield "change/delete", arrays(members) | {"locks": locks.accepted()}
    return in_order(members, _changed(rows, (yield from unblock_next(locks, rules))))


def cancel(members: Members, _options: ChangeOptions, rules: Rules) -> Plan[Changed]:
    """Cancel waiting jobs, request it of running ones, and release the next jobs of their ordering keys."""
    keyed = yield keys_of_unfinished([one.id for one in members])
    locks = yield from lock_keys((queue, key) for _, queue, key in keyed)
    yield from _lock_jobs(members)
    rows = yield "change/cancel", arrays(members) | {"locks": locks.accepted()}
    return in_order(members, _changed(rows, (yield from unblock_next(locks, rules))))


def _lock_jobs(members: Members) -> Plan[None]:
    wanted = [one.id for one in members]
    locked = {job_id for (job_id,) in (yield "change/lock_jobs", {"ids": plain_array(wanted)})}
    # A row that a settle replaced while this statement waited for it exists again, as a new row.
    left = [job_id for job_id in wanted if job_id not in locked]
    if left:
        yield "change/lock_jobs", {"ids": plain_array(left)}


def restore(members: Members, _options: ChangeOptions, _rules: Rules) -> Plan[Changed]:
    """Move jobs from the trash back into the DLQ."""
    return in_order(members, _changed((yield "change/restore", arrays(members))))


def purge(members: Members, _options: ChangeOptions, _rules: Rules) -> Plan[Changed]:
    """Remove jobs in the trash for good."""
    return in_order(members, _changed((yield "change/purge", arrays(members))))


_VERBS: dict[MemberVerb, Callable[[Members, ChangeOptions, Rules], Plan[Changed]]] = {
    "retry": retry,
    "delete": delete,
    "restore": restore,
    "purge": purge,
    "cancel": cancel,
    "move": move,
}


def change(verb: MemberVerb, members: Members, options: ChangeOptions, rules: Rules) -> Plan[Changed]:
    """Change the jobs whose states the verb applies to and whose tokens are those of the members.

    Raises:
        NoSuchQueue: their new queue must be created first.
    """
    return _VERBS[verb](members, options, rules)


def arrays(members: Members) -> dict[str, str]:
    """Return the parameters that name jobs."""
    return {"ids": plain_array([one.id for one in members]), "tokens": plain_array([one.token for one in members])}


def in_order(members: Members, changed: Changed) -> Changed:
    """Return the changes in the order of the members; the jobs that they released come last."""
    places = {one.id: place for place, one in enumerate(members)}
    ready = sorted(changed.ready, key=lambda one: places.get(one.id, len(places)))
    return Changed(tuple(sorted(changed.ids, key=lambda job_id: places[job_id])), tuple(ready))


def _changed(rows: Rows, unblocked: Iterable[Unblocked] = ()) -> Changed:
    return Changed(tuple(row[0] for row in rows), _ready(unblocked))


def _ready(unblocked: Iterable[Unblocked]) -> tuple[Ready, ...]:
    return tuple(one.ready for one in unblocked)
