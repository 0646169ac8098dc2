"""The protocol of lifecycle events: hints for whoever shows state, never the state itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
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

    async def wait_done(self, queue: str, job_id: str, timeout: float) -> bool:
        """Wait until the job may have finished; True when it was said, False after `timeout` seconds.

        Subscribing happens before the first suspension ends: read the store after starting this, then await it.
        """
        ...

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        ...
