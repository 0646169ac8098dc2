"""Where jobs go that are retried or moved, and which keys they need on the way: their own, and those of the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from queue_core.operations import Way
from queue_core.rules import Rules, key_in
from queue_core.stores.postgres.gates import Gate
from queue_core.stores.postgres.plan import Plan
from queue_core.stores.postgres.sql import plain_array, text_array
from queue_core.stores.postgres.uniqueness import Wanted, take_keys


class NoSuchQueue(Exception):
    """A queue has to be made before anything is locked; nothing was written."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class Route(NamedTuple):
    """Where one job goes."""

    id: str
    # the numbers of its queue and of the one that it goes to
    source: int
    number: int
    # the name of that one
    target: str
    # its ordering key there
    key: str | None
    # of the keys that it lets go of and of those that it waits for
    gates: tuple[Gate, ...]
    # its unique key, where it is one while the job is unfinished
    unique: str | None
    # it has that key in its queue
    held: bool
    # it is to have it where it goes
    takes: bool


def number_of(queue: str | None) -> Plan[int | None]:
    """Return the number of a queue.

    Raises:
        NoSuchQueue: there is none of this name.
    """
    if queue is None:
        return None
    rows = yield "change/target", {"queue": queue}
    if not rows:
        raise NoSuchQueue(queue)
    return int(rows[0][0])


def route(row: tuple[Any, ...], way: Way, number: int | None, rules: Rules) -> Route:
    """Return the way of a job in a row of `change/ruled` or `change/movable`; `number`: of the way's queue."""
    job_id, queue, source, key, holds, priority, unique, held, takes = row
    target = way.queue or queue
    there = key_in(rules, target, queue, key)
    goes = target != queue or way.priority not in (None, priority)
    gates = [(queue, key)] if key is not None and holds and goes else []
    gates += [(target, there)] if there is not None else []
    return Route(job_id, source, source if number is None else number, target, there, tuple(gates), unique, held, takes)


def take_unique_keys(routes: Iterable[Route]) -> Plan[None]:
    """Take the unique keys where jobs go, as far as they are free, and lock those that they have where they come from.

    All in one order; so nobody waits in a circle.
    """
    yield from take_keys(
        [
            Wanted(number, one.unique, one.id)
            for one in routes
            if one.unique is not None
            for number, wanted in ((one.number, one.takes), (one.source, one.held))
            if wanted
        ]
    )


def let_go_of_keys(routes: Iterable[Route], gone: Collection[str]) -> Plan[None]:
    """Let go of the unique keys in the queues that jobs have left; who has not left lets go of those elsewhere."""
    left = [
        (one.source if one.id in gone else one.number, one.unique, one.id)
        for one in routes
        if one.unique is not None and one.number != one.source and (one.held if one.id in gone else one.takes)
    ]
    if left:
        yield (
            "unique/release",
            {
                "queue_id": plain_array([number for number, _, _ in left]),
                "key": text_array([key for _, key, _ in left]),
                "job_id": plain_array([job_id for _, _, job_id in left]),
            },
        )
