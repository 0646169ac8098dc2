"""The capacity of queues: what may start within concurrency and rate, and how many may wait."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.errors import QueueFull
from queue_core.model.job import NewJob
from queue_core.model.rules import QueueRules, Room, Rules, allowance, band, rules_of
from queue_core.stores.postgres.dialect import Rows, plain_array, text_array
from queue_core.stores.postgres.session.plans import Ahead, Last, Plan

INLINE_BYTES = 65_536
"""Bytes of payloads that come with a claim under the lock. A server that sends to a client which does not read ignores
time limits, so larger ones are fetched after the commit, when no other claim waits for the queue's lock."""
FULL_SCAN_INTERVAL, FULL_SCAN_PAUSE_FACTOR = 60.0, 200.0
"""Seconds between two scans of all leases; and how many times longer than such a scan takes. It finds what processes
without these rules have claimed. While a snapshot is held it reads all leases that ended, too."""
MAX_REMEMBERED = 1000
"""Running jobs up to which each is remembered: they are named to each other under the lock, see INLINE_BYTES."""
ABOVE_ALL_TOKENS = (1 << 63) - 1
"""Above every token: nothing is counted."""


class Running:
    """Which jobs of a queue run, as of the last claim: the next one looks at these and at what was claimed since."""

    def __init__(self) -> None:
        self._known: Sequence[str] = ()
        self._above = 0
        # the answer to the last count, there by the end of its plan
        self._counted: Rows = []
        # seconds of time.monotonic
        self._whole_at = float("-inf")

    @property
    def known(self) -> tuple[Sequence[str], int]:
        """The jobs that ran as of the last count, and the token behind which others may have been claimed."""
        return self._counted[0][:2] if self._counted else (self._known, self._above)

    def count(self, queue: Mapping[str, Any], rules: QueueRules, at_once: bool) -> Plan[tuple[int, Rows]]:
        """Return how many jobs run besides those in the row of `capacity/running`, and that row.

        `at_once`: the row is there by then; else by the end of the plan.
        """
        self._known, self._above = self.known
        began, running = time.monotonic(), 0
        if rules.concurrency is None:
            self._known, self._above = (), ABOVE_ALL_TOKENS
        elif began >= self._whole_at or self._above == ABOVE_ALL_TOKENS:
            # Where no lease epoch was live, as after a crash, the count before knew no last token.
            ((running, known),) = yield "capacity/running_scan", {**queue, "some": MAX_REMEMBERED}
            few = running <= MAX_REMEMBERED and rules.concurrency <= MAX_REMEMBERED
            # Where they are few, the count that counts is the one of those that are known.
            self._known, self._above = (known, ABOVE_ALL_TOKENS) if few else ((), ABOVE_ALL_TOKENS)
            running = 0 if few else running
            took = time.monotonic() - began
            self._whole_at = began + (max(FULL_SCAN_INTERVAL, FULL_SCAN_PAUSE_FACTOR * took) if few else 0.0)
        step = (
            "capacity/running",
            {
                **queue,
                "running": plain_array(self._known),
                "above": self._above,
                "room": max(0, (rules.concurrency or 0) - running),
            },
        )
        self._counted = yield step if at_once else Ahead(*step)
        return running, self._counted


def claim_limited(
    query: str, params: Mapping[str, Any], rules: QueueRules, running: Running, last: bool = True
) -> Plan[Rows]:
    """Claim with this query what the rules allow; see `allowance`. `last`: the plan ends with it."""
    queue = {"queue_id": params["queue_id"]}
    yield Ahead("capacity/rate_lock", queue | {"burst": rules.burst()})
    if rules.rate is None:
        return (yield from _claim_within(query, params, rules, running, last))
    others, rows = yield from running.count(queue, rules, at_once=True)
    ((known, _, tokens, passed, now, _),) = rows
    allowed = allowance(rules, Room(params["limit"], params["starting"]), others + len(known), tokens, passed)
    most = allowed.most
    if passed < 0:
        # The server's clock was set back: until it had caught up, nothing would count as passed.
        yield Ahead("capacity/rate_spend", queue | {"tokens": allowed.tokens, "at": now})
    if most <= 0:
        return []
    rows = yield query, {**params, "limit": most, "starting": allowed.starting, "inline": INLINE_BYTES // most}
    if had := sum(1 for row in rows if row[0] is not None):  # see claim/by_rank
        yield Ahead("capacity/rate_spend", queue | {"tokens": allowed.left(had), "at": now})
    return rows


def _claim_within(query: str, params: Mapping[str, Any], rules: QueueRules, running: Running, last: bool) -> Plan[Rows]:
    """Claim below a concurrency alone: what is left of it is known to the server, and all travels in one message."""
    assert rules.concurrency is not None
    yield from running.count({"queue_id": params["queue_id"]}, rules, at_once=False)
    most = min(params["limit"], params["starting"], rules.concurrency)
    claim = query, {**params, "limit": most, "starting": most, "inline": INLINE_BYTES // max(1, most), "within": True}
    return (yield Last(*claim) if last else Ahead(*claim))


class RoomRequest(NamedTuple):
    """Room below one limit."""

    queue: str
    queue_id: int
    # the empty text: the whole queue
    band: str
    most: int
    n: int


def limited(rules: Rules) -> str:
    """Return the names of the queues with limits."""
    return text_array([name for name, one in rules.items() if one.limits])


def take_capacity(jobs: Sequence[NewJob], queue_ids: Mapping[str, int], rules: Rules) -> Plan[None]:
    """Take the room of new jobs, not counting those that are there already.

    Raises:
        QueueFull: there is not enough; the transaction is to be rolled back.
    """
    counted = {job.id: job for job in reversed(jobs) if rules_of(rules, job.queue).limits}
    if not counted:
        return
    for (known,) in (yield "capacity/unfinished", {"ids": plain_array(counted)}):
        del counted[known]
    requests = list(_room_requests(list(counted.values()), queue_ids, rules))
    if not requests:
        return
    # Both take the rows in one order: no two producers wait for each other.
    yield Ahead("capacity/lock", _arrays(requests))
    rows = yield "capacity/spend", _arrays(requests)
    enough = {(queue_id, name) for queue_id, name, is_enough in rows if is_enough}
    left = [one for one in requests if (one.queue_id, one.band) not in enough]
    if not left:
        return
    rows = yield "capacity/count", _arrays(left)
    fits = {(queue_id, name): is_enough for queue_id, name, is_enough in rows}
    for one in left:
        if not fits[one.queue_id, one.band]:
            raise QueueFull(one.queue, one.most, rules_of(rules, one.queue).retry_after, one.band)


def _room_requests(jobs: Sequence[NewJob], queue_ids: Mapping[str, int], rules: Rules) -> list[RoomRequest]:
    counts: dict[str, Counter[str]] = {}
    for job in jobs:
        counts.setdefault(job.queue, Counter())[band(job.priority)] += 1
    return [
        RoomRequest(queue, queue_ids[queue], name, most, count[name] if name else count.total())
        for queue, count in counts.items()
        for name, most in rules_of(rules, queue).limits.items()
        if not name or count[name]
    ]


def _arrays(requests: Sequence[RoomRequest]) -> dict[str, str]:
    return {
        "queue_id": plain_array([one.queue_id for one in requests]),
        "band": text_array([one.band for one in requests]),
        "capacity": plain_array([one.most for one in requests]),
        "n": plain_array([one.n for one in requests]),
    }
