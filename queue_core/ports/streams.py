"""What a store adds that begins to write a list of jobs before all of them are built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from queue_core.model.job import Inserted, NewJob


class JobParts(Protocol):
    """A long list of jobs that differ in id and payload alone; none of them needs a lock."""

    def __len__(self) -> int: ...

    def parts(self) -> Iterator[Sequence[NewJob]]:
        """Yield the jobs part by part; each is built when it is asked for the first time.

        It may raise an exception that is neither a store's nor the system's, such as an OSError.
        """
        ...


@runtime_checkable
class StreamingStore(Protocol):
    """A store that works on one part of a list while this process builds the next."""

    async def insert_parts(self, jobs: JobParts) -> list[Inserted]:
        """Write jobs as `insert` does, all or none; what building them raises is raised here, and nothing is written.

        Raises:
            QueueClosed: their queue is closed; nothing was written.
            StoreUnavailable: nothing was written, or, if all of them were built, it is not known whether it was.
        """
        ...
