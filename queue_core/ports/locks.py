"""What a store adds in which a call can find what it needs locked by another transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from queue_core.errors import StoreRefused
from queue_core.model.job import Inserted, NewJob


class LockHeld(StoreRefused):
    """A lock was not to be had in time; nothing was written."""

    def __init__(self, backend: str) -> None:
        super().__init__(backend, "others hold rows that this needs, and do not let go of them", passing=True)


@runtime_checkable
class LockingStore(Protocol):
    """A store in which keys and the limits of queues stay locked until the transaction ends that has taken them.

    With `connection=` that is an application's own transaction, which may stay open for long.
    """

    async def insert_soon(self, jobs: Sequence[NewJob], patience: float, again: bool) -> list[Inserted]:
        """Write jobs as `insert` does, but wait for a lock for so many seconds at most.

        `again`: they have found a lock held before; calls that have not do not wait behind these.

        Raises:
            LockHeld: nothing was written.
        """
        ...
