"""Delivery inside one process, for stores without a server that wakes and notifies."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakSet

from queue_core.model.events import Event, EventBatch, EventName, by_queue
from queue_core.model.job import Ready
from queue_core.ports.delivery import Nomination


class _Waiter(NamedTuple):
    queues: Sequence[str]
    answer: asyncio.Future[Nomination]


class QueueHints:
    """Queues that a worker should look into, and the workers of this process that wait for one.

    A queue that no worker has asked for yet counts as hinted: its backlog may be older than this process.
    """

    def __init__(self) -> None:
        self._hinted: set[str] = set()
        self._known: set[str] = set()
        self._waiting: deque[_Waiter] = deque()

    def hint(self, queues: Iterable[str]) -> None:
        """Note that these queues may have ready jobs; one waiter a queue is woken, the longest waiting first."""
        self._hinted.update(queues)
        for waiter in list(self._waiting):
            if not waiter.answer.done() and (queue := self.pick(waiter.queues)) is not None:
                waiter.answer.set_result(Nomination(queue, None))

    def hint_all(self) -> None:
        """Note that any queue may have ready jobs, after hints may have been lost."""
        self.hint(list(self._known))

    def pick(self, queues: Sequence[str]) -> str | None:
        """Return the first of these queues that may have ready jobs, now; it does not count as hinted any more."""
        queue = next((one for one in queues if one in self._hinted or one not in self._known), None)
        if queue is not None:
            self._hinted.discard(queue)
            self._known.add(queue)
        return queue

    async def take(self, queues: Sequence[str], timeout: float) -> Nomination | None:
        """Wait until one of these queues may have ready jobs; None after `timeout` seconds."""
        if (queue := self.pick(queues)) is not None:
            return Nomination(queue, None)
        waiter = _Waiter(queues, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                return await waiter.answer
        except TimeoutError:
            # It may have come in the same round of the event loop.
            return None if waiter.answer.cancelled() else waiter.answer.result()
        except asyncio.CancelledError:
            if waiter.answer.done() and not waiter.answer.cancelled():
                self.hint([waiter.answer.result().queue])
            raise
        finally:
            self._waiting.remove(waiter)


BUFFERED_MESSAGES = 1000
"""Messages that wait for a slow subscriber before it gets a gap instead."""

_FINAL = frozenset({EventName.COMPLETED, EventName.DEAD, EventName.CANCELLED})


class LocalDispatcher:
    """Wakes one waiter for each job that is offered; which jobs these are, the store knows."""

    holds_ids = False

    def __init__(self) -> None:
        self._hints = QueueHints()

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Wake those who wait for the queues of these jobs, the longest waiting first; keep the hint for who comes."""
        for job in ready:
            self._hints.hint([job.queue])

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        """Wait until one of the queues may have ready jobs; the store is to be asked for them."""
        return await self._hints.take(queues, timeout)

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Do nothing: no ids are held."""

    async def missing(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return the first ready job of each queue: idle workers should look."""
        return list({job.queue: job for job in reversed(heads)}.values())

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return nothing: what is in this process does not go before it."""
        return []

    async def mark_current(self, queue: str) -> None:
        """Do nothing: it was never in doubt."""

    async def ping(self) -> float:
        """Return 0: there is no way to go."""
        return 0.0

    async def facts(self) -> dict[str, Any]:
        """Return nothing: there is no server."""
        return {}

    async def close(self) -> None:
        """Nothing is connected."""


class _Mailbox:
    """What one subscriber has not read yet."""

    def __init__(self, size: int) -> None:
        self._batches: asyncio.Queue[EventBatch] = asyncio.Queue(size)
        self._overflowed = False

    def put(self, batch: EventBatch) -> None:
        try:
            self._batches.put_nowait(batch._replace(gap=batch.gap or self._overflowed))
            self._overflowed = False
        except asyncio.QueueFull:
            self._overflowed = True

    async def read(self) -> AsyncIterator[EventBatch]:
        while True:
            if self._overflowed and self._batches.empty():
                self._overflowed = False
                yield EventBatch("", "", 0, time.time(), (), gap=True)
            yield await self._batches.get()


class LocalEventBus:
    """Hands events to the subscribers of this process. A slow one loses messages, which a gap shows."""

    def __init__(self, buffer: int = BUFFERED_MESSAGES) -> None:
        self._buffer = buffer
        self._generation = uuid4().hex[:12]
        self._numbers: Counter[str] = Counter()
        # A subscriber that goes without a word is forgotten with its mailbox.
        self._mailboxes: WeakSet[_Mailbox] = WeakSet()
        self._watching: dict[str, list[asyncio.Event]] = {}

    async def publish(self, events: Sequence[Event]) -> None:
        """Hand events on, one message a queue."""
        for queue, group in by_queue(events).items():
            self._numbers[queue] += 1
            self.deliver(EventBatch(queue, self._generation, self._numbers[queue], time.time(), tuple(group)))

    async def omits(self, queues: Collection[str]) -> bool:
        """Return whether this process has no subscribers, and waits for the end of no job."""
        return not self.heard and not self._watching

    def report_gap(self, queues: Collection[str]) -> None:
        """Show a gap."""
        for queue in queues:
            self._numbers[queue] += 1
            self.deliver(EventBatch(queue, self._generation, self._numbers[queue], time.time(), (), gap=True))

    def deliver(self, batch: EventBatch) -> None:
        """Hand a message, from here or from elsewhere, to every subscriber of this process."""
        for mailbox in tuple(self._mailboxes):
            mailbox.put(batch)
        self.notify(event.id for event in batch.events if event.event in _FINAL)

    @property
    def heard(self) -> bool:
        """Whether this process has subscribers."""
        return bool(self._mailboxes)

    @property
    def watched(self) -> list[str]:
        """The jobs whose end is waited for in this process."""
        return list(self._watching)

    def notify(self, finished: Iterable[str]) -> None:
        """Wake those who wait for the end of these jobs."""
        for job_id in finished:
            for ended in self._watching.get(job_id, ()):
                ended.set()

    def subscribe(self) -> AsyncIterator[EventBatch]:
        """Yield batches from now on; the first is empty and a gap, for nothing before it was seen."""
        mailbox = _Mailbox(self._buffer)
        mailbox.put(EventBatch("", self._generation, 0, time.time(), (), gap=True))
        self._mailboxes.add(mailbox)
        return mailbox.read()

    @asynccontextmanager
    async def watch(self, queue: str, job_id: str) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Listen for the end of a job: once inside the context, no message from then on is missed."""
        ended = asyncio.Event()

        async def wait(seconds: float) -> bool:
            try:
                async with asyncio.timeout(seconds):
                    await ended.wait()
            except TimeoutError:
                return False
            ended.clear()
            return True

        self._watching.setdefault(job_id, []).append(ended)
        try:
            yield wait
        finally:
            self._watching[job_id].remove(ended)
            if not self._watching[job_id]:
                del self._watching[job_id]

    async def close(self) -> None:
        """Nothing is connected."""
