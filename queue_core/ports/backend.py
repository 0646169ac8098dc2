"""A backend: the parts of a mode, opened and closed together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from queue_core.ports.delivery import Dispatcher, EventBus, NotificationHealth
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore
from queue_core.ports.schedules import ScheduleStore
from queue_core.ports.store import JobStore

if TYPE_CHECKING:
    from queue_core.delivery.pairing import Pairing
    from queue_core.redis.circuit import CircuitBreaker


class Backend(NamedTuple):
    """The store, the delivery and the operators' interfaces of a mode; optional parts are None."""

    store: JobStore
    inspector: Inspector
    # None: workers ask the store for its best ranks
    dispatcher: Dispatcher | None
    bus: EventBus
    schedules: ScheduleStore
    operations: OperationStore
    # whether Redis is in use, in a mode that can work without it
    circuit: CircuitBreaker | None = None
    # which Redis, if any, belongs to the database
    pairing: Pairing | None = None
    # whether notifications arrive, where workers are woken by them
    notification_health: NotificationHealth | None = None
    # makes sure that the store can be written, where that it can be read does not show it; raises StoreUnavailable
    check_writes: Callable[[], Awaitable[None]] | None = None

    async def open(self) -> None:
        """Connect to the store and check its schema; the other parts connect at their first use.

        Raises:
            StoreUnavailable, SchemaMissing, SchemaNewer: the store cannot be used.
        """
        await self.store.open()

    async def close(self) -> None:
        """Disconnect, the store last; idempotent."""
        for part in (self.dispatcher, self.bus, self.inspector, self.schedules, self.operations, self.store):
            if part is not None:
                await part.close()
