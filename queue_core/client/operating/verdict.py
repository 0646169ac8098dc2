"""Decisions about operations: whether a request can be, the verdict on its retried jobs, and the counts that it shows.

Outcomes are read, never sent: a settle does not know of operations. The leader counts those of the whole operation in
parts, and writes the sum with it, so that lists show them without a read of jobs.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from queue_core.errors import InvalidArgument, JobNotFound, OperationNotFound
from queue_core.model.operation import (
    UNCHANGED,
    VERBS,
    Author,
    ChangeOptions,
    Operation,
    OperationRequest,
    Outcomes,
    Rollout,
)
from queue_core.model.report import WorkerInfo
from queue_core.model.rules import parse_priority
from queue_core.model.text import storable
from queue_core.model.validation import check_delay, check_queue_name, check_rollout
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore

VERDICT_JOBS = 1000
"""How many of the last retried jobs decide whether an operation is stopped; also the members of a part."""
MIN_OUTCOMES = 20
"""Outcomes that have to be known before an operation is stopped behind its canary."""
Verdict = Literal["go", "wait", "stop"]


def judge(operation: Operation, outcomes: Outcomes) -> Verdict:
    """Decide about an operation by the outcomes of retried jobs: all of a canary or of a ramp's step, or the last ones.

    A canary is waited for until its outcome is certain either way; with `first_failure` until each of its jobs has
    ended or failed once. With a threshold it is also stopped when none of its jobs shows how the others would end.
    """
    percent, early = operation.request.rollout.stop_percent, operation.request.rollout.first_failure
    if operation.in_canary:
        shown = telling(outcomes)
        # Of a step that is not done, so many may be changed in the end.
        size = shown + outcomes.unfinished + operation.barrier - operation.done
        most = size if percent is None else percent * size / 100
        failed = failures(operation, outcomes)
        open_ = outcomes.unfinished - (outcomes.retrying if early else 0)
        if failed > most or (percent is not None and not size):
            return "stop"
        certain = percent is not None and shown > 0 and failed + open_ <= most
        return "go" if certain or not open_ else "wait"
    if percent is None or outcomes.ended < MIN_OUTCOMES:
        return "go"
    return "stop" if 100 * outcomes.dead > percent * outcomes.ended else "go"


def failures(operation: Operation, outcomes: Outcomes) -> int:
    """Return how many of these jobs count as failed."""
    early = operation.in_canary and operation.request.rollout.first_failure
    return outcomes.dead + (outcomes.retrying + outcomes.recovered if early else 0)


def telling(outcomes: Outcomes) -> int:
    """Return how many of these jobs completed or died; others that ended were cancelled or are gone."""
    return outcomes.completed + outcomes.dead


def reason(operation: Operation, outcomes: Outcomes) -> str:
    """Return why an operation is stopped, in a sentence."""
    rollout = operation.request.rollout
    number = outcomes.ended
    which = "jobs whose outcome was known"
    if operation.in_canary:
        number = telling(outcomes) + outcomes.unfinished
        which = f"jobs of step {operation.stage.number} of the ramp" if rollout.ramp else "canary jobs"
        if not number:
            return f"none of the {outcomes.looked:,} {which} completed or died: they were cancelled or are gone"
    what = "died again"
    if operation.in_canary and rollout.first_failure:
        what = f"failed at their first attempt (limit {rollout.stop_percent or 0:g}%)"
    return f"{failures(operation, outcomes):,} of {number:,} {which} {what}"


async def read_outcomes(store: OperationStore, operation: Operation) -> Outcomes:
    """Return the outcomes that decide about an operation: those of its canary, of its ramp's step, or the last ones.

    Raises:
        StoreUnavailable, OperationNotFound: they cannot be read.
    """
    if operation.in_canary:
        return await store.outcomes(operation.number, operation.stage.changed, 0, operation.done)
    return await store.outcomes(operation.number, VERDICT_JOBS)


JOBS_CHECKED = 20
"""Jobs of an operation whose queue and type are looked at: the next ones."""


class ReleaseWatch:
    """Finds out whether the release that operations wait for is live where their jobs run."""

    def __init__(self, store: OperationStore, inspector: Inspector) -> None:
        self._store = store
        self._inspector = inspector
        # operation -> queue and type of its next jobs
        self._places: dict[int, frozenset[tuple[str, str]]] = {}
        # what was read last, and the seconds of time.monotonic until which it holds
        self._workers: tuple[WorkerInfo, ...] = ()
        self._until = float("-inf")

    async def is_live(self, operation: Operation) -> bool:
        """Return whether a live worker that can run a job of an operation has announced the release it waits for.

        Raises:
            StoreUnavailable, OperationNotFound: that is not known.
        """
        if time.monotonic() >= self._until:
            self._workers = (await self._inspector.overview()).workers
            self._until = time.monotonic() + RELEASE_SECONDS
        there = [one for one in self._workers if not (one.lost or one.quiet) and one.release == operation.waits_for]
        if not there:
            return False
        places = await self._places_of(operation)
        live = not places or any(one.runs(queue, type_) for one in there for queue, type_ in places)
        if live:
            self._places.pop(operation.number, None)
        return live

    async def _places_of(self, operation: Operation) -> frozenset[tuple[str, str]]:
        number, queue = operation.number, operation.request.options.queue
        if number not in self._places:
            found = set()
            for job_id in await self._store.pending(number, JOBS_CHECKED):
                with suppress(JobNotFound):
                    job = await self._inspector.get(job_id)
                    found.add((queue or job.queue, job.type))
            self._places[number] = frozenset(found)
        return self._places[number]


RELEASE_SECONDS = 0.5
"""Seconds for which one look at the workers counts for all operations that wait."""
OPERATIONS_PER_COUNT = 100
"""Operations whose outcomes are counted at a time."""
PARTS_PER_ROUND = 4
"""Parts of an operation that are read in one round: some 50 ms."""
RECOUNT_DIVISOR = 20.0
"""An operation that has ended is counted again after this part of the time since."""
MAX_RECOUNT_SECONDS = 60.0
"""Seconds between two counts at most."""
FINAL_COUNT_SECONDS = 7 * 86400.0
"""Seconds after the end of an operation from which its outcomes stay as they were counted."""


class OutcomeCounts:
    """Counts what became of the jobs of operations, in parts of `VERDICT_JOBS` members; the leader of workers does."""

    def __init__(self, store: OperationStore, inspector: Inspector) -> None:
        self._store = store
        self._inspector = inspector
        # operation -> part, from 0 -> what was read last
        self._parts: dict[int, dict[int, Outcomes]] = {}
        # operation -> the part that is read next
        self._next: dict[int, int] = {}
        # operation -> seconds of time.monotonic of the next count
        self._due: dict[int, float] = {}

    async def run_once(self) -> None:
        """Count once where it is due, and write what has changed.

        Raises:
            StoreUnavailable: the rest is counted in the next round.
        """
        found = await self._store.list_uncounted(OPERATIONS_PER_COUNT)
        for kept in (self._parts, self._next, self._due):
            for number in kept.keys() - {one.number for one in found}:
                del kept[number]
        for operation in found:
            if self._due.get(operation.number, 0.0) <= time.monotonic():
                try:
                    await self._count(operation)
                except OperationNotFound:
                    continue

    async def _count(self, operation: Operation) -> None:
        number, over = operation.number, 0.0
        noted = operation.outcomes
        # What others make of its jobs later is not what stopped it.
        if operation.state == "stopped" and noted and noted.looked == operation.processed and not noted.unfinished:
            return
        if operation.finished_at is not None:
            over = max(0.0, time.time() - operation.finished_at.timestamp())
            self._due[number] = time.monotonic() + min(over / RECOUNT_DIVISOR, MAX_RECOUNT_SECONDS)
        parts = self._parts.setdefault(number, {})
        for part in self._wanted(operation, parts):
            end = min((part + 1) * VERDICT_JOBS, operation.done)
            parts[part] = await self._store.outcomes(number, VERDICT_JOBS, part * VERDICT_JOBS, end)
        counted = Outcomes(*(sum(counts) for counts in zip(*parts.values(), strict=True))) if parts else None
        known = counted is None or (counted.looked == operation.processed and not counted.unfinished)
        final = operation.ended and (known or (over > FINAL_COUNT_SECONDS and await self._is_over(operation)))
        if counted is not None and noted is not None and counted.looked < noted.looked:
            counted = noted  # a new leader has not read all of its parts yet
        if final or counted != noted:
            await self._store.note_outcomes(number, counted, final)

    async def _is_over(self, operation: Operation) -> bool:
        """Ask the store's clock, where this machine's has it that an operation has ended long ago."""
        assert operation.finished_at is not None
        now = (await self._inspector.overview()).now
        return (now - operation.finished_at).total_seconds() > FINAL_COUNT_SECONDS

    def _wanted(self, operation: Operation, parts: dict[int, Outcomes]) -> list[int]:
        """Return some parts that may have changed, other ones in each round."""
        count = -(-operation.done // VERDICT_JOBS)
        last = operation.done // VERDICT_JOBS
        open_ = [part for part in range(count) if part not in parts or parts[part].unfinished or part == last]
        if not operation.processed or not open_:
            return []
        start = self._next.get(operation.number, 0)
        turn = sorted(open_, key=lambda part: (part < start, part))[:PARTS_PER_ROUND]
        self._next[operation.number] = turn[-1] + 1
        return turn


LONGEST_TEXT = 500
"""Characters of a label, a reason or a note."""


def check_request(request: OperationRequest) -> OperationRequest:
    """Return an operation that a store may keep."""
    options, rollout = check_options(request.verb, request.options), check_rollout(request.rollout)
    careful = rollout if request.verb == "retry" else Rollout(rate=rollout.rate, begin_at=rollout.begin_at)
    return shortened(replace(request, options=options, rollout=careful))


def check_options(verb: object, options: ChangeOptions) -> ChangeOptions:
    """Return options that a store may keep, for a verb that it has."""
    if not isinstance(verb, str) or verb not in VERBS:
        raise InvalidArgument(f"'{verb}' is no verb that changes jobs")
    if verb == "move" and options.queue is None and options.priority is None:
        raise InvalidArgument("a move names another queue or another priority")
    delay, spread = check_delay(options.delay), check_delay(options.spread, "spread")
    queue = None if options.queue is None else check_queue_name(options.queue)
    priority = None if options.priority is None else int(parse_priority(options.priority))
    checked = ChangeOptions(delay, spread, queue, priority)
    for option, value in checked._asdict().items():
        if option not in VERBS[verb].options and value != getattr(UNCHANGED, option):
            raise InvalidArgument(f"a {verb} takes no {option}")
    return checked


def shortened(request: OperationRequest) -> OperationRequest:
    """Return a request whose texts are bounded."""
    user, host = request.author
    author = Author(short_text(user), short_text(host))
    return replace(request, label=short_text(request.label), why=short_text(request.why), author=author)


def short_text(text: str) -> str:
    """Return a text as a store may keep it."""
    return storable(text)[:LONGEST_TEXT]
