"""Bulk verbs: plan first (freeze the ids), then submit as an operation of the store; a report says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from queue_core.errors import InvalidArgument, InvalidJob, QueueCoreError, StoreUnavailable
from queue_core.filters import Filter, Term
from queue_core.inspection import CHANGES_FROM, Inspector
from queue_core.operations import AS_IT_WAS, AT_ONCE, Author, MemberVerb, NewOperation, Operation, Pace, Way
from queue_core.states import FINAL, WAITING, Status

if TYPE_CHECKING:
    from queue_core.operating import Operations

Verb = MemberVerb
Choice = Verb | Literal["export"]
"""What jobs can be chosen for."""

REVERSIBLE = frozenset({"delete", "move"})
"""The verbs that can be taken back when they have ended; the others can only be cancelled while they run."""
MOVABLE = WAITING | {Status.DEAD}
ACTS_ON: dict[str, frozenset[Status]] = {**CHANGES_FROM, "move": MOVABLE}
"""The states that each verb acts on, for the lists that say why a key is off."""

FREEZE_LIMIT = 1_000_000
"""Ids that one operation takes at most; the plan says when there are more."""
TOLD = 100_000
"""Changed ids that a report names."""
CAREFUL_FROM = 50
"""A retry of more jobs than this begins with a canary, and is throttled."""
CAREFUL = Pace(canary=10, rate=200.0, stop_percent=20.0)
"""How it goes on then: ten jobs first; a rate that leaves workers room for live jobs; an end when it helps nobody."""


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
    # the types and the states of its jobs, as far as the screen knows them
    types: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()

    @property
    def states(self) -> frozenset[Status]:
        """The states that its jobs can be in; all of them, where nothing is known."""
        matched = [where.statuses() for where in self.wheres]
        return frozenset(self.statuses).union(*matched) if self.statuses or matched else frozenset(Status)


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
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()
    # how retried or moved jobs go on
    way: Way = AS_IT_WAS
    pace: Pace = AT_ONCE
    # a person's reason
    why: str = ""

    def asked(self, author: Author) -> NewOperation:
        """Return the operation that it becomes."""
        return NewOperation(self.verb, self.label, author, self.why, self.way, self.pace, self.signatures)


@dataclass(frozen=True, slots=True)
class Report:
    """How far a plan has come."""

    plan: Plan
    # as it was last seen; None: it was not written yet, or could not be
    operation: Operation | None = None
    # one sentence when it could not be written, or could not be watched to its end; and the error
    problem: str = ""
    error: QueueCoreError | None = None
    # ids that are written so far, and under which number; 0: the store has not given it one yet
    written: int = 0
    number: int = 0
    # when it has ended: the ids that were really changed, the first ones of many
    changed: tuple[str, ...] = ()

    @property
    def processed(self) -> int:
        """How many were really changed."""
        return self.operation.processed if self.operation else 0

    @property
    def skipped(self) -> int:
        """No longer as they were frozen."""
        return self.operation.skipped if self.operation else 0

    @property
    def errored(self) -> int:
        """Could not be changed; all of them, when nothing was written."""
        if self.operation is not None:
            return self.operation.errored
        return len(self.plan.ids) if self.problem else 0

    @property
    def done(self) -> int:
        """How many of the plan's jobs have been looked at."""
        return self.processed + self.skipped + self.errored

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self.operation.ended if self.operation else bool(self.problem)


def one_job(job_id: str, type_: str, status: Status) -> Target:
    """Return the target that is one job."""
    ids = (job_id,)
    return Target(f"{type_} {job_id}", ids=ids, about=1, keys=ids, types=(type_,), statuses=(status,))


def default_pace(verb: Verb, number: int) -> Pace:
    """Return how carefully so many jobs are changed, unless somebody says otherwise."""
    return CAREFUL if verb == "retry" and number > CAREFUL_FROM else AT_ONCE


def dead_of(signature: str, where: Filter) -> Filter:
    """Return the filter of a group of dead jobs, narrowed by what the screen is filtered by."""
    return dead_only(where).having(Term("signature", "=", signature))


def dead_only(where: Filter) -> Filter:
    """Return the filter with the DLQ as its only state."""
    others = tuple(term for term in where.terms if term.field != "status")
    return Filter((*others, Term("status", "=", Status.DEAD.value)), where.trash)


def changeable_only(verb: Verb, where: Filter) -> Filter:
    """Return the filter of what a verb acts on among all that matches; nothing, where it acts on none of it.

    What has completed is run again only where the filter is about nothing else.
    """
    if verb == "cancel":
        return unfinished_only(where)
    if verb == "move":
        return movable_only(where)
    again = verb == "retry" and where.statuses() <= {Status.COMPLETED}
    return where.having(Term("status", "=", (Status.COMPLETED if again else Status.DEAD).value))


def unfinished_only(where: Filter) -> Filter:
    """Return the filter without jobs that have come to an end."""
    return _without(where, FINAL)


def movable_only(where: Filter) -> Filter:
    """Return the filter without jobs that cannot be moved: running ones, and ended ones that are not dead."""
    return _without(where, frozenset(Status) - MOVABLE)


def _without(where: Filter, states: frozenset[Status]) -> Filter:
    return where.having(*(Term("status", "=", status.value, negated=True) for status in sorted(states)))


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
    return Plan(verb, target.label, ids, capped, target.keys, target.signatures, pace=default_pace(verb, len(ids)))


async def submit(
    operations: Operations, plan: Plan, author: Author, progress: Callable[[Report], None] = lambda report: None
) -> Report:
    """Write a plan as an operation, which runs from then on; the store's absence is reported, not raised.

    Raises:
        InvalidArgument, InvalidJob: a value in the plan cannot be; nothing was written.
    """
    report = Report(plan)
    try:
        operation = await operations.submit(
            plan.asked(author),
            plan.ids,
            lambda written: progress(replace(report, written=written.total, number=written.number)),
        )
    except (InvalidArgument, InvalidJob):
        raise
    except QueueCoreError as error:
        return replace(report, problem=str(error), error=error)
    return Report(plan, operation, written=operation.total, number=operation.number)


async def apply(
    operations: Operations, plan: Plan, author: Author, progress: Callable[[Report], None] = lambda report: None
) -> Report:
    """Write a plan and carry it out here; others may, too. The store's absence is reported, not raised.

    Raises:
        InvalidArgument, InvalidJob: a value in the plan cannot be; nothing was written.
    """
    report = await submit(operations, plan, author, progress)
    return await carry_on(operations, report, progress)


async def carry_on(
    operations: Operations, report: Report, progress: Callable[[Report], None] = lambda report: None
) -> Report:
    """Carry out here what was submitted, if it was; the store's absence is reported, not raised."""
    if report.operation is None:
        return report

    def tell(operation: Operation) -> None:
        nonlocal report
        report = replace(report, operation=operation)
        progress(report)

    number = report.operation.number
    try:
        report = replace(report, operation=await operations.carry_out(number, tell))
    except QueueCoreError as error:
        return replace(report, problem=str(error), error=error)
    # What is done is done, though it cannot be said of which jobs.
    with suppress(StoreUnavailable):
        report = replace(report, changed=tuple(await operations.changed_ids(number, TOLD)))
    return report
