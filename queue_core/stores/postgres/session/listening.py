"""One LISTEN connection a process, shared by everyone who waits for notifications, that comes back by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence

import psycopg

from queue_core.errors import QueueCoreError, StoreUnavailable
from queue_core.model.settings import PostgresSettings
from queue_core.runtime import end_tasks
from queue_core.stores.postgres.dialect import channels_of, load, text_array
from queue_core.stores.postgres.session.bounds import Connection, Try, cut
from queue_core.stores.postgres.session.connection import connect, connection_options, read_address
from queue_core.stores.postgres.session.failures import BROKEN
from queue_core.stores.postgres.session.runner import SerialRunner
from queue_core.stores.postgres.session.sessions import Sessions

logger = logging.getLogger("queue_core.delivery")


FIRST_PAUSE, MAX_PAUSE = 0.1, 10.0
"""Seconds between two tries to connect again, doubling, with jitter."""
PROBE_AFTER = 5.0
"""Seconds without a notification after which this process sends one to all, itself included, as a probe. Every process
that listens receives it, so a fleet sends few."""
PROBE_TIMEOUT = 3.0
"""Seconds within which a probe must be received. On a loaded server it takes some milliseconds."""
POOLED = "behind a pooler, set jobs.postgres.listen_url to a direct address"
DIRECT = "jobs.postgres.listen_url has to lead to the database of jobs.postgres.url, without a pooler in between"
"""What to do when none arrive though LISTEN was accepted: where no address is set for listening, and where one is. That
one is in doubt, too, when nothing answers there."""
CONNECT_TIMEOUT = 5.0
"""Seconds for one try to connect: a way that swallows everything must not pass for one that is merely new."""


class Deaf(Exception):
    """A notification was sent and not received."""


class Notifications:
    """Calls back for each notification, and for each time after which some may have been missed.

    Through a pooler in transaction mode LISTEN is accepted and nothing ever arrives; a connection that hangs looks
    like one on which nothing happens. So only a received notification proves that they arrive: in a silence
    this process sends one, from another connection. `listen_url` is the direct address behind a pooler.
    """

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._prefix = f"{channels_of(settings.schema)}_"
        # for all that this process asks, here and in the store
        self.sessions = Sessions(settings)
        self._direct = settings
        if settings.listen_url is not None:
            read_address(settings.listen_url.get_secret_value(), "jobs.postgres.listen_url")
            self._direct = settings.model_copy(update={"url": settings.listen_url})
        self._runner = SerialRunner(settings, self.sessions)
        # channel -> what is called with each payload
        self._calls: dict[str, list[Callable[[str], None]]] = {"probe": []}
        self._gaps: list[Callable[[], None]] = []
        self._listened: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._known = asyncio.Event()
        # a channel was added, something was heard, or the connection broke
        self._stirred = asyncio.Event()
        self._broken = ""
        self._descriptor = -1
        self._watched = False
        # seconds of time.monotonic
        self._heard_at = self._probed_at = float("-inf")
        self._arriving = False
        self.reason = self.advice = ""
        self.lost_since: float | None = None

    # -- who wants to hear

    def on(self, channel: str, call: Callable[[str], None]) -> None:
        """Call with the payload of each notification of a channel, once started."""
        if channel not in self._calls:
            self._listening.clear()
            self._stirred.set()
        self._calls.setdefault(channel, []).append(call)

    def call_here(self, channel: str, payload: str) -> None:
        """Call in this process alone what a notification would call."""
        for call in self._calls.get(channel, ()):
            call(payload)

    def on_gap(self, call: Callable[[], None]) -> None:
        """Call each time after which notifications may have been missed."""
        self._gaps.append(call)

    def start(self) -> None:
        """Start listening; doing it twice is safe."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def wait_until_listening(self, seconds: float) -> None:
        """Start, and wait up to `seconds` until later notifications would be received."""
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._listening.wait()

    async def known(self, seconds: float) -> bool:
        """Listen, wait until it is known whether notifications arrive, at most so long; return whether they do."""
        self.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._known.wait()
        return self._arriving

    @property
    def arriving(self) -> bool:
        return self._arriving

    async def notify(self, channel: str, messages: Sequence[str]) -> None:
        """Notify a channel of several messages; equal ones arrive once.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        await self._runner.run("listening/notify", {"channel": channel, "messages": text_array(messages)}, light=True)

    async def notify_each(self, messages: Sequence[tuple[str, str]]) -> None:
        """Notify channels of messages, in this order and all at once: each process is woken once.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        channels = text_array([channel for channel, _ in messages])
        await self._runner.run(
            "listening/notify_each",
            {"channels": channels, "messages": text_array([message for _, message in messages])},
            light=True,
        )

    async def ping(self) -> float:
        """Return the seconds that one round trip takes.

        Raises:
            StoreUnavailable: the store did not answer in time.
        """
        start = time.perf_counter()
        await self._runner.run("listening/probe", light=True)
        return time.perf_counter() - start

    async def close(self) -> None:
        """Stop listening; doing it twice is safe."""
        task, self._task = self._task, None
        await end_tasks(task)
        self._arriving = False
        await self.sessions.close()

    # -- the connection

    async def _run(self) -> None:
        pause, failures = FIRST_PAUSE, 0
        while True:
            heard_before = self._heard_at
            try:
                await self._session()
            except Deaf as error:
                self._lost(str(error), POOLED, certain=True)
            except (*BROKEN, psycopg.Error, QueueCoreError) as error:
                failures = 1 if self._heard_at > heard_before else failures + 1
                # A connection that comes back at once is no news.
                certain = failures > 1 or self._heard_at == float("-inf")
                self._lost(_sentence(error), "", certain, ours=not isinstance(error, StoreUnavailable))
            if self._heard_at > heard_before:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(MAX_PAUSE, pause * 2)

    async def _session(self) -> None:
        """Listen on one connection until it breaks, or until it turns out that nothing arrives on it."""
        async with asyncio.timeout(min(CONNECT_TIMEOUT, self._settings.timeout)):
            connection = await connect(self._direct, connection_options(self._direct) | {"prepare_threshold": None})
        loop = asyncio.get_running_loop()
        # a connection that is lost has none any more
        descriptor = self._descriptor = connection.fileno()
        self._watched = False
        self._listened, self._broken = set(), ""
        try:
            connection.add_notify_handler(lambda one: self._hear(one.channel, one.payload))
            await self._listen(connection)
            while not self._broken:
                if self._wanted - self._listened:
                    self._unwatch()
                    await self._listen(connection)
                loop.add_reader(descriptor, self._read, connection)
                self._watched = True
                # What came together with the answer to a statement stirs no reader, and proves nothing: a pooler
                # hands on what comes during a statement, and nothing that comes later.
                self._read(connection, proof=False)
                await self._wait_or_probe()
            raise psycopg.OperationalError(self._broken)
        except Deaf:
            self._unwatch()
            with contextlib.suppress(psycopg.Error, OSError):
                await self._unlisten(connection)
            raise
        finally:
            self._listening.clear()
            self._unwatch()
            await connection.close()

    def _unwatch(self) -> None:
        """Watch the connection no more; once, for another one may have its number as soon as it is lost."""
        if self._watched:
            self._watched = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

    @property
    def _wanted(self) -> set[str]:
        """The channels to listen to: until notifications arrive, that of the probes.

        A pooler in transaction mode keeps what is listened to for its next client, and sends it what comes there.
        """
        return set(self._calls) if self._arriving else {"probe"}

    async def _listen(self, connection: Connection) -> None:
        """Listen to every wanted channel that is not listened to yet, and call for what was missed until then."""
        new = self._wanted - self._listened
        async with self._in_time(connection):
            for channel in sorted(new):
                await connection.execute(load(f"listening/listen_{channel}", self._settings.schema))
                self._listened.add(channel)
        if self._arriving:
            self._listening.set()
            if new:
                for call in self._gaps:
                    call()

    async def _unlisten(self, connection: Connection) -> None:
        async with self._in_time(connection):
            await connection.execute(load("listening/unlisten"))

    @contextlib.asynccontextmanager
    async def _in_time(self, connection: Connection) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        one = Try(loop.time() + self._settings.timeout, self._settings.timeout)
        watch = loop.call_at(one.ends, cut, connection, one)
        try:
            yield
        finally:
            watch.cancel()

    def _read(self, connection: Connection, proof: bool = True) -> None:
        """Take what the server has sent while nothing is asked on this connection."""
        try:
            connection.pgconn.consume_input()
            while (one := connection.pgconn.notifies()) is not None:
                encoding = connection.info.encoding
                if proof:
                    self._heard()
                self._hear(one.relname.decode(encoding), one.extra.decode(encoding))
        except psycopg.OperationalError as error:
            self._unwatch()
            self._broken = _sentence(error)
            self._stirred.set()

    def _hear(self, channel: str, payload: str) -> None:
        self.call_here(channel.removeprefix(self._prefix), payload)

    # -- whether notifications arrive

    async def _wait_or_probe(self) -> None:
        """Wait as long as there is no doubt that notifications arrive; then find out.

        Raises:
            Deaf: they do not.
            StoreUnavailable: the store does not answer either.
        """
        self._stirred.clear()
        doubt = self._heard_at + PROBE_AFTER * random.uniform(1.0, 1.5) - time.monotonic() if self._arriving else 0.0
        if doubt > 0:
            await self._stir(doubt)
            return
        self._probed_at = time.monotonic()
        await self.notify("probe", [""])
        while self._heard_at < self._probed_at and not self._broken:
            if (left := self._probed_at + PROBE_TIMEOUT - time.monotonic()) <= 0:
                raise Deaf(f"one that was sent was not heard within {PROBE_TIMEOUT:g} s")
            await self._stir(left)

    async def _stir(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        self._stirred.clear()

    def _heard(self) -> None:
        if self._heard_at < self._probed_at:
            self._stirred.set()
        self._heard_at = time.monotonic()
        if self._arriving:
            return
        self._arriving = True
        self._known.set()
        if self.lost_since is not None:
            logger.warning("notifications arrive again after %.1f s", time.time() - self.lost_since)
        self.lost_since, self.reason, self.advice = None, "", ""

    def _lost(self, reason: str, advice: str, certain: bool, ours: bool = True) -> None:
        """Note why notifications do not arrive, and what to do; `ours`: the fault is at the listening connection."""
        if ours and self._direct is not self._settings:
            reason, advice = f"jobs.postgres.listen_url: {reason}", DIRECT
        self._arriving = False
        if not certain:
            logger.info("notifications are interrupted: %s", reason)
            return
        self.reason, self.advice = reason, advice
        self._known.set()
        if self.lost_since is None:
            self.lost_since = time.time()
            logger.warning(
                "notifications do not arrive, looking into the store every 0.05 to 1 s instead: %s", self.explanation
            )

    @property
    def explanation(self) -> str:
        return f"{self.reason}; {self.advice}" if self.advice else self.reason


def _sentence(error: BaseException) -> str:
    if isinstance(error, StoreUnavailable):
        return error.reason
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
