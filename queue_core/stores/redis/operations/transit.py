"""Moves of jobs to a queue of another slot of a cluster, which no script reaches together with their own.

A script takes the jobs to a transit beside their queue. They are copied to a transit beside the other queue, which a
mark lets happen once, and taken out of it there. Then the first transit is removed; until that the leader finds it, and
carries the move to its end. One of which nothing is on its way is sealed: its process may have been frozen, and come
later.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from queue_core.redis.scripts import Call
from queue_core.stores.redis.capacity import ORDERING_KEYS, answer_of
from queue_core.stores.redis.session import RedisLink

KEPT_SECONDS = 86_400
"""Seconds for which it is known that a move has arrived or was given up, and which members of a step were changed."""
ABANDONED_MOVE_US = 10_000_000
"""Microseconds after which a move that has not ended is carried to its end by the leader."""
MOVED_SETS = (
    "pending", "offered", "scheduled", "retrying", "unfinished", "completed", "dlq", "trash", "errors", "types",
    "depths", *ORDERING_KEYS, "unique", "unique_expires", "signatures", "last_seen",
)  # fmt: skip
"""The names of what a transfer changes of a queue."""
ARRIVING = ("arrival", "seq")
"""What it changes where the jobs go to, beside that."""
RECORDS = ("job", "attempts", "log", "by_type")
"""The beginnings of the names of what belongs to a job."""
_HASHES = frozenset({"errors", "types", "depths", "unique", "signatures"})
_COPIED = {"job": "HSET", "attempts": "RPUSH", "log": "RPUSH"}

Names = Callable[[Iterable[str]], list[str]]
"""Returns keys of a queue, or of a transit beside it."""


def records_of(job_id: str, type_: str) -> list[str]:
    """Return the names of what belongs to a job."""
    return [f"{name}:{type_ if name == 'by_type' else job_id}" for name in RECORDS]


class Transit(NamedTuple):
    """A move between two queues, as it is noted until it has ended."""

    name: str
    queue: str
    target: str
    # id and type of each job
    jobs: Sequence[tuple[str, str]]
    # those of the transfer
    args: Sequence[Any]

    def beside(self, link: RedisLink, queue: str) -> Names:
        """Return what gives the keys of the transit beside one of the queues."""
        return lambda names: link.of(queue, (f"transit:{self.name}:{name}" for name in names))


def make_transit(queue: str, target: str, jobs: Sequence[tuple[str, str]], args: Sequence[Any]) -> Transit:
    """Return a move that has not begun."""
    return Transit(secrets.token_hex(8), queue, target, jobs, args)


def transfer_keys(here: Names, there: Names, queues: str, jobs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the keys of a transfer but the last two; `queues` is that of the names of all queues."""
    keys = [*here(MOVED_SETS), *there((*MOVED_SETS, *ARRIVING)), queues]
    for job in jobs:
        keys += [*here(records_of(*job)), *there(records_of(*job))]
    return keys


def departure_keys(link: RedisLink, transit: Transit) -> list[str]:
    """Return the keys of the transfer from the queue to the transit beside it, but the last two."""
    there = transit.beside(link, transit.queue)
    return transfer_keys(partial(link.of, transit.queue), there, there(["queues"])[0], transit.jobs)


def unlimited(args: Sequence[Any], place: int, jobs: Sequence[Any]) -> list[Any]:
    """Return the arguments of a transfer whose ordering keys, here (1) or there (2), admit all of the jobs."""
    return [*args[:place], len(jobs) + 1, *args[place + 1 :]]


async def run_batch(link: RedisLink, call: Call, transit: Transit | None) -> Sequence[Any]:
    """Run the script of a batch and return its answers; jobs that go to another slot arrive there."""
    if transit is None:
        return (await link.run_many([call]))[0]  # type: ignore[no-any-return]
    now = (await link.queues_and_time())[1]
    commands = link.batch()
    commands.hset(link.keys.of(transit.queue, "outgoing"), transit.name, json.dumps([now, *transit]))
    await link.send(commands)
    (left,) = await link.run_many([call])
    arrived = await _arrive(link, transit)
    return [_joined(transit.queue, one, there) for one, there in zip(left, arrived, strict=True)]


def _joined(queue: str, left: Any, there: Any) -> Any:
    """Return a job's answer from the other queue, with the jobs that it released here."""
    own, unblocked = answer_of(queue, left)
    if own and unblocked:
        return [there or "m", *(part for job in unblocked for part in (job.id, str(job.rank)))]
    return (there or "m") if own else own


async def _arrive(link: RedisLink, transit: Transit) -> Sequence[Any]:
    """Take jobs from the transit beside their queue to the other queue, and remove it."""
    here, there = transit.beside(link, transit.queue), transit.beside(link, transit.target)
    copied = [(name, "HSET" if name in _HASHES else "ZADD") for name in MOVED_SETS]
    copied += [(f"{name}:{job_id}", how) for job_id, _ in transit.jobs for name, how in _COPIED.items()]
    names = [name for name, _ in copied]
    (dummy,) = there(["queues"])
    keys = transfer_keys(there, partial(link.of, transit.target), dummy, transit.jobs)
    commands = link.batch()
    # Before its jobs are there: the name of a queue that has none does no harm.
    commands.sadd(link.keys.queues, transit.target)
    await link.send(commands)
    left = [f"by_type:{type_}" for _, type_ in transit.jobs]
    copy = Call("transit_copy", there(["done", *names]), [KEPT_SECONDS, *await _content(link, here(names), copied)])
    args = [*unlimited(transit.args, 1, transit.jobs), ""]
    # One after the other, for a server that did not know the first script would run the others: what was copied stays
    # until it was taken, and taking it twice does nothing.
    await link.run_many([copy])
    (answers,) = await link.run_many([Call("transfer", [*keys, *there(["operation", "changed"])], args)])
    await link.run_many([Call("transit_clear", there([*names, "queues", *left]), [])])
    await link.run_many([Call("transit_clear", here([*names, *ARRIVING, "queues", *left]), [])])
    commands = link.batch()
    commands.hdel(link.keys.of(transit.queue, "outgoing"), transit.name)
    await link.send(commands)
    return answers  # type: ignore[no-any-return]


async def _content(link: RedisLink, keys: Sequence[str], copied: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the arguments that copy keys: for each the command that writes it, the number of values, the values."""
    commands = link.batch()
    for key, (_, how) in zip(keys, copied, strict=True):
        if how == "ZADD":
            commands.zrange(key, 0, -1, withscores=True)
        elif how == "HSET":
            commands.hgetall(key)
        else:
            commands.lrange(key, 0, -1)
    args: list[Any] = []
    for (_, how), found in zip(copied, await link.send(commands), strict=True):
        values = list(found)
        if how == "HSET":
            values = [part for pair in found.items() for part in pair]
        elif how == "ZADD":
            values = [part for member, score in found for part in (f"{score:.0f}", member)]
        args += (how, len(values), *values)
    return args


async def end_moves(link: RedisLink, queues: Iterable[str], now: int) -> None:
    """Carry moves to their end whose process was lost on the way; for the leader."""
    if not link.apart:
        return
    commands = link.batch()
    for queue in (names := list(queues)):
        commands.hvals(link.keys.of(queue, "outgoing"))
    for notes in await link.send(commands) if names else ():
        for note in notes:
            at, name, queue, target, jobs, args = json.loads(note)
            transit = Transit(name, queue, target, [(one, type_) for one, type_ in jobs], args)
            if now - at > ABANDONED_MOVE_US and not await _seal(link, transit):
                await _arrive(link, transit)


async def _seal(link: RedisLink, transit: Transit) -> bool:
    """Let no job depart any more; return False where some have."""
    here = transit.beside(link, transit.queue)
    keys = [*link.of(transit.queue, ["outgoing"]), *here(["seq", *(f"job:{job_id}" for job_id, _ in transit.jobs)])]
    (sealed,) = await link.run_many([Call("transit_seal", keys, [transit.name, KEPT_SECONDS])])
    return bool(sealed)
