"""Claims, the heartbeat, and the clock of the machine by which leases are kept."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from queue_core.model.job import Claim, Ready, Stray
from queue_core.model.report import Announced
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.store import ClaimRequest, HeartbeatReply, HeartbeatRequest, Neighbour, StackRequest
from queue_core.runtime import until_full
from queue_core.stores.sqlite.capacity import Counts, OpenQueue, admit, spend
from queue_core.stores.sqlite.dialect import tags_of, texts
from queue_core.stores.sqlite.logs import give_stack, stack_requests
from queue_core.stores.sqlite.session import Mode, RowTuple, SqliteFile, Transaction

# Leases when the machine's clock is set: the elapsed time counts, measured by a steady clock.
#
# All processes share the machine and its two clocks: the one that people set, in which times are stored,
# and the steady one. Every change of leases compares both with their last values. Where the first went further, or
# less far, than the second, it was set, or the machine slept; then everything that waits for time to pass is moved
# along with it.

CLOCK_TOLERANCE = 2.0
"""Seconds that the clocks may differ: more than a time server's gentle corrections, less than any lease."""
CLOCKS_NOTED_SECONDS = 60.0
"""Seconds after which both clocks are stored again; in an hour they drift apart by a second at most."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TIMES = Path("/proc/self/ns/time")

_MOVED = (
    "move_leases",
    "move_retries",
    "move_workers",
    "move_leaders",
    "move_refills",
    "move_unique",
    "move_operations",
)


@cache
def machine() -> str:
    """Return the id of this boot of the machine, to which the steady clock belongs; empty where unknown."""
    try:
        # A container can have a steady clock of its own.
        return f"{_BOOT.read_text(encoding='ascii').strip()} {_TIMES.readlink() if _TIMES.is_symlink() else ''}"
    except OSError:
        return ""


def keep_time(transaction: Transaction) -> None:
    """Shift all stored deadlines if the clock was set since the last check."""
    ((wall, steady, known),) = transaction.rows("claim/clocks")
    here, now, steady_now = machine(), transaction.now, transaction.clock.monotonic()
    jump = 0.0
    if here and known == here and steady_now >= steady:
        jump = (now - wall) - (steady_now - steady)
        if abs(jump) > CLOCK_TOLERANCE:
            for moved in _MOVED:
                transaction.run(f"claim/{moved}", {"seconds": jump})
    if known != here or abs(jump) > CLOCK_TOLERANCE or now - wall > CLOCKS_NOTED_SECONDS:
        transaction.run("claim/record_clocks", (now, steady_now, here))


TOKENS_PER_COMMIT = 1_000_000
"""Tokens that one commit on the disk allows to be given out by softer ones."""


SINCE_2025 = 1735689600.0
"""Seconds since the epoch. Tokens stay below 2^53, which readers of JSON need, for 285 years."""


class TokensUsedUp(Exception):
    """The claims since the last reservation have used its tokens."""


def reserve_tokens(transaction: Transaction) -> None:
    """Go on behind every token that may have been given out, and note on the disk how far one may go from there."""
    microseconds = max(0, int((transaction.now - SINCE_2025) * 1e6))
    transaction.run("claim/reserve_tokens", {"microseconds": microseconds, "count": TOKENS_PER_COMMIT})


def take_tokens(transaction: Transaction, count: int) -> int:
    """Return the token behind which these are given out; the commit is on the disk, so it may reserve more."""
    ((token, ceiling),) = transaction.rows("claim/tokens")
    while token + count > ceiling:
        reserve_tokens(transaction)
        ((token, ceiling),) = transaction.rows("claim/tokens")
    transaction.run("claim/use_tokens", (count,))
    return int(token)


def claim(transaction: Transaction, request: ClaimRequest, rules: Rules) -> list[Claim]:
    """Move ready jobs of a queue that is not paused to running, best rank first, as many as its rules let start.

    Raises:
        TokensUsedUp: nothing was claimed; reserve tokens and ask again.
    """
    keep_time(transaction)
    found = transaction.rows("claim/open_queue", (request.queue,))
    if not found:
        return []
    queue, own_rules = OpenQueue._make(found[0]), rules_of(rules, request.queue)
    allowed = None
    if own_rules.limits_claims:
        request, queue, allowed = admit(transaction, queue, own_rules, request)
    rows = _candidates(transaction, request, queue.number)
    if not rows:
        return []
    ((token, ceiling),) = transaction.rows("claim/tokens")
    if token + len(rows) > ceiling:
        raise TokensUsedUp
    transaction.run("claim/use_tokens", (len(rows),))
    # An attempt that ended before this one: its outcome may yet be handed in again.
    keep_outcomes(transaction, [(row[0], row[11], row[12]) for row in rows if row[12] is not None])
    now, until = transaction.now, transaction.now + request.lease
    start_count = len(rows) if request.start_count is None else request.start_count
    transaction.run_many(
        "claim/start",
        [
            (token + turn, request.worker, now, until, turn <= start_count, request.number, request.release, row[0])
            for turn, row in enumerate(rows, 1)
        ],
    )
    if queue.keeps_counts:
        _count(transaction, queue.number, rows)
    if allowed is not None and own_rules.rate is not None:
        spend(transaction, queue, allowed, len(rows))
    return [_claim(row, token + turn, request.queue) for turn, row in enumerate(rows, 1)]


def _count(transaction: Transaction, queue_id: int, rows: list[RowTuple]) -> None:
    counts = Counts()
    for row in rows:
        counts.move(queue_id, row[4], running=1, waiting=-1)
    counts.write(transaction)


def _candidates(transaction: Transaction, request: ClaimRequest, queue_id: int) -> list[RowTuple]:
    if request.limit <= 0:
        return []
    limit = min(request.limit, TOKENS_PER_COMMIT)
    params: dict[str, Any] = {"queue_id": queue_id, "limit": limit}
    if request.ids is not None:
        ids = texts(dict.fromkeys(request.ids))
        types = None if request.types is None else texts(request.types)
        return _until_full(transaction.each("claim/by_ids", params | {"ids": ids, "types": types}))
    if request.types is not None and len(request.types) == 1:
        return _until_full(transaction.each("claim/by_rank", params | {"type": request.types[0]}))
    best = best_ranks(transaction, queue_id, request.types, limit)
    return _until_full(transaction.each("claim/by_numbers", (texts(number for _, number in best),))) if best else []


def _until_full(rows: Iterator[RowTuple]) -> list[RowTuple]:
    return list(until_full(rows, lambda row: len(row[3])))


def best_ranks(
    transaction: Transaction, queue_id: int, types: Iterable[str] | None, limit: int
) -> list[tuple[int, int]]:
    """Return rank and number of the first ready jobs of a queue that have one of these types; None: whatever type."""
    if types is None:
        types = [type_ for (type_,) in transaction.rows("claim/ready_types", {"queue_id": queue_id})]
    found: list[tuple[int, int]] = []
    for type_ in types:
        found += transaction.rows("claim/ranks", (queue_id, type_, limit))
    found.sort()
    return found[:limit]


def _claim(row: RowTuple, token: int, queue: str) -> Claim:
    _, job_id, type_, payload, priority, rank, retries, most, crashes, created, tags, _, _, key, losses, headers = row
    return Claim(
        job_id,
        token,
        queue,
        type_,
        payload,
        priority,
        rank,
        retries,
        most,
        crashes,
        created,
        tags_of(tags),
        key,
        losses,
        headers,
    )


def announced(transaction: Transaction) -> Announced:
    """Return the types that live workers have handlers for."""
    rows = transaction.rows("claim/live_types", (transaction.now,))
    return Announced((json.loads(queues), json.loads(types)) for queues, types in rows)


def keep_outcomes(transaction: Transaction, ended: Sequence[tuple[int, int, str]]) -> None:
    """Remember how attempts ended, as (job, token, kind), before the next ones begin: they may be handed in again."""
    transaction.run_many("claim/keep_outcome", ended)


def list_claimable(transaction: Transaction, queue: str, limit: int) -> list[Ready]:
    """Return the first claimable jobs whose type a live worker of this queue has announced."""
    found = transaction.rows("claim/open_queue", (queue,))
    if not found or limit <= 0:
        return []
    best = best_ranks(transaction, found[0][0], announced(transaction).of(queue), limit)
    rows = transaction.rows("claim/ids", (texts(number for _, number in best),))
    return [Ready(job_id, queue, place) for (place, _), (job_id,) in zip(best, rows, strict=True)]


def filter_claimable(transaction: Transaction, queue: str, ids: list[str]) -> list[Ready]:
    """Return those of these jobs that are claimable now and whose type a live worker of this queue announced."""
    found = transaction.rows("claim/open_queue", (queue,))
    if not found:
        return []
    types = announced(transaction).of(queue)
    wanted = {"queue_id": found[0][0], "types": None if types is None else texts(types), "ids": texts(ids)}
    rows = transaction.rows("claim/claimable", wanted)
    return [Ready(job_id, queue, place) for job_id, place in rows]


def list_ready(transaction: Transaction, queue: str, after: int, limit: int) -> list[Ready]:
    """Return ready jobs with a higher rank, paused queues included."""
    rows = transaction.rows("claim/ready_after", {"queue": queue, "rank": after, "limit": max(limit, 0)})
    return [Ready(job_id, queue, place) for job_id, place in rows]


class SqliteHeartbeat:
    """One transaction a heartbeat: leases, progress, the worker's entry and its orders."""

    def __init__(self, file: SqliteFile) -> None:
        self._timeout = file.settings.timeout
        self._link = file.link()

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Prolong the leases that still hold, record their progress, and renew the worker's entry.

        Raises:
            StoreUnavailable: no lock in time.
        """
        # A heartbeat that waits longer than its leases last is useless.
        deadline = time.monotonic() + min(self._timeout, request.lease / 3)
        return self._link.transact(lambda transaction: _renew(transaction, request), Mode.SOFT, deadline)

    def hand_back(self, worker: str, started: Sequence[str], last: int) -> None:
        """End the leases of a worker's claims up to a number but for these jobs, as not started."""
        given = {"worker": worker, "started": texts(started), "last": last}
        deadline = time.monotonic() + self._timeout
        self._link.transact(lambda transaction: transaction.run("claim/worker_hand_back", given), Mode.SOFT, deadline)

    def stack_requests(self, worker: str) -> list[StackRequest]:
        """Return requests for stacks that a worker has not answered: a read of an index that is empty otherwise."""
        deadline = time.monotonic() + self._timeout
        return self._link.transact(lambda transaction: stack_requests(transaction, worker), Mode.READ, deadline)

    def give_stack(self, request: StackRequest, text: str) -> None:
        """Keep the answer to a request."""
        deadline = time.monotonic() + self._timeout
        self._link.transact(lambda transaction: give_stack(transaction, request, text), Mode.SOFT, deadline)

    def close(self) -> None:
        """Give the connection back; doing it twice is safe."""
        self._link.close()


def _renew(transaction: Transaction, request: HeartbeatRequest) -> HeartbeatReply:
    keep_time(transaction)
    ids = texts(lease.id for lease in request.leases)
    tokens: dict[str, int] = dict(transaction.rows("claim/worker_held", (ids,)))
    held = [lease for lease in request.leases if tokens.get(lease.id) == lease.token]
    until = transaction.now + request.lease
    transaction.run_many(
        "claim/worker_renew", [(until, lease.started, lease.id) for lease in held if lease.progress is None]
    )
    transaction.run_many(
        "claim/worker_renew_progress",
        [
            (until, lease.started, max(0, min(lease.progress, 100)), lease.message, lease.id)
            for lease in held
            if lease.progress is not None
        ],
    )
    return HeartbeatReply(
        lost=tuple(lease.id for lease in request.leases if tokens.get(lease.id) != lease.token),
        cancel=tuple(row[0] for row in transaction.rows("claim/worker_cancelled", (request.worker,))),
        command=_register(transaction, request),
        neighbours=_neighbours(transaction, request) if request.with_neighbours else None,
        strays=_strays(transaction, request) if request.doubts or request.doubt_until else (),
    )


def _neighbours(transaction: Transaction, request: HeartbeatRequest) -> tuple[Neighbour, ...]:
    return tuple(
        Neighbour._make(row) for row in transaction.rows("claim/worker_neighbours", (request.place, request.worker))
    )


def _strays(transaction: Transaction, request: HeartbeatRequest) -> tuple[Stray, ...]:
    claims = json.dumps([doubt.number for doubt in request.doubts])
    asked = {"worker": request.worker, "claims": claims, "until": request.doubt_until}
    return tuple(Stray._make(row) for row in transaction.rows("claim/worker_strays", asked))


def _register(transaction: Transaction, request: HeartbeatRequest) -> str:
    rows = transaction.rows("claim/worker_command", (request.worker,))
    entry = {
        "id": request.worker,
        "host": request.host,
        "pid": request.pid,
        "version": request.version,
        "queues": json.dumps(request.queues),
        "types": json.dumps(request.types),
        "concurrency": request.concurrency,
        "busy": request.busy,
        "quiet": request.quiet,
        "interval": request.interval,
        "place": request.place,
        "process": request.process,
        "stuck": request.stuck,
        "release": request.release,
        "now": transaction.now,
    }
    transaction.run("claim/worker_entry", entry)
    return str(rows[0][0]) if rows else ""
