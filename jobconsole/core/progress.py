"""The progress of operations, their results, and the outcomes of earlier retries of a signature."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME
from jobconsole.format.glyphs import Glyphs
from jobconsole.format.humanize import exact, moment_of
from jobconsole.format.spans import Spans
from jobconsole.format.words import outcome_words, undone_by
from queue_core.errors import OperationNotFound
from queue_core.model.filters import Filter, Term, contains
from queue_core.model.operation import Operation, Outcomes
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.operations import Operations


MAX_WATCHED = 100
"""Operations that have not ended which are watched, the newest ones."""
RATE_SECONDS = 10.0
"""Over which a rate is taken."""
CANARIES = 10
"""Operations whose retried jobs are looked at while their canary is waited for, or after their end."""
LASTING_SECONDS = 600.0
"""For which one that has ended stays among those under way while the outcomes of its jobs are not known."""
SETTLED_SECONDS = 15.0
"""For which an operation that has ended stays among those under way once the outcomes of its jobs are known."""


@dataclass(frozen=True, slots=True)
class OperationLine:
    """One operation as a list shows it."""

    operation: Operation
    verb: str
    label: str
    user: str
    host: str
    why: str
    note: str
    # members looked at per second lately; None: nothing is known, or it does not run
    rate: float | None = None
    # the outcomes of its canary, while these are waited for or where it was stopped by them
    canary: Outcomes | None = None
    # the number of the operation that has brought back what it did; 0: none
    undone_by: int = 0

    @property
    def number(self) -> int:
        """Its number."""
        return self.operation.number

    @property
    def key(self) -> str:
        """What a cursor holds on to."""
        return str(self.operation.number)

    @property
    def percent(self) -> int:
        """How much of it is done."""
        one = self.operation
        return 100 * one.done // one.total if one.total else 100 if one.ended else 0

    @property
    def seconds_left(self) -> float | None:
        """Return how long it will take at this rate; None when that is unknown."""
        one = self.operation
        if one.state != "running" or one.in_canary or not self.rate:
            return None
        return (one.total - one.done) / self.rate

    def concerns(self, signature: str) -> bool:
        """Whether it is about an error signature."""
        return signature in self.operation.request.signatures

    @property
    def waits(self) -> bool:
        """Whether it makes no progress until an operator decides."""
        return self.operation.state in {"paused", "stopped"}


def operation_line(operation: Operation) -> OperationLine:
    """Return the operation as a list shows it."""
    request = operation.request
    return OperationLine(
        operation=operation,
        verb=safe(request.verb, LONGEST_NAME),
        label=safe(request.label, LONGEST_LINE),
        user=safe(request.author.user, LONGEST_NAME),
        host=safe(request.author.host, LONGEST_NAME),
        why=safe(request.why, LONGEST_LINE),
        note=safe(operation.note, LONGEST_LINE),
    )


def canary_words(line: OperationLine) -> str:
    """Return how its canary goes or went; "" where it has none."""
    one = line.operation
    rollout, stage = one.request.rollout, one.stage
    if one.request.verb != "retry" or not stage.of or one.waits_for or one.state == "preparing":
        return ""
    name = "ramp" if rollout.ramp else "canary"
    if not one.in_canary:
        size = sum(rollout.ramp) if rollout.ramp else rollout.canary
        return f"{name} of {size:,} {'done' if rollout.stop_percent is None else 'passed'}"
    words = f"{stage.changed:,} of {stage.size:,}"
    words = f"ramp {stage.number} of {stage.of}: {words}" if rollout.ramp else f"canary {words}"
    came = outcome_words(line.canary) if line.canary is not None and line.canary.looked else ""
    return f"{words}{',' if rollout.ramp else ':'} {came}" if came else words


def operations_line(lines: Sequence[OperationLine], glyphs: Glyphs) -> Spans:
    """Return how many operations are running, waiting, paused and stopped; nothing where there are none."""
    releases = {line.operation.waits_for for line in lines if line.operation.state == "running"} - {""}
    waiting = sum(bool(line.operation.waits_for) and line.operation.state == "running" for line in lines)
    counts = Counter(line.operation.state for line in lines)
    going = counts["running"] + counts["preparing"] - waiting
    awaited = safe(next(iter(releases)), LONGEST_NAME) if len(releases) == 1 else "releases"
    words: tuple[tuple[int, str, str], ...] = (
        (counts["stopped"], f"{glyphs.alert} {counts['stopped']} stopped", "bad"),
        (counts["paused"], f"{glyphs.pause} {counts['paused']} paused", "warn"),
        (going, f"{going} running", "accent"),
        (waiting, f"{waiting} {'waits' if waiting == 1 else 'wait'} for {awaited}", "accent"),
    )
    spans = [(text, tone) for number, text, tone in words if number]
    return tuple((f"  {text}" if place else text, tone) for place, (text, tone) in enumerate(spans))


class ActiveOperations:
    """The operations that have not ended, with their rates. Memory is bounded by `MAX_WATCHED`."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        # the newest first
        self.lines: tuple[OperationLine, ...] = ()
        # operation that has ended -> the moment until which it stays among them
        self._settling_until: dict[int, float] = {}
        # and the moment from which it was
        self._settling_since: dict[int, float] = {}
        # operation -> (moment, jobs done) of the last reads
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    @property
    def moving(self) -> bool:
        """Whether one of them proceeds without an operator."""
        return any(not line.waits for line in self.lines)

    def of(self, number: int) -> OperationLine | None:
        """Return one of them; None when it has ended or is not known."""
        return next((line for line in self.lines if line.number == number), None)

    async def read(self, operations: Operations) -> None:
        """Read them again.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        found = await operations.list_operations(MAX_WATCHED, unfinished=True)
        found += await self._settling(operations, {one.number for one in found})
        canaries: dict[int, Outcomes] = {}
        for one in [one for one in found if one.request.verb == "retry" and one.in_canary and one.processed][:CANARIES]:
            try:
                canaries[one.number] = await operations.stage_outcomes(one)
            except OperationNotFound:
                continue
        self.adopt(found, canaries)

    async def _settling(self, operations: Operations, known: set[int]) -> list[Operation]:
        """Return the retries that have ended, while the outcomes of their jobs become known and for a moment after."""
        now, found = self._steady(), await operations.list_settling(CANARIES)
        self._settling_since = {one.number: self._settling_since.get(one.number, now) for one in found}
        lasting = [one for one in found if now - self._settling_since[one.number] < LASTING_SECONDS]
        settling = {one.number: one for one in lasting if one.number not in known}
        self._settling_until = {number: at for number, at in self._settling_until.items() if now < at}
        for number in self._settling_until.keys() - settling.keys() - known:
            with suppress(OperationNotFound):
                settling[number] = await operations.get(number)
        self._settling_until |= {one.number: now + SETTLED_SECONDS for one in lasting if one.number in settling}
        return [settling[number] for number in sorted(settling, reverse=True)]

    def adopt(self, found: Sequence[Operation], canaries: dict[int, Outcomes]) -> None:
        """Adopt the operations that were read."""
        now = self._steady()
        self._seen = {one.number: self._seen.get(one.number, deque()) for one in found}
        self.lines = tuple(
            replace(operation_line(one), rate=self._rate(one, now), canary=canaries.get(one.number)) for one in found
        )

    def _rate(self, one: Operation, now: float) -> float | None:
        seen = self._seen[one.number]
        if one.state != "running" or one.awaiting_canary:
            seen.clear()
            return None
        seen.append((now, one.done))
        while len(seen) > 2 and seen[1][0] <= now - RATE_SECONDS:
            seen.popleft()
        (first, done), passed = seen[0], now - seen[0][0]
        if passed < 1.0:
            return one.request.rollout.rate if one.done else None
        return (one.done - done) / (now - first)


def unknown(where: Filter) -> str:
    """Return the field of a filter that operations do not have; "" when they have all."""
    return next((term.field for term in where.terms if term.field not in {"word", "signature"}), "")


def matching(lines: Iterable[OperationLine], where: Filter) -> list[OperationLine]:
    """Return the operations that meet all terms; what they do not have matches nothing."""
    return [line for line in lines if all(_holds(line, term) is not term.negated for term in where.terms)]


def _holds(line: OperationLine, term: Term) -> bool:
    one = line.operation
    if term.field == "word":
        words = (f"#{one.number}", line.verb, line.label, line.user, line.host, line.why, line.note, one.state)
        return any(contains(word, term.value) for word in words)
    return term.field == "signature" and any(found.startswith(term.value) for found in one.request.signatures)


MAX_HELD = 20_000
"""Operations held at most."""


@dataclass(slots=True)
class OperationPages:
    """Operations by number; reading returns pages, `take` adopts them."""

    lines: dict[int, OperationLine] = field(default_factory=dict)
    # whether the newest page was ever read
    loaded: bool = False
    # whether nothing older follows
    complete: bool = False

    @property
    def newest_first(self) -> list[OperationLine]:
        """All of them, each with the operation that has undone it."""
        undone = undone_by(line.operation for line in self.lines.values())
        return [
            replace(self.lines[number], undone_by=undone[number]) if number in undone else self.lines[number]
            for number in sorted(self.lines, reverse=True)
        ]

    @property
    def oldest(self) -> int | None:
        """The number before which the next page starts; None: from the newest."""
        return min(self.lines, default=None)

    @property
    def full(self) -> bool:
        """Whether no more is read."""
        return self.complete or len(self.lines) >= MAX_HELD

    def take(self, page: Sequence[OperationLine], before: int | None, size: int) -> None:
        """Adopt a page of at most `size` that was asked for before a number, or the newest one."""
        if before is None and len(page) == size and not any(line.number in self.lines for line in page):
            # So many new ones that nothing is known of those between: start over.
            self.lines, self.complete = {}, False
        self.lines.update((line.number, line) for line in page)
        if len(page) < size:
            self.complete = True
        self.loaded = True

    def follow(self, active: Iterable[OperationLine], size: int) -> tuple[int | None, ...]:
        """Adopt what is known of operations that have not ended; return before which number to read what was missed."""
        known = {line.number: line for line in active}
        newest = sorted(self.lines, reverse=True)[:size]
        missed = [number for number, line in self.lines.items() if number not in known and not line.operation.ended]
        fresh = any(number > newest[0] for number in known) if newest else bool(known)
        self.lines.update((number, line) for number, line in known.items() if number in self.lines)
        if fresh or any(number >= newest[-1] for number in missed):
            return (None,)
        return (max(missed) + 1,) if missed else ()


LOOKED_AT = 20
"""Operations on a signature among which the last retries are looked for."""


async def retried_before(operations: Operations, signature: str, now: datetime) -> str:
    """Return who retried a signature last, and the outcome; "" when it was never retried.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    return next(iter(await retries_of(operations, signature, now, 1)), "")


async def retries_of(operations: Operations, signature: str, now: datetime, most: int) -> list[str]:
    """Return who retried a signature and the outcomes, the newest first, at most so many.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    return list((await numbered_retries(operations, signature, now, most)).values())


async def numbered_retries(operations: Operations, signature: str, now: datetime, most: int) -> dict[int, str]:
    """Return `retries_of` by the numbers of the operations: one may have retried several signatures.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    found = await operations.list_operations(LOOKED_AT, signature=signature)
    retries = [one for one in found if one.request.verb == "retry" and one.processed][:most]
    return {one.number: retry_sentence(one, await _came_of(operations, one), now) for one in retries}


async def _came_of(operations: Operations, retry: Operation) -> Outcomes:
    """Return the outcomes kept with a retry that has ended: its jobs may since have gone through later operations."""
    kept = retry.outcomes
    if retry.ended and kept is not None and kept.looked == retry.processed:
        return kept
    return await operations.outcomes(retry.number)


def retry_sentence(operation: Operation, outcomes: Outcomes, now: datetime) -> str:
    """Return one retry and the outcomes of its jobs."""
    what, stage = "canary of" if operation.in_canary else "retried", operation.stage
    if operation.in_canary and operation.request.rollout.ramp:
        what = f"ramp {stage.number} of {stage.of}, retried"
    some = f" (the last {exact(outcomes.looked)})" if outcomes.looked < operation.processed else ""
    state = "" if operation.state == "done" else f", {operation.state}"
    user = safe(operation.request.author.user, LONGEST_NAME)
    came = f"{what} {exact(operation.processed)}: {outcome_words(outcomes) or 'nothing known'}{some}"
    return f"{moment_of(operation.created_at, now)} {user}: {came}{state} (#{operation.number})"


def succeeded(line: OperationLine) -> bool:
    """Return whether it is a retry of one signature all of whose jobs have completed."""
    one, outcomes = line.operation, line.operation.outcomes
    if one.request.verb != "retry" or len(one.request.signatures) != 1 or one.state != "done" or outcomes is None:
        return False
    return outcomes.completed == one.processed > 0
