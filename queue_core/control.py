"""What operators do to jobs: the store changes first, then the dispatcher and the subscribers hear of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from queue_core.bus import EventBus
from queue_core.dispatch import Dispatcher, DispatchUnavailable
from queue_core.errors import InvalidArgument
from queue_core.events import Event, EventName
from queue_core.inspection import Changed, Inspector
from queue_core.job import Ready
from queue_core.validation import check_ids, check_timeout

_EVENTS = {
    "retry": EventName.RETRIED,
    "delete": EventName.DELETED,
    "restore": EventName.RESTORED,
    "purge": EventName.DELETED,
    "cancel": EventName.CANCELLED,
    "move": EventName.MOVED,
}


class Control:
    """The changing half of the operations path, complete with its effects outside the store."""

    def __init__(self, inspector: Inspector, dispatcher: Dispatcher | None, bus: EventBus) -> None:
        self._inspector = inspector
        self._dispatcher = dispatcher
        self._bus = bus

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Put dead and completed jobs back to queued; see `Inspector.retry`."""
        changed = await self._inspector.retry(check_ids(ids), check_timeout(spread) or 0.0)
        await self.tell("retry", changed)
        return changed

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        changed = await self._inspector.delete(check_ids(ids))
        await self.tell("delete", changed)
        return changed

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        changed = await self._inspector.restore(check_ids(ids))
        await self.tell("restore", changed)
        return changed

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good."""
        changed = await self._inspector.purge(check_ids(ids))
        await self.tell("purge", changed)
        return changed

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Cancel waiting jobs; ask the workers of running ones to stop them."""
        changed = await self._inspector.cancel(check_ids(ids))
        await self.tell("cancel", changed)
        return changed

    async def pause(self, queue: str) -> bool:
        """Let no worker claim from this queue."""
        done = await self._inspector.pause(_text(queue))
        await self._bus.publish([Event(EventName.QUEUE, queue, queue, extra={"state": "paused"})])
        return done

    async def resume(self, queue: str) -> bool:
        """Let workers claim from this queue again."""
        done = await self._inspector.resume(_text(queue))
        await self._bus.publish([Event(EventName.QUEUE, queue, queue, extra={"state": "resumed"})])
        return done

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings."""
        if not isinstance(worker, str) or command not in ("quiet", "resume", "stop"):
            raise InvalidArgument(f"an order to a worker is quiet, resume or stop, not {command!r} to {worker!r}")
        return await self._inspector.command(worker, command)

    async def tell(self, verb: str, changed: Changed) -> None:
        """Let the dispatcher and the subscribers hear of a change that the store has committed."""
        await self._offer(changed.ready)
        name = _EVENTS.get(verb)
        if name is not None and changed.ids:
            await self._tell(name, changed)

    async def _offer(self, ready: Sequence[Ready]) -> None:
        if self._dispatcher is None or not ready:
            return
        try:
            await self._dispatcher.offer(ready)
        except DispatchUnavailable:
            return  # the rows are committed; the audit offers them when the dispatcher is back

    async def _tell(self, name: EventName, changed: Changed) -> None:
        """One event a job; their queue is not known here when it is not ready, so they go out under none."""
        queues = {ready.id: ready.queue for ready in changed.ready}
        await self._bus.publish([Event(name, queues.get(job_id, ""), job_id) for job_id in changed.ids])


def _text(queue: object) -> str:
    if not isinstance(queue, str):
        raise InvalidArgument(f"a queue's name is a text, not {queue!r}")
    return queue
