"""Waiting for a job's end: the job's channel reports it at once, reads of the store report it reliably."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, Protocol, TypeVar, cast

from queue_core.client.feed import EventFeed, Gap, Received
from queue_core.errors import (
    JobCancelled,
    JobFailed,
    JobNotFound,
    NoWorker,
    QueueCoreError,
    ResultExpired,
    ResultTimeout,
    StoreUnavailable,
    not_reduced,
)
from queue_core.model.codec import decode_result
from queue_core.model.events import STATE, Event, EventName, is_final, state_event
from queue_core.model.job import JobResult
from queue_core.model.states import FINAL, WAITING, Status
from queue_core.ports.backend import Backend
from queue_core.ports.delivery import DispatchUnavailable

R = TypeVar("R")


FIRST_READ_BACK, MAX_READ_BACK = 1.0, 5.0
"""Seconds between two reads of an awaited job, growing."""
WORKER_START_SECONDS = 0.05
"""Seconds in which a worker of this process may begin before its absence is an error."""


class Results:
    """Reads the ends of jobs, and what happens to them until then."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.feed = EventFeed(backend.bus)
        # of the calls that wait; they end when this is closed
        self._limits: set[asyncio.Timeout] = set()

    async def close(self) -> None:
        """End all waiting and reading; doing it twice is safe."""
        limits, self._limits = self._limits, set()
        for limit in limits:
            limit.reschedule(asyncio.get_running_loop().time())
        await self.feed.close()

    async def wait(self, queue: str, job_id: str, timeout: float | None, may_run: Callable[[], bool]) -> Any:
        """Wait for a job's completion and return its result; for the errors see JobHandle.result.

        `may_run`: whether anything may run the job. Where nothing does, that is an error after a moment.

        Raises:
            QueueCoreError: this was closed meanwhile.
        """
        if not job_id.isascii():
            # No job has such an id, and one with a lone surrogate cannot be sent.
            raise JobNotFound(job_id)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limits.add(limit)
                return await self._wait(queue, job_id, timeout, may_run)
        except (TimeoutError, DispatchUnavailable, StoreUnavailable) as error:
            if limit.when() is None:
                raise
            raise QueueCoreError("the queue object was closed while a result was waited for") from error
        finally:
            self._limits.discard(limit)

    async def _wait(self, queue: str, job_id: str, timeout: float | None, may_run: Callable[[], bool]) -> Any:
        start = time.monotonic()
        pause = FIRST_READ_BACK
        async with self._backend.bus.watch(queue, job_id) as wait:
            while True:
                result = await self.result(job_id)
                if result.status in FINAL:
                    return _given(result)
                left = float("inf") if timeout is None else timeout - (time.monotonic() - start)
                if left <= 0:
                    raise ResultTimeout(job_id, cast(float, timeout))
                moment = min(WORKER_START_SECONDS, left)
                if not may_run() and not await wait(moment) and not may_run() and moment < left:
                    raise NoWorker(job_id, result.status)
                await wait(min(pause, left))
                pause = min(MAX_READ_BACK, pause * 1.5)

    async def events(self, job_id: str) -> AsyncIterator[Event]:
        """Yield a job's state and what happens to it from then on, up to its end; see JobHandle.events."""
        async with self.feed.reading(job_id=job_id) as reader:
            # Subscribed first: what happens after this read is received. What was published before it may come, too.
            state = await self._state(job_id)
            seen = _position(state)
            yield state
            while not _is_end(state):
                item = await reader.next(MAX_READ_BACK)
                event = item.event if isinstance(item, Received) else None
                if event is not None and not _is_end(event) and (event.token or event.event == EventName.CREATED):
                    if _position(event) > seen or (event.event == EventName.PROGRESS and _position(event) == seen):
                        seen = _position(event)
                        yield event
                    continue
                # Lost events, silence, an end, or a change without a token: the store has what is true now.
                try:
                    state = await self._state(job_id) if item is not None else await self._changed(job_id, state)
                except StoreUnavailable:
                    if event is None or not event.token:
                        continue
                    state = event
                if _position(state) > seen or _is_end(state) or isinstance(item, Gap):
                    seen = max(seen, _position(state))
                    # The event of an end carries more than the state.
                    yield event if event is not None and _is_end(event) and event.token == state.token else state

    async def _state(self, job_id: str) -> Event:
        return state_event(await self._backend.inspector.get(job_id))

    async def _changed(self, job_id: str, state: Event) -> Event:
        """Read a job again, only its status where that is as it was."""
        same = (await self.result(job_id)).status == (state.extra or {}).get("status")
        return state if same else await self._state(job_id)

    async def result(self, job_id: str) -> JobResult:
        """Return a job's record.

        Raises:
            JobNotFound: no job has this id.
        """
        found = await self._backend.store.results([job_id])
        if not found:
            raise JobNotFound(job_id)
        return found[0]


def _given(result: JobResult) -> Any:
    if result.status is Status.DEAD:
        raise JobFailed(result.id, result.error or "no error was kept")
    if result.status is Status.CANCELLED:
        raise JobCancelled(result.id)
    if result.expired:
        raise ResultExpired(result.id)
    return decode_result(result.result)


_ORDER: dict[str, int] = {
    EventName.CREATED: 0,
    EventName.CLAIMED: 1,
    EventName.PROGRESS: 2,
    EventName.FAILED: 3,
    Status.SCHEDULED: 0,
    Status.QUEUED: 0,
    Status.RUNNING: 1,
}
"""Of events, and of states that were read, within one lease; all others come last."""


def _position(event: Event) -> tuple[int, int]:
    """Return where an event or a state is in a job's life: what is not behind the last one is old."""
    what = str((event.extra or {}).get("status", "")) if event.event == STATE else event.event
    # What waits and had a lease was released, or retried by an operator: after everything else of that lease.
    return event.token, _LAST if event.event == STATE and event.token and what in WAITING else _ORDER.get(what, _LAST)


_LAST = 4


def _is_end(event: Event) -> bool:
    return (event.extra or {}).get("status") in FINAL if event.event == STATE else is_final(event)


class ResultSource(Protocol):
    """The methods of a queue that a handle needs."""

    async def wait_for(self, queue: str, job_id: str, timeout: float | None) -> Any:
        """Return the job's result."""
        ...

    async def status_of(self, job_id: str) -> Status:
        """Return the job's status."""
        ...

    def events_of(self, job_id: str) -> AsyncIterator[Event]:
        """Yield the job's events."""
        ...


class JobHandle(Generic[R]):
    """One enqueued job."""

    __reduce__ = not_reduced

    __slots__ = ("_source", "created", "id", "queue", "type")

    def __init__(self, source: ResultSource, job_id: str, queue: str, type_: str, created: bool) -> None:
        self._source = source
        self.id = job_id
        self.queue = queue
        self.type = type_
        # False: an equal job already existed, and this is its handle
        self.created = created

    def __repr__(self) -> str:
        return f"<JobHandle {self.type} {self.id}>"

    async def result(self, timeout: float | None = None) -> R:
        """Wait until the job has completed and return what its handler returned; `timeout` in seconds, None for ever.

        Raises:
            JobFailed: the job is dead.
            JobCancelled: the job was cancelled.
            JobNotFound: the job was purged, or its retention has passed.
            ResultExpired: the job has completed, and its result has exceeded `retention.results`.
            ResultTimeout: not finished in time; the job continues. NoWorker: a queue in memory has nothing to run it.
            QueueCoreError: the queue object was closed meanwhile.
        """
        return cast(R, await self._source.wait_for(self.queue, self.id, timeout))

    async def status(self) -> Status:
        """Return the job's status.

        Raises:
            JobNotFound: the job was purged, or its retention has passed.
        """
        return await self._source.status_of(self.id)

    def events(self) -> AsyncIterator[Event]:
        """Yield the job's state now, then what happens to it, and end with its end.

        The first event, and one after events were lost, is `state`: the job as it is stored, its status in `extra`.
        Of progress only the newest may come. After StopAsyncIteration the job has ended; `result` has what came of it.

        Raises:
            JobNotFound: the job was purged, or its retention has passed.
            StoreUnavailable: the store did not answer when it was asked for the state.
        """
        return self._source.events_of(self.id)
