"""Operations: what operators do, kept in the store with who did it, why, and what came of it. Verbs and records.

A change of many jobs is frozen first: its members are the jobs that it was asked for, with the lease tokens that they
had. The executor then takes one step after another: a step changes the next members and counts them, all
or nothing, so any number of executors may work, stop and go on. What decides about steps is
`queue_core.client.operations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

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
"""The verbs that change jobs, at once or step by step. All others are done at once and only noted."""

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
    # the fields of `Way` that it takes
    options: frozenset[str] = frozenset()


_DEAD = frozenset({Status.DEAD})

VERBS: dict[str, VerbFacts] = {
    "retry": VerbFacts(
        _DEAD | {Status.COMPLETED},
        None,
        EventName.RETRIED,
        options=frozenset({"delay", "spread", "queue", "priority"}),
    ),
    "delete": VerbFacts(_DEAD, False, EventName.DELETED, undo="restore"),
    "restore": VerbFacts(_DEAD, True, EventName.RESTORED),
    "purge": VerbFacts(_DEAD, True, EventName.DELETED),
    "cancel": VerbFacts(UNFINISHED, False, EventName.CANCELLED),
    "move": VerbFacts(WAITING | _DEAD, False, EventName.MOVED, undo="move", options=frozenset({"queue", "priority"})),
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

ABANDONED = 300.0
"""Seconds after its last change at which an operation that is still preparing is cancelled: its author is gone."""

NEVER_STARTED = "who asked for it went away before it was begun, or before its end was noted"
"""The note of such an operation."""


class Author(NamedTuple):
    """Who asked for an operation."""

    # name of the system user
    user: str
    host: str


class Way(NamedTuple):
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


class Pace(NamedTuple):
    """How carefully an operation goes on."""

    # members that are changed first, and whose outcome is waited for; 0: none
    canary: int = 0
    # members per second; None: as fast as the store can
    rate: float | None = None
    # percent of retried jobs that died again, above which it is stopped; None: never
    stop_percent: float | None = None


AS_IT_WAS = Way()
AT_ONCE = Pace()


@dataclass(frozen=True, slots=True)
class NewOperation:
    """An operation as its author asks for it. All texts may be shown only through `safe()`."""

    # a `MemberVerb`, or what is done at once: pause, resume, quiet, stop, edit, trigger …
    verb: str
    # what it acts on, for people: "this job", "TimeoutError: smtp <host>:<n>", a queue's name
    label: str
    author: Author
    # the author's reason; "" when none was given
    why: str = ""
    way: Way = AS_IT_WAS
    pace: Pace = AT_ONCE
    # the error signatures that it is all of
    signatures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the store has it."""

    # 1, 2, 3 … in the order of creation; a store may leave some out
    number: int
    asked: NewOperation
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
    # steps go no further than this member: the canary's last one, or the last one of all
    barrier: int
    created_at: datetime
    # of the last step or move
    updated_at: datetime
    # when its members were complete
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def in_canary(self) -> bool:
        """Whether its canary has yet to be done or to end well."""
        return self.barrier < self.total

    @property
    def held(self) -> bool:
        """Whether its canary is done, and waited for."""
        return self.state == "running" and self.done == self.barrier < self.total

    @property
    def ended(self) -> bool:
        """Whether nothing will change it any more."""
        return self.state in ENDED


class Step(NamedTuple):
    """What one step did."""

    # as of after the step
    operation: Operation
    # the jobs that were really changed
    changed: Changed = Changed(())
    # seconds until the next step is due by its rate; 0: now
    wait: float = 0.0


class Outcomes(NamedTuple):
    """What became of the members that an operation has retried."""

    # looked at
    looked: int
    completed: int
    # died again (those included that are in the trash since)
    dead: int
    # scheduled, queued, running or retrying
    unfinished: int

    @property
    def ended(self) -> int:
        """Those whose outcome is known; cancelled and purged ones included."""
        return self.looked - self.unfinished


class MemberJob(NamedTuple):
    """A member that an operation has changed."""

    # from 1, in the order of the members
    place: int
    id: str
    # its queue when it was frozen
    queue: str
