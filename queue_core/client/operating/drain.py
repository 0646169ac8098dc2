"""Draining a queue: it takes no new jobs, and what is in it runs, or is moved, until it is empty."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

from queue_core.client.operating.submission import NOT_WRITTEN, write
from queue_core.client.operating.verdict import check_options, short_text, shortened
from queue_core.errors import (
    InvalidArgument,
    OperationNotFound,
    OutcomeUnknown,
    QueueCoreError,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import Author, ChangeOptions, Operation, OperationRequest
from queue_core.model.states import WAITING, Status
from queue_core.model.text import safe
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore

logger = logging.getLogger("queue_core.operations")

OPENED = "the queue was opened"
"""The note of a drain that ended so."""
DRAINS = "drains #"
"""With the drain's number behind it: how the reason of a drain's move begins."""
MAX_MOVED = 1_000_000
"""Jobs that are moved; workers run the others."""
OPERATIONS_PER_READ = 200
"""Operations that are read at a time, to find a later drain of a queue, or the move of a drain."""
TAKEOVER_SECONDS = 10.0
"""Seconds after the last step of a drain that has not begun, or of its move, at which executors take the next one."""


class DrainRequest(NamedTuple):
    """What is asked for."""

    queue: str
    # where what waits goes; None: it stays
    move_to: str | None
    author: Author
    why: str


def label_of(queue: str) -> str:
    """Return what an operation on a queue acts on."""
    return f"queue {queue}"


def queue_of(drain: Operation) -> str:
    """Return the queue that an operation drains."""
    return drain.request.label.removeprefix("queue ")


async def begin_drain(store: OperationStore, inspector: Inspector, request: DrainRequest) -> Operation:
    """Close a queue, begin the move of what waits in it, and return the operation that waits until it is empty.

    Once the queue is closed, executors take the steps that could not be taken here; see `carry_on`.

    Raises:
        QueueNotFound: no queue has this name.
        InvalidArgument: nothing can be moved to that queue; nothing was done.
        OutcomeUnknown: the queue may be closed, and then it is drained.
    """
    queue, move_to, author, why = request
    check_moved(queue, move_to)
    asked = shortened(OperationRequest("drain", label_of(queue), author, why, ChangeOptions(queue=move_to)))
    drain = await store.create(asked)
    await _close(store, queue, drain.number)
    try:
        drain, move = await _note(store, inspector, drain)
    except StoreUnavailable as error:
        raise OutcomeUnknown(error.backend, error.reason, drain.number) from error
    if move is not None:
        try:
            await _write_move(store, inspector, drain, move)
        except StoreUnavailable as error:
            logger.warning(
                "an executor begins operation #%d, which empties queue %s: %s", move.number, safe(queue), error
            )
    return drain


def check_moved(queue: str, move_to: str | None) -> None:
    """Check where what waits in a queue that is drained is to go; None: it stays.

    Raises:
        InvalidArgument: nothing can be moved to that queue.
    """
    if move_to is not None:
        check_options("move", ChangeOptions(queue=move_to))
    if move_to == queue:
        raise InvalidArgument(f"what waits in '{queue}' cannot be moved to '{queue}'")


async def _close(store: OperationStore, queue: str, number: int) -> None:
    try:
        await store.set_closed(queue, True)
    except QueueCoreError as error:
        if isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused):
            raise OutcomeUnknown(error.backend, error.reason, number) from error
        with contextlib.suppress(QueueCoreError):
            await store.move(number, "failed", short_text(str(error)))
        raise


async def _note(store: OperationStore, inspector: Inspector, drain: Operation) -> tuple[Operation, Operation | None]:
    """Begin the drain of a closed queue, with the record of its move first: no drain runs without it."""
    left = await jobs_left(inspector, queue_of(drain)) or 0
    move = await _record_move(store, drain) if left and drain.request.options.queue is not None else None
    return await store.note_drain(drain.number, left), move


async def _record_move(store: OperationStore, drain: Operation) -> Operation:
    """Return the move of a drain; where it has none, make its record. Of several that are made at once, one stays."""
    found = await moves_of(store, drain.number)
    if not found:
        made = await store.create(shortened(move_of(drain)))
        found = await moves_of(store, drain.number)
        if found[-1].number != made.number:
            await store.move(made.number, "cancelled", NOT_WRITTEN)
    return found[-1]


async def _write_move(store: OperationStore, inspector: Inspector, drain: Operation, move: Operation) -> None:
    """Write what waits into the move of a drain, and start it. Its members are written once, however many do this."""
    await write(store, move, await waiting_ids(inspector, queue_of(drain)))


async def carry_on(store: OperationStore, inspector: Inspector, operation: Operation) -> None:
    """Take the next step of a preparing drain, or of its move, which its author has left alone for `TAKEOVER_SECONDS`.

    The author went away, or its store did. Any number of executors may do this at one moment, and the author, too.
    """
    is_drain = operation.request.verb == "drain"
    if not is_drain and not (operation.request.verb == "move" and operation.request.why.startswith(DRAINS)):
        return
    overview = await inspector.overview()
    if (overview.now - operation.updated_at).total_seconds() < TAKEOVER_SECONDS:
        return
    if is_drain:
        closed = any(one.name == queue_of(operation) and one.closed for one in overview.queues)
        # An open queue was not closed by this one, and a later drain has this queue: it is abandoned like others.
        if closed and not await drained_again(store, operation):
            operation, move = await _note(store, inspector, operation)
            if move is not None:
                await _write_move(store, inspector, operation, move)
    elif (drain := await _drain_of(store, operation)) is not None and drain.state == "running":
        await _write_move(store, inspector, drain, operation)
    elif drain is not None and drain.ended:
        await store.move(operation.number, "cancelled", NOT_WRITTEN)


async def _drain_of(store: OperationStore, move: Operation) -> Operation | None:
    """Return the drain that a move belongs to; None: to none."""
    number = move.request.why.removeprefix(DRAINS).partition(":")[0]
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    try:
        drain = await store.get(int(number))
    except OperationNotFound:
        return None
    asked = (drain.request.verb, drain.request.label, drain.request.options.queue)
    return drain if asked == ("drain", move.request.label, move.request.options.queue) else None


async def jobs_left(inspector: Inspector, queue: str) -> int | None:
    """Return how many unfinished jobs a closed queue has; None: it is not closed."""
    for one in (await inspector.overview()).queues:
        if one.name == queue and one.closed:
            return one.pending + one.running
    return None


async def watch_drain(store: OperationStore, inspector: Inspector, operation: Operation) -> Operation:
    """Note how many jobs are left; where the queue was opened, the operation ends."""
    left = await jobs_left(inspector, queue_of(operation))
    if left is not None:
        return await store.note_drain(operation.number, left)
    await store.move(operation.number, "cancelled", OPENED)
    return await store.get(operation.number)


async def drained_again(store: OperationStore, drain: Operation) -> bool:
    """Return whether a later operation drains, or has drained, the same queue: then its being closed is that one's."""
    async for one in _later(store, drain.number):
        if (one.request.verb, one.request.label) == ("drain", drain.request.label) and one.state != "failed":
            return True
    return False


async def _later(store: OperationStore, number: int) -> AsyncIterator[Operation]:
    """Yield the operations behind one, the newest first."""
    before: int | None = None
    while page := await store.list_operations(OPERATIONS_PER_READ, before):
        for one in page:
            if one.number <= number:
                return
            yield one
        before = page[-1].number


async def waiting_ids(inspector: Inspector, queue: str) -> list[str]:
    """Return the ids of the jobs that wait in a queue."""
    waits = [Term("status", "=", status, negated=True) for status in Status if status not in WAITING]
    return await inspector.ids(Filter((Term("queue", "=", queue), *waits)), MAX_MOVED)


def move_of(drain: Operation) -> OperationRequest:
    """Return the move of what waits in a queue that is drained."""
    request = drain.request
    why = f"{DRAINS}{drain.number}" + (f": {request.why}" if request.why else "")
    return OperationRequest("move", request.label, request.author, why, request.options)


async def moves_of(store: OperationStore, number: int) -> list[Operation]:
    """Return the move of what waited in a queue that an operation drains, the oldest of several last."""
    return [one async for one in _later(store, number) if is_move_of(one, number)]


def is_move_of(operation: Operation, number: int) -> bool:
    """Return whether an operation moves what waited in the queue that operation `number` drains."""
    return operation.request.verb == "move" and f"{operation.request.why}:".startswith(f"{DRAINS}{number}:")


async def end_drains(store: OperationStore, queue: str) -> None:
    """End the operations that drain a queue, which was opened."""
    for one in await store.list_operations(MAX_MOVED, unfinished=True):
        if (one.request.verb, one.request.label) == ("drain", label_of(queue)):
            await store.move(one.number, "cancelled", OPENED)
