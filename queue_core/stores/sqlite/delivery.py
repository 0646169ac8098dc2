"""Delivery by SQLite alone: workers are notified of queues to claim from, by this process at once, by others soon."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from queue_core.delivery.gaps import GapNotices
from queue_core.delivery.local import LocalEventBus, QueueHints
from queue_core.errors import QueueCoreError
from queue_core.model.events import MESSAGE_VERSION, Event, EventBatch, by_queue, decode_message
from queue_core.model.job import Ready
from queue_core.ports.delivery import DispatchUnavailable, Nomination
from queue_core.runtime import end_tasks
from queue_core.stores.sqlite.dialect import texts
from queue_core.stores.sqlite.session import SqliteFile, Transaction

logger = logging.getLogger("queue_core.delivery")


LISTEN_SECONDS = 15.0
"""Seconds that a listener is kept after its last sign of life."""
MESSAGES_PER_READ = 200
"""Messages read at a time."""
MAX_MESSAGES_KEPT = 1_000
"""Messages kept at most; a listener further behind receives a gap."""


@dataclass(frozen=True, slots=True)
class WatchState:
    """How far a process has read."""

    # changes with every commit of another connection; None: never read
    version: tuple[int, int] | None = None
    # queue -> its count of arrivals
    arrived: dict[str, int] = field(default_factory=dict)
    # number of the last message
    message: int = 0


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What is new since an earlier read."""

    state: WatchState
    # queues that may have something to claim
    arrived: Sequence[str] = ()
    messages: Sequence[str] = ()
    # some messages were deleted before they could be read
    missed: bool = False
    # those of the watched jobs that have ended
    ended: Sequence[str] = ()


def poll(transaction: Transaction, state: WatchState, me: str, watched: Sequence[str], everywhere: bool) -> FileChanges:
    """Return what other connections did since the last read; `everywhere` names all queues with ready jobs."""
    version = transaction.version()
    if version == state.version and not everywhere:
        return FileChanges(state)
    arrived: dict[str, int] = dict(transaction.rows("delivery/ready_totals"))
    if everywhere:
        changed = [name for (name,) in transaction.rows("delivery/ready")]
    else:
        changed = [name for name, n in arrived.items() if n != state.arrived.get(name)]
    ((last, first),) = transaction.rows("delivery/numbers")
    if state.version is None:
        return FileChanges(WatchState(version, arrived, last), changed)
    rows = transaction.rows("delivery/messages", (state.message, MESSAGES_PER_READ)) if last > state.message else []
    ended = [job_id for (job_id,) in transaction.rows("delivery/ended", (texts(watched),))] if watched else []
    return FileChanges(
        # With more to read, the version stays as it was, so that the next poll reads on.
        WatchState(
            version if len(rows) < MESSAGES_PER_READ else (0, 0), arrived, rows[-1][0] if rows else state.message
        ),
        changed,
        [body for _, sender, body in rows if sender != me],
        bool(rows) and first > state.message + 1,
        ended,
    )


def heard(transaction: Transaction, me: str) -> bool:
    """Return whether other processes listen."""
    return bool(transaction.rows("delivery/listeners", (me, transaction.now))[0][0])


def register(transaction: Transaction, me: str) -> None:
    """Let the others know that this process listens."""
    transaction.run("delivery/listen", (me, transaction.now + LISTEN_SECONDS))


def notify(transaction: Transaction, me: str, messages: Sequence[str]) -> None:
    """Store messages for the listeners."""
    transaction.run_many("delivery/publish", [(me, body, transaction.now) for body in messages])
    transaction.run("delivery/forget", (MAX_MESSAGES_KEPT,))


FIRST_PAUSE, MAX_PAUSE = 0.05, 0.25
"""Seconds between two reads, growing while nothing changes, with jitter; a read takes some 15 µs."""
ALL_QUEUES_INTERVAL = 5.0
"""Seconds after which all queues with ready jobs are named again, in case a hint was taken and not followed."""
LISTENER_RENEWAL = 5.0
"""Seconds between two notes for other processes that this one listens."""
LISTENER_KNOWN_AFTER = 1.5
"""Seconds after which other processes know of a new listener; earlier events are not sent to it."""


class FileWatcher:
    """One for each queue object; works from the first question on until it is closed."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self.me = uuid4().hex[:12]
        # the workers of this process that wait for jobs
        self.hints = QueueHints()
        # the subscribers of this process, and those who wait for the end of a job
        self.local = LocalEventBus()
        self._state = WatchState()
        self._everywhere_at = float("-inf")
        self._renewed_at = float("-inf")
        self._gap_at: float | None = None
        # number of the last message of each process and queue
        self._last: dict[tuple[str, str], int] = {}
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking; doing it twice is safe."""
        if self._task is None or self._task.done():
            self._hurry = asyncio.Event()  # of this event loop, should there have been another
            self._task = asyncio.create_task(self._run())

    def poll_soon(self) -> None:
        """Read at once and then often: a caller waits for an event."""
        self.start()
        self._hurry.set()

    async def _run(self) -> None:
        pause, lost = FIRST_PAUSE, False
        while True:
            try:
                changed = await self._poll()
                await self._listen()
                lost = False
            except QueueCoreError as error:
                if not lost:
                    logger.warning("what other processes do is not seen for now: %s", error)
                changed, lost = False, True
            pause = FIRST_PAUSE if changed else min(MAX_PAUSE, pause * 1.5)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.5, 1.0)):
                    await self._hurry.wait()
                pause = FIRST_PAUSE
            self._hurry.clear()

    async def _poll(self) -> bool:
        everywhere = time.monotonic() - self._everywhere_at >= ALL_QUEUES_INTERVAL
        watched = self.local.watched
        found = await self._file.read(
            partial(poll, state=self._state, me=self.me, watched=watched, everywhere=everywhere)
        )
        changed = found.state.version != self._state.version
        self._state = found.state
        if everywhere:
            self._everywhere_at = time.monotonic()
        self.hints.hint(found.arrived)
        self.local.notify(found.ended)
        if found.missed:
            self._gap()
        for body in found.messages:
            if (batch := decode_message(body)) is not None:
                key = (batch.generation, batch.queue)
                before = self._last.get(key, batch.number - 1)
                self._last[key] = batch.number
                self.local.deliver(batch if before == batch.number - 1 else batch._replace(gap=True))
        return changed

    async def _listen(self) -> None:
        now = time.monotonic()
        if not self.local.heard:
            self._renewed_at = float("-inf")
        elif now - self._renewed_at >= LISTENER_RENEWAL:
            if self._renewed_at == float("-inf"):
                self._gap_at = now + LISTENER_KNOWN_AFTER
            await self._file.write_soft(partial(register, me=self.me))
            self._renewed_at = now
        if self._gap_at is not None and now >= self._gap_at:
            self._gap_at = None
            self._gap()

    def _gap(self) -> None:
        self.local.deliver(EventBatch("", "", 0, time.time(), (), gap=True))

    async def close(self) -> None:
        """Stop looking; doing it twice is safe."""
        task, self._task = self._task, None
        await end_tasks(task)


class SqliteDispatcher:
    """See queue_core.ports.delivery.Dispatcher for what each method does. It holds no jobs, so there is nothing to
    lose.

    Other processes need no word: whatever makes a job ready also counts it as arrived in its queue.
    """

    holds_ids = False

    def __init__(self, file: SqliteFile, watcher: FileWatcher) -> None:
        self._file = file
        self._watcher = watcher

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Wake those in this process who wait for the queues of these jobs; keep the hint for who comes."""
        for job in ready:
            self._watcher.hints.hint([job.queue])

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        """Wait until one of the queues may have ready jobs; the store is to be asked for them."""
        self._watcher.start()
        return await self._watcher.hints.take(queues, timeout)

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Do nothing: no ids are held."""

    async def missing(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return the first ready job of each queue: idle workers should claim."""
        return list({job.queue: job for job in reversed(heads)}.values())

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return nothing: there is nothing to lose."""
        return []

    async def mark_current(self, queue: str) -> None:
        """Do nothing: it was never in doubt."""

    async def ping(self) -> float:
        start = time.perf_counter()
        try:
            await self._file.read(lambda transaction: transaction.version())
        except QueueCoreError as error:
            raise DispatchUnavailable(str(error)) from error
        return time.perf_counter() - start

    async def facts(self) -> dict[str, Any]:
        """Return nothing: the inspector has the file's facts."""
        return {}

    async def close(self) -> None:
        """Stop watching; doing it twice is safe."""
        await self._watcher.close()


MAX_MESSAGE_EVENTS = 1_000
"""Events in one message."""
LISTENERS_KNOWN_SECONDS = 1.0
"""Seconds for which it is remembered whether other processes listen."""


class SqliteEventBus:
    """See queue_core.ports.delivery.EventBus for what each method does."""

    def __init__(self, file: SqliteFile, watcher: FileWatcher) -> None:
        self._file = file
        self._watcher = watcher
        self._numbers: Counter[str] = Counter()
        self._heard = False
        self._asked_at = float("-inf")
        self._left_out = GapNotices(self._send_gaps)

    async def publish(self, events: Sequence[Event]) -> None:
        if not events:
            return
        await self._watcher.local.publish(events)
        try:
            if await self._is_heard():
                await self._send(list(self._messages(events)))
        except QueueCoreError:  # events are hints; state is read from the store
            self._lose(by_queue(events))

    async def _send(self, messages: Sequence[str]) -> None:
        await self._file.write_soft(partial(notify, me=self._watcher.me, messages=messages))

    def _lose(self, queues: Collection[str]) -> None:
        """Leave out a number of each queue: other processes see a gap."""
        self._numbers.update(list(queues))
        self._left_out.note(queues)

    def report_gap(self, queues: Collection[str]) -> None:
        self._watcher.local.report_gap(queues)
        self._lose(queues)

    async def _send_gaps(self, queues: Sequence[str]) -> None:
        await self._send([self._message(queue, []) for queue in queues])
        for queue in queues:
            self._left_out.shown(queue)

    async def omits(self, queues: Collection[str]) -> bool:
        """Return whether this process has no subscribers and waits for no end, and no other process has subscribers."""
        try:
            return await self._watcher.local.omits(queues) and not await self._is_heard()
        except QueueCoreError:
            return False

    async def _is_heard(self) -> bool:
        if time.monotonic() - self._asked_at >= LISTENERS_KNOWN_SECONDS:
            self._asked_at = time.monotonic()
            self._heard = await self._file.read(partial(heard, me=self._watcher.me))
        return self._heard

    def _messages(self, events: Sequence[Event]) -> Iterator[str]:
        for queue, group in by_queue(events).items():
            for start in range(0, len(group), MAX_MESSAGE_EVENTS):
                yield self._message(queue, group[start : start + MAX_MESSAGE_EVENTS])

    def _message(self, queue: str, events: Sequence[Event]) -> str:
        self._numbers[queue] += 1
        message = {
            "v": MESSAGE_VERSION,
            "queue": queue,
            "gen": self._watcher.me,
            "n": self._numbers[queue],
            "at": round(time.time(), 3),
            "events": [event.body() for event in events],
        }
        return json.dumps(message, separators=(",", ":"))

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches as they come, for ever; what may have been missed shows as a gap."""
        batches = self._watcher.local.subscribe()
        self._watcher.poll_soon()
        return batches

    def watch(self, queue: str, job_id: str) -> AbstractAsyncContextManager[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: inside the context no later event is missed."""
        self._watcher.poll_soon()
        return self._watcher.local.watch(queue, job_id)

    async def close(self) -> None:
        """Stop watching; doing it twice is safe."""
        await self._left_out.close()
        await self._watcher.close()
