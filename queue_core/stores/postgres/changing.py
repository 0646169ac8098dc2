"""Changes that have to do with the rules of queues: the plans behind `Changes` and behind the steps of operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.inspection import Changed
from queue_core.job import Ready
from queue_core.operations import Way
from queue_core.rules import Rules, rules_of
from queue_core.stores.postgres.arrivals import Arrivals, count_arrivals
from queue_core.stores.postgres.gates import Gates, Opened, lock_gates, open_gates
from queue_core.stores.postgres.limiting import limited
from queue_core.stores.postgres.plan import Plan, Rows
from queue_core.stores.postgres.routes import Route, let_go_of_keys, number_of, route, take_unique_keys
from queue_core.stores.postgres.sql import plain_array, text_array


class Member(NamedTuple):
    """A job to be changed."""

    id: str
    # of the last attempt that it may have had; None: whichever
    token: int | None = None


Members = Sequence[Member]


def members_of(ids: Iterable[str]) -> list[Member]:
    """Return jobs to be changed as they are now."""
    return [Member(job_id) for job_id in ids]


def retry(members: Members, way: Way, rules: Rules) -> Plan[Changed]:
    """Move dead and completed jobs to queued, or to scheduled; they take their unique keys where these are free.

    Raises:
        routes.NoSuchQueue: the queue that they are to go to has to be made first.
    """
    looked = yield (
        "change/ruled",
        arrays(members)
        | {
            "aging": text_array([name for name, one in rules.items() if one.aging]),
            "every": way.queue is not None or way.priority is not None,
        },
    )
    return (yield from _go(members, way, rules, looked, "change/retry"))


def move(members: Members, way: Way, rules: Rules) -> Plan[Changed]:
    """Give waiting and dead jobs to another queue or priority, where waiting ones arrive anew.

    Raises:
        routes.NoSuchQueue: the queue that they are to go to has to be made first.
    """
    looked = yield "change/movable", arrays(members) | {"queue": way.queue, "priority": way.priority}
    if not looked:
        return Changed(())
    found = {row[0] for row in looked}
    return (yield from _go([one for one in members if one.id in found], way, rules, looked, "change/move"))


def _go(members: Members, way: Way, rules: Rules, looked: Rows, query: str) -> Plan[Changed]:
    """Let jobs arrive where they are to go, under the keys, limits and aging of their queues there."""
    target = (yield from number_of(way.queue)) if looked else None
    # In the order given, so that of several with one key the first takes it.
    places = {one.id: place for place, one in enumerate(members)}
    routes = {row[0]: route(row, way, target, rules) for row in sorted(looked, key=lambda row: places[row[0]])}
    yield from take_unique_keys(routes.values())
    gates = yield from lock_gates(gate for one in routes.values() for gate in one.gates)
    arrivals = yield from count_arrivals((one.target for one in routes.values()), rules)
    if query == "change/move":
        yield from _lock_jobs(members)
    rows = yield query, arrays(members) | _way(members, way, target, routes, gates) | _arrivals(arrivals, rules)
    if query == "change/retry" and way.later and rows:
        yield "change/put_off", {}
    yield from let_go_of_keys(routes.values(), {row[0] for row in rows})
    opened = yield from open_gates(gates, rules)
    ready = tuple(Ready(*row) for row in rows if row[2] is not None)
    return in_order(members, Changed(tuple(row[0] for row in rows), ready + _ready(opened)))


def _way(members: Members, way: Way, target: int | None, routes: Mapping[str, Route], gates: Gates) -> dict[str, Any]:
    found = [routes.get(one.id) for one in members]
    return {
        "delay": max(way.delay, 0.0),
        "spread": max(way.spread, 0.0),
        "queue": target,
        "priority": way.priority,
        "sources": plain_array([None if one is None else one.source for one in found]),
        "keys": text_array([None if one is None else one.key for one in found]),
        "gates": gates.accepted(),
    }


def _arrivals(arrivals: Arrivals, rules: Rules) -> dict[str, Any]:
    return {
        "limited": limited(rules),
        "aging": text_array(arrivals),
        "first_us": plain_array(arrivals.values()),
        "aging_us": plain_array([rules_of(rules, queue).aging_us for queue in arrivals]),
    }


def delete(members: Members, rules: Rules) -> Plan[Changed]:
    """Move dead jobs to the trash, and let the next jobs of their ordering keys through."""
    keyed = yield "gates/of_dead", {"ids": plain_array([one.id for one in members])}
    gates = yield from lock_gates((queue, key) for _, queue, key in keyed)
    rows = yield "change/delete", arrays(members) | {"gates": gates.accepted()}
    return in_order(members, _changed(rows, (yield from open_gates(gates, rules))))


def cancel(members: Members, rules: Rules) -> Plan[Changed]:
    """Cancel waiting jobs, ask the workers of running ones, and let the next jobs of ordering keys through."""
    keyed = yield "gates/of_unfinished", {"ids": plain_array([one.id for one in members])}
    gates = yield from lock_gates((queue, key) for _, queue, key in keyed)
    yield from _lock_jobs(members)
    rows = yield "change/cancel", arrays(members) | {"gates": gates.accepted()}
    return in_order(members, _changed(rows, (yield from open_gates(gates, rules))))


def _lock_jobs(members: Members) -> Plan[None]:
    wanted = [one.id for one in members]
    locked = {job_id for (job_id,) in (yield "change/lock_jobs", {"ids": plain_array(wanted)})}
    # A row that was waited for while a settle wrote it anew is gone, and there again.
    left = [job_id for job_id in wanted if job_id not in locked]
    if left:
        yield "change/lock_jobs", {"ids": plain_array(left)}


def restore(members: Members) -> Plan[Changed]:
    """Move jobs from the trash back into the DLQ."""
    return in_order(members, _changed((yield "change/restore", arrays(members))))


def purge(members: Members) -> Plan[Changed]:
    """Remove jobs in the trash for good."""
    return in_order(members, _changed((yield "change/purge", arrays(members))))


def plan_of(verb: str, members: Members, way: Way, rules: Rules) -> Plan[Changed]:
    """Return the plan of a verb that changes jobs."""
    if verb in ("retry", "move"):
        return (retry if verb == "retry" else move)(members, way, rules)
    if verb in ("delete", "cancel"):
        return (delete if verb == "delete" else cancel)(members, rules)
    return {"restore": restore, "purge": purge}[verb](members)


def arrays(members: Members) -> dict[str, str]:
    """Return the parameters that name jobs."""
    return {"ids": plain_array([one.id for one in members]), "tokens": plain_array([one.token for one in members])}


def in_order(members: Members, changed: Changed) -> Changed:
    """Return what was changed in the order of the members; jobs that others let through come last."""
    places = {one.id: place for place, one in enumerate(members)}
    ready = sorted(changed.ready, key=lambda one: places.get(one.id, len(places)))
    return Changed(tuple(sorted(changed.ids, key=lambda job_id: places[job_id])), tuple(ready))


def _changed(rows: Rows, opened: Iterable[Opened] = ()) -> Changed:
    return Changed(tuple(row[0] for row in rows), _ready(opened))


def _ready(opened: Iterable[Opened]) -> tuple[Ready, ...]:
    return tuple(one.ready for one in opened)
