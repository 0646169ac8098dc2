"""A change of many jobs before it is written: which jobs, how they change, and its submission."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from jobconsole.core.rows import LONGEST_LINE, LONGEST_NAME, JobLine, QueueLine, ended_at, job_line
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.humanize import exact, span_of
from queue_core.client.finding.inspector import progress_of
from queue_core.errors import InvalidArgument, InvalidJob, JobNotFound, QueueCoreError, StoreUnavailable
from queue_core.model.filters import Filter, Term, set_of
from queue_core.model.operation import (
    UNCHANGED,
    UNTHROTTLED,
    VERBS,
    Author,
    ChangeOptions,
    MemberVerb,
    Operation,
    OperationRequest,
    Rollout,
)
from queue_core.model.states import FINAL, Status
from queue_core.model.text import safe
from queue_core.model.validation import check_queue_name
from queue_core.ports.inspector import Inspector

if TYPE_CHECKING:
    from queue_core.client.finding.search import SearchProgress
    from queue_core.client.operations import Operations


NAMED_TYPES = 3
"""Types that a warning names."""


def offered(queues: Iterable[QueueLine], written: str) -> list[QueueLine]:
    """Return the queues whose names hold what was written, those that begin with it first.

    A name that cannot be shown as it is is not offered: the user would see another one.
    """
    part = written.strip().casefold()
    found = [queue for queue in queues if part in queue.name.casefold() and queue.name == queue.label]
    return sorted(found, key=lambda queue: (not queue.name.casefold().startswith(part), queue.name))


def options_of(queue: str, priority: int | None) -> ChangeOptions:
    """Return where jobs are to go; an empty name and no priority leave what they have.

    Raises:
        InvalidArgument: neither is given.
        InvalidJob: it is no name of a queue.
    """
    queue = queue.strip()
    if not queue and priority is None:
        raise InvalidArgument("name another queue or another priority")
    return ChangeOptions(queue=check_queue_name(queue) if queue else None, priority=priority)


def warnings(queue: str, types: Sequence[str], snapshot: Snapshot | None) -> list[str]:
    """Return what to know about a target before jobs of these types are moved there, a sentence each."""
    queue = queue.strip()
    if not queue or snapshot is None:
        return []
    name = safe(queue, 60)
    line = next((line for line in snapshot.queues if line.name == queue), None)
    found = []
    if line is None:
        found.append(f"there is no queue '{name}' yet: the first moved job makes it")
    elif line.paused:
        found.append(f"'{name}' is paused: jobs wait there until it is resumed")
    elif line.closed:
        found.append(f"'{name}' is closed: these jobs go in all the same, new ones do not")
    idle = [type_ for type_ in types if not any(worker.runs(queue, type_) for worker in snapshot.workers)]
    if idle:
        others = f" and {len(idle) - NAMED_TYPES} more types" if len(idle) > NAMED_TYPES else ""
        found.append(f"no live worker of '{name}' runs {', '.join(idle[:NAMED_TYPES])}{others}")
    elif not types and not any(
        queue in worker.queues and not (worker.lost or worker.quiet) for worker in snapshot.workers
    ):
        found.append(f"no live worker takes jobs from '{name}'")
    return found


Verb = MemberVerb
Choice = Verb | Literal["export"]
"""What jobs can be chosen for."""

REVERSIBLE = frozenset(verb for verb, facts in VERBS.items() if facts.undo)
"""The verbs that can be taken back when they have ended; the others can only be cancelled while they run."""
ACTS_ON: dict[str, frozenset[Status]] = {verb: facts.states for verb, facts in VERBS.items()}
"""The states that each verb acts on, for the lists that show why a key is off."""
ON_DEAD = frozenset(verb for verb, facts in VERBS.items() if facts.acts_on(Status.DEAD, trashed=False))
"""The verbs on dead jobs that are not in the trash."""
NOT_ON_RUNNING = tuple(verb for verb, states in ACTS_ON.items() if Status.RUNNING not in states)
NOT_CANCELLED = "dead jobs cannot be cancelled; D moves them to the trash"

FREEZE_LIMIT = 1_000_000
"""Ids that one operation takes at most; the plan has `capped` set when there are more."""
REPORTED_IDS = 100_000
"""Changed ids that a report names."""
CAREFUL_FROM = 50
"""A retry of more jobs than this begins with a canary, and is throttled."""
CAREFUL = Rollout(canary=10, rate=200.0, stop_percent=20.0)
"""The rollout then: ten jobs first; a rate that leaves workers room for live jobs; a stop when too many fail again."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a verb acts on, as the user chose it: jobs by id, and everything that matches one of some filters."""

    # such as "this job", "3 marked jobs", "TimeoutError: smtp <host>:<n>"
    label: str
    ids: tuple[str, ...] = ()
    wheres: tuple[Filter, ...] = ()
    # how many it is as far as the screen knows; None: unknown
    about: int | None = None
    # the keys of the rows that represent it on a screen
    keys: tuple[str, ...] = ()
    # label and value of what a person wants to know before confirming
    facts: tuple[tuple[str, str], ...] = ()
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()
    # the types and the states of its jobs, as far as the screen knows them
    types: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    # what its jobs by id have to match still: those that do not were changed since they were marked; None: anything
    still: Filter | None = None

    @property
    def states(self) -> frozenset[Status]:
        """The states that its jobs can be in; all of them, where nothing is known."""
        matched = [where.statuses() for where in self.wheres]
        return frozenset(self.statuses).union(*matched) if self.statuses or matched else frozenset(Status)


@dataclass(frozen=True, slots=True)
class Plan:
    """A verb with the ids it will act on, frozen: later changes of the list have no effect."""

    verb: Verb
    label: str
    ids: tuple[str, ...]
    # True: more matched than one operation takes
    capped: bool = False
    # the keys of the rows that represent it on a screen
    keys: tuple[str, ...] = ()
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()
    # delay, queue and priority of retried or moved jobs
    options: ChangeOptions = UNCHANGED
    rollout: Rollout = UNTHROTTLED
    # a person's reason
    why: str = ""
    # where its filter looks for a text: how far; None: it looks for none
    searched: SearchProgress | None = None
    # when they were frozen, by the store's clock; None: when it is written
    frozen_at: float | None = field(default=None, compare=False)

    def request(self, author: Author) -> OperationRequest:
        """Return the operation that it becomes."""
        return OperationRequest(self.verb, self.label, author, self.why, self.options, self.rollout, self.signatures)


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of a plan."""

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


def default_rollout(verb: Verb, number: int) -> Rollout:
    """Return the default rollout of a verb for so many jobs."""
    return CAREFUL if verb == "retry" and number > CAREFUL_FROM else UNTHROTTLED


def default_spread(verb: Verb, number: int) -> float:
    """Return the seconds over which so many jobs are spread where no one watches them: no canary is waited for."""
    careful = default_rollout(verb, number)
    return number / careful.rate if careful.rate else 0.0


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
    states = ACTS_ON[verb]
    if not states <= FINAL:
        others = sorted(frozenset(Status) - states)
        return where.having(*(Term("status", "=", status.value, negated=True) for status in others))
    again = Status.COMPLETED in states and where.statuses() <= {Status.COMPLETED}
    return where.having(Term("status", "=", (Status.COMPLETED if again else Status.DEAD).value))


async def plan(inspector: Inspector, verb: Verb, target: Target) -> Plan:
    """Freeze the ids of a target.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    # What ends while the ids are read, by the hand of others, must not be taken for what was chosen.
    began = await inspector.now()
    found = dict.fromkeys(target.ids)
    if target.still is not None:
        found = dict.fromkeys(await inspector.ids(target.still.having(set_of("ids", target.ids)), len(found)))
    for where in target.wheres:
        found.update(dict.fromkeys(await inspector.ids(where, FREEZE_LIMIT + 1)))
    capped = len(found) > FREEZE_LIMIT
    ids = tuple(found)[:FREEZE_LIMIT]
    searches = (search for where in target.wheres if (search := progress_of(inspector, where)) is not None)
    rollout, searched = default_rollout(verb, len(ids)), next(searches, None)
    return Plan(
        verb, target.label, ids, capped, target.keys, target.signatures,
        rollout=rollout, searched=searched, frozen_at=began,
    )  # fmt: skip


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
            plan.request(author),
            plan.ids,
            lambda written: progress(replace(report, written=written.total, number=written.number)),
            plan.frozen_at,
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
    return await run_submitted(operations, report, progress)


async def run_submitted(
    operations: Operations, report: Report, progress: Callable[[Report], None] = lambda report: None
) -> Report:
    """Carry out here what was submitted, if it was; the store's absence is reported, not raised."""
    if report.operation is None:
        return report

    def note(operation: Operation) -> None:
        nonlocal report
        report = replace(report, operation=operation)
        progress(report)

    number = report.operation.number
    try:
        report = replace(report, operation=await operations.run(number, note))
    except QueueCoreError as error:
        return replace(report, problem=str(error), error=error)
    # What is done is done, even if the ids of the changed jobs cannot be read.
    with suppress(StoreUnavailable):
        report = replace(report, changed=tuple(await operations.changed_ids(number, REPORTED_IDS)))
    return report


LOOKED_AT_JOBS = 200
"""Jobs that are looked at; of more, the newest ones."""
NAMED_IN_FACTS = 5
"""Types and queues that are named."""

Facts = tuple[tuple[str, str], ...]


async def breakdown(inspector: Inspector, target: Target) -> Facts:
    """Return the facts that a target does not bring itself, without counting anything.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    # When the first of the dead jobs of signatures died is read here: the list has when their first ever died.
    known = {label for label, _ in target.facts if label != "died" or not target.signatures}
    if not target.wheres:
        return await _sample(inspector, target.ids[0]) if target.ids and "sample" not in known else ()
    rows: list[JobLine] = []
    oldest: list[JobLine] = []
    wanted, more = LOOKED_AT_JOBS if "types" not in known else 1, False
    for where in target.wheres:
        page = await inspector.jobs(where, wanted)
        rows += [job_line(job) for job in page.jobs]
        more = more or page.cursor is not None
        if "died" not in known and page.cursor is not None:
            oldest += [job_line(job) for job in (await inspector.jobs(where, 1, None, "oldest")).jobs]
        if len(rows) >= wanted and not target.signatures:
            more = more or where is not target.wheres[-1]
            break
    facts = facts_of(rows, rows + oldest, more) if rows else ()
    return tuple(pair for pair in facts if pair[0] not in known)


def facts_of(rows: Sequence[JobLine], seen: Sequence[JobLine] = (), more: bool = False) -> Facts:
    """Return the facts about some jobs that a sheet shows; they are the newest where there are `more`.

    `seen`: those whose times are looked at, where they are others.
    """
    types = Counter(row.type for row in rows).most_common(NAMED_IN_FACTS)
    queues = sorted({row.queue for row in rows})
    # In front: the end of a line is cut off at 80 columns.
    some = f"of the newest {exact(len(rows))}: " if more else ""
    changes = [row.updated_at for row in seen or rows]
    last = max(changes)
    times: Facts = (("changed" if any(row.status != "dead" for row in rows) else "died", span_of(changes, last)),)
    if all(row.trashed for row in rows):
        # Those that were deleted first and last are not those that died first and last.
        times = ("died", some + span_of([ended_at(row) for row in rows], last)), ("deleted", span_of(changes, last))
    return (
        ("types", some + ", ".join(f"{name} {exact(number)}" for name, number in types)),
        ("queues", some + ", ".join(queues[:NAMED_IN_FACTS])),
        *times,
        ("sample", rows[0].sample),
    )


async def _sample(inspector: Inspector, job_id: str) -> Facts:
    try:
        job = await inspector.get(job_id)
    except JobNotFound:
        return ()
    return (("sample", f"{job.id[-4:]} {safe(job.type, LONGEST_NAME)}: {safe(job.error or job.status, LONGEST_LINE)}"),)
