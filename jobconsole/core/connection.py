"""The connection to the servers: opened on first use, pinged regularly; it records which one is silent, since when."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from jobconsole.core.alerts import Thresholds
from queue_core.client.health import check_writes, reach
from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.ports.delivery import DispatchUnavailable

if TYPE_CHECKING:
    from queue_core import JobQueue
    from queue_core.client.operations import Operations
    from queue_core.client.schedules import Schedules
    from queue_core.ports.delivery import NotificationHealth


CALM, LOUD = "on-accent", "on-bad"
_TONES = {
    "red": "on-red", "orange": "on-orange", "yellow": "on-yellow", "green": "on-green", "cyan": "on-cyan",
    "blue": "on-blue", "magenta": "on-magenta", "grey": "on-muted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ContextInfo:
    """Where the jobs are that a console shows."""

    # as the configuration file names it; "" for none
    name: str = ""
    # shown in the header; "" for none
    word: str = ""
    # a colour's name; "" chooses one by the word
    colour: str = ""
    # when to notify
    thresholds: Thresholds = field(default_factory=Thresholds)

    @classmethod
    def of(cls, given: Self | str | None) -> Self:
        """Return the facts of a context given by its word, by nothing, or as such facts."""
        if isinstance(given, cls):
            return given
        word = given if isinstance(given, str) else ""
        return cls(word.lower(), word)

    @property
    def tone(self) -> str:
        """The tone of the word: production is highlighted also where no colour is configured."""
        if self.colour:
            return _TONES.get(self.colour, CALM)
        return LOUD if self.word.lower().startswith("prod") else CALM


CHECK_SECONDS = 2.0
"""A server that takes longer than this to answer a ping counts as lost."""
SILENT_SECONDS = 1.0
"""A ping that fails after so long had no answer; drivers have time limits of their own."""
CONNECTING = "still connecting"
"""Why a connection is not usable that has not failed yet."""
NO_ANSWER = f"no answer within {CHECK_SECONDS:g} s"

ServerState = Literal["connecting", "up", "lost"]


@dataclass(frozen=True, slots=True)
class Server:
    """What is known about one server."""

    # postgres, redis or memory
    name: str
    state: ServerState
    # when it came into this state, by this machine's clock
    since: datetime
    # seconds of the last round trip
    latency: float | None = None
    # one sentence why it is lost
    error: str = ""
    # lost by not answering: `since` is when it was asked
    silent: bool = False


_READS_ALONE = re.compile("read.?only", re.IGNORECASE)
"""In the reason of a server that was never meant to be written by a console that is read-only."""


@dataclass(frozen=True, slots=True)
class RefusedWrites:
    """A server answers and takes no writes, as with a full disk."""

    # postgres, redis or sqlite
    server: str
    # when that was found, by this machine's clock
    since: datetime
    # one sentence
    reason: str


@dataclass(frozen=True, slots=True)
class PendingPing:
    """A ping that is under way."""

    answer: asyncio.Task[float]
    # when it was sent, by this machine's clock
    at: datetime


Source: TypeAlias = "JobQueue | Callable[[], JobQueue]"
"""A queue, or what makes one."""


class Connection:
    """A JobQueue that may not be reachable yet, or for the moment."""

    def __init__(self, source: Source, read_only: bool = False) -> None:
        """`source`: a queue, or what makes one; making it is put off until `open`, since it imports the drivers."""
        self._source = source
        self.read_only = read_only
        self._jobs: JobQueue | None = None
        self._opened = False
        # the attempt to open it that is under way
        self._opening: asyncio.Task[None] | None = None
        # pings without an answer as yet
        self._pings: dict[str, PendingPing] = {}
        now = datetime.now(UTC)
        self._servers: dict[str, Server] = {"store": Server("store", "connecting", now)}
        # as found by the last look at writes
        self.refusal: RefusedWrites | None = None

    @property
    def servers(self) -> tuple[Server, ...]:
        """The store, and Redis where it delivers."""
        return tuple(self._servers.values())

    @property
    def store(self) -> Server:
        """The durable store."""
        return self._servers["store"]

    @property
    def delivery(self) -> Server | None:
        """The server that delivers, where it is another one than the store."""
        return self._servers.get("delivery")

    @property
    def deaf(self) -> str:
        """Why no events come, although the store answers, so that it is read each second, and what to do; else ""."""
        # of the event buses, only the one on notifications can be deaf without knowing it from its connection
        bus = None if self._jobs is None else self._jobs.bus
        health: NotificationHealth | None = getattr(bus, "notification_health", None)
        return "" if health is None or health.lost_since is None else health.explanation

    @property
    def usable(self) -> bool:
        """Whether the store answers: then reads and changes are possible."""
        return self._opened and self.store.state == "up"

    @property
    def unusable(self) -> str:
        """Why neither reads nor changes are possible; "" when they are."""
        if self.usable:
            return ""
        return CONNECTING if self.store.state == "connecting" else f"{self.store.name} cannot be reached"

    @property
    def jobs(self) -> JobQueue:
        """The queue; only once it is open.

        Raises:
            RuntimeError: it is not open yet.
        """
        if self._jobs is None or not self._opened:
            raise RuntimeError("the connection is not open yet")
        return self._jobs

    @property
    def schedules(self) -> Schedules:
        """The schedules; where this connection is read-only, what changes one raises `ReadOnly`.

        Raises:
            RuntimeError: it is not open yet.
        """
        return self.jobs.schedules.read_only() if self.read_only else self.jobs.schedules

    @property
    def operations(self) -> Operations:
        """What changes jobs, queues and workers; where this connection is read-only, every change raises `ReadOnly`.

        Raises:
            RuntimeError: it is not open yet.
        """
        return self.jobs.operations.read_only() if self.read_only else self.jobs.operations

    async def check(self) -> None:
        """Open the queue if it is not open, else ping its servers; never raises, the result is in `servers`."""
        if not self._opened:
            await self._open()
        else:
            await self._ping()

    async def check_writes(self) -> None:
        """Look whether the servers that answer take writes, too, as `health` does; the result is in `refusal`.

        Never raises. What reads show is left to them.
        """
        if not self.usable:
            return
        backend = await self.jobs.backend()
        name, delivers = self.store.name, self.delivery is not None and self.delivery.state == "up"
        try:
            await check_writes(backend)
            if delivers and backend.dispatcher is not None:
                name = "redis"
                await reach(backend.dispatcher)
        except (QueueCoreError, DispatchUnavailable) as error:
            self._refused(name, _why(error))
        else:
            self.refusal = None

    def _refused(self, server: str, reason: str) -> None:
        if self.read_only and _READS_ALONE.search(reason):
            self.refusal = None
            return
        before = self.refusal
        since = before.since if before is not None and before.server == server else datetime.now(UTC)
        self.refusal = RefusedWrites(server, since, reason)

    async def close(self) -> None:
        """Close the queue, unless it was given by the caller; safe to call twice."""
        self._opened = False
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
            self._opening = None
        for pending in self._pings.values():
            pending.answer.cancel()
        await asyncio.gather(*(pending.answer for pending in self._pings.values()), return_exceptions=True)
        self._pings.clear()
        jobs, self._jobs = self._jobs, None
        if jobs is not None and jobs is not self._source:
            with suppress(QueueCoreError, OSError, TimeoutError):
                await jobs.close()

    async def _open(self) -> None:
        try:
            if self._jobs is None:
                self._jobs = self._source() if callable(self._source) else self._source
                self._servers = self._named(self._jobs)
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._jobs.open())
            done, _ = await asyncio.wait({self._opening}, timeout=CHECK_SECONDS)
            if not done:
                # It continues, and may still succeed: a driver waits longer than a person.
                self._note("store", None, NO_ANSWER)
                return
            opening, self._opening = self._opening, None
            await opening
        # A ValueError: a driver refuses a parameter of its address.
        except (QueueCoreError, OSError, TimeoutError, ValueError) as error:
            self._note("store", None, _why(error))
            return
        self._opened = True
        await self._ping()

    def _named(self, jobs: JobQueue) -> dict[str, Server]:
        now = datetime.now(UTC)
        servers = {"store": Server(jobs.store.name, "connecting", now)}
        if jobs.settings.mode.endswith("+redis"):
            servers["delivery"] = Server("redis", "connecting", now)
        return servers

    async def _ping(self) -> None:
        assert self._jobs is not None
        pings = [self._ping_one("store", self._jobs.inspector.ping)]
        if "delivery" in self._servers and self._jobs.dispatcher is not None:
            pings.append(self._ping_one("delivery", self._jobs.dispatcher.ping))
        await asyncio.gather(*pings)

    async def _ping_one(self, which: str, ping: Callable[[], Awaitable[float]]) -> None:
        pending = self._pings.get(which)
        if pending is None:
            pending = self._pings[which] = PendingPing(asyncio.ensure_future(ping()), datetime.now(UTC))
        done, _ = await asyncio.wait({pending.answer}, timeout=CHECK_SECONDS)
        if not done:
            # It continues until the store's own time limit. Cancelled, the driver of PostgreSQL would ask the server to
            # cancel the query and wait up to 10 s for that: so long the header showed LIVE.
            self._note(which, None, NO_ANSWER)
            return
        try:
            latency = await pending.answer
        except (QueueCoreError, DispatchUnavailable, OSError, TimeoutError) as error:
            self._note(which, None, _why(error) or NO_ANSWER)
        else:
            self._note(which, latency, "")
        finally:
            del self._pings[which]

    def _note(self, which: str, latency: float | None, error: str) -> None:
        before, pending, now = self._servers[which], self._pings.get(which), datetime.now(UTC)
        state: ServerState = "lost" if error else "up"
        # A server that refuses answers at once.
        unheard = pending is not None and (now - pending.at).total_seconds() >= SILENT_SECONDS
        since = now if pending is None or not (error and unheard) else pending.at
        if before.state == state:
            since, unheard = before.since, unheard or before.silent
        self._servers[which] = Server(before.name, state, since, latency, error, bool(error) and unheard)


def _why(error: Exception) -> str:
    """Return the reason alone: the caller names the server."""
    return error.reason if isinstance(error, StoreUnavailable) else str(error)
