"""What a store adds whose server has replicas."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable


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
