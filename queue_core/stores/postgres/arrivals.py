"""Arrivals in queues with aging: a microsecond for each job, later than all before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from types import MappingProxyType

from queue_core.rules import Rules, rules_of
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.sql import plain_array, text_array

Arrivals = Mapping[str, int]
"""The first of some arrivals in each queue, in microseconds since the epoch."""
NO_ARRIVALS: Arrivals = MappingProxyType({})


def count_arrivals(queues: Iterable[str], rules: Rules) -> Plan[Arrivals]:
    """Let a job arrive for each name of a queue; return the first arrival in each of them with aging."""
    counts = Counter(queue for queue in queues if rules_of(rules, queue).aging)
    if not counts:
        return NO_ARRIVALS
    rows = yield "arrivals/count", {"queue": text_array(counts), "n": plain_array(counts.values())}
    return dict(rows)


def each_arrival(queues: Iterable[str], first: Arrivals) -> list[int | None]:
    """Return the arrivals of jobs in these queues, in order; None without aging."""
    following = {queue: count(at) for queue, at in first.items()}
    return [next(following[queue]) if queue in following else None for queue in queues]
