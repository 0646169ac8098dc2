"""What the rules of a queue let in, and let start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isinf

from queue_core.errors import QueueFull
from queue_core.job import NewJob
from queue_core.priorities import band
from queue_core.rules import QueueRules, allowance, rules_of
from queue_core.stores.memory.rows import QueueRow
from queue_core.stores.memory.state import MemoryState


def check_limits(state: MemoryState, jobs: Sequence[NewJob], now: float) -> None:
    """Refuse jobs that would exceed a limit of their queue; those that are there already do not count.

    Raises:
        QueueFull: nothing was written.
    """
    coming: dict[str, Counter[str]] = {}
    seen: set[object] = set()
    for job in jobs:
        names = {job.id} | ({(job.queue, job.unique_key)} if job.unique_key is not None else set())
        if not rules_of(state.rules, job.queue).limits or names & seen or _is_there(state, job, now):
            continue
        seen |= names
        coming.setdefault(job.queue, Counter())[band(job.priority)] += 1
    for queue, counts in coming.items():
        rules = rules_of(state.rules, queue)
        waiting = state.queues[queue].waiting if queue in state.queues else Counter[str]()
        for name, most in rules.limits.items():
            after = waiting + counts
            if (after[name] if name else after.total()) > most and (not name or counts[name]):
                raise QueueFull(queue, most, rules.retry_after, name)


def _is_there(state: MemoryState, job: NewJob, now: float) -> bool:
    if job.id in state.jobs:
        return True
    return job.unique_key is not None and state.unique.holder((job.queue, job.unique_key), state.jobs, now) is not None


def admitted(state: MemoryState, queue: QueueRow, rules: QueueRules, wanted: int) -> int:
    """Return how many jobs of a gated queue may start now, refilling the tokens of its rate."""
    now = state.clock.now()
    running = sum(row.queue == queue.name for row in state.running.values())
    tokens = rules.burst() if isinf(queue.tokens) else queue.tokens
    allowed = allowance(rules, running, tokens, now - queue.refilled_at)
    queue.tokens, queue.refilled_at = allowed.tokens, now
    return wanted if allowed.most is None else min(wanted, allowed.most)
