"""From settings to the parts of a queue. Drivers are imported on demand: a mode loads only what it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queue_core.bus import EventBus
from queue_core.delivery.circuit import Circuit
from queue_core.delivery.pairing import Pairing
from queue_core.dispatch import Dispatcher
from queue_core.errors import ConfigurationError
from queue_core.hearing import Hearing
from queue_core.inspection import Inspector
from queue_core.operations import OperationStore
from queue_core.schedules import ScheduleStore
from queue_core.settings import JobsSettings
from queue_core.store import JobStore

if TYPE_CHECKING:
    from queue_core.stores.memory.store import MemoryStore


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


def open_parts(settings: JobsSettings) -> Parts:
    """Return the unopened parts of a mode.

    Raises:
        ConfigurationError: the mode is not one of those that this version has, or an address is missing.
    """
    if settings.mode == "postgres+redis":
        return _postgres_redis(settings)
    if settings.mode == "postgres":
        return _postgres(settings)
    if settings.mode == "redis":
        return _redis(settings)
    if settings.mode == "sqlite":
        return _sqlite(settings)
    if settings.mode == "memory":
        return _memory(settings)
    raise ConfigurationError(
        f"mode '{settings.mode}' is not available; set jobs.postgres.url and jobs.redis.url "
        "with queue_backend 'redis', or queue_backend 'sqlite' or 'memory'"
    )


def _postgres_redis(settings: JobsSettings) -> Parts:
    from queue_core.delivery.redis.bus import RedisEventBus
    from queue_core.delivery.redis.dispatcher import RedisDispatcher
    from queue_core.stores.postgres.connecting import place_of
    from queue_core.stores.postgres.inspector import PostgresInspector
    from queue_core.stores.postgres.operations import PostgresOperations
    from queue_core.stores.postgres.schedules import PostgresSchedules
    from queue_core.stores.postgres.store import PostgresStore

    circuit = Circuit("redis")
    store = PostgresStore(settings.postgres, settings.retention, settings.queues)
    dispatcher = RedisDispatcher(settings.redis, circuit)
    return Parts(
        store,
        PostgresInspector(settings.postgres, settings.queues),
        dispatcher,
        RedisEventBus(settings.redis, circuit),
        PostgresSchedules(settings.postgres, store),
        PostgresOperations(settings.postgres, settings.queues),
        circuit,
        Pairing(store, dispatcher, place_of(settings.postgres)),
    )


def _postgres(settings: JobsSettings) -> Parts:
    from queue_core.stores.postgres.bus import PostgresEventBus
    from queue_core.stores.postgres.delivery import PostgresDispatcher
    from queue_core.stores.postgres.inspector import PostgresInspector
    from queue_core.stores.postgres.listening import Notifications
    from queue_core.stores.postgres.operations import PostgresOperations
    from queue_core.stores.postgres.schedules import PostgresSchedules
    from queue_core.stores.postgres.store import PostgresStore

    notifications = Notifications(settings.postgres)
    store = PostgresStore(settings.postgres, settings.retention, settings.queues, notifications)
    return Parts(
        store,
        PostgresInspector(settings.postgres, settings.queues),
        PostgresDispatcher(settings.postgres, notifications),
        PostgresEventBus(settings.postgres, notifications),
        PostgresSchedules(settings.postgres, store),
        PostgresOperations(settings.postgres, settings.queues),
        pairing=Pairing(store, None),
        hearing=notifications,
    )


def _redis(settings: JobsSettings) -> Parts:
    from queue_core.delivery.redis.bus import RedisEventBus
    from queue_core.delivery.redis.dispatcher import RedisDispatcher
    from queue_core.stores.redis.inspector import RedisInspector
    from queue_core.stores.redis.operations import RedisOperations
    from queue_core.stores.redis.schedules import RedisSchedules
    from queue_core.stores.redis.store import RedisStore

    circuit = Circuit("redis", meanwhile="waiting for its return")
    return Parts(
        RedisStore(settings.redis, settings.retention, settings.queues),
        RedisInspector(settings.redis, settings.queues),
        RedisDispatcher(settings.redis, circuit, ready="offered"),
        RedisEventBus(settings.redis, circuit),
        RedisSchedules(settings.redis, settings.queues),
        RedisOperations(settings.redis, settings.queues),
    )


def _sqlite(settings: JobsSettings) -> Parts:
    from queue_core.stores.sqlite.bus import SqliteEventBus
    from queue_core.stores.sqlite.delivery import SqliteDispatcher
    from queue_core.stores.sqlite.file import SqliteFile
    from queue_core.stores.sqlite.inspector import SqliteInspector
    from queue_core.stores.sqlite.operations import SqliteOperations
    from queue_core.stores.sqlite.schedules import SqliteSchedules
    from queue_core.stores.sqlite.store import SqliteStore
    from queue_core.stores.sqlite.watching import Watcher

    file = SqliteFile(settings.sqlite)
    watcher = Watcher(file)
    return Parts(
        SqliteStore(file, settings.retention, settings.queues),
        SqliteInspector(file, settings.queues),
        SqliteDispatcher(file, watcher),
        SqliteEventBus(file, watcher),
        SqliteSchedules(file, settings.queues),
        SqliteOperations(file, settings.queues),
    )


def _memory(settings: JobsSettings) -> Parts:
    from queue_core.clock import SystemClock
    from queue_core.delivery.local import LocalDispatcher
    from queue_core.stores.memory.store import MemoryStore

    store = MemoryStore(SystemClock(), settings.retention, settings.queues)
    return memory_parts(store)._replace(dispatcher=LocalDispatcher())


def memory_parts(store: MemoryStore) -> Parts:
    """Return the parts around a store in memory, without a dispatcher."""
    from queue_core.delivery.local import LocalEventBus
    from queue_core.stores.memory.inspector import MemoryInspector
    from queue_core.stores.memory.operations import MemoryOperations
    from queue_core.stores.memory.schedules import MemorySchedules

    return Parts(store, MemoryInspector(store), None, LocalEventBus(), MemorySchedules(store), MemoryOperations(store))
