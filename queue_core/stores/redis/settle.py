"""Settling: outcomes, and leases that ended without one."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from queue_core.model.job import Failure, Outcome, Ready, Reclaimed, Settled, summary
from queue_core.model.outcome import failure_of_loss
from queue_core.model.report import HISTOGRAM_BOUNDS
from queue_core.model.rules import QueueRules, Rules, rules_of
from queue_core.redis.scripts import Call
from queue_core.stores.redis.capacity import ORDERING_KEYS, answer_of, dead_holds
from queue_core.stores.redis.hints import WAITING, DueHints
from queue_core.stores.redis.records import failure_text
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, SCRIPTS_PER_TRIP, RedisLink, chunks, portions

BOUNDS_US = [round(bound * 1_000_000) for bound in HISTOGRAM_BOUNDS]

SMALL_OUTCOMES = 1 << 16
"""Characters of outcomes that are sent with the claim behind them on the connection that all share."""

_VERBS = {
    "completed": "finish",
    "cancelled": "finish",
    "retrying": "requeue",
    "released": "requeue",
    "dead": "bury",
}
_SETS = {
    "finish": (
        "running", "unfinished", "completed", "cancelled", "cancelling", "tallies", "minutes", *ORDERING_KEYS,
        "pending", "type_releases",
    ),
    "requeue": (
        "running", "unfinished", "pending", "retrying", "cancelled", "cancelling", "types", "tallies", "minutes",
        "signatures", "last_seen", "scheduled", "seq", "depths", *ORDERING_KEYS, "arrival",
    ),
    "bury": (
        "running", "unfinished", "dlq", "cancelling", "errors", "deaths", "tallies", "minutes", "signatures",
        "last_seen", *ORDERING_KEYS, "pending", "signature_releases", "type_releases",
    ),
}  # fmt: skip


async def settle(link: RedisLink, rules: Rules, outcomes: Sequence[Outcome]) -> list[Settled]:
    """End attempts whose token still holds; answer in the same order."""
    return (await settle_and_run(link, rules, outcomes, ()))[0]


async def settle_and_run(
    link: RedisLink, rules: Rules, outcomes: Sequence[Outcome], behind: Sequence[Call]
) -> tuple[list[Settled], list[Any]]:
    """End attempts, and run other scripts behind that in the same round trip; return the answers to both."""
    # Groups: a script for each queue and verb, in parts that one call takes.
    groups: dict[tuple[str, str], list[tuple[int, Outcome]]] = {}
    for place, outcome in enumerate(outcomes):
        groups.setdefault((_VERBS[outcome.kind], outcome.queue), []).append((place, outcome))
    parts = [(verb, queue, part) for (verb, queue), group in groups.items() for part in portions(group, _weight)]
    settled = [Settled(outcome.id, False) for outcome in outcomes]
    answers: list[Any] = []
    for start in range(0, len(parts), SCRIPTS_PER_TRIP):
        # Parameters and the scripts' answers, then ours.
        some = parts[start : start + SCRIPTS_PER_TRIP]
        calls = [
            _call(link, verb, queue, rules_of(rules, queue), [outcome for _, outcome in part])
            for verb, queue, part in some
        ]
        if start + SCRIPTS_PER_TRIP >= len(parts):
            calls += behind
        # A lone end with the next claim is what others wait for; what is large would hold up the inserts of all.
        soon = bool(behind) and sum(map(_weight, enumerate(outcomes))) <= SMALL_OUTCOMES
        answers = await (link.run_soon(calls) if soon else link.run_many(calls))
        for (verb, _, part), ends in zip(some, answers, strict=False):
            for (place, outcome), answer in zip(part, ends, strict=True):
                settled[place] = _settled(outcome, verb, answer)
        answers = answers[len(some) :]
    return settled, answers


def read_ahead(link: RedisLink, queue: str, best: int, each: int, keys: Sequence[str]) -> Call:
    """Return the script that reads so many jobs of best rank, and so many that wait for each of these ordering keys."""
    return Call("ahead", link.of(queue, ("pending", "order_wait")), [best, each, *keys])


def _weight(placed: tuple[int, Outcome]) -> int:
    _, outcome = placed
    failure = outcome.failure
    return len(outcome.result or "") + (0 if failure is None else len(failure.traceback) + len(failure.message))


def _call(link: RedisLink, verb: str, queue: str, rules: QueueRules, outcomes: Sequence[Outcome]) -> Call:
    keys = link.of(queue, _SETS[verb])
    hashes = link.keys.jobs(queue, [outcome.id for outcome in outcomes])
    if verb == "finish":
        keys += hashes
    else:
        start = link.keys.of(queue, "attempts:")
        for outcome, key in zip(outcomes, hashes, strict=True):
            keys += (key, start + outcome.id)
    arguments, args = _ARGUMENTS[verb], [*BOUNDS_US, *_of_queue(verb, rules)]
    for outcome in outcomes:
        args += arguments(outcome)
    return Call(verb, keys, args)


def _of_queue(verb: str, rules: QueueRules) -> tuple[int | str, ...]:
    if verb == "finish":
        return (rules.open_keys,)
    return rules.open_keys, dead_holds(rules) if verb == "bury" else rules.aging_us


def _common(outcome: Outcome) -> tuple[Any, ...]:
    run_us = max(0, outcome.run_us)
    return outcome.id, outcome.token, outcome.kind, run_us, bisect_left(BOUNDS_US, run_us)


def _of_finish(outcome: Outcome) -> tuple[Any, ...]:
    result = outcome.result if outcome.kind == "completed" else None
    return *_common(outcome), "" if result is None else f"+{result}"


def _of_bury(outcome: Outcome) -> tuple[Any, ...]:
    return *_common(outcome), *failure_arguments(outcome.failure)


def _of_requeue(outcome: Outcome) -> tuple[Any, ...]:
    return *_common(outcome), round(outcome.delay * 1e6), *_to_back(outcome), *failure_arguments(outcome.failure)


def _to_back(outcome: Outcome) -> tuple[str, str]:
    return "1" if outcome.to_back else "", "" if outcome.run_at is None else str(round(outcome.run_at * 1e6))


_ARGUMENTS: dict[str, Callable[[Outcome], tuple[Any, ...]]] = {
    "finish": _of_finish,
    "requeue": _of_requeue,
    "bury": _of_bury,
}


def failure_arguments(failure: Failure | None) -> tuple[str, str, str, str, str]:
    """Return a failure as arguments of scripts: its JSON, its line, its kind, its signature and its title."""
    if failure is None:
        return "", "", "", "", ""
    return failure_text(failure), summary(failure), failure.kind, failure.signature, failure.title


def _settled(outcome: Outcome, verb: str, answer: Any) -> Settled:
    unblocked: tuple[Ready, ...] = ()
    if isinstance(answer, list):
        answer, unblocked = answer_of(outcome.queue, answer)
    if verb != "requeue":
        return Settled(outcome.id, answer > 0, unblocked=unblocked)
    what, number = answer[:1], answer[1:]
    return Settled(
        outcome.id,
        bool(what),
        rank=int(number) if what == "r" else None,
        due=int(number) / 1e6 if what == "d" else None,
        cancelled=what == "c",
        unblocked=unblocked,
    )


_PROMOTE = (*WAITING, "pending", "unfinished", "depths", *ORDERING_KEYS)
_RECLAIM = (
    "running", "unfinished", "pending", "dlq", "cancelled", "cancelling", "types", "errors", "deaths", "tallies",
    "minutes", "signatures", "last_seen", "depths", *ORDERING_KEYS, "signature_releases", "type_releases",
)  # fmt: skip


class _Lost(NamedTuple):
    """A running job whose lease has expired, as it was seen."""

    id: str
    queue: str
    type: str
    token: str
    worker: str
    # with this one, and how many bury it
    losses: int
    bound: int
    # None: it had not started, so that this is no crash of its own
    failure: Failure | None


# Promote and reclaim look first, at the queues that hints name, and then change what they saw where that still holds.


async def promote(link: RedisLink, rules: Rules, hints: DueHints, limit: int) -> list[Ready]:
    """Move due scheduled and retrying jobs to queued, those first that are due for the longest time."""
    if limit <= 0:
        return []
    async with hints.due_now() as (now, queues):
        groups: dict[str, list[str]] = {}
        for _, queue, job_id in await _until_now(link, queues, WAITING, now, limit):
            groups.setdefault(queue, []).append(job_id)
        for queue in [queue for queue, ids in groups.items() if len(ids) > JOBS_PER_SCRIPT]:
            groups[queue] = await _by_arrival(link, queue, groups[queue])
        ready: list[Ready] = []
        for queue, part, found in await _run(link, rules, "promote", _PROMOTE, groups, ()):
            ready += [Ready(job_id, queue, int(rank)) for job_id, rank in zip(part, found, strict=True) if rank]
    return sorted(ready, key=lambda job: job.rank)


async def _by_arrival(link: RedisLink, queue: str, ids: Sequence[str]) -> list[str]:
    """Put jobs that several scripts promote in the order in which those with ordering keys arrived."""
    found = await link.read({queue: ids}, ("status", "seq"))
    seqs = {job_id: int(seq or 0) for (_, job_id), (_, seq) in found.items()}
    return sorted(ids, key=lambda job_id: seqs.get(job_id, 0))


async def next_due(hints: DueHints) -> float | None:
    """Return the seconds until the next scheduled or retrying job is due, as far as hints know."""
    now, due, _ = await hints.first()
    return None if due is None else (due - now) / 1e6


async def reclaim(link: RedisLink, rules: Rules, hints: DueHints, limit: int, bound: int) -> list[Reclaimed]:
    """Take jobs back whose lease expired."""
    if limit <= 0:
        return []
    async with hints.lapsed() as (now, queues):
        expired: dict[str, list[str]] = {}
        for _, queue, job_id in await _until_now(link, queues, ("running",), now, limit):
            expired.setdefault(queue, []).append(job_id)
        known = await link.read(expired, ["status", "type", "token", "worker", "losses", "ahead"])
        lost: dict[str, list[_Lost]] = {}
        for queue, ids in expired.items():
            lost[queue] = [_lost(queue, job_id, known.get((queue, job_id), [None] * 6), bound) for job_id in ids]
        return [
            _reclaimed(job, answer)
            for _, jobs, answers in await _run(link, rules, "reclaim", _RECLAIM, lost, ("attempts:",))
            for job, answer in zip(jobs, answers, strict=True)
            if answer
        ]


async def end_leases(link: RedisLink, hints: DueHints, worker: str) -> None:
    """End the leases of a worker; all running jobs are looked through, which happens where a worker was lost."""
    queues, _ = await link.queues_and_time()
    ended: list[str] = []
    for queue in queues:
        commands = link.batch()
        commands.zrange(link.keys.of(queue, "running"), 0, -1)
        (running,) = await link.send(commands)
        found = await link.read({queue: running}, ["status", "worker"])
        ids = [job_id for (_, job_id), (_, whose) in found.items() if whose == worker]
        if ids:
            ended.append(queue)
        await link.run_many(
            [
                Call(
                    "end_leases",
                    [*link.of(queue, ("running",)), *link.keys.jobs(queue, part)],
                    [worker, "", *part],
                )
                for part in chunks(ids)
            ]
        )
    await hints.ended(ended)


async def _until_now(
    link: RedisLink, queues: Sequence[str], names: Sequence[str], now: int, limit: int
) -> list[tuple[float, str, str]]:
    """Return (time, queue, id) of the entries of these sets whose time has come, the earliest first."""
    if not queues:
        return []
    commands = link.batch()
    for queue in queues:
        for key in link.of(queue, names):
            commands.zrangebyscore(key, "-inf", now, start=0, num=limit, withscores=True)
    places = [queue for queue in queues for _ in names]
    found = await link.send(commands)
    entries = (
        (score, queue, job_id) for queue, entries in zip(places, found, strict=True) for job_id, score in entries
    )
    return heapq.nsmallest(limit, entries)


async def _run(
    link: RedisLink, rules: Rules, verb: str, names: Sequence[str], groups: dict[str, list[Any]], beside: Sequence[str]
) -> list[tuple[str, Sequence[Any], list[Any]]]:
    """Run a script on jobs by queue, in parts; `beside` names the keys that go with each job's hash."""
    parts = [(queue, part) for queue, jobs in groups.items() for part in chunks(jobs)]
    done: list[tuple[str, Sequence[Any], list[Any]]] = []
    for some in chunks(parts, SCRIPTS_PER_TRIP):
        calls = [_call_on(link, rules_of(rules, queue), verb, names, queue, part, beside) for queue, part in some]
        for (queue, part), answers in zip(some, await link.run_many(calls), strict=True):
            done.append((queue, part, answers))
    return done


def _call_on(
    link: RedisLink,
    rules: QueueRules,
    verb: str,
    names: Sequence[str],
    queue: str,
    jobs: Sequence[Any],
    beside: Sequence[str],
) -> Call:
    keys = link.of(queue, names)
    for job in jobs:
        job_id = job if isinstance(job, str) else job.id
        keys += link.of(queue, (f"{name}{job_id}" for name in ("job:", *beside)))
    if verb == "promote":
        return Call(verb, keys, [rules.open_keys, *jobs])
    args = [rules.open_keys, dead_holds(rules), jobs[0].bound]
    return Call(verb, keys, [*args, *(part for job in jobs for part in _arguments(job))])


def _lost(queue: str, job_id: str, row: Sequence[Any], bound: int) -> _Lost:
    _, type_, token, worker, before, ahead = row
    losses = int(before or 0) + (ahead is None)
    failure = failure_of_loss(worker or "", losses, bound) if ahead is None else None
    return _Lost(job_id, queue, type_ or "", token or "", worker or "", losses, bound, failure)


def _arguments(job: _Lost) -> tuple[Any, ...]:
    return job.id, job.token, job.losses, *failure_arguments(job.failure)


def _reclaimed(job: _Lost, answer: Any) -> Reclaimed:
    answer, unblocked = answer_of(job.queue, answer)
    rank = int(answer[1:]) if answer[0] == "r" else None
    return Reclaimed(
        job.id,
        job.queue,
        job.type,
        int(job.token),
        job.worker,
        job.losses,
        rank,
        cancelled=answer == "c",
        started=job.failure is not None,
        unblocked=unblocked,
    )
