"""What a store adds whose server delivers, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from queue_core.model.job import Inserted, NewJob


@runtime_checkable
class OfferingStore(Protocol):
    """A store that can offer the jobs that it writes."""

    apart: bool
    """Whether its queues are on several servers: a call that reaches two of them waits for both."""

    def offers(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether `insert_offered` takes these jobs, whose ids are new."""
        ...

    async def insert_offered(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write jobs as `insert` does, offer them to workers and publish their events, in one step."""
        ...

    async def insert_new(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write jobs as `insert` does whose ids are new: no other queue is asked for them."""
        ...
