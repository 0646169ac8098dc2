"""Claims of a queue with a concurrency or a rate: one at a time counts what runs, and takes no more than may start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queue_core.rules import QueueRules, allowance
from queue_core.stores.postgres.plan import Plan, Rows

INLINE = 65_536
"""Bytes of payloads that come with a claim under the lock. A server that sends to a client which does not read heeds no
time limit, so larger ones are fetched after the commit, when nobody waits for the queue any more."""


def claim_gated(query: str, params: Mapping[str, Any], rules: QueueRules) -> Plan[Rows]:
    """Claim with this query what the rules let start now; all of it begins at once."""
    queue = {"queue_id": params["queue_id"]}
    yield "starts/lock", queue | {"burst": rules.burst()}
    ((running, tokens, passed, now),) = yield "starts/read", queue
    allowed = allowance(rules, running, tokens, passed)
    wanted = min(params["limit"], params["starting"])
    most = wanted if allowed.most is None else min(wanted, allowed.most)
    if most <= 0:
        return []
    rows = yield query, {**params, "limit": most, "starting": most, "inline": INLINE // most}
    if rules.rate is not None and rows:
        yield "starts/spend", queue | {"tokens": allowed.tokens - len(rows), "at": now}
    return rows
