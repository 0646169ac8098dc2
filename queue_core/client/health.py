"""Two records for services that report on themselves: health and counts of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from queue_core.errors import QueueCoreError
from queue_core.model.filters import parse
from queue_core.model.report import Overview, QueueInfo
from queue_core.model.rules import band
from queue_core.ports.backend import Backend
from queue_core.ports.delivery import Dispatcher, DispatchUnavailable, WritingDispatcher
from queue_core.ports.inspector import Inspector

DAY_MINUTES = 24 * 60
NOTIFICATIONS_WAIT = 5.0
"""Seconds that the first question waits to learn whether notifications arrive; where they do it takes some 20 ms."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the queue, from the view of this process."""

    # the store takes jobs, and hands them to workers, if any; also while degraded
    healthy: bool
    # queued, scheduled and retrying jobs; None: the store did not answer
    pending: int | None
    running: int | None
    # live worker processes
    workers: int | None
    # postgres+redis, postgres, redis, sqlite or memory
    mode: str
    # since when this process works without Redis, or with one that refuses writes or is not its database's, or without
    # the notifications of PostgreSQL; None: none of them
    degraded_since: datetime | None
    # why it is not healthy, or degraded, that jobs wait and no worker is alive, or that handlers are stuck; else empty
    reason: str
    # handlers that live workers gave up and that still run; None: the store did not answer
    stuck: int | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """How many jobs there are; pending = queued, scheduled and retrying."""

    # by band of priority: 10 and above, 5 to 9, below 5
    pending_high: int
    pending_normal: int
    pending_low: int
    total_pending: int
    # running: their handlers were started
    processing: int
    # claimed by workers, where they wait for a slot
    claimed_ahead: int
    # dead, without the trash
    dlq: int
    # in the last 24 hours, by whole minutes
    completed_24h: int
    # the same for each queue, in full
    queues: tuple[QueueInfo, ...]


async def health(backend: Backend, mode: str) -> Health:
    """Return the health of the store and the delivery; a part that does not answer is recorded, never an error."""
    try:
        overview = await backend.inspector.overview()
    except QueueCoreError as error:
        return Health(False, None, None, None, mode, None, str(error))
    since, reason = await _degraded(backend)
    refused = await _refused(backend)
    return Health(
        healthy=not refused,
        pending=sum(queue.pending for queue in overview.queues),
        running=sum(queue.started for queue in overview.queues),
        workers=sum(not worker.lost for worker in overview.workers),
        mode=mode,
        degraded_since=since,
        reason=refused or reason or _remark(overview),
        stuck=sum(worker.stuck for worker in overview.workers if not worker.lost),
    )


async def _refused(backend: Backend) -> str:
    """Return why the store, which can be read, cannot be written; empty where it can, or reads show it."""
    try:
        await check_writes(backend)
    except QueueCoreError as error:
        return str(error)
    except DispatchUnavailable as error:
        return f"redis: {error}"
    return ""


async def check_writes(backend: Backend) -> None:
    """Make sure that the store, which can be read, can be written as well, as far as reads do not show it.

    Raises:
        StoreUnavailable, DispatchUnavailable: it cannot.
    """
    dispatcher: object = backend.dispatcher
    if backend.check_writes is not None:
        await backend.check_writes()
    elif backend.circuit is None and isinstance(dispatcher, WritingDispatcher):
        await dispatcher.try_write()


def _remark(overview: Overview) -> str:
    """Return what keeps jobs from their end although the store and the delivery work, or an empty text."""
    alive = [worker for worker in overview.workers if not worker.lost]
    waiting = sum(queue.pending for queue in overview.queues)
    if waiting and not alive:
        lost = f" ({len(overview.workers)} lost)" if overview.workers else ""
        return f"no worker is alive{lost}: what is pending waits for one"
    stuck = sum(worker.stuck for worker in alive)
    return f"handlers that their workers gave up still run: {stuck}" if stuck else ""


async def _degraded(backend: Backend) -> tuple[datetime | None, str]:
    hearing = backend.notification_health
    if hearing is not None and not await hearing.known(NOTIFICATIONS_WAIT) and hearing.lost_since is not None:
        since = datetime.fromtimestamp(hearing.lost_since, UTC)
        return since, f"notifications do not arrive: {hearing.explanation}"
    if backend.dispatcher is None or backend.circuit is None:
        return await _unpaired(backend)
    # A process that only asks for its health would notice neither a loss nor the return.
    tried, era = backend.circuit.allows(), backend.circuit.era
    try:
        await reach(backend.dispatcher)
    except DispatchUnavailable as error:
        if tried:
            backend.circuit.failed(str(error), era)
        lost_since = backend.circuit.lost_since
        since = datetime.now(UTC) if lost_since is None else datetime.fromtimestamp(lost_since, UTC)
        return since, f"redis: {error}"
    if tried:
        backend.circuit.worked(era)
    if backend.circuit.lost_since is not None:
        return datetime.fromtimestamp(backend.circuit.lost_since, UTC), f"redis: {backend.circuit.reason}"
    return await _unpaired(backend)


async def reach(dispatcher: Dispatcher) -> None:
    """Make sure that a server answers, and writes, as far as it is one that may refuse to.

    Raises:
        DispatchUnavailable: it does not.
    """
    if isinstance(dispatcher, WritingDispatcher):
        await dispatcher.try_write()
    else:
        await dispatcher.ping()


async def _unpaired(backend: Backend) -> tuple[datetime | None, str]:
    if backend.pairing is None:
        return None, ""
    try:
        await backend.pairing.check(change=False)
    except (DispatchUnavailable, QueueCoreError) as error:
        return datetime.now(UTC), str(error)
    since = backend.pairing.since
    return None if since is None else datetime.fromtimestamp(since, UTC), backend.pairing.reason


async def stats(inspector: Inspector) -> Stats:
    """Count the jobs.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    queues = (await inspector.overview()).queues
    completed = sum(point.completed for point in await inspector.series(DAY_MINUTES))
    total = sum(queue.pending for queue in queues)
    by_band = {"high": 0, "normal": 0, "low": 0}
    for queue in queues:
        for priority, count in queue.depth.items():
            by_band[band(priority)] += count
    for status in ("scheduled", "retrying"):
        if later := sum(getattr(queue, status) for queue in queues):
            by_band["high"] += await inspector.count(parse(f"status:{status} priority:>9"), later)
            by_band["low"] += await inspector.count(parse(f"status:{status} priority:<5"), later)
    return Stats(
        pending_high=by_band["high"],
        # What is left: the three always make the total, though jobs move between the questions.
        pending_normal=max(0, total - by_band["high"] - by_band["low"]),
        pending_low=by_band["low"],
        total_pending=total,
        processing=sum(queue.started for queue in queues),
        claimed_ahead=sum(queue.ahead for queue in queues),
        dlq=sum(queue.dead for queue in queues),
        completed_24h=completed,
        queues=queues,
    )
