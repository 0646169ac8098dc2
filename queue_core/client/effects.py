"""Offers and events after a commit: publish events, offer ready jobs, for producers and operators alike."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from queue_core.errors import StoreUnavailable
from queue_core.model.events import Event, EventName
from queue_core.model.job import Failure, Inserted, NewJob, Outcome, Ready, Settled, summary
from queue_core.model.operation import VERBS, Changed, MemberVerb
from queue_core.model.states import Status
from queue_core.ports.delivery import AnnouncingDispatcher, Dispatcher, DispatchUnavailable, EventBus
from queue_core.ports.store import JobStore

if TYPE_CHECKING:
    from queue_core.ports.backend import Backend


logger = logging.getLogger("queue_core")
_new = tuple.__new__


RESUMED_OFFERS = 500
"""Ready jobs of a resumed queue that are offered at once; the audit offers those behind them."""


async def first_ready(store: JobStore, queue: str) -> list[Ready]:
    """Return the first ready jobs of a queue: workers may have taken them for candidates while it was paused."""
    try:
        return await store.list_claimable(queue, RESUMED_OFFERS)
    except StoreUnavailable:
        return []  # the queue is resumed; the audit offers them


async def offer(dispatcher: Dispatcher | None, ready: Sequence[Ready]) -> None:
    """Offer ready jobs to waiting workers; without a dispatcher, or while it is unreachable, the audit finds them."""
    if dispatcher is None or not ready:
        return
    try:
        await dispatcher.offer(ready)
    except DispatchUnavailable:
        return  # the rows are committed; the audit offers them when the dispatcher is back


class Effects:
    """Offers and events of an operator's change, after its commit."""

    def __init__(self, dispatcher: Dispatcher | None, bus: EventBus) -> None:
        self._dispatcher = dispatcher
        self._bus = bus

    async def publish(self, verb: MemberVerb, changed: Changed) -> None:
        """Offer the jobs that a change made ready, and publish an event for each changed job."""
        await offer(self._dispatcher, changed.ready)
        if changed.ids:
            # The queue of a job that is not ready is not known here: its event goes out under none.
            queues, name = {ready.id: ready.queue for ready in changed.ready}, VERBS[verb].event
            await self._bus.publish([Event(name, queues.get(job_id, ""), job_id) for job_id in changed.ids])

    async def publish_queue(
        self, queue: str, state: Literal["paused", "resumed", "closed", "opened"], ready: Sequence[Ready] = ()
    ) -> None:
        """Offer jobs of a queue, and publish its new state."""
        await offer(self._dispatcher, ready)
        await self._bus.publish([Event(EventName.QUEUE, queue, queue, extra={"state": state})])


def events_of(outcome: Outcome, answer: Settled) -> list[Event]:
    """Return the events of an attempt's end."""
    job_id, token, queue, type_ = outcome.id, outcome.token, outcome.queue, outcome.type
    if outcome.kind == "completed":
        return [Event(EventName.COMPLETED, queue, job_id, type_, token, {"ms": outcome.run_us / 1000})]
    if outcome.failure is None or answer.cancelled:
        name = EventName.RELEASED if outcome.kind == "released" and not answer.cancelled else EventName.CANCELLED
        return [Event(name, queue, job_id, type_, token, {} if answer.due is None else {"due": answer.due})]
    error = _error_of(outcome.failure)
    failed = Event(EventName.FAILED, queue, job_id, type_, token, error)
    if outcome.kind == "retrying":
        again = {"error": error["error"], "due": answer.due}
        return [failed, Event(EventName.RETRYING, queue, job_id, type_, token, again)]
    name = EventName.RELEASED if outcome.kind == "released" else EventName.DEAD
    return [failed, Event(name, queue, job_id, type_, token, error)]


def _error_of(failure: Failure) -> dict[str, str]:
    return {"error": summary(failure), "signature": failure.signature, "title": failure.title, "kind": failure.kind}


def ready_of(ends: Iterable[tuple[Outcome, Settled]]) -> list[Ready]:
    """Return the jobs that are ready again after these attempts, and those whose ordering key is free now."""
    ready: list[Ready] = []
    for outcome, answer in ends:
        if answer.due is None and answer.rank is not None:
            ready.append(Ready(outcome.id, outcome.queue, answer.rank))
        ready += answer.unblocked
    return ready


LONG_LIST = 50
"""Jobs that are written together, from which on publishing them takes longer than a few rounds of the event loop."""
SEND_SPACING, MAX_SEND_SPACING = 0.002, 0.01
"""Seconds from one send of short lists to the next, and at most where the server or the machine is so busy that an
answer takes long: a producer that enqueues one job after the other pays for each send with two processes that wake,
some 0.2 ms on two cores. The first after a pause goes out at once."""
LAST_SEND_DELAY = 0.001
"""Seconds that the last of these wait longer."""
SPACING_IN_ANSWERS = 2
"""The spacing in answers: so sends take up at most half of the time."""
TURNS_TO_NEXT_INSERT = 3
"""Of the event loop, from the answer to a caller until its next insert of one job is on its way."""
ROUNDS_TO_NEXT_INSERT = 12
"""Of the event loop, from the answer to a caller until the next insert of that caller is on its way; some 0.1 ms."""
MAX_WAITING_JOBS = 20_000
"""Jobs whose offers and events wait in memory while the server is slower than the producers; then these wait, too. One
list may be longer: it is a batch by itself, whatever its length."""
PRODUCER_WAIT, PRODUCER_WAIT_EACH = 0.25, 0.00005
"""Seconds that producers wait so for one batch, and more for each of its jobs. A server that takes longer hangs: later
jobs are left to the audit, and their events are dropped, which shows as a gap."""
CLOSE_SECONDS = 10.0

_Creation = tuple[Sequence[NewJob], Sequence[Inserted]]


class CreationEffects:
    """Publishes the offers and events of inserted batches, one batch after the other."""

    def __init__(self, backend: Callable[[], Backend]) -> None:
        self._backend = backend
        self._waiting: deque[_Creation] = deque()
        # jobs in there and on their way
        self._jobs = 0
        self._task: asyncio.Task[None] | None = None
        # jobs in the batch under way, and when that was started, by the loop's clock
        self._sending = 0
        self._started_at = 0.0
        self._moved = asyncio.Event()
        self._dropping = False
        # the dispatcher that the backend had last, and as one that takes events, if it does
        self._known: tuple[Dispatcher | None, AnnouncingDispatcher | None] = (None, None)
        # time.monotonic from which on short lists may be sent again
        self._next_at = float("-inf")
        # the pause between two sends, and calls that want none
        self._pause: asyncio.Future[None] | None = None
        self._hurrying = 0

    async def add(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        """Queue the offers and events of a batch; return at once unless the backlog is full."""
        if self._full() and not await self._room():
            if not self._dropping:
                logger.warning(
                    "the offers of %d jobs wait for their server; the audit offers what comes now", self._jobs
                )
            self._dropping = True
            self._backend().bus.report_gap({job.queue for job in jobs})
            return
        self._dropping = False
        self._waiting.append((jobs, inserted))
        self._jobs += len(jobs)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        elif self._jobs >= LONG_LIST or time.monotonic() >= self._next_at:
            self._end_pause()

    def _full(self) -> bool:
        # One long list under way is no backlog.
        return self._jobs >= MAX_WAITING_JOBS and bool(self._waiting)

    async def _room(self) -> bool:
        """Wait until the backlog is smaller; return False when the server seems to hang."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        while self._full():
            # What this process does meanwhile, such as a long list, is no sign of a slow server: before the first batch
            # that is left to the audit, the wait is one in which the one under way has its turns.
            started_at = self._started_at if self._dropping else max(self._started_at, asked_at)
            left = started_at + PRODUCER_WAIT + PRODUCER_WAIT_EACH * self._sending - loop.time()
            if left <= 0:
                return False
            self._moved.clear()
            try:
                async with asyncio.timeout(left):
                    await self._moved.wait()
            except TimeoutError:
                continue
        return True

    async def _run(self) -> None:
        announcing = self._announcing()
        while self._waiting:
            if announcing is not None and self._jobs < LONG_LIST:
                await self._wait_between()
            jobs, inserted = self._next()
            self._sending = len(jobs)
            self._moved.set()
            self._started_at = asyncio.get_running_loop().time()
            try:
                if announcing is not None and len(jobs) < LONG_LIST:
                    began = time.monotonic()
                    await self._announce(announcing, jobs, inserted)
                    spacing = min(MAX_SEND_SPACING, SPACING_IN_ANSWERS * (time.monotonic() - began))
                    self._next_at = began + max(SEND_SPACING, spacing)
                else:
                    await self._publish_batch(jobs, inserted)
            except Exception:
                # No caller waits for this: the rows are committed, and the audit offers them.
                logger.exception("enqueued jobs were not offered")
            finally:
                self._jobs -= len(jobs)
                self._sending = 0
                self._moved.set()

    def _announcing(self) -> AnnouncingDispatcher | None:
        """Return the dispatcher if it takes events, too; to look for its methods takes 5 µs."""
        dispatcher, announcing = self._backend().dispatcher, self._known
        if dispatcher is not announcing[0]:
            announcing = dispatcher, dispatcher if isinstance(dispatcher, AnnouncingDispatcher) else None
            self._known = announcing
        return announcing[1]

    async def _wait_between(self) -> None:
        left = self._next_at - time.monotonic()
        if left > 0 and not self._hurrying:
            loop = asyncio.get_running_loop()
            self._pause = loop.create_future()
            # A producer that goes on ends the pause itself: its process is awake then.
            timer = loop.call_later(left + LAST_SEND_DELAY, self._end_pause)
            await self._pause
            timer.cancel()
        # The next insert of the caller goes out first: the store works on it meanwhile.
        for _ in range(TURNS_TO_NEXT_INSERT):
            await asyncio.sleep(0)

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def _next(self) -> _Creation:
        """Return the next list, with short ones behind it in one."""
        jobs, inserted = self._waiting.popleft()
        while self._waiting and len(jobs) + len(self._waiting[0][0]) < LONG_LIST:
            more = self._waiting.popleft()
            jobs, inserted = [*jobs, *more[0]], [*inserted, *more[1]]
        return jobs, inserted

    async def _announce(
        self, dispatcher: AnnouncingDispatcher, jobs: Sequence[NewJob], inserted: Sequence[Inserted]
    ) -> None:
        ready = [Ready(one.id, one.queue, one.rank) for one in inserted if one.rank is not None]
        events = creation_events(jobs, inserted)
        if ready or events:
            try:
                await dispatcher.announce(ready, events)
            except DispatchUnavailable:  # as of `offer`
                self._backend().bus.report_gap({event.queue for event in events})

    async def _publish_batch(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        if len(jobs) < LONG_LIST:
            # A worker waits for the offer, no caller for the event: it comes second. Both go out in one send.
            publishing = asyncio.create_task(self._publish(jobs, inserted))
            await self._offer(inserted)
            await publishing
            return
        # The caller may be about to hand in the next list. The events of this one are encoded
        # while the server inserts that; if none comes, the rounds are over at once.
        for _ in range(ROUNDS_TO_NEXT_INSERT):
            await asyncio.sleep(0)
        await asyncio.gather(self._offer(inserted), self._publish_list(jobs, inserted))

    async def _publish_list(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        # Events without a receiver cost 3 µs a job.
        if not await self._backend().bus.omits({job.queue for job in jobs}):
            await self._publish(jobs, inserted)

    async def _publish(self, jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> None:
        await self._backend().bus.publish(creation_events(jobs, inserted))

    async def _offer(self, inserted: Sequence[Inserted]) -> None:
        dispatcher = self._backend().dispatcher
        if dispatcher is not None:
            # As `Ready(…)` makes them, in half of the time.
            await offer(
                dispatcher,
                [_new(Ready, (job_id, queue, rank)) for job_id, queue, rank, _, _ in inserted if rank is not None],
            )

    async def drain(self) -> None:
        """Wait until everything is published, or a server seems not to come back."""
        if self._task is not None and not self._task.done():
            self._hurrying += 1
            self._end_pause()
            try:
                await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            finally:
                self._hurrying -= 1


def creation_events(jobs: Sequence[NewJob], inserted: Sequence[Inserted]) -> list[Event]:
    """Return the events of new jobs."""
    return [
        Event(
            EventName.CREATED,
            job.queue,
            job.id,
            job.type,
            0,
            {"priority": job.priority, "status": Status.QUEUED}
            if one.due is None
            else {"priority": job.priority, "status": Status.SCHEDULED, "due": one.due},
        )
        for job, one in zip(jobs, inserted, strict=True)
        if one.created
    ]
