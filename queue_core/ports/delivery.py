"""The protocols of delivery: dispatchers offer jobs to workers, buses carry events. Both are hints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from queue_core.model.events import Event, EventBatch
from queue_core.model.job import Ready


class EventBus(Protocol):
    """Publish and subscribe. Delivery is at most once; a gap is an `EventBatch` with `gap` set."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events, many in one message; a failure never raises an error in the caller."""
        ...

    async def omits(self, queues: Collection[str]) -> bool:
        """Return whether the events of a long list of jobs of these queues may be left out.

        There are no subscribers, and the end of no job of them is waited for; or there is no room for the events, and
        subscribers see a gap.
        """
        ...

    def report_gap(self, queues: Collection[str]) -> None:
        """Note that events of these queues were dropped: subscribers see a gap, soon and also if nothing follows."""
        ...

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they arrive, without end; reconnect by itself and report possible losses as a gap."""
        ...

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job; no event inside the context is missed.

        Read the store inside the context, then call the function that it yields: `await wait(seconds)` returns
        True when the job may have finished. A bus that cannot listen now, or that may leave out events, waits for the
        time, or a part of it, and returns False.
        """
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...


# The protocol of dispatchers: they notify workers quickly of jobs that may be ready.
#
# A dispatcher only nominates. What it loses, repeats or invents costs time, never a job and never a double claim.
# Every method raises `DispatchUnavailable`, within a bounded time, when the server behind it cannot be reached.


class DispatchUnavailable(Exception):
    """The dispatcher's server did not answer; the caller continues with the store alone."""


class Nomination(NamedTuple):
    """Candidates of one queue, best rank first."""

    queue: str
    # None: no candidates are known by id, ask the store for its best ranks
    ids: Sequence[str] | None


class Dispatcher(Protocol):
    """Ready sets, one per queue."""

    holds_ids: bool
    """Whether it holds candidates by id, so that it may lack some; else it notifies of queues."""

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Add jobs to the ready sets and wake as many waiting workers; idempotent."""
        ...

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        """Wait until one of the queues has candidates, first in the order given, and take up to `limit` of them.

        None after `timeout` seconds without any. Cancelling the call loses at most candidates that the audit restores.
        """
        ...

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Remove candidates that are no longer ready."""
        ...

    async def missing(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return which of the store's first ready jobs, of any number of queues, the ready sets lack."""
        ...

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return the queues whose ready sets may lack jobs since `mark_current`: emptied, restored, failed over."""
        ...

    async def mark_current(self, queue: str) -> None:
        """Mark a queue's ready set as complete, after a rebuild."""
        ...

    async def ping(self) -> float:
        """Return the seconds that one round trip takes."""
        ...

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server: version, persistence, memory policy, clock, ready sets."""
        ...

    async def close(self) -> None:
        """Disconnect; idempotent."""
        ...


@runtime_checkable
class AnnouncingDispatcher(Protocol):
    """A dispatcher whose server carries events, too."""

    async def announce(self, ready: Sequence[Ready], events: Sequence[Event]) -> None:
        """Offer jobs and publish events, those of a queue in one step; a few hundred at most."""
        ...


@runtime_checkable
class WritingDispatcher(Protocol):
    """A dispatcher whose server may read and refuse to write."""

    async def try_write(self) -> None:
        """Send a write that changes nothing.

        Raises:
            DispatchUnavailable: the server does not answer, or refuses it, being full for example. Of a user who may
                only read that is not known.
        """
        ...


class NotificationHealth(Protocol):
    """Whether notifications arrive. They only save reads: without them all processes poll the store."""

    @property
    def arriving(self) -> bool:
        """Whether a notification was received recently; False until the first one."""
        ...

    @property
    def reason(self) -> str:
        """The reason why notifications do not arrive; "" while they do, and while it is not known."""
        ...

    @property
    def advice(self) -> str:
        """What to do about that; "" where nothing but the reason is to be mended."""
        ...

    @property
    def explanation(self) -> str:
        """The reason and what to do about it in one text."""
        ...

    @property
    def lost_since(self) -> float | None:
        """The seconds since the epoch since when they are known not to arrive; None: they do, or it is not known."""
        ...

    async def known(self, seconds: float) -> bool:
        """Listen, wait up to `seconds` until it is known whether notifications arrive, and return whether they do."""
        ...


class Led(NamedTuple):
    """The leader of a duty, such as that of the pairing of a store and its dispatcher."""

    worker: str
    # until the leadership ends; below 0: it has ended
    seconds: float
