"""Sessions with a SQLite file: the thread of writes, the connections of reads, and functions in SQL."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

from queue_core.errors import InvalidJob, StoreUnavailable
from queue_core.model.filters import Term, contains, host_of, payload_holds
from queue_core.model.settings import SqliteSettings
from queue_core.runtime import Clock, SystemClock
from queue_core.stores.sqlite.dialect import load
from queue_core.stores.sqlite.file import BROKEN, BUSY, StorePath, check_room, primary_code, translate
from queue_core.stores.sqlite.migrate import BEGIN, COMMIT, DURABLE, ROLLBACK, prepare, statements
from queue_core.threads import DaemonThreads

if TYPE_CHECKING:
    from queue_core.model.filters import Operator


T = TypeVar("T")


def add_functions(connection: sqlite3.Connection) -> None:
    """Make the functions known to a connection."""
    connection.create_function("contains_text", 2, _contains_text, deterministic=True)
    connection.create_function("host_of", 1, _host_of, deterministic=True)
    connection.create_function("payload_matches", 4, _payload_matches, deterministic=True)


def _host_of(worker: str | None) -> str | None:
    return None if worker is None else host_of(worker)


def _contains_text(found: str | None, part: str) -> bool | None:
    return None if found is None else contains(found, part)


def _payload_matches(text: str, path: str, operator: str, value: str) -> bool:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(payload, dict):
        return False
    return payload_holds(payload, path, Term(f"payload.{path}", cast("Operator", operator), value))


FIRST_PAUSE, MAX_PAUSE = 0.0005, 0.01
"""Seconds between two tries for the write lock. SQLite's own waiting grows to 100 ms, in which a busy neighbour
takes the lock a hundred times."""
MAX_PREPARED = 200
"""Prepared statements kept by a connection; there are fewer, apart from the filters' own."""
RowTuple = tuple[Any, ...]
Params = Sequence[Any] | Mapping[str, Any]


class Mode(Enum):
    """What a transaction is for: how it begins, and how safe its end is."""

    # enqueue, settle, operators: on the disk when the call returns
    DURABLE = (BEGIN, DURABLE)
    # claims, heartbeats, sweeps: what a loss of power takes back is done again
    SOFT = (BEGIN, "session/soft")
    READ = ("session/begin_read", "")


class Transaction:
    """Query files run between the begin and the end of a transaction."""

    __slots__ = ("_connection", "clock", "now")

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self.clock = clock
        # one moment for everything in it, read after the lock was taken
        self.now = clock.now()

    def rows(self, query: str, params: Params = ()) -> list[RowTuple]:
        """Run a query file by its name and return its rows."""
        return self._connection.execute(load(query), params).fetchall()

    def each(self, query: str, params: Params = ()) -> Iterator[RowTuple]:
        """Run a query file by its name and yield its rows, which are read as they are asked for."""
        return self._connection.execute(load(query), params)

    def records(self, text: str, params: Params) -> list[sqlite3.Row]:
        """Run a query that was put together and return its rows with the names of their columns."""
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(text, params).fetchall()

    def run(self, query: str, params: Params = ()) -> int:
        """Run a query file and return how many rows it changed."""
        return self._connection.execute(load(query), params).rowcount

    def run_many(self, query: str, params: Iterable[Params]) -> None:
        """Run a query file once for each of the parameters."""
        self._connection.executemany(load(query), params)

    def version(self) -> tuple[int, int]:
        """Return a value that changes when any other connection has committed something."""
        return id(self._connection), int(self.rows("session/data_version")[0][0])


class SqliteConnection:
    """A connection that opens when it is needed, and again after an error; used by one thread at a time."""

    def __init__(self, place: StorePath, clock: Clock, read_only: bool = False) -> None:
        self.path = place.path
        self._place = place
        self._clock = clock
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        # device and inode of the file that is open
        self._opened: tuple[int, int] | None = None
        self._safety = ""
        # held while SQLite does anything for this connection
        self.busy = threading.Lock()
        with _forking:
            _connections.add(self)

    def transact(self, work: Callable[[Transaction], T], mode: Mode, deadline: float) -> T:
        """Do work in a transaction, trying until `deadline` (time.monotonic) while others hold the lock.

        Raises:
            StoreUnavailable: gone, locked, read-only, full or damaged; nothing was written.
            SchemaMissing, SchemaNewer, SchemaError: this program cannot work with the file.
            ConfigurationError: the file is on a network file system.
            InvalidJob: SQLite cannot store a value.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                with self.busy:
                    return self._transact(work, mode)
            except sqlite3.Error as error:
                code = primary_code(error)
                if code in BROKEN:
                    self.close()
                if code not in BUSY or time.monotonic() >= deadline:
                    raise (translate(error, self.path) or error) from error
            except (OverflowError, UnicodeEncodeError) as error:
                raise InvalidJob(f"SQLite cannot store a value: {error}") from error
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(MAX_PAUSE, pause * 1.5)

    def _transact(self, work: Callable[[Transaction], T], mode: Mode) -> T:
        connection = self._connected()
        begin, safety = mode.value
        if safety not in ("", self._safety):
            connection.execute(load(safety))
            self._safety = safety
        connection.execute(load(begin))
        try:
            result = work(Transaction(connection, self._clock))
            connection.execute(load(COMMIT))
        except BaseException:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute(load(ROLLBACK))
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._opened != self._identity():
            # The file was removed or replaced: writes to it would be lost.
            self.disconnect()
        if self._connection is None:
            self._connection = self._connect()
            self._opened = self._identity()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        connection = self._place.connect(timeout=0, check_same_thread=False, cached_statements=MAX_PREPARED)
        try:
            prepare(connection, self._place)
            for statement in statements(load("session/setup")):
                connection.execute(statement)
            if self._read_only:
                connection.execute(load("session/look_only"))
            add_functions(connection)
        except BaseException:
            connection.close()
            raise
        self._safety = ""
        return connection

    def _identity(self) -> tuple[int, int] | None:
        # Only looked at, never opened: closing any handle of the file would drop SQLite's locks on it.
        try:
            found = Path(self.path).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def interrupt(self) -> None:
        """End the statement that runs in another thread."""
        connection = self._connection
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.interrupt()

    def close(self) -> None:
        """Disconnect after what is done now; doing it twice is safe."""
        with self.busy:
            self.disconnect()

    def disconnect(self) -> None:
        """Disconnect; for code that holds `busy`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


# A fork with open connections corrupts what SQLite knows of its locks: the child believes to have those of the parent,
# which then removes the log of changes that the child goes on writing, and all that the child stores is lost. A mutex
# that another thread holds in the fork is never released in the child. So all are closed before it; both open again.

FORK_SECONDS = 10.0
"""How long a fork waits for transactions that run, in all."""
_connections: WeakSet[SqliteConnection] = WeakSet()
_forking = threading.RLock()  # objects that are made again in a child take it in the thread that forks
_at_rest: list[SqliteConnection] = []


def _before_fork() -> None:
    _forking.acquire()
    deadline = time.monotonic() + FORK_SECONDS
    for connection in list(_connections):
        if connection.busy.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _at_rest.append(connection)
            connection.disconnect()


def _after_fork() -> None:
    while _at_rest:
        _at_rest.pop().busy.release()
    _forking.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


ANSWER_MARGIN = 1.0
"""Seconds that an answer may take beyond the wait for the lock, so that the lock's own sentence comes first."""
CLOSE_SECONDS = 5.0


class SqliteThread:
    """Does one piece of work at a time, each in a transaction, within a time limit."""

    def __init__(self, make: Callable[[], SqliteConnection], timeout: float, name: str) -> None:
        # returns a connection that is not yet opened
        self._make = make
        self._link = make()
        self._timeout = timeout
        self._name = name
        self._thread: DaemonThreads | None = None

    async def run(self, work: Callable[[Transaction], T], mode: Mode, patient: bool = True) -> T:
        """Do work in a transaction. Who is cancelled while it waits for its turn has done nothing.

        Not `patient`: it does not wait for a lock that others hold.

        Raises:
            StoreUnavailable: no lock or no answer in time; in the second case it may still be done.
            QueueCoreError: see `Link.transact`.
        """
        if self._thread is None:
            self._thread = DaemonThreads(1, f"sqlite-{self._name}")
        deadline = time.monotonic() + (self._timeout if patient else 0.0)
        answer = asyncio.get_running_loop().run_in_executor(self._thread, self._link.transact, work, mode, deadline)
        try:
            async with asyncio.timeout(self._timeout + ANSWER_MARGIN):
                return await answer
        except TimeoutError:
            if mode is Mode.READ:
                self._link.interrupt()
            late = f"{self._link.path} gave no answer within {self._timeout:g} s"
            raise StoreUnavailable("sqlite", late) from None

    async def close(self) -> None:
        """Finish what is on its way and disconnect; doing it twice is safe, and using it opens it again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        # What comes meanwhile has a thread of its own, and so it has a connection of its own.
        link, self._link = self._link, self._make()
        closed = asyncio.get_running_loop().run_in_executor(thread, link.close)
        thread.shutdown(wait=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(closed)


class SqliteFile:
    """Shared by the store, the inspector and the delivery of a queue object.

    SQLite has one writer at a time: within a process the writes line up in one thread instead of polling for the lock.
    Readers see the last commit and never wait.
    """

    def __init__(self, settings: SqliteSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self._place = StorePath(settings.path)
        self._writes = SqliteThread(self.link, settings.timeout, "writes")
        self._reads = SqliteThread(partial(self.link, read_only=True), settings.timeout, "reads")
        self._inspections = SqliteThread(partial(self.link, read_only=True), settings.timeout, "inspections")

    def link(self, read_only: bool = False) -> SqliteConnection:
        """Return a connection of its own, not yet opened."""
        return SqliteConnection(self._place, self.clock, read_only)

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Do work that is on the disk when this returns."""
        return await self._writes.run(work, Mode.DURABLE)

    async def write_soft(self, work: Callable[[Transaction], T]) -> T:
        """Do work that a loss of power may take back, because it is then done again."""
        return await self._writes.run(work, Mode.SOFT)

    async def check(self) -> None:
        """Make sure that the file can be written. A lock of others shows that, and may be the caller's own.

        Raises:
            StoreUnavailable, SchemaMissing, SchemaNewer, SchemaError, ConfigurationError: see `SqliteConnection`.
        """
        try:
            await self._writes.run(lambda transaction: transaction.now, Mode.SOFT, patient=False)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, sqlite3.Error) or primary_code(error.__cause__) not in BUSY:
                raise
            await self.read(lambda transaction: transaction.now)

    async def check_writes(self) -> None:
        """Make sure that jobs can be written: that the lock is to be had in time, and that the disk has room.

        Raises:
            StoreUnavailable, SchemaMissing, SchemaNewer, SchemaError, ConfigurationError: see `SqliteConnection`.
        """
        # Without a change, its end writes nothing.
        await self.write_soft(lambda transaction: transaction.now)
        await self.read(lambda _: check_room(Path(self._place.path)))

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Read what the hot path needs."""
        return await self._reads.run(work, Mode.READ)

    async def inspect(self, work: Callable[[Transaction], T]) -> T:
        """Read what a person or an exporter asks for, which may take its time."""
        return await self._inspections.run(work, Mode.READ)

    async def close_inspections(self) -> None:
        """Close the thread and the connection of inspections."""
        await self._inspections.close()

    async def close(self) -> None:
        """Disconnect; doing it twice is safe, and using it again opens it again."""
        for thread in (self._inspections, self._reads, self._writes):
            await thread.close()
