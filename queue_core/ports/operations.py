"""What operators change in a store: jobs, queues, workers, and operations with their members, steps and record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from queue_core.model.operation import (
    AS_IT_WAS,
    Changed,
    MemberJob,
    MemberVerb,
    NewOperation,
    Operation,
    OperationState,
    Outcomes,
    Step,
    Way,
    WorkerOrder,
)


class OperationStore(Protocol):
    """Where operators change things. Every method raises `StoreUnavailable`, within a bounded time, when it is away.

    Those that take a number raise `OperationNotFound` when there is no such operation.
    """

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: Way = AS_IT_WAS) -> Changed:
        """Change those of these jobs that are in a state that the verb acts on; see `VERBS`. A step does the same.

        retry: to queued with retry count 0, or to scheduled when they are put off; the crash count stays. They queue
        up behind what waits with their priority, so that a bulk retry does not push in front of live work.
        delete: to the trash. restore: from the trash back into the DLQ. purge: remove them from the trash for good;
        the totals go on counting them.
        cancel: waiting jobs to cancelled; the workers of running ones are asked to stop them. A running job may still
        complete or die before its worker hears of it, but it does not run again.
        move: to another queue or priority, in the state that they are in.

        `options`: how retried or moved jobs go on.
        """
        ...

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue; False when it was paused already.

        Raises:
            QueueNotFound: no queue has this name.
        """
        ...

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again; False when it was not paused.

        Raises:
            QueueNotFound: no queue has this name.
        """
        ...

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        """Give a worker an order that its next heartbeat brings; False when there is no such worker."""
        ...

    async def create(self, asked: NewOperation) -> Operation:
        """Write a new operation, preparing and without members."""
        ...

    async def add(self, number: int, ids: Sequence[str]) -> Operation:
        """Append members to a preparing operation, each with the token and the queue that its job has now.

        Unknown ids count as members, too: they will be skipped. Ids that it has already are left out. Nothing is
        added to one that is not preparing any more.
        """
        ...

    async def step(self, number: int, most: int) -> Step:
        """Change the next `most` members of a running operation that are as they were frozen, and count all of them.

        All or nothing, and once: of several executors each takes other members, or none. A member is as it was
        frozen when its job has the token of that time, for a claim gives another one and so does
        each retry, move, delete and restore; the verb's own states are checked as by `change`. Nothing
        happens before the time that the rate of the last step leaves, behind the barrier, or in another state. After
        the last member it is done.
        """
        ...

    async def err(self, number: int, note: str) -> Operation:
        """Count the next member of a running operation as errored, without changing it, and note why."""
        ...

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        """Move an operation to another state, with a note; False when `MOVES` does not lead there from where it is.

        From preparing to running its barrier is set: to its canary, where that is smaller than its members, and one
        without members is done. From preparing to done, all was done at once: its members count as changed. From
        stopped to running it goes on to the end, without a threshold.
        """
        ...

    async def release(self, number: int) -> bool:
        """Let a running operation go on behind its canary; False when it had no barrier left, or does not run."""
        ...

    async def abandon(self) -> None:
        """Cancel operations that are still preparing `ABANDONED` seconds after their last change."""
        ...

    async def outcomes(self, number: int, last: int) -> Outcomes:
        """Return what became of the last `last` members that were changed."""
        ...

    async def get(self, number: int) -> Operation:
        """Return an operation."""
        ...

    async def find(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        """Return operations, the newest first: older than a number, not ended, with this error signature."""
        ...

    async def of_job(self, job_id: str, limit: int) -> list[Operation]:
        """Return the operations that have changed a job, the newest first."""
        ...

    async def changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        ...

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        ...
