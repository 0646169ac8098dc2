"""The only reader: keeps the model up to date, notifies the screens, and survives any failure of the servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from textual.message import Message

from jobconsole.actions.edit import Original, original
from jobconsole.core.connection import Connection
from jobconsole.core.listing import Window
from jobconsole.core.model import Model
from jobconsole.core.progress import retried_before
from jobconsole.core.rows import JobLine, job_line
from jobconsole.core.schedules import ScheduleLine, TickLine, schedule_line
from jobconsole.core.snapshot import GroupReader, Snapshot, SnapshotNeeds, read_snapshot
from jobconsole.tui.base.messages import Adopted, Flush, Operating, ServersChanged
from jobconsole.tui.base.operations import OperationReader
from queue_core.client.causes.breakdown import breakdown as signature_breakdown
from queue_core.client.causes.compare import Comparison, compare
from queue_core.client.finding.inspector import search_texts
from queue_core.client.finding.search import SearchProgress
from queue_core.errors import JobNotFound, StoreUnavailable
from queue_core.model.filters import Filter, SavedFilter
from queue_core.model.job import Attempt, Job
from queue_core.model.report import Breakdown, LogPage
from queue_core.model.schedule import PassedTick
from queue_core.ports.inspector import Inspector
from queue_core.runtime import end_tasks

T = TypeVar("T")


FLUSH_SECONDS = 0.25
"""Between two drawings of what changed."""
CHECK_SECONDS = 1.0
"""Between two looks at the servers."""
WRITES_SECONDS = 10.0
"""Between two looks whether the servers take writes, which costs them some."""
REFUSED_SECONDS = 2.0
"""The same while they do not."""
RESYNC_SECONDS = 1.0
"""At least between two snapshots; a slow one makes the pause longer."""
COMPARE_SECONDS = 5.0
"""A snapshot is read after this time even when no event arrived."""
CHANGES_SECONDS = 1.0
"""Between two looks for what others have changed: each change is an operation."""
OPERATIONS_SECONDS = 1.0
"""Between two looks at operations while some are running; else they are looked at with each snapshot."""
COUNT_SECONDS = 10.0
"""Between two reads of the exact totals by type."""
TICKS = 10
"""Ticks of a schedule that are read, with their jobs."""
LOG_LINES = 200
"""Lines of a job's log that are shown; the command line has all of them."""
SEARCH_STEP = 0.3
"""Seconds of a search between two looks at what it has found."""
READ_LIMIT_SECONDS = 15.0
"""A read that takes longer than this is given up."""


class Refresher:
    """Loops that read, each restarted when it fails: events, snapshots, the state of the servers, the flush."""

    def __init__(self, connection: Connection, model: Model, post: Callable[[Message], None]) -> None:
        self.connection = connection
        self.model = model
        self.needs = SnapshotNeeds()
        # what went wrong in a loop, for the help screen; never ends the application
        self.problem = ""
        self._post = post
        self.operations = OperationReader(connection, model, self._read)
        self._groups = GroupReader(self.resync)
        self._kick = asyncio.Event()
        self._snapped = asyncio.Event()
        self._read_through = asyncio.Event()
        self._usable = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        loops = (
            self._watch_servers,
            self._watch_writes,
            self._follow_events,
            self._resync,
            self._watch_operations,
            self._watch_changes,
            self._count,
            self._flush,
        )
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(self._supervise(loop), name=loop.__name__)
        finally:
            await self._groups.close()

    def resync(self) -> None:
        """Read a snapshot now."""
        self.model.stale = True
        self._kick.set()

    async def read_again(self) -> None:
        """Read a snapshot that begins from now on; returns once it is adopted, or the store is away."""
        began = time.monotonic()
        self.resync()
        while self.connection.usable and (self.model.snapshot is None or self.model.snapshot.began < began):
            # Woken by each snapshot, also by one that had begun before.
            self._read_through.clear()
            await _wait(self._read_through, CHECK_SECONDS)

    def narrow(self, where: Filter) -> None:
        """Group only the dead jobs that match."""
        if where != self.needs.where:
            self.needs = replace(self.needs, where=where)
            self.resync()

    def set_lookback(self, seconds: float) -> None:
        """Count the growth of signatures over another time."""
        self.needs = replace(self.needs, window=seconds)
        self.resync()

    async def search(self, where: Filter, again: bool) -> SearchProgress | None:
        """Look for what a filter asks for, of texts for a moment; `again`: from the newest death on.

        Raises:
            FilterError, StoreUnavailable: there is no such filter, or the store did not answer in time.
        """
        found = await self._read(lambda inspector: search_texts(inspector, where, SEARCH_STEP, again))
        if found is None:
            # What else is looked up may be too much: then a list only fails.
            await self._read(lambda inspector: inspector.count(where, 1))
        self.resync()
        return found

    async def saved_filters(self) -> list[SavedFilter]:
        """Read the saved filters by name.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return await self._read(lambda _: self.connection.jobs.filters.list())

    async def more(self, window: Window) -> None:
        """Read the next page of a window.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self._read(window.read_more)

    async def again(self, window: Window, shown: range, hold: bool) -> None:
        """Read again what a window shows; with `hold`, its rows stay when a flood cuts them off.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self._read(lambda inspector: window.refresh(inspector, shown, hold))

    async def job(self, job_id: str) -> tuple[Job, list[Attempt]]:
        """Read one job with its failed attempts.

        Raises:
            JobNotFound, StoreUnavailable: there is none, or the store did not answer in time.
        """
        job = await self._read(lambda inspector: inspector.get(job_id))
        return job, await self._read(lambda inspector: inspector.attempts(job_id))

    async def breakdown(self, signature: str) -> Breakdown:
        """Read what the dead jobs of a signature have in common.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return await self._read(lambda inspector: signature_breakdown(inspector, signature))

    async def comparison(self, job_id: str, back: int) -> Comparison:
        """Read a job and a completed one of its type.

        Raises:
            JobNotFound, StoreUnavailable: there is none, or the store did not answer in time.
        """
        return await self._read(lambda inspector: compare(inspector, job_id, back))

    async def original(self, job_id: str) -> Original:
        """Read a job that is to be edited, with what is known of its type.

        Raises:
            JobNotFound, StoreUnavailable: there is none, or the store did not answer in time.
        """
        return await self._read(lambda _: original(self.connection.jobs, job_id))

    async def outcome(self, signature: str) -> str:
        """Return the outcome of the last retry of a signature; "" when there was none.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        return await self._read(lambda _: retried_before(self.connection.operations, signature, self.model.now))

    async def schedules(self) -> list[ScheduleLine]:
        """Read every schedule, by name.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        planning = await self._read(lambda _: self.connection.schedules.list())
        return [schedule_line(planned) for planned in planning.schedules]

    async def ticks(self, name: str) -> list[TickLine]:
        """Read the last ticks of a schedule, the newest first, with the jobs that they brought.

        Raises:
            ScheduleNotFound, StoreUnavailable: there is no such schedule, or the store did not answer in time.
        """
        ticks = await self._read(lambda _: self.connection.schedules.ticks(name, TICKS))
        return [TickLine(tick, await self._job_of(tick)) for tick in ticks]

    async def _job_of(self, tick: PassedTick) -> JobLine | None:
        job_id = tick.job_id
        if job_id is None:
            return None
        try:
            return job_line(await self._read(lambda inspector: inspector.get(job_id)))
        except JobNotFound:
            return None

    async def log(self, job_id: str) -> LogPage:
        """Read the last lines of a job's log.

        Raises:
            JobNotFound, StoreUnavailable: there is no such job, or the store did not answer in time.
        """
        return await self._read(lambda inspector: inspector.logs(job_id, LOG_LINES))

    async def _read(self, read: Callable[[Inspector], Awaitable[T]]) -> T:
        if not self.connection.usable:
            raise StoreUnavailable(self.connection.store.name, self.connection.store.error or "not connected yet")
        try:
            async with asyncio.timeout(READ_LIMIT_SECONDS):
                return await read(self.connection.jobs.inspector)
        except TimeoutError:
            error = StoreUnavailable(self.connection.store.name, f"no answer within {READ_LIMIT_SECONDS:g} s")
        except StoreUnavailable as caught:
            error = caught
        # Whether the server is away, or only this was too much for it, shows when it is asked for next to nothing.
        await self._check_servers()
        raise error

    async def _supervise(self, loop: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await loop()
            except StoreUnavailable:
                pass  # noted where it was caught; the server loop finds out when it is back
            except Exception as error:  # noqa: BLE001 - one failing loop must not end the console; the help shows it
                self.problem = f"{loop.__name__.strip('_')}: {type(error).__name__}: {error}"
            await asyncio.sleep(RESYNC_SECONDS)

    async def _watch_servers(self) -> None:
        while True:
            await self._check_servers()
            if self.connection.usable:
                self._usable.set()
            await asyncio.sleep(CHECK_SECONDS)

    async def _check_servers(self) -> None:
        before = [server.state for server in self.connection.servers]
        await self.connection.check()
        if before != [server.state for server in self.connection.servers]:
            self._servers_changed()

    async def _watch_writes(self) -> None:
        while True:
            await self._usable.wait()
            before = self.connection.refusal
            await self.connection.check_writes()
            if before != self.connection.refusal:
                self._post(ServersChanged())
            await asyncio.sleep(REFUSED_SECONDS if self.connection.refusal else WRITES_SECONDS)

    def _servers_changed(self) -> None:
        if self.connection.usable:
            # Events while it was away are lost: read everything.
            self.model.gap = True
            self._groups.hurry()
            self.resync()
        else:
            self._usable.clear()
        self._post(ServersChanged())

    async def _follow_events(self) -> None:
        await self._usable.wait()
        async for batch in self.connection.jobs.bus.subscribe():
            self.model.apply(batch)

    async def _resync(self) -> None:
        while True:
            await self._usable.wait()
            self._kick.clear()
            pause = RESYNC_SECONDS
            if self._due():
                began = time.monotonic()
                await self._snapshot()
                pause = max(RESYNC_SECONDS, 3 * (time.monotonic() - began))
            await _wait(self._kick, pause)

    async def _watch_operations(self) -> None:
        while True:
            await self._usable.wait()
            self._snapped.clear()
            await self.operations.read_active()
            self._post(Operating())
            await _wait(self._snapped, OPERATIONS_SECONDS if self.model.active_operations.moving else COMPARE_SECONDS)

    async def _watch_changes(self) -> None:
        """Read a snapshot when others have recorded an operation: a change of a signature is no event."""
        known: int | None = None
        while True:
            await self._usable.wait()
            newest = await self.operations.newest()
            if known is not None and newest != known:
                self.resync()
            known = newest
            await asyncio.sleep(CHANGES_SECONDS)

    async def _count(self) -> None:
        """Read the exact totals from time to time."""
        while True:
            await self._usable.wait()
            self.model.latency.update(await self._read(lambda inspector: inspector.tallies()), time.monotonic())
            await asyncio.sleep(COUNT_SECONDS)

    def _due(self) -> bool:
        age, delivery = self.model.age, self.connection.delivery
        deaf = delivery is not None and delivery.state == "lost"
        return self.model.stale or deaf or age is None or age >= COMPARE_SECONDS

    async def _snapshot(self) -> None:
        """Read a snapshot and adopt it; when a different one is wanted meanwhile, this one is discarded."""
        needs, adopted = self.needs, False
        # What happens while it is read is in the next one only.
        self.model.stale = False
        read = asyncio.ensure_future(self._read(partial(self._read_snapshot, needs)))
        kick = asyncio.ensure_future(self._kick.wait())
        try:
            await asyncio.wait({read, kick}, return_when=asyncio.FIRST_COMPLETED)
            if not read.done() and self.needs == needs:
                await asyncio.wait({read})
            if read.done():
                found, adopted = await read, True
                changed = self.model.stale
                self.model.adopt(found)
                self.model.stale = changed
                self._snapped.set()
                self._read_through.set()
                self._post(Adopted())
        finally:
            self.model.stale = self.model.stale or not adopted
            await end_tasks(read, kick)

    async def _read_snapshot(self, needs: SnapshotNeeds, inspector: Inspector) -> Snapshot:
        return await read_snapshot(inspector, needs, await self.connection.jobs.signatures.rules(), self._groups)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._post(Flush())


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, or so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
