"""Delivery through Redis, and the markers by which an emptied or replaced server is found."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from queue_core.delivery.pairing import PairingRecord
from queue_core.model.events import Event, by_queue, encode_events, encode_text
from queue_core.model.job import Ready
from queue_core.model.settings import RedisSettings
from queue_core.ports.delivery import DispatchUnavailable, Nomination
from queue_core.redis.circuit import CircuitBreaker
from queue_core.redis.client import keys_of, make_client, place_of, within
from queue_core.redis.facts import server_facts
from queue_core.redis.keys import ClusterKeys, Keys
from queue_core.redis.pipeline import PipelinedConnection
from queue_core.redis.scripts import Call, Scripts

logger = logging.getLogger("queue_core.delivery")


_T = TypeVar("_T")


MARKER_REREAD_SECONDS = 5.0
"""Seconds after which the marker of a queue is read again although the server's own is there: it may have been removed
to have the ready set rebuilt, or overwritten."""
QUEUES_PER_TRIP = 100
"""Queues looked at in one round trip, and of those that were whole before, in one round."""


UNKNOWN_RUN = "unknown"
"""In place of the run id of a server whose user may not run INFO."""


def run_of(information: Any) -> str:
    """Return the run id that a server answers to INFO, or that it is not known.

    Raises:
        redis.RedisError: what it answers is another error.
    """
    if isinstance(information, NoPermissionError):
        return UNKNOWN_RUN
    if isinstance(information, BaseException):
        raise information
    return str(information["run_id"])


def is_of(marker: object, run: str | None) -> bool:
    """Return whether a marker was written in this run of the server; where that is not known, whether there is one."""
    return isinstance(marker, str) and marker != "" and run in (UNKNOWN_RUN, marker.partition(":")[0])


class ReadySetMarkers:
    """Show whether ready sets are whole: each marker begins with the run id of the server on which it was written.

    After a restart or a failover the id is another one, after FLUSHALL the marker is gone. One marker is for the
    server, so that queues about which nothing is doubtful cost nothing; one for each queue shows that it was rebuilt.
    Without the right to run INFO only a marker that is gone shows anything: what a restart or a failover has lost, the
    audit finds as it finds a lost offer.
    """

    def __init__(self, client: Redis, scripts: Scripts, keys: Keys, ready: str) -> None:
        self._client = client
        self._scripts = scripts
        self._keys = keys
        self._ready = ready
        # the server's marker as last read
        self._marker = ""
        # whether it was logged that the run id is not known
        self._noted = False
        # time.monotonic at which queues were last found whole under this marker, the longest ago first
        self._whole_at: dict[str, float] = {}

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return those of the queues whose ready sets may have lost jobs since they were declared whole."""
        run = await self._check_server()
        now = time.monotonic()
        new = [queue for queue in queues if queue not in self._whole_at]
        asked, due = set(queues), now - MARKER_REREAD_SECONDS
        old = [queue for queue, at in self._whole_at.items() if at <= due and queue in asked][:QUEUES_PER_TRIP]
        found: list[str] = []
        for part in _parts([*new, *old]):
            for queue, whole in zip(part, await self._check_queues(part, run), strict=True):
                self._whole_at.pop(queue, None)
                if whole:
                    self._whole_at[queue] = now
                else:
                    found.append(queue)
        return found

    async def mark_current(self, queue: str) -> None:
        """Declare a ready set whole."""
        await self.write_markers([queue])
        self._whole_at.pop(queue, None)
        self._whole_at[queue] = time.monotonic()

    async def write_markers(self, queues: Sequence[str]) -> None:
        """Declare ready sets whole, for all processes; this one reads it the next time, too."""
        run = await self._read_run(queues)
        for part in _parts(queues):
            commands = self._client.pipeline(transaction=False)
            for queue in part:
                marker = f"{self._run_of(queue, run)}:{secrets.token_hex(4)}"
                commands.set(self._keys.of(queue, "generation"), marker)
            await commands.execute()

    async def _check_server(self) -> str:
        """Return the run id of the server; what was known of queues is forgotten when its marker is another one."""
        commands = self._client.pipeline(transaction=False)
        commands.get(self._keys.generation)
        commands.info("server")
        marker, information = await commands.execute(raise_on_error=False)
        run = self._note(run_of(information))
        # A foreign value of another kind there is no marker.
        if isinstance(marker, Exception) and not str(marker).startswith("WRONGTYPE"):
            raise marker
        if not is_of(marker, run):
            marker = f"{run}:{secrets.token_hex(4)}"
            await self._client.set(self._keys.generation, marker)
        if marker != self._marker:
            self._marker = marker
            self._whole_at.clear()
        return run

    def _run_of(self, queue: str, run: str) -> str:
        """Return the run id of the server of a queue."""
        return run

    async def _read_run(self, queues: Sequence[str]) -> str:
        """Return the run id of the server of these queues."""
        return await self._ask_run(self._client)

    async def _ask_run(self, client: Redis) -> str:
        try:
            return run_of(await client.info("server"))
        except NoPermissionError:
            return self._note(UNKNOWN_RUN)

    def _note(self, run: str) -> str:
        """Log once that a run id is not known; return it."""
        if run == UNKNOWN_RUN and not self._noted:
            self._noted = True
            logger.warning(
                "redis: this user has no permissions to run the 'info' command: jobs may start late after a restart or "
                "a failover of the server"
            )
        return run

    async def _check_queues(self, queues: Sequence[str], run: str) -> list[bool]:
        """Return for each queue whether it is whole; remove what would stop delivery, or stay for ever."""
        names = [self._ready, "event_seq", "waiters"]
        calls = [Call("look", [self._keys.of(queue, name) for name in ("generation", *names)], ()) for queue in queues]
        found: list[bool] = []
        for queue, (marker, *places) in zip(queues, await self._scripts.run_many(calls), strict=True):
            strangers = [names[place - 1] for place in places]
            await self._remove(queue, strangers)
            found.append(is_of(marker, self._run_of(queue, run)) and self._ready not in strangers)
        return found

    async def _remove(self, queue: str, names: Sequence[str]) -> None:
        if names:
            keys = [self._keys.of(queue, name) for name in names]
            logger.warning("removed what somebody else wrote into Redis: %s", ", ".join(keys))
            await self._client.delete(*keys)


def _parts(queues: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(queues), QUEUES_PER_TRIP):
        yield queues[start : start + QUEUES_PER_TRIP]


IDS_PER_SCRIPT = 1000
"""Ids handed to one script: some 0.5 ms of Redis, and below Lua's limit on unpacked arguments."""


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), IDS_PER_SCRIPT):
        yield items[start : start + IDS_PER_SCRIPT]


def as_it_came(response: Any, **kwargs: Any) -> Any:
    """Return an answer as the driver read it."""
    return response


class RedisDispatcher:
    """See queue_core.ports.delivery.Dispatcher for what each method does.

    `ready` names the set of a queue's ready jobs. Where the store is in this Redis, too, that is its own set.
    """

    holds_ids = True

    def __init__(
        self, settings: RedisSettings, circuit: CircuitBreaker, pipelined: PipelinedConnection, ready: str = "pending"
    ) -> None:
        self._timeout = settings.timeout
        self._circuit = circuit
        self._ready = ready
        self._keys = keys_of(settings)
        # on a cluster, where workers may wait for messages
        self._wake_channel = self._keys.wakeups if isinstance(self._keys, ClusterKeys) else ""
        self.place = place_of(settings)
        self._client = make_client(settings)
        # Blocking pops wait on their own connections, which never hold up a short command.
        self._blocking = make_client(settings, held=True)
        # Scores are not read here: turning each of them from one form into another takes the library 1 µs.
        self._blocking.set_response_callback("BZMPOP", as_it_came)
        self._pipelined = pipelined
        self._scripts = Scripts(self._client, "queue_core.delivery.redis", pipelined)
        self._markers = self._make_markers()
        # queues whose ready sets are just being declared whole
        self._beginning: set[asyncio.Task[None]] = set()

    def _make_markers(self) -> ReadySetMarkers:
        return ReadySetMarkers(self._client, self._scripts, self._keys, self._ready)

    async def offer(self, ready: Sequence[Ready]) -> None:
        """Make these jobs known and wake as many waiting workers; offering again is harmless."""
        offered: dict[str, list[Any]] = {}
        for job_id, queue, rank in ready:
            offered.setdefault(queue, []).extend((rank, job_id))
        # No script: it costs the server as much again as the command, and a rank stays the text that was sent.
        commands = [
            ("ZADD", self._keys.of(queue, self._ready), *pairs[start : start + 2 * IDS_PER_SCRIPT])
            for queue, pairs in offered.items()
            for start in range(0, len(pairs), 2 * IDS_PER_SCRIPT)
        ]
        async with within(self._timeout, self._circuit):
            for some in _chunks(commands):
                for answer in await self._pipelined.execute(some):
                    if isinstance(answer, Exception):
                        raise answer

    async def announce(self, ready: Sequence[Ready], events: Sequence[Event]) -> None:
        """Offer jobs and publish events, those of a queue in one script: half the time of two for a single job."""
        offered: dict[str, list[Any]] = {}
        for job in ready:
            offered.setdefault(job.queue, []).extend((job.rank, job.id))
        published, at = by_queue(events), f"{time.time():.3f}"
        calls = [
            Call(
                "announce",
                [self._keys.of(queue, name) for name in (self._ready, "event_seq", "generation", "sleepers")],
                [
                    self._keys.events,
                    encode_text(queue),
                    at,
                    encode_events(published[queue]) if queue in published else "",
                    self._wake_channel,
                    queue,
                    *offered.get(queue, ()),
                ],
            )
            for queue in (offered if offered.keys() >= published.keys() else {**published, **offered})
        ]
        async with within(self._timeout, self._circuit):
            await self._scripts.run_many(calls)

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        keys = [self._keys.of(queue, self._ready) for queue in queues]
        # The server ends the wait; a little more time here for the answer's way.
        async with within(timeout + self._timeout, self._circuit):
            found: Any = await self._blocking.bzmpop(timeout, len(keys), keys, min=True, count=limit)
        if not found:
            return None
        key, members = found
        return Nomination(self._keys.queue_of(key, self._ready), [member for member, _ in members])

    async def forget(self, queue: str, ids: Sequence[str]) -> None:
        """Drop candidates that are no longer ready."""
        keys = [self._keys.of(queue, self._ready)]
        async with within(self._timeout, self._circuit):
            for some in _chunks([Call("forget", keys, list(chunk)) for chunk in _chunks(ids)]):
                await self._scripts.run_many(list(some))

    async def missing(self, heads: Sequence[Ready]) -> list[Ready]:
        """Return those of the store's first ready jobs that the ready sets do not hold, or hold at another rank.

        A replica that became the master may lack the last moves and retries.
        """
        groups: dict[str, list[Ready]] = {}
        for job in heads:
            groups.setdefault(job.queue, []).append(job)
        parts = [(queue, chunk) for queue, jobs in groups.items() for chunk in _chunks(jobs)]
        missing: list[Ready] = []
        async with within(self._timeout, self._circuit):
            for some in _chunks(parts):
                commands = self._client.pipeline(transaction=False)
                for queue, chunk in some:
                    commands.zmscore(self._keys.of(queue, self._ready), [job.id for job in chunk])
                for (_, chunk), scores in zip(some, await commands.execute(), strict=True):
                    missing += [
                        job
                        for job, score in zip(chunk, scores, strict=True)
                        if score is None or int(score) != int(job.rank)
                    ]
        return missing

    async def doubtful(self, queues: Sequence[str]) -> list[str]:
        """Return those of the queues whose ready sets may have lost jobs: emptied, restored or failed over."""
        async with within(self._timeout, self._circuit):
            return await self._markers.doubtful(queues)

    async def mark_current(self, queue: str) -> None:
        """Declare the ready set whole, after a rebuild."""
        async with within(self._timeout, self._circuit):
            await self._markers.mark_current(queue)

    def begin(self, queues: Sequence[str]) -> None:
        """Declare ready sets of new queues whole, in a moment: else the first leader offers all their jobs again."""
        task = asyncio.create_task(self._begin(queues))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, queues: Sequence[str]) -> None:
        with contextlib.suppress(DispatchUnavailable):  # it is rebuilt
            async with within(self._timeout, self._circuit):
                await self._markers.write_markers(queues)

    async def read_record(self, turn: float = 0.0) -> tuple[PairingRecord, bool]:
        """Return what is kept under the prefix about the database, and whether no other process took this turn before.

        `turn` are the seconds for which this process takes it; 0 = not at all.
        """
        keys = self._keys
        async with within(self._timeout, self._circuit):
            commands = self._client.pipeline(transaction=False)
            commands.mget(keys.identity, keys.confirmed, keys.other_database, keys.other_redis)
            if turn:
                commands.set(keys.checked, 1, nx=True, px=round(turn * 1000))
            found, *taken = await commands.execute()
        return PairingRecord(*found), taken != [None]

    async def identify(self, identity: str, replaces: str | None, database: str, seconds: float) -> str:
        """Keep an identity where there is none, or the one it replaces; return the one kept; confirm its database."""
        async with within(self._timeout, self._circuit):
            found = str(await self._scripts.run("identify", [self._keys.identity], [identity, replaces or ""]))
            if found == identity:
                await self._client.set(self._keys.confirmed, database, px=round(seconds * 1000))
            return found

    async def note_other_database(self, database: str, seconds: float) -> None:
        """Note for some seconds that processes of another database use this Redis, too."""
        async with within(self._timeout, self._circuit):
            await self._client.set(self._keys.other_database, database, px=round(seconds * 1000))

    async def note_other_redis(self, redis: str, seconds: float) -> None:
        """Note for some seconds that processes of the database use another Redis."""
        async with within(self._timeout, self._circuit):
            await self._client.set(self._keys.other_redis, redis, px=round(seconds * 1000))

    async def ping(self) -> float:
        start = time.perf_counter()
        async with within(self._timeout):
            await self._client.ping()
        return time.perf_counter() - start

    async def try_write(self) -> None:
        async with within(self._timeout):
            try:
                # The key is never there; that it may be written is checked before that is found.
                await self._client.set(self._keys.probe, "", xx=True)
            except NoPermissionError:
                # That of an exporter, which may only read: what others may write is not known.
                await self._client.ping()

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server; what a server does not report is None."""
        async with within(self._timeout):
            return await server_facts(self._client, self._keys)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await asyncio.gather(*self._beginning, return_exceptions=True)
        await self._pipelined.close()
        for client in (self._client, self._blocking):
            await client.aclose()
            await client.connection_pool.disconnect()
