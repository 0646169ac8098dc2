"""Ordering keys and unique keys: their locks, the next in line, and what arrives."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

from queue_core.errors import QueueCoreError, TransactionError
from queue_core.model.job import Outcome, Ready
from queue_core.model.rules import Rules, rules_of
from queue_core.runtime import parts_of
from queue_core.stores.postgres.dialect import Rows, plain_array, text_array
from queue_core.stores.postgres.session.plans import MAX_ANSWER_BYTES, ROW_BYTES, Ahead, Last, Plan

Arrivals = Mapping[str, int]
"""The first of some arrivals in each queue, in microseconds since the epoch."""
NO_ARRIVALS: Arrivals = MappingProxyType({})


def count_arrivals(queues: Iterable[str], rules: Rules) -> Plan[Arrivals]:
    """Let a job arrive for each name of a queue; return the first arrival in each of them with aging."""
    counts = Counter(queue for queue in queues if rules_of(rules, queue).aging)
    if not counts:
        return NO_ARRIVALS
    rows = yield "ordering/arrivals_count", {"queue": text_array(counts), "n": plain_array(counts.values())}
    return dict(rows)


def each_arrival(queues: Iterable[str], first: Arrivals) -> list[int | None]:
    """Return the arrivals of jobs in these queues, in order; None without aging."""
    following = {queue: count(at) for queue, at in first.items()}
    return [next(following[queue]) if queue in following else None for queue in queues]


# Ordering keys: a transaction that releases one, or adds a job to it, locks it and then releases its next jobs.
#
# Keys are locked before the rows of jobs, and in one order. The statement that lets jobs through comes after the lock
# and sees the changes of all its earlier holders, so the last of them leaves no key with room and a waiting job.

OrderingKey = tuple[str, str]
"""A queue and an ordering key."""

KEY_LOCK_TIMEOUT = "250ms"
"""How long the end of a job waits for a key. Producers and other ends have it for a moment, but a caller's transaction
that enqueued a job of this key has it until it ends, and no worker may hang on that."""

SLOW_SECONDS, SLOW_SECONDS_EACH, SLOW_TIMES = 0.02, 0.0002, 3
"""Seconds in which the next jobs of keys are found, and those of each; how often in a row that has to take longer until
the keys note what they have passed: after 10,000 jobs of one key have ended beside an open snapshot."""
SLOW_UNBLOCKED = 500
"""How often a process must have released jobs of a key for that: it is the ends of its own jobs that make it slow. The
locks of keys that know what they have passed stay, so they must be few."""
MAX_SLOW_KEYS = 1000
"""Keys about which that is remembered."""


class Unblocked(NamedTuple):
    """A job that its ordering key released."""

    key: OrderingKey
    ready: Ready


class LockedKeys(NamedTuple):
    """Ordering keys that this transaction has locked."""

    # (queue, its id, key)
    rows: Rows

    def accepted(self) -> str:
        """Return what the statements that end attempts take as `locks`."""
        return text_array([f"{queue_id} {key}" for _, queue_id, key in self.rows])


NO_KEYS = LockedKeys([])
NO_IDS: Mapping[str, int] = MappingProxyType({})


def key_arrays(keys: Iterable[OrderingKey]) -> dict[str, str]:
    """Return the parameters that name ordering keys."""
    distinct = set(keys)
    return {"queue": text_array([queue for queue, _ in distinct]), "key": text_array([key for _, key in distinct])}


def lock_keys(keys: Iterable[OrderingKey]) -> Plan[LockedKeys]:
    """Lock ordering keys until the transaction ends."""
    distinct = set(keys)
    return _locked(distinct, (yield "ordering/lock", key_arrays(distinct))) if distinct else NO_KEYS


def lock_keys_soon(keys: Iterable[OrderingKey], queue_ids: Mapping[str, int] = NO_IDS) -> Plan[LockedKeys]:
    """Lock ordering keys, or fail as `LockHeld` when another transaction has one locked for long.

    With the ids of their queues the next step does not wait for the answer.
    """
    distinct = set(keys)
    if not distinct:
        return NO_KEYS
    step = "ordering/lock_soon", key_arrays(distinct) | {"patience": KEY_LOCK_TIMEOUT}
    if not queue_ids:
        return _locked(distinct, (yield step))
    yield Ahead(*step)
    return _locked(distinct, queue_ids.items())


def _locked(keys: Iterable[OrderingKey], rows: Iterable[tuple[Any, ...]]) -> LockedKeys:
    """Return locked keys, given the ids of their queues: the keys are not sent back."""
    queue_ids: dict[str, int] = dict(rows)
    return LockedKeys([(queue, queue_ids[queue], key) for queue, key in keys if queue in queue_ids])


def create_locks(keys: Iterable[OrderingKey]) -> Plan[None]:
    """Create the rows of locks that are missing, or fail as `LockHeld` when an open transaction has created one."""
    distinct = set(keys)
    if distinct:
        yield "ordering/make_locks", key_arrays(distinct) | {"patience": KEY_LOCK_TIMEOUT}


def lock_free_keys(keys: Iterable[OrderingKey]) -> Plan[tuple[LockedKeys, LockedKeys]]:
    """Lock the existing keys that no other transaction has locked; return these, and the others."""
    rows: Rows = []
    for part in parts_of(set(keys), lambda key: ROW_BYTES + len(key[0]) + len(key[1]), MAX_ANSWER_BYTES):
        rows += yield "ordering/lock_free", key_arrays(part)
    return LockedKeys([row[:3] for row in rows if row[3]]), LockedKeys([row[:3] for row in rows if not row[3]])


def promote_with_keys(named: Rows, rules: Rules, make: bool = True) -> Plan[tuple[list[Ready], bool]]:
    """Let due jobs arrive under their ordering keys, and release the next of pending keys; `store/promote` names both.

    A locked key is noted for a later round: its jobs, if left, would come before all others.
    Returns the jobs that became ready, and whether any key was locked. With `make`, raises `LockHeld` when an
    open transaction has created one of the locks; without, such a key counts as locked.
    """
    if make:
        yield from create_locks((queue, key) for _, queue, _, key in named)
    free, locked = yield from lock_free_keys((queue, key) for _, queue, _, key in named)
    due = {row[0]: (row[1], row[3]) for row in named if row[0] is not None}
    if due:
        yield (
            "ordering/promote_keyed",
            {"ids": plain_array(due), "locks": LockedKeys(free.rows + locked.rows).accepted()},
        )
    arrived = set(due.values())
    yield from note_pending(LockedKeys([row for row in locked.rows if (row[0], row[2]) in arrived]))
    yield "ordering/clear_pending", {"locks": free.accepted()}
    return [one.ready for one in (yield from unblock_next(free, rules))], bool(locked.rows)


def read_committed(what: str, refusal: type[QueueCoreError] = TransactionError) -> Plan[None]:
    """Check that each statement of a transaction sees all earlier commits.

    Raises:
        TransactionError: it does not; or what is given as `refusal`.
    """
    ((level,),) = yield "ordering/isolation", {}
    # To PostgreSQL the two are one.
    if level not in ("read committed", "read uncommitted"):
        raise refusal(f"{what} needs a transaction with isolation level READ COMMITTED, not {level.upper()}")


def with_keys(outcomes: Sequence[Outcome], rows: Rows) -> list[Outcome]:
    """Return the outcomes that do not name their job's ordering key, with the key, by rows of `keys_of_unfinished`."""
    keys = {job_id: key for job_id, _, key in rows}
    return [
        outcome._replace(ordering_key=keys[outcome.id])
        for outcome in outcomes
        if keys.get(outcome.id) not in (None, outcome.ordering_key)
    ]


def keys_of_unfinished(ids: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return the statement, with its parameters, that names the ordering keys of jobs that are not finished."""
    return "ordering/keys_of_unfinished", {"ids": plain_array(ids)}


def note_pending(locks: LockedKeys) -> Plan[None]:
    """Note keys locked by others, whose next jobs the leader releases later."""
    if locks.rows:
        queue_ids, keys = [row[1] for row in locks.rows], [row[2] for row in locks.rows]
        yield "ordering/add_pending", {"queue_id": plain_array(queue_ids), "key": text_array(keys)}


class SlowKeys:
    """Keys whose next jobs this process has released often, and slowly several times in a row."""

    def __init__(self) -> None:
        # how often jobs of each were released, and how often in a row that took long; the last ones
        self._unblocked: dict[OrderingKey, int] = {}
        self._times: dict[OrderingKey, int] = {}

    def note(self, keys: Collection[OrderingKey], seconds: float) -> list[OrderingKey]:
        """Note how long the next jobs of some keys took; return the keys that should know what they have passed."""
        often = self.note_with_others(keys, seconds)
        self._times.update({key: self._times[key] + 1 for key in often})
        return [key for key in often if self._times[key] > SLOW_TIMES]

    def note_with_others(self, keys: Collection[OrderingKey], seconds: float) -> list[OrderingKey]:
        """Note how long the next jobs of some keys took with other statements; return those that may be slow."""
        for key in keys:
            self._unblocked[key] = self._unblocked.pop(key, 0) + 1
        while len(self._unblocked) > MAX_SLOW_KEYS:
            self._times.pop(self._forget_first(), None)
        if seconds <= SLOW_SECONDS + SLOW_SECONDS_EACH * len(keys):
            if self._times:
                for key in keys:
                    self._times.pop(key, None)
            return []
        often = [key for key in keys if self._unblocked.get(key, 0) >= SLOW_UNBLOCKED]
        for key in often:
            self._times.setdefault(key, 1)
        return often

    def doubts(self, keys: Iterable[OrderingKey]) -> bool:
        """Return whether the next jobs of one of these may be slow: how long they take is then measured alone."""
        return bool(self._times) and any(key in self._times for key in keys)

    def _forget_first(self) -> OrderingKey:
        first = next(iter(self._unblocked))
        del self._unblocked[first]
        return first


_slow = SlowKeys()


def unblock_next(locks: LockedKeys, rules: Rules, whole: bool = True) -> Plan[list[Unblocked]]:
    """Release the next jobs of locked keys and return them, best rank first.

    `whole`: also jobs that came to wait at an earlier place than others that were released already.
    """
    rows: Rows = []
    for part in parts_of(locks.rows, lambda row: ROW_BYTES + len(row[2]), MAX_ANSWER_BYTES):
        began = time.monotonic()
        rows += yield _unblocking(part, rules, whole)
        slow = set(_slow.note([(queue, key) for queue, _, key in part], time.monotonic() - began))
        if marked := [(queue_id, key) for queue, queue_id, key in part if (queue, key) in slow]:
            queue_ids, keys = zip(*marked, strict=True)
            yield "ordering/raise_watermark", {"queue_id": plain_array(queue_ids), "key": text_array(keys)}
    return unblocked_of(locks, rows)


def _unblocking(locks: Rows, rules: Rules, whole: bool) -> tuple[str, dict[str, Any]]:
    queues, queue_ids, keys = zip(*locks, strict=True)
    capacity = plain_array([rules_of(rules, queue).open_keys for queue in queues])
    given = {"queue_id": plain_array(queue_ids), "key": text_array(keys), "capacity": capacity, "whole": whole}
    return "ordering/unblock_next", given


def unblocked_of(locks: LockedKeys, rows: Rows) -> list[Unblocked]:
    """Return the jobs in the rows of `unblock_next` for locked keys, best rank first."""
    names = {queue_id: queue for queue, queue_id, _ in locks.rows}
    unblocked = [
        Unblocked((names[queue_id], key), Ready(job_id, names[queue_id], rank)) for queue_id, key, job_id, rank in rows
    ]
    return sorted(unblocked, key=lambda one: one.ready.rank)


def goes_at_once(keys: Collection[OrderingKey], queue_ids: Mapping[str, int]) -> bool:
    """Return whether the queues are known, and the next jobs of the keys are found fast, as far as is known."""
    return all(queue in queue_ids for queue, _ in keys) and not _slow.doubts(keys)


def unblock_at_once(locks: LockedKeys, rules: Rules, last: bool) -> Plan[Rows]:
    """Release the next jobs of locked keys; the rows are there by the plan's end. `last`: it ends with this."""
    if not locks.rows:
        return []
    step = _unblocking(locks.rows, rules, whole=False)
    return (yield Last(*step) if last else Ahead(*step))


def note_at_once(locks: LockedKeys, seconds: float) -> None:
    """Note how long all of a plan took that released the next jobs of these keys at once."""
    _slow.note_with_others([(queue, key) for queue, _, key in locks.rows], seconds)


def blocking(rules: Rules) -> str:
    """Return the names of the queues in which a dead job keeps its ordering key."""
    return text_array([name for name, one in rules.items() if one.dead_blocks_key])


class KeyRequest(NamedTuple):
    """A unique key that a job is to have."""

    # the id of its queue
    queue_id: int
    key: str
    job_id: str
    # None: while the job is unfinished
    seconds: float | None = None


def take_unique(requests: Sequence[KeyRequest]) -> Plan[dict[tuple[int, str], str]]:
    """Take free unique keys; return the holder of each. Of several jobs with one key, the first gets it."""
    first: dict[tuple[int, str], KeyRequest] = {}
    for one in requests:
        first.setdefault((one.queue_id, one.key), one)
    # In the order in which each statement locks, too, so that several are as one.
    ordered = sorted(first.values(), key=lambda one: (one.queue_id, one.key.encode()))
    holders: dict[tuple[int, str], str] = {}
    for part in _parts(ordered):
        holders |= {(queue_id, key): job_id for queue_id, key, job_id in (yield "ordering/unique_lock", _arrays(part))}
    for part in _parts([one for one in ordered if (one.queue_id, one.key) not in holders]):
        holders |= {(queue_id, key): job_id for queue_id, key, job_id in (yield "ordering/unique_take", _arrays(part))}
    return holders


def _parts(requests: Sequence[KeyRequest]) -> Iterator[list[KeyRequest]]:
    return parts_of(requests, lambda one: ROW_BYTES + len(one.key), MAX_ANSWER_BYTES)


def _arrays(requests: Sequence[KeyRequest]) -> dict[str, str]:
    return {
        "queue_id": plain_array([one.queue_id for one in requests]),
        "key": text_array([one.key for one in requests]),
        "job_id": plain_array([one.job_id for one in requests]),
        "seconds": plain_array([one.seconds for one in requests]),
    }
