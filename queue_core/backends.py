"""From settings to an open backend, and to a store's schema. Drivers are imported on demand: a mode loads what it uses.

A backend belongs to the process and the event loop that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from queue_core.delivery.pairing import Pairing
from queue_core.errors import ConfigurationError
from queue_core.model.settings import JobsSettings
from queue_core.ports.backend import Backend
from queue_core.ports.home import Home
from queue_core.redis.circuit import CircuitBreaker
from queue_core.runtime import is_served, leave, watch_forks

if TYPE_CHECKING:
    from queue_core.stores.memory.store import MemoryStore
    from queue_core.stores.sql.migrations import Pending


def open_backend(settings: JobsSettings) -> Backend:
    """Return the backend of a mode, not opened yet.

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


def pending(settings: JobsSettings) -> Pending:
    """Return what `migrate` would do with the store of a mode, which this does not change.

    Raises:
        ConfigurationError, StoreUnavailable, SchemaError: see `migrate`.
    """
    if settings.mode == "sqlite":
        from queue_core.stores.sqlite import migrate as sqlite

        return sqlite.pending(settings.sqlite)
    if settings.mode == "redis":
        from queue_core.stores.redis import migrate as redis
        from queue_core.stores.sql.migrations import Pending

        return Pending(*redis.pending(settings.redis))
    from queue_core.stores.postgres import migrate as postgres

    return postgres.pending(_database(settings), settings.postgres.schema)


def migrate(settings: JobsSettings) -> tuple[list[int], int]:
    """Bring the store of a mode to the newest schema; return the versions that were applied, and the newest one.

    Any number of processes may do it at once.

    Raises:
        ConfigurationError: an address is missing or cannot be read.
        StoreUnavailable: the store cannot be reached or written, or stayed locked.
        SchemaError: a newer version has made the schema, or a migration failed; those before it stay.
    """
    if settings.mode == "sqlite":
        from queue_core.stores.sqlite import migrate as sqlite

        return sqlite.migrate(settings.sqlite), sqlite.KNOWN
    if settings.mode == "redis":
        from queue_core.stores.redis import migrate as redis
        from queue_core.stores.redis.session import SCHEMA

        return redis.migrate(settings.redis), SCHEMA
    from queue_core.stores.postgres import migrate as postgres

    return postgres.migrate(_database(settings), settings.postgres.schema), postgres.KNOWN


def drop(settings: JobsSettings) -> None:
    """Remove all that a mode keeps on its servers: the schema with everything in it, the keys that its prefix begins.

    Raises:
        ConfigurationError: an address is missing or cannot be read.
        StoreUnavailable: a server cannot be reached, or refuses it.
        SchemaError: this role may not.
    """
    if settings.mode.startswith("postgres"):
        from queue_core.stores.postgres import migrate as postgres

        postgres.drop(_database(settings), settings.postgres.schema)
    if settings.mode.endswith("redis"):
        from queue_core.stores.redis import migrate as redis

        redis.drop(settings.redis)


def _database(settings: JobsSettings) -> str:
    if settings.postgres.url is None:
        raise ConfigurationError("jobs.postgres.url is not set")
    return settings.postgres.url.get_secret_value()


def _postgres_redis(settings: JobsSettings) -> Backend:
    from queue_core.delivery.cluster_dispatcher import make_dispatcher
    from queue_core.delivery.redis_events import RedisEventBus
    from queue_core.redis.client import make_pipelined
    from queue_core.stores.postgres.operations import PostgresOperations
    from queue_core.stores.postgres.read import PostgresInspector
    from queue_core.stores.postgres.schedules import PostgresSchedules
    from queue_core.stores.postgres.session.connection import place_of
    from queue_core.stores.postgres.store import PostgresStore

    rules = settings.rules
    circuit = CircuitBreaker("redis")
    store = PostgresStore(settings.postgres, settings.retention, rules)
    pipelined = make_pipelined(settings.redis)
    dispatcher = make_dispatcher(settings.redis, circuit, pipelined)
    store.on_new_queues(dispatcher.begin)
    inspector = PostgresInspector(settings.postgres, rules)
    return Backend(
        store,
        inspector,
        dispatcher,
        RedisEventBus(settings.redis, circuit, pipelined, rules),
        PostgresSchedules(settings.postgres, store),
        PostgresOperations(settings.postgres, rules),
        circuit,
        Pairing(store, dispatcher, place_of(settings.postgres)),
        check_writes=inspector.check_writes,
    )


def _postgres(settings: JobsSettings) -> Backend:
    from queue_core.stores.postgres.delivery.dispatcher import PostgresDispatcher
    from queue_core.stores.postgres.delivery.events import PostgresEventBus
    from queue_core.stores.postgres.operations import PostgresOperations
    from queue_core.stores.postgres.read import PostgresInspector
    from queue_core.stores.postgres.schedules import PostgresSchedules
    from queue_core.stores.postgres.session.listening import Notifications
    from queue_core.stores.postgres.store import PostgresStore

    rules = settings.rules
    notifications = Notifications(settings.postgres)
    store = PostgresStore(settings.postgres, settings.retention, rules, notifications)
    bus = PostgresEventBus(settings.postgres, notifications, rules)
    inspector = PostgresInspector(settings.postgres, rules)
    return Backend(
        store,
        inspector,
        PostgresDispatcher(settings.postgres, notifications, bus),
        bus,
        PostgresSchedules(settings.postgres, store),
        PostgresOperations(settings.postgres, rules),
        pairing=Pairing(store, None),
        notification_health=notifications,
        check_writes=inspector.check_writes,
    )


def _redis(settings: JobsSettings) -> Backend:
    from queue_core.delivery.cluster_dispatcher import make_dispatcher
    from queue_core.delivery.redis_events import RedisEventBus
    from queue_core.redis.client import make_pipelined
    from queue_core.stores.redis.operations.store import RedisOperations
    from queue_core.stores.redis.read import RedisInspector
    from queue_core.stores.redis.schedules import RedisSchedules
    from queue_core.stores.redis.store import RedisStore

    rules = settings.rules
    circuit = CircuitBreaker("redis", meanwhile="waiting for its return")
    pipelined = make_pipelined(settings.redis)
    store = RedisStore(settings.redis, settings.retention, rules)
    return Backend(
        store,
        RedisInspector(settings.redis, rules, store.restored),
        make_dispatcher(settings.redis, circuit, pipelined, ready="offered"),
        RedisEventBus(settings.redis, circuit, pipelined, rules),
        RedisSchedules(settings.redis, rules),
        RedisOperations(settings.redis, rules, store.restored),
    )


def _sqlite(settings: JobsSettings) -> Backend:
    from queue_core.stores.sqlite.delivery import FileWatcher, SqliteDispatcher, SqliteEventBus
    from queue_core.stores.sqlite.operations import SqliteOperations
    from queue_core.stores.sqlite.read import SqliteInspector
    from queue_core.stores.sqlite.schedules import SqliteSchedules
    from queue_core.stores.sqlite.session import SqliteFile
    from queue_core.stores.sqlite.store import SqliteStore

    rules = settings.rules
    file = SqliteFile(settings.sqlite)
    watcher = FileWatcher(file)
    return Backend(
        SqliteStore(file, settings.retention, rules),
        SqliteInspector(file),
        SqliteDispatcher(file, watcher),
        SqliteEventBus(file, watcher),
        SqliteSchedules(file, rules),
        SqliteOperations(file, rules),
        check_writes=file.check_writes,
    )


def _memory(settings: JobsSettings) -> Backend:
    from queue_core.delivery.local import LocalDispatcher
    from queue_core.runtime import SystemClock
    from queue_core.stores.memory.store import MemoryStore

    store = MemoryStore(SystemClock(), settings.retention, settings.rules)
    return memory_backend(store)._replace(dispatcher=LocalDispatcher())


def memory_backend(store: MemoryStore) -> Backend:
    """Return the backend around a store in memory, without a dispatcher."""
    from queue_core.delivery.local import LocalEventBus
    from queue_core.stores.memory.operations import MemoryOperations
    from queue_core.stores.memory.read import MemoryInspector
    from queue_core.stores.memory.schedules import MemorySchedules

    return Backend(
        store, MemoryInspector(store), None, LocalEventBus(), MemorySchedules(store), MemoryOperations(store)
    )


class Housed:
    """A queue object that opens the backend of its mode, in one process and event loop at a time."""

    settings: JobsSettings
    _backend: Backend
    _open: bool

    def __init__(self) -> None:
        self._home = Home()
        watch_forks(self)

    def _compose(self, backend: Backend, opened: bool) -> None:
        raise NotImplementedError

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it is open in."""
        return self._home.loop

    async def open(self) -> None:
        """Connect to the store and check its schema; doing it twice is safe.

        Raises:
            StoreUnavailable, SchemaMissing, SchemaNewer: the store cannot be used.
            QueueCoreError: it is open in another event loop, or about to be.
        """
        home = self._home
        with home.lock:
            if home.gone():
                self._reset()
            if self._open:
                return
            home.settle()
            home.users += 1
            opening = home.opening
        try:
            async with opening:
                if not self._open:
                    try:
                        await self._backend.open()
                    except BaseException:
                        # What does not open is closed by no caller: a service that tries again would take all of a
                        # server's connections.
                        await self._backend.close()
                        raise
                    self._open = True
        finally:
            self._leave(opening)

    @contextlib.contextmanager
    def reserved(self, loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.AbstractEventLoop]:
        """Keep other loops from opening it; yield this one, or the running one that it already belongs to."""
        home = self._home
        with home.lock:
            other, opening = home.loop, None
            if not self._open and other in (None, loop):
                if home.left_for(loop):
                    self._reset()
                home.settle(loop)
                home.users += 1
                opening = home.opening
        try:
            yield other if other is not None and is_served(other) else loop
        finally:
            if opening is not None:
                self._leave(opening)

    def _leave(self, opening: asyncio.Lock | None = None) -> None:
        """Belong to no loop where it is not open and no call is about to open it; `opening`: such a call has ended."""
        home = self._home
        with home.lock:
            if home.opening is opening:
                home.users -= 1
            if not self._open and not home.users:
                home.free()

    async def backend(self) -> Backend:
        """Return the opened backend of this object."""
        if not self._open or self._home.gone():
            await self.open()
        return self._backend

    def _reset(self) -> None:
        """Drop all connections; state in memory stays."""
        kept = self._backend.store.name == "memory"
        self._home.free()
        self._compose(self._backend if kept else open_backend(self.settings), opened=False)

    def after_fork(self) -> None:
        """Work on connections of the child's own from now on."""
        self._home.lock = threading.RLock()
        if self._home.taken:
            leave(dict(vars(self)))
            if self._backend.store.name == "memory":
                self._home.refuse("a queue in memory belongs to the process that has opened it, not to its children")
            self._reset()
