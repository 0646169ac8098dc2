"""The rules of a queue as arguments of scripts, and the released jobs in their answers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from queue_core.errors import QueueClosed, QueueFull
from queue_core.model.job import NewJob, Ready
from queue_core.model.rules import AHEAD_SECONDS, BANDS, QueueRules, Rules, rules_of
from queue_core.redis.scripts import Call
from queue_core.stores.redis.session import RedisLink

ORDERING_KEYS = ("admitted", "order_wait", "blocked")
"""The keys with the released and the waiting jobs of ordering keys."""

_LIMITS = ("", *BANDS)
_ROOM = ("depths", "unfinished", "unique", "unique_expires", "closed")
_CLOSED = 5
"""The answer of a check where the queue is closed; a lower one is the place of a limit."""


def answer_of(queue: str, answer: Any) -> tuple[Any, tuple[Ready, ...]]:
    """Return a script's answer for a job, and the jobs that became ready because that one released its key."""
    if not isinstance(answer, list):
        return answer, ()
    own, *unblocked = answer
    pairs = zip(unblocked[::2], unblocked[1::2], strict=True)
    return own, tuple(Ready(job_id, queue, int(rank)) for job_id, rank in pairs)


def keys_text(job: NewJob) -> str:
    """Return a job's keys as an argument of `insert`."""
    if job.ordering_key is None and job.unique_key is None:
        return ""
    unique_us = None if job.unique_seconds is None else round(job.unique_seconds * 1e6)
    # A missing value must not be null, which Lua takes for something that is there.
    keys = (False if key is None else key for key in (job.ordering_key, job.unique_key, unique_us))
    return json.dumps(list(keys), ensure_ascii=False)


def limit_arguments(rules: QueueRules) -> tuple[int | str, str, str, float]:
    """Return a queue's rules as arguments of `claim`."""
    rate = ("", "") if rules.rate is None else (repr(rules.rate), repr(rules.burst()))
    return ("" if rules.concurrency is None else rules.concurrency, *rate, AHEAD_SECONDS)


def dead_holds(rules: QueueRules) -> str:
    """Return the argument of scripts that move jobs to dead: whether these keep their ordering keys."""
    return "1" if rules.dead_blocks_key else ""


class CapacityCheck(NamedTuple):
    """Checks that queues are open and have room for jobs, by scripts in one transaction with those that write them."""

    # without one there is no limit, and nothing to check
    calls: Sequence[Call]
    # the key where these leave the answer
    key: str
    # its value when there is room
    yes: str
    # the queues in the order of the calls
    queues: Sequence[str]


UNCHECKED = CapacityCheck((), "", "", ())
"""The check of jobs without a limit."""


def capacity_check(
    link: RedisLink, rules: Rules, groups: Mapping[str, Sequence[NewJob]], every: bool = False
) -> CapacityCheck:
    """Return the check whether queues with limits, or every queue, have room for these jobs and are open."""
    queues = [queue for queue in groups if every or rules_of(rules, queue).limits]
    if not queues:
        return UNCHECKED
    name = secrets.token_hex(8)
    # Queues that are checked together are written together: then one of them keeps the answer for all.
    key = link.keys.of(queues[0], "capacity_answer")
    calls = [_room(link, queue, groups[queue], rules_of(rules, queue), name, key) for queue in queues]
    return CapacityCheck(calls, key, f"{name}:{len(queues)}", queues)


def _room(link: RedisLink, queue: str, jobs: Sequence[NewJob], rules: QueueRules, name: str, key: str) -> Call:
    keys = [key, *link.of(queue, _ROOM), *link.keys.jobs(queue, (job.id for job in jobs))]
    limits = rules.limits
    parts = (part for job in jobs for part in (job.id, job.priority, job.unique_key or ""))
    return Call("check_capacity", keys, [name, *(limits.get(band, "") for band in _LIMITS), *parts])


def check_room(rules: Rules, check: CapacityCheck, answers: Sequence[int]) -> None:
    """Read the answers to a check.

    Raises:
        QueueFull: there is no room.
        QueueClosed: a queue is closed, and not all of its jobs are known there.
    """
    for queue, place in zip(check.queues, answers, strict=True):
        if place == _CLOSED:
            raise QueueClosed(queue)
        if place:
            band, own = _LIMITS[place - 1], rules_of(rules, queue)
            raise QueueFull(queue, own.limits[band], own.retry_after, band)
