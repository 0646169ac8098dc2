"""All contexts of the configuration beside each other, each read on its own connection: a lost one delays none."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.core.snapshot import deaths_within
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Overview, SeriesPoint
from queue_core.model.states import Status
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

EVERY_SECONDS = 5.0
"""Between two reads of a context."""
WINDOW = 900.0
"""Seconds for which a signature is new or regressed, and over which deaths are counted."""
SIGNATURES = 500
"""Signatures that are looked at."""
DEAD = Filter((Term("status", "=", Status.DEAD.value),))

Opener = Callable[[], "JobQueue"]


@dataclass(frozen=True, slots=True)
class ContextLine:
    """What one context looks like; counts are None as long as they are unknown."""

    info: ContextInfo
    # connecting, up or lost
    state: str = "connecting"
    # seconds of the store's last round trip
    latency: float | None = None
    # one sentence why it is lost, and seconds since when
    error: str = ""
    lost_seconds: float = 0.0
    queued: int | None = None
    dead: int | None = None
    # deaths of the last 15 minutes, and signatures that first died in them
    grown: int | None = None
    new: int | None = None
    regressed: int | None = None
    workers: int | None = None
    lost_workers: int = 0
    releases: tuple[str, ...] = ()
    # due time of the ready job that waits longest, and the store's clock when it was read
    oldest: datetime | None = None
    now: datetime | None = None

    @property
    def name(self) -> str:
        """The name in the configuration."""
        return self.info.name


class ContextReader:
    """Reads one context again and again; its connection refuses every change."""

    def __init__(self, info: ContextInfo, opener: Opener) -> None:
        self.line = ContextLine(info)
        self._connection = Connection(opener, read_only=True)
        self._lost_at: float | None = None

    async def read(self) -> ContextLine:
        """Read once; never raises: a context that cannot be reached is lost."""
        await self._connection.check()
        store, latency = self._connection.store, self._connection.store.latency
        if not self._connection.usable:
            return self._lost(store.error)
        try:
            inspector = self._connection.jobs.inspector
            overview, signatures, series = await asyncio.gather(
                inspector.overview(), inspector.signatures(DEAD, WINDOW, 1, SIGNATURES), inspector.series(16)
            )
            states = await self._connection.jobs.signatures.states(signatures, WINDOW)
        except QueueCoreError as error:
            return self._lost(str(error))
        self._lost_at = None
        line = _counted(self.line.info, overview, Counter(one.word for one in states.values()), series)
        self.line = replace(line, latency=latency)
        return self.line

    async def run(self, changed: Callable[[], None]) -> None:
        """Read every few seconds, and call `changed` after each read."""
        try:
            while True:
                await self.read()
                changed()
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connection."""
        with suppress(QueueCoreError, OSError):
            await self._connection.close()

    def _lost(self, error: str) -> ContextLine:
        now = time.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        # What was read before is not true any more.
        self.line = ContextLine(self.line.info, "lost", error=safe(error), lost_seconds=now - self._lost_at)
        return self.line


def _counted(
    info: ContextInfo, overview: Overview, states: Mapping[str, int], series: Sequence[SeriesPoint]
) -> ContextLine:
    alive = [worker for worker in overview.workers if not worker.lost]
    waiting = [queue.oldest for queue in overview.queues if queue.oldest is not None]
    return ContextLine(
        info,
        "up",
        queued=sum(sum(queue.depth.values()) for queue in overview.queues),
        dead=sum(queue.dead for queue in overview.queues),
        grown=deaths_within(series, timedelta(seconds=WINDOW), overview.now),
        new=states.get("new", 0),
        regressed=states.get("regressed", 0),
        workers=len(alive),
        lost_workers=len(overview.workers) - len(alive),
        releases=tuple(sorted({safe(worker.release, 40) for worker in alive if worker.release})),
        oldest=min(waiting, default=None),
        now=overview.now,
    )


class Places:
    """The contexts that a console can go to, and what is known of the one that it shows."""

    def __init__(
        self,
        contexts: Callable[[], Mapping[str, tuple[ContextInfo, Opener]]] = dict,
        number: int = 0,
        unnamed: str = "",
        target: str = "",
    ) -> None:
        """`contexts`: their settings are read when they are shown; `number`: how many there are.

        `unnamed`: why a change asks first, as in `ConsoleSettings`; `target`: what it would reach.
        """
        self._contexts = contexts
        self.number = number
        self.unnamed = unnamed
        self.target = target
        # the options of the command line that choose the servers, without passwords; copied commands have them, too
        self.given: tuple[str, ...] = ()
        # where the console goes when it is left; None: nowhere
        self.chosen: str | None = None

    def readers(self) -> list[ContextReader]:
        """Return a reader for each context.

        Raises:
            ConfigurationError: one of them is malformed.
        """
        return readers(self._contexts())


def readers(contexts: Mapping[str, tuple[ContextInfo, Opener]]) -> list[ContextReader]:
    """Return a reader for each context, in the order of the configuration."""
    return [ContextReader(info, opener) for info, opener in contexts.values()]
