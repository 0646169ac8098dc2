"""The protocol of lifecycle events: hints for whoever shows state, never the state itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from queue_core.events import Event, EventBatch


class EventBus(Protocol):
    """Publish and subscribe. Delivery is at most once; a gap shows as a `EventBatch` with `gap` set."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events, many in one message; failing to is never an error of the caller."""
        ...

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; reconnects by itself and reports what it may have missed as a gap."""
        ...

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, nothing said from then on is missed.

        Read the store inside the context, then await what it gives: `await wait(seconds)` is True when the job may have
        finished. A bus that cannot listen now waits out the time, or a part of it, and says False.
        """
        ...

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        ...
