"""What a mode is made of: the parts that a queue object opens."""

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


class Parts(NamedTuple):
    """What a mode is made of."""

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
