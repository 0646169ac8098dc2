"""Draining a queue: it takes no new jobs, and what is in it runs, or is moved, until it is empty."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from queue_core.client.operating.verdict import check_options, short_text, shortened
from queue_core.errors import InvalidArgument, QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import Author, ChangeOptions, Operation, OperationRequest
from queue_core.model.states import WAITING, Status
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore

OPENED = "the queue was opened"
"""The note of a drain that ended so."""
MOST_MOVED = 1_000_000
"""Jobs that are moved; workers run the others."""
PAGE = 200
"""Operations that are read at a time, to find a later drain of a queue."""
NEAR = 20
"""Operations after a drain among which its move is looked for: the next one, unless others work at that moment."""


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
    """Close a queue, and return the operation that waits until it is empty.

    Raises:
        QueueNotFound: no queue has this name.
        InvalidArgument: nothing can be moved to that queue; nothing was done.
    """
    queue, move_to, author, why = request
    if move_to is not None:
        check_options("move", ChangeOptions(queue=move_to))
    if move_to == queue:
        raise InvalidArgument(f"what waits in '{queue}' cannot be moved to '{queue}'")
    asked = shortened(OperationRequest("drain", label_of(queue), author, why, ChangeOptions(queue=move_to)))
    number = (await store.create(asked)).number
    try:
        await store.set_closed(queue, True)
    except QueueCoreError as error:
        with contextlib.suppress(QueueCoreError):
            await store.move(number, "failed", short_text(str(error)))
        raise
    return await store.note_drain(number, await jobs_left(inspector, queue) or 0)


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
    before: int | None = None
    while page := await store.list_operations(PAGE, before):
        for one in page:
            if one.number <= drain.number:
                return False
            if (one.request.verb, one.request.label) == ("drain", drain.request.label) and one.state != "failed":
                return True
        before = page[-1].number
    return False


async def waiting_ids(inspector: Inspector, queue: str) -> list[str]:
    """Return the ids of the jobs that wait in a queue."""
    waits = [Term("status", "=", status, negated=True) for status in Status if status not in WAITING]
    return await inspector.ids(Filter((Term("queue", "=", queue), *waits)), MOST_MOVED)


def move_of(drain: Operation) -> OperationRequest:
    """Return the move of what waits in a queue that is drained."""
    request = drain.request
    why = f"drains #{drain.number}" + (f": {request.why}" if request.why else "")
    return OperationRequest("move", request.label, request.author, why, request.options)


async def moves_of(store: OperationStore, number: int) -> list[Operation]:
    """Return the move of what waited in a queue that an operation drains."""
    found = await store.list_operations(NEAR, number + NEAR)
    why = f"drains #{number}"
    return [one for one in found if one.request.verb == "move" and f"{one.request.why}:".startswith(f"{why}:")]


async def end_drains(store: OperationStore, queue: str) -> None:
    """End the operations that drain a queue, which was opened."""
    for one in await store.list_operations(MOST_MOVED, unfinished=True):
        if (one.request.verb, one.request.label) == ("drain", label_of(queue)):
            await store.move(one.number, "cancelled", OPENED)
