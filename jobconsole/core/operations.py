"""Bulk verbs: plan first (freeze the ids), then apply in chunks; each says what it did, skipped and could not do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from queue_core.control import Control
from queue_core.errors import QueueCoreError
from queue_core.filters import Filter, Term
from queue_core.inspection import Changed, Inspector
from queue_core.states import FINAL, Status

Verb = Literal["retry", "delete", "restore", "cancel", "purge"]
Choice = Verb | Literal["export"]
"""What jobs can be chosen for."""

FREEZE_LIMIT = 1_000_000
"""Ids that one operation takes at most; the plan says when there are more."""
CHUNK = 500
"""Jobs changed in one transaction: short enough that nobody waits behind it, long enough to be fast."""
GENTLE_FROM = 50
"""A retry of more jobs than this is spread over time."""
GENTLE_RATE = 200.0
"""Jobs per second of a spread retry."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a verb acts on, as a person chose it: jobs by id, and everything that matches one of some filters."""

    # such as "this job", "3 marked jobs", "TimeoutError: smtp <host>:<n>"
    label: str
    ids: tuple[str, ...] = ()
    wheres: tuple[Filter, ...] = ()
    # how many it is as far as the screen knows; None: unknown
    about: int | None = None
    # the rows of a screen that stand for it
    keys: tuple[str, ...] = ()
    # label and value of what a person wants to know before going on
    facts: tuple[tuple[str, str], ...] = ()
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A verb with the ids it will act on, frozen: what becomes of the list later does not matter."""

    verb: Verb
    label: str
    ids: tuple[str, ...]
    # True: more matched than one operation takes
    capped: bool = False
    # the rows of a screen that stand for it
    keys: tuple[str, ...] = ()
    # seconds over which retried jobs become due
    spread: float = 0.0
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()

    def with_spread(self, seconds: float) -> Plan:
        """Return the plan with another pace."""
        return replace(self, spread=seconds)


@dataclass(frozen=True, slots=True)
class Report:
    """How far an operation has come, or what it did."""

    plan: Plan
    # how many were really changed
    processed: int = 0
    # no longer in a state that the verb acts on
    skipped: int = 0
    # not tried, or not known: the store went away
    errored: int = 0
    # one sentence when it stopped early
    problem: str = ""
    finished: bool = False
    # when finished: the ids that were really changed
    changed: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        """How many of the plan's jobs have been looked at."""
        return self.processed + self.skipped + self.errored


def default_spread(number: int) -> float:
    """Return the seconds over which a retry of so many jobs is spread by default."""
    return number / GENTLE_RATE if number > GENTLE_FROM else 0.0


def dead_of(signature: str, where: Filter) -> Filter:
    """Return the filter of a group of dead jobs, narrowed by what the screen is filtered by."""
    return dead_only(where).having(Term("signature", "=", signature))


def dead_only(where: Filter) -> Filter:
    """Return the filter with the DLQ as its only state."""
    others = tuple(term for term in where.terms if term.field != "status")
    return Filter((*others, Term("status", "=", Status.DEAD.value)), where.trash)


def unfinished_only(where: Filter) -> Filter:
    """Return the filter without jobs that have come to an end."""
    return where.having(*(Term("status", "=", status.value, negated=True) for status in sorted(FINAL)))


async def plan(inspector: Inspector, verb: Verb, target: Target) -> Plan:
    """Freeze the ids of a target.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    found = dict.fromkeys(target.ids)
    for where in target.wheres:
        found.update(dict.fromkeys(await inspector.ids(where, FREEZE_LIMIT + 1)))
    capped = len(found) > FREEZE_LIMIT
    ids = tuple(found)[:FREEZE_LIMIT]
    spread = default_spread(len(ids)) if verb == "retry" else 0.0
    return Plan(verb, target.label, ids, capped, target.keys, spread, target.signatures)


async def apply(control: Control, plan: Plan, progress: Callable[[Report], None] = lambda report: None) -> Report:
    """Carry a plan out in chunks, telling `progress` after each; the store's absence is reported, not raised."""
    report = Report(plan)
    ids: list[str] = []
    for start in range(0, len(plan.ids), CHUNK):
        chunk = plan.ids[start : start + CHUNK]
        try:
            changed = await _change(control, plan, chunk)
        except QueueCoreError as error:
            rest = len(plan.ids) - start
            return replace(report, errored=rest, problem=str(error), finished=True, changed=tuple(ids))
        ids += changed.ids
        report = replace(report, processed=len(ids), skipped=report.skipped + len(chunk) - len(changed.ids))
        progress(report)
    return replace(report, finished=True, changed=tuple(ids))


def undo_of(report: Report) -> Plan | None:
    """Return the plan that takes an operation back: exactly the jobs it changed; None when it cannot be taken back."""
    if report.plan.verb != "delete" or not report.changed:
        return None
    return Plan("restore", report.plan.label, report.changed)


async def _change(control: Control, plan: Plan, ids: Sequence[str]) -> Changed:
    if plan.verb == "retry":
        return await control.retry(ids, plan.spread)
    if plan.verb == "delete":
        return await control.delete(ids)
    if plan.verb == "restore":
        return await control.restore(ids)
    if plan.verb == "purge":
        return await control.purge(ids)
    return await control.cancel(ids)
