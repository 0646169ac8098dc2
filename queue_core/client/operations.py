"""Operators' changes and reads: `JobQueue.operations`.

An operation is written with its members, and then belongs to the store: the leader of the workers runs it, and so may
every console. The ready jobs and events of a change or a step are offered and published after its commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, get_args

from queue_core.client.effects import Effects, first_ready
from queue_core.client.operating.drain import (
    OPENED,
    DrainRequest,
    begin_drain,
    drained_again,
    end_drains,
    jobs_left,
    moves_of,
    queue_of,
)
from queue_core.client.operating.executor import POLL_SECONDS, Executor
from queue_core.client.operating.guarded import Guarded
from queue_core.client.operating.submission import REFUSED, submit
from queue_core.client.operating.verdict import check_options, check_request, read_outcomes, short_text, shortened
from queue_core.errors import InvalidArgument, QueueCoreError, QueueNotFound, StoreUnavailable
from queue_core.model.operation import (
    UNCHANGED,
    VERBS,
    Author,
    Changed,
    ChangeOptions,
    MemberVerb,
    Operation,
    OperationRequest,
    Outcomes,
    WorkerOrder,
)
from queue_core.model.report import JobStack
from queue_core.model.text import safe, storable
from queue_core.model.validation import check_id, check_ids
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore
from queue_core.ports.store import JobStore

T = TypeVar("T")

logger = logging.getLogger("queue_core.operations")


MEMBERS_PER_READ = 5000
"""Members that are read at a time."""
STACK_SECONDS, STACK_POLL = 2.0, 0.05
"""How long a worker is waited for that was asked for a stack, and the seconds between two reads."""
OUTCOMES_READ = 1000
"""Retried jobs whose outcomes are read."""


def this_author() -> Author:
    """Return the system user of this process and its host."""
    user = "unknown"
    with contextlib.suppress(OSError, KeyError, ImportError):
        user = getpass.getuser()
    return Author(user, socket.gethostname())


class Operations(Guarded):
    """Change jobs, queues and workers at once; or submit operations, watch them, undo them.

    Every method raises `StoreUnavailable` when the store is unreachable.
    """

    def __init__(self, store: OperationStore, effects: Effects, jobs: JobStore, inspector: Inspector) -> None:
        self._store = store
        self._effects = effects
        self._jobs = jobs
        self._inspector = inspector

    # -- at once, without a record

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        """Change these jobs: retry, delete, restore, purge, cancel or move those that are in a state for it.

        No author or reason is recorded; `submit` does the same step by step, and records them.

        Raises:
            InvalidArgument: it is no verb that changes jobs, no list of ids, or an option cannot be.
        """
        self._check(str(verb))
        changed = await self._store.change(verb, check_ids(ids), check_options(verb, options))
        await self._effects.publish(verb, changed)
        return changed

    async def pause_queue(self, queue: str) -> bool:
        """Stop claims from this queue; return False when it was already paused.

        Raises:
            QueueNotFound: no queue has this name.
        """
        self._check("pause")
        done = await self._store.pause(_queue(queue))
        logger.info("queue %s is paused", safe(queue), extra={"queue": safe(queue)})
        await self._effects.publish_queue(queue, "paused")
        return done

    async def resume_queue(self, queue: str) -> bool:
        """Allow claims from this queue again, and open it; return False when it was neither paused nor closed.

        Raises:
            QueueNotFound: no queue has this name.
        """
        self._check("resume")
        done = await self._store.resume(_queue(queue))
        await end_drains(self._store, queue)
        logger.info("queue %s is resumed", safe(queue), extra={"queue": safe(queue)})
        await self._effects.publish_queue(queue, "resumed", await first_ready(self._jobs, queue))
        return done

    async def drain_queue(
        self, queue: str, move_to: str | None = None, *, author: Author | None = None, why: str = ""
    ) -> Operation:
        """Close this queue, so that enqueues raise `QueueClosed`, and let its jobs run; return the operation.

        Executors note how far that is, and end it when the queue is empty. `resume_queue` and `undo` open the queue.
        `move_to`: an operation of its own moves what waits to this queue, begun by an executor where the store is lost.

        Raises:
            QueueNotFound: no queue has this name.
            InvalidArgument: nothing can be moved to that queue; nothing was done.
            OutcomeUnknown: the queue may be closed, and then it is drained; `undo` opens it.
        """
        self._check("drain")
        request = DrainRequest(_queue(queue), move_to, author or this_author(), why)
        operation = await begin_drain(self._store, self._inspector, request)
        logger.info("queue %s is closed", safe(queue), extra={"queue": safe(queue)})
        await self._effects.publish_queue(queue, "closed")
        return operation

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        """Store an order that a worker's next heartbeat returns; return False when there is no such worker."""
        self._check("command")
        if not isinstance(worker, str) or order not in get_args(WorkerOrder):
            raise InvalidArgument(f"an order to a worker is quiet, resume or stop, not {order!r} to {worker!r}")
        return storable(worker) == worker and await self._store.command(worker, order)

    # -- step by step, and recorded

    async def submit(
        self,
        request: OperationRequest,
        ids: Sequence[str],
        progress: Callable[[Operation], None] = lambda operation: None,
        chosen: float | None = None,
    ) -> Operation:
        """Write an operation on these jobs, which runs from now on; `progress` is called with each written state of it.

        One that is cancelled meanwhile is written no further and never runs. `chosen`: when the jobs were, by the
        store's clock (`Inspector.now`); what has ended since, or went to the trash, is skipped. None: now.

        Raises:
            InvalidArgument: it is no verb that changes jobs, or a value in it cannot be; nothing was written.
        """
        self._check("op submit")
        ids = check_ids(ids)
        return await submit(self._store, check_request(request), ids, progress, chosen)

    async def run(self, number: int, progress: Callable[[Operation], None] = lambda operation: None) -> Operation:
        """Take the steps of an operation until it has ended, is paused or was stopped, and return it.

        Others may take steps of it meanwhile; it continues when this call is cancelled and another executor runs.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op run")
        executor = self.executor()
        while True:
            wait = await executor.advance(operation := await self._store.get(number))
            progress(operation)
            if operation.state != "running":
                return operation
            # The time of its next step may be far away, and it may be paused or ended before.
            await asyncio.sleep(min(wait, POLL_SECONDS))

    def executor(self) -> Executor:
        """Return an executor of all operations of the store; any number of executors may work."""
        self._check("op executor")
        return Executor(self._store, self._effects, self._inspector)

    async def record(
        self,
        request: OperationRequest,
        act: Callable[[], Awaitable[T]],
        ids: Sequence[str] = (),
        on_record: Callable[[int], object] = lambda number: None,
    ) -> T:
        """Make a change at once and record it as an operation; its failure is recorded, too, and raised.

        The record is written before, so that no change is unrecorded; when its end cannot be written, that is logged,
        since the change is made. What is refused, so that nothing was done, leaves no record. `ids`: the jobs
        concerned. `on_record` is called with the record's number.

        Raises:
            InvalidArgument: a value in it cannot be; nothing was done.
        """
        self._check("op record")
        number = (await self._store.create(shortened(request))).number
        on_record(number)
        try:
            if ids:
                await self._store.add(number, check_ids(ids))
            result = await act()
        except REFUSED:
            with contextlib.suppress(QueueCoreError):
                await self._store.forget(number)
            raise
        except Exception as error:
            with contextlib.suppress(QueueCoreError):
                await self._store.move(number, "failed", short_text(str(error) or type(error).__name__))
            raise
        try:
            await self._store.move(number, "done", short_text(result) if isinstance(result, str) else "")
        except StoreUnavailable as error:
            # The change is made, even if its record fails.
            logger.warning("operation #%d (%s) is done, but that could not be noted: %s", number, request.verb, error)
        return result

    async def pause(self, number: int) -> bool:
        """Pause an operation; return False when it does not run.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op pause")
        return await self._store.move(number, "paused")

    async def resume(self, number: int) -> bool:
        """Resume a paused or stopped operation, a stopped one without its threshold; return False when it is neither.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op resume")
        # One that is preparing is started only by the process that writes its members.
        waits = (await self._store.get(number)).state in {"paused", "stopped"}
        return waits and await self._store.move(number, "running")

    async def cancel(self, number: int) -> bool:
        """End an operation at its present member; return False when it had already ended.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op cancel")
        return await self._store.move(number, "cancelled")

    async def undo(self, number: int, author: Author) -> list[Operation]:
        """Undo a delete or a move: submit operations that restore exactly its changed jobs; [] without an undo.

        The undo of a drain opens its queue, unless that was drained again since, and brings back what was moved.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op undo")
        request = (operation := await self._store.get(number)).request
        if request.verb == "drain":
            return await self._open(operation, author)
        facts = VERBS.get(request.verb)
        if facts is None or facts.undo is None or request.options.priority is not None:
            return []
        by_queue: dict[str | None, list[str]] = {}
        async for job_id, queue in self._changed(number):
            by_queue.setdefault(queue if facts.undo == "move" else None, []).append(job_id)
        back = OperationRequest(
            facts.undo, request.label, author, f"takes #{number} back", signatures=request.signatures
        )
        return [
            await self.submit(replace(back, options=ChangeOptions(queue=queue)), ids) for queue, ids in by_queue.items()
        ]

    async def opens(self, drain: Operation) -> bool:
        """Return whether the undo of a drain would do anything: open its queue, or bring back what was moved."""
        if await drained_again(self._store, drain):
            return False
        moved = any(one.processed for one in await moves_of(self._store, drain.number))
        return moved or await jobs_left(self._inspector, queue_of(drain)) is not None

    async def _open(self, drain: Operation, author: Author) -> list[Operation]:
        """Open the queue of a drain unless it was opened or drained again since, and bring back what was moved."""
        if await drained_again(self._store, drain):
            return []
        queue, back = queue_of(drain), list[Operation]()
        if await jobs_left(self._inspector, queue) is not None:
            why, numbers = f"undoes #{drain.number}", list[int]()
            request = OperationRequest("resume", drain.request.label, author, why)
            await self.record(request, partial(self._store.set_closed, queue, False), on_record=numbers.append)
            await self._effects.publish_queue(queue, "opened")
            await end_drains(self._store, queue)
            back = [await self._store.get(numbers[0])]
        await self._store.move(drain.number, "cancelled", OPENED)
        for one in await moves_of(self._store, drain.number):
            await self._store.move(one.number, "cancelled", OPENED)
            back += await self.undo(one.number, author)
        return back

    async def list_settling(self, limit: int = 100) -> list[Operation]:
        """Return the newest retries that have ended and of which some outcomes are not known yet."""
        found = await self._store.list_uncounted(limit)
        return [one for one in found if one.ended and one.processed]

    async def stage_outcomes(self, operation: Operation) -> Outcomes:
        """Return the outcomes that decide about an operation: of its canary, its ramp's step, or the last ones."""
        return await read_outcomes(self._store, operation)

    async def ask_stack(self, job_id: str, patience: float = STACK_SECONDS) -> JobStack | None:
        """Ask the worker of a running job where that is, and wait for its answer; None: the job does not run.

        A stack without `taken_at` was not answered in time; an answer that comes later is kept all the same.
        """
        self._check("job stack")
        asked, ends = await self._jobs.ask_stack(check_id(job_id)), time.monotonic() + patience
        while asked is not None and time.monotonic() < ends:
            await asyncio.sleep(STACK_POLL)
            for one in await self._jobs.stacks(job_id):
                if one.number == asked.number:
                    return one
        return asked

    async def stacks(self, job_id: str) -> list[JobStack]:
        """Return the stacks of a job that were taken while it ran, the newest first."""
        return await self._jobs.stacks(check_id(job_id))

    async def get(self, number: int) -> Operation:
        """Return an operation.

        Raises:
            OperationNotFound: there is no such operation.
        """
        return await self._store.get(number)

    async def list_operations(
        self, limit: int = 100, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        """Return operations, the newest first: older than a number, not ended, with an error signature."""
        if signature is not None and storable(signature) != signature:
            return []
        return await self._store.list_operations(limit, before, unfinished, signature)

    async def list_for_job(self, job_id: str, limit: int = 100) -> list[Operation]:
        """Return the operations that have changed a job, the newest first."""
        return await self._store.list_for_job(check_id(job_id), limit)

    async def outcomes(self, number: int, last: int = OUTCOMES_READ) -> Outcomes:
        """Return the outcomes of the last members that an operation has changed.

        Raises:
            OperationNotFound: there is no such operation.
        """
        return await self._store.outcomes(number, last)

    async def pending_ids(self, number: int, most: int = 1_000_000) -> frozenset[str]:
        """Return the ids of the jobs that an operation has yet to take, the next ones of more."""
        return frozenset(await self._store.pending(number, most))

    async def changed_ids(self, number: int, most: int = 1_000_000) -> list[str]:
        """Return the ids of the jobs that an operation has changed, in the order of its members.

        Raises:
            OperationNotFound: there is no such operation.
        """
        return [job_id async for job_id, _ in self._changed(number, most)]

    async def _changed(self, number: int, most: int = sys.maxsize) -> AsyncIterator[tuple[str, str]]:
        """Yield the id of each changed job and the queue that it was in when it was frozen."""
        after = 0
        while members := await self._store.list_members(number, after, min(MEMBERS_PER_READ, most)):
            for member in members:
                yield member.id, member.queue
            after, most = members[-1].place, most - len(members)


def _queue(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidArgument(f"a queue's name is a text, not {name!r}")
    if storable(name) != name:
        raise QueueNotFound(name)  # no store can have it, nor be asked for it
    return name
