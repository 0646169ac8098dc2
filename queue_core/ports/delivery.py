"""The protocols of delivery: dispatchers offer jobs to workers, buses carry events. Both are hints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

from queue_core.model.events import Event, EventBatch
from queue_core.model.job import Ready


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


# The protocol of delivery: who tells workers quickly which jobs may be ready.
#
# A dispatcher only nominates. What it loses, repeats or invents costs time, never a job and never a double claim.
# Every method raises `DispatchUnavailable`, within a bounded time, when the server behind it cannot be reached.


class DispatchUnavailable(Exception):
    """The dispatcher's server did not answer; the caller goes on with the store alone."""


class Taken(NamedTuple):
    """Candidates of one queue, best rank first."""

    queue: str
    # None: no candidates are known by id, ask the store for its best ranks
    ids: Sequence[str] | None


class Dispatcher(Protocol):
    """Ready sets, one per queue."""

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Make these jobs known and wake as many waiting workers; offering again is harmless."""
        ...

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Taken | None:
        """Wait until one of the queues has candidates, first in the order given, and take up to `limit` of them.

        None after `timeout` seconds without any. Cancelling the call loses at most what the audit finds again.
        """
        ...

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Drop candidates that are no longer ready."""
        ...

    async def lacking(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return those of the store's first ready jobs, of any number of queues, that the ready sets do not hold."""
        ...

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return those whose ready sets may have lost jobs since `mark`: emptied, restored or failed over."""
        ...

    async def mark(self, queue: str) -> None:
        """Declare the ready set whole, after a rebuild."""
        ...

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        ...

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server: version, persistence, memory policy, clock, ready sets."""
        ...

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        ...


class Hearing(Protocol):
    """Notifications only save looks into the store: where they do not arrive, everybody looks."""

    @property
    def arriving(self) -> bool:
        """Whether a notification was heard lately; False until the first one."""
        ...

    @property
    def reason(self) -> str:
        """Why they do not arrive; "" while they do, and while it is not known."""
        ...

    @property
    def lost_since(self) -> float | None:
        """The seconds since the epoch since when they are known not to arrive; None: they do, or it is not known."""
        ...

    async def known(self, seconds: float) -> bool:
        """Listen, wait until it is known whether they arrive, at most so long, and return whether they do."""
        ...
