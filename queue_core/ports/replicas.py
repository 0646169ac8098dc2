"""What a store adds whose server has replicas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from queue_core.model.job import Inserted, NewJob

Announce = Callable[[Sequence[NewJob], Sequence[Inserted]], Awaitable[None]]
"""Offers written jobs, and publishes their events."""


@runtime_checkable
class ReplicatedStore(Protocol):
    """A store that can wait for replicas."""

    async def confirm(self, queues: Collection[str]) -> None:
        """Wait until as many replicas as its settings ask for have all that was written to these queues.

        An insert does so for what it writes; a job of one without an answer may be known to a server alone whose
        place another one takes.

        Raises:
            StoreUnavailable: they did not have it in time.
        """
        ...


@runtime_checkable
class RestoringStore(Protocol):
    """A store that writes jobs again which a primary has lost that another one replaced."""

    def remember(self, jobs: Sequence[NewJob]) -> None:
        """Remember jobs that were found in the store after an insert without an answer; those of an insert are."""
        ...

    def on_restored(self, call: Announce) -> None:
        """Register what is awaited with jobs that were written again."""
        ...
