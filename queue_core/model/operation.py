"""Operations: what operators do, kept in the store with who did it, why, and what came of it.

A change of many jobs is frozen first: its members are the jobs that it was asked for, with the lease tokens that they
had. The executor then takes one step after another: a step changes the next members and counts them, all
or nothing, so any number of executors may work, stop and go on. What decides about steps is
`queue_core.client.operating.verdict`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from queue_core.model.events import EventName
from queue_core.model.job import Ready
from queue_core.model.states import UNFINISHED, WAITING, Status


class Changed(NamedTuple):
    """What a change did."""

    # really changed, in no particular order
    ids: tuple[str, ...]
    # ready by this change, those included whose ordering key was let go of: offer them to the dispatcher
    ready: tuple[Ready, ...] = ()


MemberVerb = Literal["retry", "delete", "restore", "purge", "cancel", "move"]
"""The verbs that change jobs, at once or step by step."""

OperationVerb = (
    MemberVerb
    | Literal["pause", "resume", "drain", "quiet", "stop", "edit", "trigger", "remove"]
    | Literal["mute", "resolve", "own", "note", "save"]
)
"""The verbs of operations: those that change jobs, and those that are done at once and recorded."""

WorkerOrder = Literal["quiet", "resume", "stop"]
"""Claim no more jobs; claim them again; end, once the running ones have."""


class VerbFacts(NamedTuple):
    """What a verb does to jobs, in every store."""

    # it acts on jobs in these states; others are skipped and reported as such
    states: frozenset[Status]
    # it acts on jobs in the trash: True; on others: False; on both: None
    trash: bool | None
    # published for each job that it has changed
    event: EventName
    # what takes it back; None: nothing does
    undo: MemberVerb | None = None
    # the fields of `ChangeOptions` that it takes
    options: frozenset[str] = frozenset()
    # the jobs that it has changed are in the same state as before
    keeps_state: bool = False
    # they get new tokens, so that operations that had chosen them before pass them over; False: they end, or go
    renews: bool = True

    def acts_on(self, status: Status, trashed: bool) -> bool:
        """Return whether it acts on a job in this state."""
        return status in self.states and self.trash in (None, trashed)


_DEAD = frozenset({Status.DEAD})

VERBS: dict[str, VerbFacts] = {
    "retry": VerbFacts(
        _DEAD | {Status.COMPLETED}, None, EventName.RETRIED, options=frozenset({"delay", "spread", "queue", "priority"})
    ),
    "delete": VerbFacts(_DEAD, False, EventName.DELETED, undo="restore"),
    "restore": VerbFacts(_DEAD, True, EventName.RESTORED),
    "purge": VerbFacts(_DEAD, True, EventName.DELETED, renews=False),
    "cancel": VerbFacts(UNFINISHED, False, EventName.CANCELLED, renews=False),
    "move": VerbFacts(
        WAITING | _DEAD, False, EventName.MOVED, undo="move", options=frozenset({"queue", "priority"}), keeps_state=True
    ),
}
"""The facts of each `MemberVerb`. Its words (title, button, question) are the console's."""

OperationState = Literal["preparing", "running", "paused", "stopped", "done", "cancelled", "failed"]
"""preparing: its members are being written, or it is done at once. stopped: by its threshold. failed: see its note."""

MOVES: dict[OperationState, frozenset[OperationState]] = {
    "preparing": frozenset({"running", "done", "cancelled", "failed"}),
    "running": frozenset({"paused", "stopped", "done", "cancelled"}),
    "paused": frozenset({"running", "cancelled"}),
    "stopped": frozenset({"running", "cancelled"}),
    "done": frozenset(),
    "cancelled": frozenset(),
    "failed": frozenset(),
}
"""Which states an operation may go to from each."""

ENDED: frozenset[OperationState] = frozenset({"done", "cancelled", "failed"})
"""The states that nothing leads out of."""

ABANDONED_SECONDS = 300.0
"""Seconds after its last change at which an operation that is still preparing is cancelled: its author is gone."""

NEVER_STARTED = "who asked for it went away before it was begun, or before its end was noted"
"""The note of such an operation."""


class Author(NamedTuple):
    """Who asked for an operation."""

    # name of the system user
    user: str
    host: str


class ChangeOptions(NamedTuple):
    """How retried or moved jobs go on; the rest of them stays as it is."""

    # seconds from the step until they are due
    delay: float = 0.0
    # seconds over which they are spread at random, behind the delay
    spread: float = 0.0
    # another queue; None: each stays in its own
    queue: str | None = None
    # another priority; None: each keeps its own
    priority: int | None = None

    @property
    def later(self) -> bool:
        """Whether they are put off."""
        return self.delay > 0 or self.spread > 0


class Rollout(NamedTuple):
    """How carefully an operation goes on."""

    # members that are changed first, and whose outcome is waited for; 0: none
    canary: int = 0
    # changed members per second; None: as fast as the store can
    rate: float | None = None
    # percent of retried jobs that died again, above which it is stopped; None: never
    stop_percent: float | None = None
    # whether a job of a barrier's step counts as failed at its first failed attempt, with retries left or not
    first_failure: bool = False
    # changed members of its first steps, each of which is waited for as a canary is; (): the canary is the only one
    ramp: tuple[int, ...] = ()
    # it begins no earlier; None: at once
    begin_at: datetime | None = None
    # it begins when a live worker that can run its jobs announces this release; None: at once
    when_release: str | None = None

    @property
    def first_steps(self) -> tuple[int, ...]:
        """The members of each step that is waited for: those of its ramp, or its canary."""
        return self.ramp or ((self.canary,) if self.canary > 0 else ())

    def barriers(self, total: int, unchanged: int = 0) -> list[int]:
        """Return the members behind which an operation of so many waits, in order, so many of them unchanged so far."""
        ends = (end + unchanged for end in accumulate(self.first_steps) if end + unchanged < total)
        return [*([0] if self.when_release else []), *ends, total]


UNCHANGED = ChangeOptions()
UNTHROTTLED = Rollout()


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """An operation as its author asks for it. All texts may be shown only through `safe()`."""

    verb: OperationVerb
    # what it acts on, for people: "this job", "TimeoutError: smtp <host>:<n>", a queue's name
    label: str
    author: Author
    # the author's reason; "" when none was given
    why: str = ""
    options: ChangeOptions = UNCHANGED
    rollout: Rollout = UNTHROTTLED
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the store has it."""

    # 1, 2, 3 … in the order of creation; a store may leave some out
    number: int
    request: OperationRequest
    state: OperationState
    # one sentence: what came of it, why it was stopped or failed; "" when there is nothing to report
    note: str
    # members
    total: int
    # members that were looked at: processed + skipped + errored
    done: int
    processed: int
    # no longer as they were frozen: in another state, run again meanwhile, or gone
    skipped: int
    errored: int
    # steps go no further than this member: the last one of a canary or of a step of a ramp (later by each one that is
    # skipped or errored, in whose place another one comes), or the last one of all; 0 while it waits for a release
    barrier: int
    created_at: datetime
    # of the last step or move
    updated_at: datetime
    # when its members were complete
    started_at: datetime | None
    finished_at: datetime | None
    # what became of the jobs that it has retried, as the leader of the workers last counted; None: not yet
    outcomes: Outcomes | None = None

    @property
    def in_canary(self) -> bool:
        """Whether its canary, or a step of its ramp, has yet to be done or to end well."""
        return self.barrier < self.total and not self.waits_for

    @property
    def awaiting_canary(self) -> bool:
        """Whether its canary, or a step of its ramp, is done, and waited for."""
        return self.state == "running" and self.in_canary and self.done == self.barrier

    @property
    def waits_for(self) -> str:
        """The release that it waits for; "" when for none, or when it has ended."""
        waits = self.barrier == 0 < self.total and self.state != "preparing" and not self.ended
        return (self.request.rollout.when_release or "") if waits else ""

    @property
    def stage(self) -> RampStep:
        """The step of its canary or ramp that it is in; behind them: the rest."""
        ends = [end - self.unchanged for end in self.request.rollout.barriers(self.total, self.unchanged)[:-1] if end]
        size = self.barrier - self.unchanged
        number = sum(end < size for end in ends) + 1
        behind = ends[number - 2] if number > 1 else 0
        return RampStep(number, len(ends), behind, size - behind, max(0, self.processed - behind))

    @property
    def unchanged(self) -> int:
        """The members that it has looked at and not changed."""
        return self.skipped + self.errored

    @property
    def ended(self) -> bool:
        """Whether nothing will change it any more."""
        return self.state in ENDED


class StepResult(NamedTuple):
    """What one step did."""

    # as of after the step
    operation: Operation
    # the jobs that were really changed
    changed: Changed = Changed(())
    # seconds until the next step is due by its rate; 0: now
    wait: float = 0.0


class RampStep(NamedTuple):
    """A step of a canary or a ramp."""

    # from 1; one more than there are: behind them
    number: int
    # how many there are; 0: neither canary nor ramp
    of: int
    # members that were changed before it
    behind: int
    # members that are changed in it, and those that already were
    size: int
    changed: int


class Outcomes(NamedTuple):
    """What became of the members that an operation has retried."""

    # looked at
    looked: int
    completed: int
    # died again (those included that are in the trash since)
    dead: int
    # scheduled, queued, running or retrying
    unfinished: int
    # those of them that have failed since they were retried, and have retries left
    retrying: int = 0
    # those of the completed that had failed since they were retried
    recovered: int = 0

    @property
    def ended(self) -> int:
        """Those whose outcome is known; cancelled and purged ones included."""
        return self.looked - self.unfinished


# The transitions of an operation, as pure functions on its record. A store locks its row, calls one of them, and writes
# what it returns; mode redis has its own copy in Lua, which the conformance suite compares with these.


class OperationRecord(NamedTuple):
    """An operation as a store keeps it."""

    view: Operation
    # seconds since the epoch before which its rate allows no step
    next_at: float = 0.0


def begin(number: int, request: OperationRequest, now: float) -> OperationRecord:
    """Return a new operation, preparing and without members."""
    at = datetime.fromtimestamp(now, UTC)
    return OperationRecord(Operation(number, request, "preparing", "", 0, 0, 0, 0, 0, 0, at, at, None, None))


def add(record: OperationRecord, members: int, now: float) -> OperationRecord | None:
    """Return a preparing operation with so many more members; None: it takes no members any more."""
    view = record.view
    return _changed(record, now, total=view.total + members) if view.state == "preparing" else None


def move(record: OperationRecord, state: OperationState, note: str, now: float) -> OperationRecord | None:
    """Return an operation in another state; None: `MOVES` does not lead there. See `OperationStore.move`."""
    view = record.view
    if state not in MOVES[view.state]:
        return None
    fields: dict[str, Any] = {"state": state, "note": note}
    if view.state == "preparing" and state in {"running", "done"}:
        fields |= {"barrier": view.total, "started_at": datetime.fromtimestamp(now, UTC)}
        if state == "done":
            fields |= {"done": view.total, "processed": view.total}
        else:
            rollout = view.request.rollout
            fields["barrier"] = rollout.barriers(view.total)[0]
            if rollout.begin_at is not None:
                record = record._replace(next_at=rollout.begin_at.timestamp())
    elif view.state == "stopped" and state == "running":
        free = replace(view.request, rollout=view.request.rollout._replace(stop_percent=None))
        fields |= {"request": free, "barrier": view.total}
    return _changed(record, now, **fields)


class NextMembers(NamedTuple):
    """What the next step of an operation may take."""

    # how many behind those that are done; 0: none now
    members: int
    # seconds until its rate allows the step
    wait: float = 0.0


def next_members(record: OperationRecord, most: int, now: float) -> NextMembers:
    """Return how many members the next step may take: of a running operation, up to its barrier, as its rate allows."""
    view = record.view
    count = min(max(most, 0), view.barrier - view.done)
    if view.state != "running" or count <= 0:
        return NextMembers(0)
    return NextMembers(0, record.next_at - now) if now < record.next_at else NextMembers(count)


def step(record: OperationRecord, count: int, processed: int, now: float) -> OperationRecord:
    """Return a running operation behind its next members, of which so many were changed."""
    view, rate = record.view, record.view.request.rollout.rate
    if rate:
        record = record._replace(next_at=max(record.next_at, now) + processed / rate)
    skipped = view.skipped + count - processed
    return _changed(record, now, done=view.done + count, processed=view.processed + processed, skipped=skipped)


def fail_member(record: OperationRecord, note: str, now: float) -> OperationRecord | None:
    """Return a running operation whose next member counts as errored; None: there is none before its barrier."""
    view = record.view
    if view.state != "running" or view.done >= view.barrier:
        return None
    return _changed(record, now, done=view.done + 1, errored=view.errored + 1, note=note)


def pass_barrier(record: OperationRecord, barrier: int, now: float) -> OperationRecord | None:
    """Return a running operation that goes on to the barrier behind this one; None: it has another, or does not run."""
    view = record.view
    if view.state != "running" or not view.barrier == barrier < view.total:
        return None
    following = next(end for end in view.request.rollout.barriers(view.total, view.unchanged) if end > barrier)
    return _changed(record, now, barrier=following)


def note_drain(record: OperationRecord, left: int, now: float) -> OperationRecord | None:
    """Return an operation that drains a queue in which so many jobs are left; None: it neither prepares nor runs."""
    view = record.view
    if view.state not in ("preparing", "running"):
        return None
    total, began = max(view.total, left), view.started_at or datetime.fromtimestamp(now, UTC)
    counts = {"total": total, "barrier": total, "done": total - left, "processed": total - left}
    return _changed(record, now, state="running", started_at=began, **counts)


def _changed(record: OperationRecord, now: float, **fields: Any) -> OperationRecord:
    """Return a changed operation: others take the places of members that it could not change, and its end is noted."""
    at = datetime.fromtimestamp(now, UTC)
    view = replace(record.view, updated_at=at, **fields)
    view = replace(view, barrier=min(view.barrier + view.unchanged - record.view.unchanged, view.total))
    if view.state == "running" and view.done == view.total:
        view = replace(view, state="done")
    return record._replace(view=replace(view, finished_at=at) if view.ended else view)
