"""The ways into one file: a lane for all writes of this process, one for quick reads, one for people's questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from queue_core.clock import Clock, SystemClock
from queue_core.settings import SqliteSettings
from queue_core.stores.sqlite.lane import Lane
from queue_core.stores.sqlite.link import Link, Mode, Transaction

T = TypeVar("T")


class SqliteFile:
    """Shared by the store, the inspector and the delivery of a queue object.

    SQLite has one writer at a time: within a process the writes line up in a lane instead of polling for the lock.
    Readers see the last commit and wait for nobody.
    """

    def __init__(self, settings: SqliteSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self._writes = Lane(self.link(), settings.timeout, "writes")
        self._reads = Lane(self.link(looks_only=True), settings.timeout, "reads")
        self._looks = Lane(self.link(looks_only=True), settings.timeout, "looks")

    def link(self, looks_only: bool = False) -> Link:
        """Return a connection of its own, not yet opened."""
        return Link(self.settings, self.clock, looks_only)

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Do work that is on the disk when this returns."""
        return await self._writes.run(work, Mode.DURABLE)

    async def write_soft(self, work: Callable[[Transaction], T]) -> T:
        """Do work that a loss of power may take back, because it is then done again."""
        return await self._writes.run(work, Mode.SOFT)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Read what the hot path needs."""
        return await self._reads.run(work, Mode.LOOK)

    async def look(self, work: Callable[[Transaction], T]) -> T:
        """Read what a person or an exporter asks for, which may take its time."""
        return await self._looks.run(work, Mode.LOOK)

    async def close_looks(self) -> None:
        """Close the lane of people's questions."""
        await self._looks.close()

    async def close(self) -> None:
        """Disconnect; doing it twice is safe, and using it again opens it again."""
        for lane in (self._looks, self._reads, self._writes):
            await lane.close()
