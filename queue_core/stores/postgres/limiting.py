"""Limits of waiting jobs: room is written down, used up under a lock, and counted anew when it does not suffice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queue_core.errors import QueueFull
from queue_core.job import NewJob
from queue_core.priorities import band
from queue_core.rules import Rules, rules_of
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.sql import plain_array, text_array


class Wanted(NamedTuple):
    """Room below one limit."""

    queue: str
    number: int
    # the empty text: the whole queue
    band: str
    most: int
    n: int


def limited(rules: Rules) -> str:
    """Return the names of the queues with limits."""
    return text_array([name for name, one in rules.items() if one.limits])


def take_room(jobs: Sequence[NewJob], numbers: Mapping[str, int], rules: Rules) -> Plan[None]:
    """Take the room of new jobs, not counting those that are there already.

    Raises:
        QueueFull: there is not enough; the transaction is to be rolled back.
    """
    counted = {job.id: job for job in reversed(jobs) if rules_of(rules, job.queue).limits}
    if not counted:
        return
    for (known,) in (yield "rooms/known", {"ids": plain_array(counted)}):
        del counted[known]
    wanted = list(_wanted(list(counted.values()), numbers, rules))
    if not wanted:
        return
    # Both take the rows in one order: no two producers wait for each other.
    yield "rooms/lock", _arrays(wanted)
    rows = yield "rooms/spend", _arrays(wanted)
    enough = {(number, name) for number, name, is_enough in rows if is_enough}
    left = [one for one in wanted if (one.number, one.band) not in enough]
    if not left:
        return
    rows = yield "rooms/count", _arrays(left)
    fits = {(number, name): is_enough for number, name, is_enough in rows}
    for one in left:
        if not fits[one.number, one.band]:
            raise QueueFull(one.queue, one.most, rules_of(rules, one.queue).retry_after, one.band)


def _wanted(jobs: Sequence[NewJob], numbers: Mapping[str, int], rules: Rules) -> list[Wanted]:
    counts: dict[str, Counter[str]] = {}
    for job in jobs:
        counts.setdefault(job.queue, Counter())[band(job.priority)] += 1
    return [
        Wanted(queue, numbers[queue], name, most, count[name] if name else count.total())
        for queue, count in counts.items()
        for name, most in rules_of(rules, queue).limits.items()
        if not name or count[name]
    ]


def _arrays(wanted: Sequence[Wanted]) -> dict[str, str]:
    return {
        "queue_id": plain_array([one.number for one in wanted]),
        "band": text_array([one.band for one in wanted]),
        "most": plain_array([one.most for one in wanted]),
        "n": plain_array([one.n for one in wanted]),
    }
