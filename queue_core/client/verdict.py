"""What becomes of retried jobs: the verdict on a canary, a ramp or a rollout, and the counts that operations show.

Outcomes are read, never sent: a settle does not know of operations. The leader counts those of the whole operation in
parts, and writes the sum with it, so that lists show them without a read of jobs.
"""

from __future__ import annotations

import time
from typing import Literal

from queue_core.errors import OperationNotFound
from queue_core.model.operation import Operation, Outcomes
from queue_core.ports.operations import OperationStore

LATELY = 1000
"""How many of the last retried jobs decide whether an operation is stopped; also the members of a part."""
ENOUGH = 20
"""Outcomes that have to be known before an operation is stopped behind its canary."""
Verdict = Literal["go", "wait", "stop"]


def judge(operation: Operation, outcomes: Outcomes) -> Verdict:
    """Decide about an operation by the outcomes of retried jobs: all of a canary or of a ramp's step, or the last ones.

    A canary is waited for until its outcome is certain either way; with `first_failure` until each of its jobs has
    ended or failed once.
    """
    percent, early = operation.request.rollout.stop_percent, operation.request.rollout.first_failure
    if operation.in_canary:
        # Of a step that is not done, so many may be changed in the end.
        size = outcomes.looked + operation.barrier - operation.done
        most = size if percent is None else percent * size / 100
        failed = failures(operation, outcomes)
        open_ = outcomes.unfinished - (outcomes.retrying if early else 0)
        if failed > most:
            return "stop"
        certain = percent is not None and failed + open_ <= most
        return "go" if certain or not open_ else "wait"
    if percent is None or outcomes.ended < ENOUGH:
        return "go"
    return "stop" if 100 * outcomes.dead > percent * outcomes.ended else "go"


def failures(operation: Operation, outcomes: Outcomes) -> int:
    """Return how many of these jobs count as failed."""
    early = operation.in_canary and operation.request.rollout.first_failure
    return outcomes.dead + (outcomes.retrying + outcomes.recovered if early else 0)


def reason(operation: Operation, outcomes: Outcomes) -> str:
    """Return why an operation is stopped, in a sentence."""
    rollout = operation.request.rollout
    number = outcomes.looked if operation.in_canary else outcomes.ended
    which = "jobs whose outcome was known"
    if operation.in_canary:
        stage = operation.stage
        which = f"jobs of step {stage.number} of the ramp" if rollout.ramp else "canary jobs"
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
        behind = operation.stage.behind
        return await store.outcomes(operation.number, operation.barrier - behind, behind, operation.barrier)
    return await store.outcomes(operation.number, LATELY)


UNCOUNTED = 100
"""Operations whose outcomes are counted at a time."""
PARTS = 4
"""Parts of an operation that are read in one round: some 50 ms."""
LAZINESS = 20.0
"""An operation that has ended is counted again after this part of the time since."""
MOST_SECONDS = 60.0
"""Seconds between two counts at most."""
GIVEN_UP = 7 * 86400.0
"""Seconds after the end of an operation from which its outcomes stay as they were counted."""


class OutcomeCounts:
    """Counts what became of the jobs of operations, in parts of `LATELY` members; the leader of the workers does."""

    def __init__(self, store: OperationStore) -> None:
        self._store = store
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
        found = await self._store.list_uncounted(UNCOUNTED)
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
        if operation.finished_at is not None:
            over = max(0.0, time.time() - operation.finished_at.timestamp())
            self._due[number] = time.monotonic() + min(over / LAZINESS, MOST_SECONDS)
        parts = self._parts.setdefault(number, {})
        for part in self._wanted(operation, parts):
            end = min((part + 1) * LATELY, operation.done)
            parts[part] = await self._store.outcomes(number, LATELY, part * LATELY, end)
        counted = Outcomes(*(sum(counts) for counts in zip(*parts.values(), strict=True))) if parts else None
        known = counted is None or (counted.looked == operation.processed and not counted.unfinished)
        final = operation.ended and (known or over > GIVEN_UP)
        if counted is not None and operation.outcomes is not None and counted.looked < operation.outcomes.looked:
            counted = operation.outcomes  # a new leader has not read all of its parts yet
        if final or counted != operation.outcomes:
            await self._store.note_outcomes(number, counted, final)

    def _wanted(self, operation: Operation, parts: dict[int, Outcomes]) -> list[int]:
        """Return some parts that may have changed, other ones in each round."""
        count = -(-operation.done // LATELY)
        last = operation.done // LATELY
        open_ = [part for part in range(count) if part not in parts or parts[part].unfinished or part == last]
        if not operation.processed or not open_:
            return []
        start = self._next.get(operation.number, 0)
        turn = sorted(open_, key=lambda part: (part < start, part))[:PARTS]
        self._next[operation.number] = turn[-1] + 1
        return turn
