"""Claims of a queue with a concurrency or a rate: one at a time counts what runs, and takes no more than may start."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from queue_core.rules import QueueRules, allowance
from queue_core.stores.postgres.plan import Plan, Rows
from queue_core.stores.postgres.sql import plain_array

INLINE = 65_536
"""Bytes of payloads that come with a claim under the lock. A server that sends to a client which does not read heeds no
time limit, so larger ones are fetched after the commit, when nobody waits for the queue any more."""
WHOLE, PAUSE = 60.0, 200.0
"""Seconds between two looks at all leases; and how many times longer than such a look takes. It finds what processes
without these rules have claimed. While a snapshot is held it reads all leases that ended, too."""
MOST = 1000
"""Running jobs up to which each is remembered: they are named to each other under the lock, see INLINE."""
NEVER = (1 << 63) - 1
"""Above every token: nothing is counted."""


class Running:
    """Which jobs of a queue run, as of the last claim: the next one looks at these and at what was claimed since."""

    def __init__(self) -> None:
        self._known: Sequence[str] = ()
        self._above = 0
        # seconds of time.monotonic
        self._whole_at = float("-inf")

    def count(self, queue: Mapping[str, Any], rules: QueueRules) -> Plan[tuple[int, float, float, float]]:
        """Return how many jobs run, the rate's tokens, as of how many seconds ago, and the time."""
        began, running = time.monotonic(), 0
        if rules.concurrency is None:
            self._known, self._above = (), NEVER
        elif began >= self._whole_at:
            ((running, known),) = yield "starts/running", {**queue, "some": MOST}
            few = running <= MOST and rules.concurrency <= MOST
            # Where they are few, the count that counts is the one of those that are known.
            self._known, self._above = (known, NEVER) if few else ((), NEVER)
            running = 0 if few else running
            took = time.monotonic() - began
            self._whole_at = began + (max(WHOLE, PAUSE * took) if few else 0.0)
        asked = {**queue, "known": plain_array(self._known), "above": self._above}
        ((known, above, *rest),) = yield "starts/read", asked
        self._known, self._above = known, above
        return running + len(known), *rest


def claim_gated(query: str, params: Mapping[str, Any], rules: QueueRules, running: Running) -> Plan[Rows]:
    """Claim with this query what the rules let start now; all of it begins at once."""
    queue = {"queue_id": params["queue_id"]}
    yield "starts/lock", queue | {"burst": rules.burst()}
    count, tokens, passed, now = yield from running.count(queue, rules)
    allowed = allowance(rules, count, tokens, passed)
    wanted = min(params["limit"], params["starting"])
    most = wanted if allowed.most is None else min(wanted, allowed.most)
    if most <= 0:
        return []
    rows = yield query, {**params, "limit": most, "starting": most, "inline": INLINE // most}
    if rules.rate is not None and rows:
        yield "starts/spend", queue | {"tokens": allowed.tokens - len(rows), "at": now}
    return rows
