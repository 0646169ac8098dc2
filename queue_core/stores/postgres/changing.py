"""Changes that have to do with the rules of queues: the plans behind `Changes`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from queue_core.inspection import Changed
from queue_core.job import Ready
from queue_core.rules import Rules, rules_of
from queue_core.stores.postgres.arrivals import count_arrivals
from queue_core.stores.postgres.gates import Opened, lock_gates, open_gates
from queue_core.stores.postgres.limiting import limited
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.stores.postgres.uniqueness import Wanted, take_keys


def retry(ids: Sequence[str], spread: float, rules: Rules) -> Plan[Changed]:
    """Move dead and completed jobs to queued, or to scheduled; they take their unique keys where these are free."""
    aging = [name for name, one in rules.items() if one.aging]
    ruled = yield "change/ruled", {"ids": plain_array(ids), "aging": text_array(aging)}
    # In the order given, so that of several with one key the first takes it.
    places = {job_id: place for place, job_id in enumerate(ids)} if ruled else {}
    ruled.sort(key=lambda row: places[row[0]])
    yield from take_keys(
        [Wanted(number, unique, job_id) for job_id, _, number, _, unique in ruled if unique is not None]
    )
    gates = yield from lock_gates((queue, key) for _, queue, _, key, _ in ruled if key is not None)
    arrivals = yield from count_arrivals((row[1] for row in ruled), rules)
    rows = yield (
        "change/retry",
        {
            "ids": plain_array(ids),
            "spread": spread,
            "gates": gates.accepted(),
            "limited": limited(rules),
            "aging": text_array(arrivals),
            "first_us": plain_array(arrivals.values()),
            "aging_us": plain_array([rules_of(rules, queue).aging_us for queue in arrivals]),
        },
    )
    opened = yield from open_gates(gates, rules)
    ready = tuple(Ready(*row) for row in rows if row[2] is not None)
    return Changed(tuple(row[0] for row in rows), ready + _ready(opened))


def delete(ids: Sequence[str], rules: Rules) -> Plan[Changed]:
    """Move dead jobs to the trash, and let the next jobs of their ordering keys through."""
    keyed = yield "gates/of_dead", {"ids": plain_array(ids)}
    gates = yield from lock_gates((queue, key) for _, queue, key in keyed)
    rows = yield "change/delete", {"ids": plain_array(ids), "gates": gates.accepted()}
    return Changed(tuple(row[0] for row in rows), _ready((yield from open_gates(gates, rules))))


def cancel(ids: Sequence[str], rules: Rules) -> Plan[Changed]:
    """Cancel waiting jobs, ask the workers of running ones, and let the next jobs of ordering keys through."""
    keyed = yield "gates/of_unfinished", {"ids": plain_array(ids)}
    gates = yield from lock_gates((queue, key) for _, queue, key in keyed)
    yield "change/lock_jobs", {"ids": plain_array(ids)}
    rows = yield "change/cancel", {"ids": plain_array(ids), "gates": gates.accepted()}
    return Changed(tuple(row[0] for row in rows), _ready((yield from open_gates(gates, rules))))


def _ready(opened: Iterable[Opened]) -> tuple[Ready, ...]:
    return tuple(one.ready for one in opened)
