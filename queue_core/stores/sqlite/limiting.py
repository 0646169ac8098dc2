"""What the rules of a queue let in, and let start."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from queue_core.errors import QueueFull
from queue_core.priorities import BANDS
from queue_core.rules import QueueRules, allowance
from queue_core.store import ClaimRequest
from queue_core.stores.sqlite.counting import begin
from queue_core.stores.sqlite.link import Transaction


class OpenQueue(NamedTuple):
    """A queue that is not paused; the columns of claim/open_queue."""

    number: int
    counted: int
    # None: as many as the rate ever allows
    tokens: float | None
    refilled_at: float


class KnownQueue(NamedTuple):
    """A queue that jobs come into; the columns of insert/queues."""

    name: str
    number: int
    counted: int


def check_limits(transaction: Transaction, queue: KnownQueue, rules: QueueRules, coming: Counter[str]) -> KnownQueue:
    """Refuse jobs, counted by band, that would exceed a limit of their queue; return the queue, which counts now.

    Raises:
        QueueFull: nothing may be written.
    """
    if not queue.counted:
        begin(transaction, queue.number)
    ((*waiting,),) = transaction.rows("count/waiting", (queue.number,))
    after = Counter(dict(zip(BANDS, waiting, strict=True))) + coming
    for band, most in rules.limits.items():
        if (after[band] if band else after.total()) > most and (not band or coming[band]):
            raise QueueFull(queue.name, most, rules.retry_after, band)
    return queue._replace(counted=1)


class Admitted(NamedTuple):
    """What a gated queue lets start now."""

    request: ClaimRequest
    queue: OpenQueue


def admit(transaction: Transaction, queue: OpenQueue, rules: QueueRules, request: ClaimRequest) -> Admitted:
    """Lower what a worker wants to what may start, all of it at once; fill up the rate's tokens."""
    running = 0
    if rules.concurrency is not None:
        if not queue.counted:
            begin(transaction, queue.number)
        queue = queue._replace(counted=1)
        ((running,),) = transaction.rows("count/running", (queue.number,))
    tokens = rules.burst() if queue.tokens is None else queue.tokens
    allowed = allowance(rules, running, tokens, transaction.now - queue.refilled_at)
    most = request.limit if request.begin is None else min(request.limit, request.begin)
    if allowed.most is not None:
        most = min(most, allowed.most)
    filled = queue._replace(tokens=allowed.tokens, refilled_at=transaction.now)
    return Admitted(request._replace(limit=most, begin=None), filled)


def spend(transaction: Transaction, queue: OpenQueue, started: int) -> None:
    """Take a token of the rate for each job that starts."""
    assert queue.tokens is not None
    transaction.run("claim/spend", (queue.tokens - started, queue.refilled_at, queue.number))
