"""The protocol of delivery: who tells workers quickly which jobs may be ready.

A dispatcher only nominates. What it loses, repeats or invents costs time, never a job and never a double claim.
Every method raises `DispatchUnavailable`, within a bounded time, when the server behind it cannot be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from queue_core.job import Ready


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
