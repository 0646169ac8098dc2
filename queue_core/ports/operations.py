"""The operators' write protocol of a store: jobs, queues, workers, and operations with members, steps and record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from queue_core.model.filters.saved import SavedFilter
from queue_core.model.operation import (
    UNCHANGED,
    Changed,
    ChangeOptions,
    MemberVerb,
    Operation,
    OperationRequest,
    OperationState,
    Outcomes,
    StepResult,
    WorkerOrder,
)
from queue_core.model.triage.signatures import SignatureFacts

STACKS_OF_A_JOB, STACKS_IN_ALL = 5, 1000
"""Stacks that are kept with a job, and of all jobs together: some 5 MB."""


class MemberJob(NamedTuple):
    """A member that an operation has changed."""

    # from 1, in the order of the members
    place: int
    id: str
    # its queue when it was frozen
    queue: str


class OperationStore(Protocol):
    """Operators' changes. Every method raises `StoreUnavailable`, within a bounded time, when the store is unreachable.

    Methods that take a number raise `OperationNotFound` when no operation has it.
    """

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        """Change the jobs whose states the verb applies to; see `VERBS`. A step does the same.

        retry: to queued with retry count 0, or to scheduled when they are put off; the crash count stays. They queue
        behind the waiting jobs of their priority, so that a bulk retry does not push in front of live work.
        delete: to the trash. restore: from the trash back into the DLQ. purge: remove them from the trash for good;
        the totals still count them.
        cancel: waiting jobs to cancelled; the workers of running ones are asked to stop them. A running job may still
        complete or die before its worker reads the request, but it does not run again.
        move: to another queue or priority; their state stays.

        `options`: the queue, priority and time of retried or moved jobs.
        """
        ...

    async def pause(self, queue: str) -> bool:
        """Stop claims from this queue; return False when it was already paused.

        Raises:
            QueueNotFound: no queue has this name.
        """
        ...

    async def resume(self, queue: str) -> bool:
        """Allow claims from this queue again, and open it; return False when it was neither paused nor closed.

        Raises:
            QueueNotFound: no queue has this name.
        """
        ...

    async def set_closed(self, queue: str, closed: bool) -> bool:
        """Close a queue, so that inserts raise `QueueClosed`, or open it; return False when this changed nothing.

        An insert that runs meanwhile is written whole, or refused whole. What is in the queue stays, and so do jobs
        that come back: those of attempts that failed or were given back, retried and moved ones.

        Raises:
            QueueNotFound: no queue has this name.
        """
        ...

    async def note_drain(self, number: int, left: int) -> Operation:
        """Note how many unfinished jobs are left in the queue that an operation drains; without any it is done.

        A preparing one begins with as many as its members. It does nothing to one that neither prepares nor runs.
        """
        ...

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        """Store an order that a worker's next heartbeat returns; return False when there is no such worker."""
        ...

    async def set_facts(self, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
        """Write what operators know of a signature; return False, changing nothing, when it is not as `before`."""
        ...

    async def set_filter(self, name: str, before: int, after: SavedFilter | None) -> bool:
        """Write a saved filter, or with None forget all of it; return False when another operation changed it last.

        `before`: the number of the operation that changed it last when it was read; 0: it was not there.
        """
        ...

    async def create(self, request: OperationRequest) -> Operation:
        """Write a new operation in state preparing, without members, and return it."""
        ...

    async def add(self, number: int, ids: Sequence[str], chosen: float | None = None) -> Operation:
        """Append members to a preparing operation, each with the token and the queue that its job has now.

        `chosen`: they were chosen among jobs that had ended, at this time of the store's clock, in seconds since 1970.
        What has not ended now, or has ended or went to the trash since then, counts as a member and will be skipped;
        and so do unknown ids. Ids of present members are left out. Nothing is added to an operation that is no longer
        preparing.
        """
        ...

    async def step(self, number: int, most: int) -> StepResult:
        """Change the next `most` members of a running operation that are as they were frozen, and count all of them.

        Atomic, and once: each of several executors takes different members, or none. A member is unchanged when its
        job still has the token of that time: each claim, retry, move, delete and restore changes the token. The
        states of the verb are checked as by `change`. A step changes nothing before the time that the rate allows,
        behind the barrier, or when the operation is not running. After the last member the operation is done.
        """
        ...

    async def fail_member(self, number: int, note: str) -> Operation:
        """Count the next member of a running operation as errored, without changing it, and store the reason."""
        ...

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        """Move an operation to another state, with a note; return False when `MOVES` has no such move.

        From preparing to running its barrier is set, to the first of `Rollout.barriers`, and one without members is
        done. From preparing to done, its members count as changed: all were changed at once. From
        stopped to running it runs to the end, without a threshold.
        """
        ...

    async def pass_barrier(self, number: int, barrier: int) -> bool:
        """Move a running operation from this barrier to its next; return False when it has another, or does not run.

        So of several executors that have seen the outcomes of a step, one begins the next.
        """
        ...

    async def forget(self, number: int) -> None:
        """Remove an operation that is preparing, with its members; do nothing where there is none such."""
        ...

    async def abandon(self) -> None:
        """Cancel operations that are still preparing `ABANDONED_SECONDS` seconds after their last change."""
        ...

    async def outcomes(self, number: int, last: int, behind: int = 0, until: int | None = None) -> Outcomes:
        """Return the outcomes of the last `last` members that were changed.

        Of all of them, or of those behind one place and up to another.
        """
        ...

    async def note_outcomes(self, number: int, outcomes: Outcomes | None, final: bool) -> None:
        """Store the outcomes of all members of an operation as they were counted; `final`: it is not listed again."""
        ...

    async def list_uncounted(self, limit: int) -> list[Operation]:
        """Return retries, newest first, whose outcomes were not noted as final; those that are preparing left out."""
        ...

    async def get(self, number: int) -> Operation:
        """Return an operation."""
        ...

    async def list_operations(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        """Return operations, newest first, filtered by number below `before`, not ended, and error signature."""
        ...

    async def list_for_job(self, job_id: str, limit: int) -> list[Operation]:
        """Return the operations that have changed a job, newest first."""
        ...

    async def list_members(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return up to `limit` changed members behind position `after`, in their order."""
        ...

    async def pending(self, number: int, limit: int) -> list[str]:
        """Return the ids of up to `limit` members that no step has taken yet, in their order."""
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...
