"""What jobs leave behind while they run: lines of their logs, for the store, and events, for subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock, Timer
from typing import NamedTuple

from queue_core.client.effects import events_of
from queue_core.client.logs import OutageLog
from queue_core.errors import StoreUnavailable
from queue_core.model.events import RESULT_BYTES, Event, EventName
from queue_core.model.job import MAX_LOG_LINES, Claim, LogLine, Outcome, Settled, attempt_of
from queue_core.model.rules import Rules, rules_of
from queue_core.ports.delivery import EventBus
from queue_core.ports.store import JobStore
from queue_core.worker.attempt import RunningAttempt

logger = logging.getLogger("queue_core.worker")


LINES_PER_WRITE = 1000
"""Lines written at a time."""
WRITE_INTERVAL = 0.25
"""Seconds between two batches while jobs go on writing, so that a loop of lines cannot keep the store busy. The first
line of a quiet worker does not wait, nor does the end of an attempt."""
RETRY_SECONDS = 2.0
"""Seconds until lines are tried again while the store is away."""
MAX_BYTES = 16 << 20
"""Characters of all waiting lines; beyond, a writer loses its own oldest ones."""


class _Written(NamedTuple):
    """A line that waits."""

    attempt: RunningAttempt
    line: int
    text: str
    # seconds of the monotonic clock
    at: float


class Journal:
    """The waiting lines of a worker's attempts, and the loop that writes them."""

    def __init__(self, store: JobStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        # Handlers write from any thread.
        self._lock = threading.Lock()
        self._waiting: dict[RunningAttempt, deque[_Written]] = {}
        self._size = 0
        self._sending: frozenset[RunningAttempt] = frozenset()
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def busy(self) -> bool:
        """Whether there are lines that are not written yet."""
        return bool(self._waiting or self._sending)

    def note(self, attempt: RunningAttempt, text: str, line: int = 0) -> bool:
        """Note a line, numbered already or not, from any thread; True when lines come faster than they are written."""
        with self._lock:
            lines = self._waiting.get(attempt)
            first = lines is None
            if lines is None:
                lines = self._waiting[attempt] = deque()
            attempt.logged = line or attempt.logged + 1
            lines.append(_Written(attempt, attempt.logged, text, self._monotonic()))
            self._size += len(text)
            full = len(lines) > MAX_LOG_LINES or (self._size > MAX_BYTES and len(lines) > 1)
            if full:
                self._size -= len(lines.popleft().text)
        if first:
            self._wake_up()
        return full

    def _wake_up(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended; a thread that was given up writes on
                self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self) -> None:
        """Write for ever."""
        self._loop = asyncio.get_running_loop()
        self._wake.set()
        waits = OutageLog(logger, "lines of job logs wait")
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.write()
                waits.worked()
            except StoreUnavailable as error:
                waits.failed(error)
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()
            await asyncio.sleep(WRITE_INTERVAL)

    async def write_first(self, attempts: Iterable[RunningAttempt]) -> None:
        """Write the lines of attempts that are about to end.

        Raises:
            StoreUnavailable: see `write`.
        """
        mine = [attempt for attempt in attempts if attempt in self._waiting or attempt in self._sending]
        if mine:
            await self.write(mine)

    async def write(self, attempts: Collection[RunningAttempt] | None = None) -> None:
        """Write the waiting lines, of these attempts or of all.

        Raises:
            StoreUnavailable: the store did not answer in time; the lines go on waiting.
        """
        async with self._turn:
            lines = self._take(attempts)
            self._sending = frozenset(line.attempt for line in lines)
            try:
                while lines:
                    await self._write(lines[:LINES_PER_WRITE])
                    del lines[:LINES_PER_WRITE]
            finally:
                self._put_back(lines)
                self._sending = frozenset()

    async def _write(self, part: list[_Written]) -> None:
        now = self._monotonic()
        try:
            answers = await self._store.log([_line(written, now) for written in part])
        except StoreUnavailable:
            raise
        except Exception:
            # Something in them cannot be stored; no job may wait for that.
            logger.exception("%d lines of job logs cannot be stored", len(part))
            return
        for written, accepted in zip(part, answers, strict=True):
            written.attempt.unheard |= not accepted

    def _take(self, attempts: Collection[RunningAttempt] | None) -> list[_Written]:
        with self._lock:
            chosen = list(self._waiting) if attempts is None else attempts
            lines = [written for attempt in chosen for written in self._waiting.pop(attempt, ())]
            self._size -= sum(len(written.text) for written in lines)
        return lines

    def _put_back(self, lines: list[_Written]) -> None:
        with self._lock:
            for written in reversed(lines):
                waiting = self._waiting.setdefault(written.attempt, deque())
                if len(waiting) < MAX_LOG_LINES:
                    waiting.appendleft(written)
                    self._size += len(written.text)


def _line(written: _Written, now: float) -> LogLine:
    claim = written.attempt.claim
    return LogLine(claim.id, claim.token, claim.queue, written.line, written.text, max(0.0, now - written.at))


MAX_EVENTS = 20_000
"""Events kept while the bus is slow; what comes beyond is dropped, and subscribers see a gap."""
EVENTS_PER_SEND = 1000
"""Events handed to the bus at a time."""
MAX_RESULTS = 2000
"""Waiting events beyond which the ends of jobs are published without results: some 16 MB."""
CHECK_LISTENERS_FROM = 50
"""Events from which on it costs less to ask for listeners than to make what has none."""
SMALL_VALUE = 1000
"""Characters of a payload or a result up to which a claim or an outcome is kept for its event: 20 MB in all."""

Noted = Event | Claim | Outcome
"""An event, or that of which one is made: a job that begins, or one that has completed."""


class EventPublisher:
    """A buffer and the loop that empties it.

    A job that begins and one that completes are kept as they are, and their events are made only if there are listeners
    when their turn comes: the bus is asked behind the change, so who subscribes later reads it in the store.
    """

    def __init__(self, bus: EventBus, worker: str = "", rules: Rules | None = None) -> None:
        self._bus = bus
        self._worker = worker
        self._rules = {} if rules is None else rules
        self._buffer: list[Noted] = []
        # queues of which events are missing
        self._dropped: set[str] = set()
        self._wake = asyncio.Event()
        self._closing = False

    def publish(self, noted: Noted) -> None:
        """Note an event, or that of which one can be made."""
        if not self._buffer:
            self._wake.set()
        if len(self._buffer) < MAX_EVENTS:
            self._buffer.append(noted)
        else:
            self._dropped.add(noted.queue)

    def started(self, claim: Claim) -> None:
        """Note that a claimed job begins."""
        self.publish(claim if len(claim.payload) <= SMALL_VALUE else self._claimed(claim))

    def ended(self, outcome: Outcome, answer: Settled) -> None:
        """Note how an attempt ended, with what the handler returned where its queue publishes results."""
        result = outcome.result
        if result is not None and self._rules and rules_of(self._rules, outcome.queue).publish_results:
            fits = len(result) <= RESULT_BYTES and len(self._buffer) < MAX_RESULTS
            for event in events_of(outcome, answer):
                self.publish(event._replace(result=result if fits else ""))
        elif outcome.kind == "completed" and (result is None or len(result) <= SMALL_VALUE):
            self.publish(outcome)
        else:
            for event in events_of(outcome, answer):
                self.publish(event)

    def enter(self, state: str) -> None:
        """Note that the worker enters a state."""
        self.publish(Event(EventName.WORKER, "", self._worker, extra={"state": state, "pid": os.getpid()}))

    def report_gap(self, queues: Collection[str]) -> None:
        """Have subscribers see a gap: events of these queues may be missing."""
        self._dropped.update(queues)
        self._wake.set()

    async def run(self) -> None:
        """Send until closed and empty."""
        while self._buffer or self._dropped or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            while self._buffer or self._dropped:
                part, self._buffer = self._buffer[:EVENTS_PER_SEND], self._buffer[EVENTS_PER_SEND:]
                dropped, self._dropped = self._dropped, set()
                if events := await self._events(part):
                    await self._bus.publish(events)
                if dropped:
                    self._bus.report_gap(dropped)

    async def _events(self, part: list[Noted]) -> list[Event]:
        """Return the events to send: all of them if there are listeners."""
        usual = {one.queue for one in part if type(one) is not Event} if len(part) >= CHECK_LISTENERS_FROM else set()
        if usual and await self._bus.omits(usual):
            return [one for one in part if type(one) is Event]
        return [self._event(one) for one in part]

    def _event(self, noted: Noted) -> Event:
        if isinstance(noted, Event):
            return noted
        if isinstance(noted, Claim):
            return self._claimed(noted)
        (event,) = events_of(noted, Settled(noted.id, True))
        return event

    def _claimed(self, claim: Claim) -> Event:
        """Return its `claimed` event."""
        extra = {"priority": claim.priority, "attempt": attempt_of(claim), "worker": self._worker}
        return Event(EventName.CLAIMED, claim.queue, claim.id, claim.type, claim.token, extra)

    async def close(self, loop: asyncio.Task[None], seconds: float = 2.0) -> None:
        """Send what is left, within some seconds."""
        self._closing = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(loop, seconds)


LINES_AT_ONCE = 50
"""Lines handed on as they come in each `LINES_WINDOW`, so that they outlive a crash; those of a loop gather."""
LINES_WINDOW = 0.25
"""Seconds."""

Line = tuple[int, str]


class Relay:
    """The lines of one attempt."""

    def __init__(self, send: Callable[[Sequence[Line]], None]) -> None:
        self._send = send
        self._lock = Lock()
        self._waiting: deque[Line] = deque(maxlen=MAX_LOG_LINES)
        self._count = 0
        self._since = float("-inf")
        self._at_once = 0
        self._timer: Timer | None = None

    def log(self, text: str) -> bool:
        """Note a line, from any thread; True when lines come faster than they are handed on."""
        with self._lock:
            self._count += 1
            full = len(self._waiting) == MAX_LOG_LINES
            self._waiting.append((self._count, text))
            now = time.monotonic()
            if now - self._since >= LINES_WINDOW:
                self._since, self._at_once = now, 0
            if self._at_once < LINES_AT_ONCE:
                self._at_once += 1
                self._hand_on()
            elif self._timer is None:
                self._timer = Timer(LINES_WINDOW, self.flush)
                self._timer.daemon = True
                self._timer.start()
            return full

    def flush(self) -> None:
        """Hand on what has gathered."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._hand_on()

    def _hand_on(self) -> None:
        if self._waiting:
            self._send(list(self._waiting))
            self._waiting.clear()
