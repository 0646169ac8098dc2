"""A backend: what a mode is made of, opened and closed as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queue_core.ports.delivery import Dispatcher, EventBus, Hearing
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore
from queue_core.ports.schedules import ScheduleStore
from queue_core.ports.store import JobStore
from queue_core.runtime import Circuit

if TYPE_CHECKING:
    from queue_core.delivery.pairing import Pairing


class Backend(NamedTuple):
    """The store, the delivery and the operators' side of a mode, as far as it has them."""

    store: JobStore
    inspector: Inspector
    # None: workers ask the store for its best ranks
    dispatcher: Dispatcher | None
    bus: EventBus
    schedules: ScheduleStore
    operations: OperationStore
    # whether Redis, where a mode goes on without it, is in use
    circuit: Circuit | None = None
    # whether that Redis, or none, is the one that works with the database
    pairing: Pairing | None = None
    # whether notifications arrive, where workers are woken by them
    hearing: Hearing | None = None

    async def open(self) -> None:
        """Connect to the store and check its schema; all else connects when it is first used.

        Raises:
            StoreUnavailable, SchemaMissing, SchemaNewer: the store cannot be used.
        """
        await self.store.open()

    async def close(self) -> None:
        """Disconnect, the store last; doing it twice is safe."""
        for part in (self.dispatcher, self.bus, self.inspector, self.schedules, self.operations, self.store):
            if part is not None:
                await part.close()
