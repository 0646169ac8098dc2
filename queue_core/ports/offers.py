"""What a store adds whose server delivers, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from queue_core.model.job import Inserted, NewJob


@runtime_checkable
class OfferingStore(Protocol):
    """A store that can offer the jobs that it writes."""

    def offers(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether `insert_offered` takes these jobs, whose ids are new."""
        ...

    async def insert_offered(self, jobs: Sequence[NewJob]) -> list[Inserted]:
        """Write jobs as `insert` does, offer them to workers and publish their events, in one step."""
        ...
