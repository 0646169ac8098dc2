"""The heartbeat: a thread of its own with a connection of its own, so that no handler can hold it up."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from queue_core.client.tasks import Duration
from queue_core.errors import ConfigurationError, QueueCoreError, StoreUnavailable
from queue_core.model.events import Event, EventName
from queue_core.model.job import Stray
from queue_core.model.settings import SHORTEST_LEASE, Defaults
from queue_core.model.validation import MAX_DELAY_SECONDS, parse_duration
from queue_core.ports.store import (
    HeartbeatReply,
    HeartbeatRequest,
    LeaseRenewal,
    Neighbour,
    StoreHeartbeat,
)
from queue_core.worker import neighbours
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.claims import Claims
from queue_core.worker.journal import EventPublisher
from queue_core.worker.stacks.answer import StackAnswers

logger = logging.getLogger("queue_core.worker")


HEARTBEAT_TICK = 1.0
"""Seconds between two small heartbeats, which carry progress there and orders and cancellations back."""
IDLE_TICK = 15.0
"""The same while a worker holds nothing and orders reach it at once."""
CLOSE_SECONDS = 5.0
"""What the last heartbeat may take at the end of a worker."""
LEASE_MARGIN = 0.2
"""Part of a lease before whose end a worker that cannot reach the store stops its own jobs."""


class Listener(Protocol):
    """What receives the store's answers, in the event loop's thread."""

    def stop_jobs(self, ids: list[str], lost: bool) -> None:
        """Stop jobs whose lease is lost, or that have a cancel request."""
        ...

    def apply_command(self, command: str) -> None:
        """Carry out quiet, resume or stop."""
        ...

    def drop(self, attempts: Sequence[RunningAttempt]) -> None:
        """Forget jobs that were handed back before they began."""
        ...

    def release(self, strays: Sequence[Stray]) -> None:
        """Give back what claims have given whose answers did not come, but for what is held all the same."""
        ...

    def update_neighbours(self, neighbours: Sequence[Neighbour]) -> None:
        """Take note of the other workers at this place."""
        ...


@dataclass(frozen=True, slots=True)
class Times:
    """How long a lease lasts and how often it is renewed, in seconds."""

    lease: float
    interval: float

    @property
    def tick(self) -> float:
        """Return the seconds between two reads; a short lease shortens them."""
        return min(HEARTBEAT_TICK, self.interval)

    @property
    def idle(self) -> float:
        """Return the seconds between two heartbeats of a worker that has nothing to report."""
        return min(IDLE_TICK, self.interval)


def seconds(value: Duration, what: str, least: float = 0.0) -> float:
    """Return a duration in seconds.

    Raises:
        ConfigurationError: it is none, too short, or more than a hundred years; `what` names it.
    """
    try:
        found = parse_duration(value)
    except ValueError as error:
        raise ConfigurationError(f"{what}: {error}") from None
    if not least <= found <= MAX_DELAY_SECONDS:
        wrong = f"must be at least {least:g} s" if found < least else "is more than a hundred years"
        raise ConfigurationError(f"{what} ({found:g} s) {wrong}")
    return found


def times_of(defaults: Defaults, lease: Duration | None, heartbeat: Duration | None) -> Times:
    """Return how long leases last and how often they are renewed.

    Raises:
        ConfigurationError: no durations, or a heartbeat that comes too late for the lease.
    """
    length = defaults.lease if lease is None else seconds(lease, "a worker's lease", SHORTEST_LEASE)
    followed = defaults.heartbeat if lease is None else length / 5
    interval = followed if heartbeat is None else seconds(heartbeat, "a worker's heartbeat")
    if not 0 < interval <= length / 2:
        raise ConfigurationError(f"the heartbeat ({interval:g} s) must be at most half of the lease ({length:g} s)")
    return Times(length, interval)


class Heartbeat:
    """Renews every held lease each interval; in between, only those with something to report."""

    def __init__(
        self,
        store_heartbeat: StoreHeartbeat,
        identity: Callable[[], HeartbeatRequest],
        times: Times,
        held: dict[str, RunningAttempt],
        publisher: EventPublisher,
        listener: Listener,
        claims: Claims,
    ) -> None:
        self._store_heartbeat = store_heartbeat
        self._identity = identity
        self._times = times
        self._held = held
        self._publisher = publisher
        self._listener = listener
        self._claims = claims
        # the event loop is blocked, and what has not started is still to be handed back; some of that was in vain
        self._stalled, self._owed = threading.Event(), False
        # where others on this machine find this process
        self.place, self._process = neighbours.place(), neighbours.process()
        # whether orders reach the worker at once, and has claimed nothing lately; set by the worker
        self.may_rest: Callable[[], bool] = lambda: False
        # whether orders and requests reach the worker at once; set by the worker
        self.hears: Callable[[], bool] = lambda: False
        # the last heartbeat has announced that the next one may come later
        self._rested = self._called = False
        self._renewed_at = float("-inf")
        # part of the store -> the mark of the server that answered last
        self._marks: dict[str, str] = {}
        # what waits until the store knows the worker as it is now
        self._then: deque[Callable[[], None]] = deque()
        self._stop, self._woken = threading.Event(), threading.Event()
        # the thread has come to its end
        self._ended = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_full = float("-inf")
        self._failed_since: float | None = None
        # seconds of time.monotonic at which the heartbeat under way was started
        self._renewing_since: float | None = None

    def start(self) -> None:
        """Start the thread; the first heartbeat announces the worker."""
        self._loop = asyncio.get_running_loop()
        self._stacks = StackAnswers(
            self._store_heartbeat, lambda: self._identity().worker, self._held, self._loop, threading.get_ident()
        )
        self._thread = threading.Thread(target=self._live, name="heartbeat", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop the thread; doing it twice, or before the start, is safe."""
        self._stop.set()
        self._woken.set()
        if self._thread is not None:
            # Not joined in one of the loop's own threads: handlers may have taken all of them, for ever.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), CLOSE_SECONDS)
                self._thread.join(CLOSE_SECONDS)

    def hand_back(self) -> None:
        """Give back with the next heartbeat what has not started, since the event loop is blocked; from any thread."""
        self._stalled.set()

    def _hand_back(self) -> None:
        """Let the leases end of all that has not started, also of what answers to claims hold that are not read."""
        unread, last = self._claims.void()
        held = list(self._held.values())
        waiting = [attempt for attempt in held if not attempt.started]
        for attempt in waiting:
            attempt.handed_back = True
        self._owed |= unread or bool(waiting)
        if self._owed:
            started = [one.claim.id for one in held if one.started]
            self._store_heartbeat.hand_back(self._identity().worker, started, last)
            logger.warning(
                "the event loop stands still; jobs that have not begun here are given back: %d", len(waiting)
            )
            self._in_loop(self._listener.drop, waiting)
            self._owed = False
        self._stalled.clear()

    def wake(self) -> None:
        """Send a heartbeat now: an order was left."""
        self.show()

    def show(self, *then: Callable[[], None]) -> None:
        """Send a heartbeat now, and call these in the loop once the store knows the worker as it is now."""
        self._then.extend(then)
        self._called = True
        self._woken.set()

    def _rests(self, now: float) -> bool:
        quiet = not self._held and self.may_rest()
        return quiet and self._rested and not self._called and now - self._renewed_at < self._times.idle

    def _live(self) -> None:
        try:
            while not self._stop.is_set():
                self.run_once()
                self._woken.wait(self._times.tick)
                self._woken.clear()
            self.end()
        finally:
            self._in_loop(self._ended.set)

    def run_once(self) -> None:
        """Send one heartbeat, unless the worker rests: what the thread does each tick."""
        now = time.monotonic()
        if self._rests(now):
            return
        full = now - self._last_full >= self._times.interval - self._times.tick / 2
        self._renewing_since = now
        called, self._called = self._called, False
        try:
            if self._stalled.is_set():
                self._hand_back()
            failure = self._renew(full, called)
            self._answer(called)
            if failure is not None:
                raise failure
            if full:
                self._last_full = now
            self._failed_since = None
        except Exception as error:  # every lease depends on this thread
            self._rested = False
            if self._failed_since is None:
                self._failed_since = now
                unexpected = not isinstance(error, QueueCoreError)
                logger.warning("heartbeat failed: %s", error, exc_info=unexpected)
            self._give_up_in_time(time.monotonic())
        self._renewing_since = None

    def end(self) -> None:
        """Give back what claims in doubt hold, and the connection: what the thread does last."""
        if self._claims.doubts(True) or self._claims.doubt_until():
            with suppress(Exception):  # what is left is left until its lease ends
                self._store_heartbeat.hand_back(self._identity().worker, [], self._claims.void()[1])
        self._store_heartbeat.close()

    def _answer(self, called: bool) -> None:
        """Answer where jobs are, when asked: a request wakes this thread, or, where none arrives, is looked for."""
        self._stacks.memory.sample()
        if called or (self._held and not self.hears()):
            try:
                self._stacks.run_once()
            except Exception as error:  # the leases are renewed: that is what this thread is for
                logger.warning("no stack was answered: %s", error, exc_info=not isinstance(error, QueueCoreError))

    def _renew(self, full: bool, called: bool = False) -> StoreUnavailable | None:
        """Send a heartbeat; return why the store has answered for a part of the leases alone, None: for all."""
        held = [attempt for attempt in list(self._held.values()) if attempt.started or not attempt.handed_back]
        attempts = [attempt for attempt in held if full or attempt.unreported or attempt.start_unreported()]
        progressed = [attempt for attempt in attempts if attempt.unreported]
        for attempt in progressed:
            attempt.unreported = False
        sent, shown = time.monotonic(), len(self._then)
        renewals = [LeaseRenewal(a.claim.id, a.claim.token, a.progress, a.message, a.started > 0) for a in attempts]
        rests = not self._held and self.may_rest()
        request = self._identity()._replace(
            leases=renewals,
            interval=self._times.idle if rests else self._times.tick,
            place=self.place,
            process=self._process,
            # A resting worker learns of those that come to its place, or leave it.
            with_neighbours=self._process != "" and (full or called or not rests),
            doubts=self._claims.doubts(full),
            doubt_until=self._claims.doubt_until(),
            held_in=tuple({attempt.claim.queue for attempt in held}),
        )
        try:
            reply = self._store_heartbeat.renew(request)
        except Exception:
            for attempt in progressed:
                attempt.unreported = True
            raise
        self._note_marks(reply.marks)
        if reply.failure is None:
            self._rested, self._renewed_at = rests, sent
            for _ in range(shown):
                self._in_loop(self._then.popleft())
        unknown = frozenset(reply.unknown)
        for attempt, renewal in zip(attempts, renewals, strict=True):
            if renewal.id not in unknown:
                attempt.renewed = sent
                attempt.ahead = attempt.ahead and not renewal.started
        for attempt in progressed:
            attempt.unreported = attempt.unreported or attempt.claim.id in unknown
        self._pass_on(held, [attempt for attempt in progressed if attempt.claim.id not in unknown], reply)
        return reply.failure

    def _pass_on(self, held: list[RunningAttempt], progressed: list[RunningAttempt], reply: HeartbeatReply) -> None:
        if progressed:
            self._in_loop(self._announce, progressed)
        for ids, lost in ((reply.lost, True), (reply.cancel, False)):
            if ids:
                self._in_loop(self._stop_held, [attempt for attempt in held if attempt.claim.id in ids], lost)
        # What was held when the heartbeat was sent may have ended meanwhile.
        known = {(attempt.claim.id, attempt.claim.token) for attempt in held}
        if strays := [stray for stray in reply.strays if (stray.id, stray.token) not in known]:
            self._in_loop(self._listener.release, strays)
        if reply.neighbours is not None:
            self._in_loop(self._listener.update_neighbours, reply.neighbours)
        if reply.command:
            self._in_loop(self._listener.apply_command, reply.command)

    def _note_marks(self, marks: Mapping[str, str]) -> None:
        """Ask for the leases of all claims where another server answers now than before."""
        # On a cluster the successor is a node that was none of those that answered.
        if self._marks and not marks.items() <= self._marks.items():
            self._claims.note_takeover()
        self._marks |= marks

    def _stop_held(self, attempts: list[RunningAttempt], lost: bool) -> None:
        # By now this worker may have claimed one of these jobs again: that attempt goes on.
        self._listener.stop_jobs([one.claim.id for one in attempts if self._held.get(one.claim.id) is one], lost)

    def _announce(self, progressed: list[RunningAttempt]) -> None:
        for attempt in progressed:
            claim = attempt.claim
            if self._held.get(claim.id) is not attempt:
                continue  # it ended meanwhile, and subscribers know it
            extra = {"progress": attempt.progress, "message": attempt.message}
            self._publisher.publish(Event(EventName.PROGRESS, claim.queue, claim.id, claim.type, claim.token, extra))

    def _give_up_in_time(self, now: float) -> None:
        """Stop jobs whose lease may end before the store is back: another worker may run them from then on."""
        limit = now - self._times.lease * (1 - LEASE_MARGIN)
        late = [attempt for attempt in list(self._held.values()) if attempt.renewed < limit]
        if late:
            self._in_loop(self._stop_held, late, True)

    async def watch(self) -> None:
        """Stop jobs in time also while a heartbeat hangs, for ever: a server may accept it and never answer."""
        while True:
            await asyncio.sleep(self._times.tick)
            now, since = time.monotonic(), self._renewing_since
            if since is not None and now - since > 2 * self._times.tick:
                self._give_up_in_time(now)

    def _in_loop(self, call: Callable[..., None], *args: object) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)


@cache
def version() -> str:
    """Return this program's version; reading it takes half a millisecond."""
    try:
        return importlib.metadata.version("jobconsole")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
