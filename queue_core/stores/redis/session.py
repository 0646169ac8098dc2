"""The way to one Redis: commands, scripts, and the one place where its errors become StoreUnavailable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from redis.asyncio.client import Pipeline
from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as ConnectionLost

from queue_core.errors import CLOSED, SchemaEarlier, SchemaNewer, StoreRefused, StoreUnavailable
from queue_core.model.settings import RedisSettings
from queue_core.model.states import Status
from queue_core.redis.client import LOGIN, keys_of, make_client, make_pipelined, reason_of
from queue_core.redis.cluster import ClusterClient
from queue_core.redis.facts import server_facts
from queue_core.redis.failover import Finder
from queue_core.redis.keys import ClusterKeys
from queue_core.redis.recent import KEEP_SECONDS, RecentJobs, Restore
from queue_core.redis.scripts import Call, ConfirmedScripts, Scripts

T = TypeVar("T")
Restored = Callable[[Collection[str]], Awaitable[bool]]
"""Waits until jobs are there again that a new primary lacks; False: none of these ids is of such a job."""


PACKAGE = "queue_core.stores.redis"
SCHEMA = 2
"""Version of the keys, their types and fields."""
RENAMED_SCHEMA = 1
"""The version before it: the same under other names of keys."""
JOBS_PER_SCRIPT = 500
"""Jobs in one script: some 5 ms of Redis, and below Lua's limit on unpacked arguments."""
MAX_SCRIPT_LENGTH = 4 << 20
"""Characters in one script; one job may have more."""
SCRIPTS_PER_TRIP = 20
"""Scripts in one round trip, which is some 80 ms of Redis."""
FEW_JOBS = 20
"""So many jobs are looked for in every queue without asking which jobs these have."""
QUEUES_PER_TRIP = 100
"""Queues asked for that in one round trip."""
HOMES = ("unfinished", "completed", "cancelled", "dlq", "trash")
"""The sets of a queue; each of its jobs is in one of them."""
MAX_CONNECTIONS = 32
"""Calls of one process on their way at a time."""

CANNOT_NOW = (ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError)
"""Answers of a server that cannot be used now, where the driver has a class for them."""
_CANNOT_NOW = re.compile(r"\b(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|NOREPLICAS|READONLY|TRYAGAIN|UNKILLABLE)\b")
"""Their codes, which a pipeline and a script put words before."""
_WRITES_NOTHING = re.compile(r"\b(MISCONF|OOM)\b")
"""Codes of a server that reads, and for a while refuses to write: it cannot save, or is full."""

STATES = frozenset(status.value for status in Status)


def chunks(items: Sequence[T], size: int = JOBS_PER_SCRIPT) -> Iterator[Sequence[T]]:
    """Yield the items in parts that one script takes."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def portions(items: Iterable[T], weight: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in parts that one script takes, given how many characters each of them brings."""
    part: list[T] = []
    size = 0
    for item in items:
        heavy = weight(item)
        if part and (len(part) == JOBS_PER_SCRIPT or size + heavy > MAX_SCRIPT_LENGTH):
            yield part
            part, size = [], 0
        part.append(item)
        size += heavy
    if part:
        yield part


def microseconds(time: tuple[Any, Any]) -> int:
    """Return the answer of TIME as microseconds since the epoch."""
    return int(time[0]) * 1_000_000 + int(time[1])


def unavailable(error: BaseException) -> StoreUnavailable:
    """Return what is raised when the server cannot be reached or used, or refuses a command."""
    text = reason_of(error)
    if text == LOGIN:
        return StoreUnavailable("redis", text)
    if isinstance(error, ResponseError) and not isinstance(error, CANNOT_NOW) and not _CANNOT_NOW.search(text):
        passing = isinstance(error, OutOfMemoryError) or _WRITES_NOTHING.search(text) is not None
        return StoreRefused("redis", text, passing)
    return StoreUnavailable("redis", text)


class RedisLink:
    """One client with its scripts. Every call is bounded in time; scripts may be sent again without harm."""

    def __init__(self, settings: RedisSettings) -> None:
        self.keys = keys_of(settings)
        self._prefix = settings.prefix
        self._timeout = settings.timeout
        self._client = make_client(settings)
        self._scripts = Scripts(self._client, PACKAGE)
        # Answers to inserts are small, those to reads may be megabytes that others would wait for.
        self._pipelined = make_pipelined(settings)
        self._inserts = self._soon = Scripts(self._client, PACKAGE, self._pipelined)
        # on a cluster, where no script reaches the queues of two slots
        self.apart = isinstance(self.keys, ClusterKeys)
        # for what a call on one queue can do without: it may be at a server that is away; None: no other limit
        self.seconds_apart = settings.timeout / 4 if self.apart else None
        # the channel by which workers on a cluster are woken; empty: they wait on the ready sets
        self.wakeups = self.keys.wakeups if isinstance(self.keys, ClusterKeys) else ""
        self._replicas = settings.min_replicas
        # whether what is written has to reach replicas before anything else happens with it
        self.replicated = self._replicas > 0
        if self._replicas:
            waits = self._replicas, settings.timeout / 2
            self._inserts = ConfirmedScripts(self._client, PACKAGE, self._pipelined, *waits)
        # knows of the primaries that take each other's place; None: there is one server
        self._finder: Finder | None = self._client.connection_pool.connection_kwargs.get("finder")
        # asked before a job counts as unknown; None: no other server can take this one's place
        self.restored: Restored | None = None
        # how often `close` began or ended
        self._closes = 0
        # When all are in use, callers wait for one: there may be more callers than connections.
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        closes = self._closes
        try:
            async with asyncio.timeout(self._timeout), self._slots:
                yield
        except (RedisError, OSError, TimeoutError) as error:
            if isinstance(error, ConnectionLost) and (self._closes % 2 or self._closes != closes):
                raise StoreUnavailable("redis", CLOSED) from error
            raise await self._failed(error) from error

    async def _failed(self, error: Exception) -> StoreUnavailable:
        if isinstance(error, TimeoutError) and not isinstance(error, RedisError):
            return StoreUnavailable("redis", f"no answer within {self._timeout:g} s")
        if isinstance(error, ReadOnlyError):
            # The primary has become a replica: only new connections lead to its successor.
            await self._client.connection_pool.disconnect(inuse_connections=False)
        return unavailable(error)

    async def facts(self) -> dict[str, Any]:
        """Return what `doctor` checks about the server."""
        async with self._reaching():
            return await server_facts(self._client, self.keys, store=True)

    async def require_schema(self) -> None:
        """Check the version of what is stored, and write it where nothing is.

        Raises:
            SchemaNewer, SchemaEarlier: it was written by another version.
        """
        # Read first: a full server answers reads alone.
        async with self._reaching():
            found = await self._client.get(self.keys.schema)
        if found is None:
            commands = self.batch()
            commands.setnx(self.keys.schema, SCHEMA)
            commands.get(self.keys.schema)
            _, found = await self.send(commands)
        if int(found) > SCHEMA:
            raise SchemaNewer(int(found), SCHEMA)
        if int(found) < SCHEMA:
            raise SchemaEarlier(f"an earlier version has stored what is under the prefix '{self._prefix}'")

    def batch(self) -> Pipeline:
        """Return an empty list of commands, to be filled and handed to `send`."""
        return self._client.pipeline(transaction=False)

    def snapshot(self) -> Pipeline:
        """Return an empty list of commands that see the store as of one moment."""
        return self._client.pipeline(transaction=True)

    async def send(self, commands: Pipeline) -> list[Any]:
        """Send commands in one round trip and return their answers."""
        async with self._reaching():
            return list(await commands.execute())

    async def read_together(self, add: Callable[[Pipeline], None]) -> list[Any]:
        """Return the answers to commands that only read, and that `add` adds, as of one moment.

        A full Redis 7.0 refuses reads as well where they are sent in MULTI: then each is as of its own moment.
        """
        together = self.snapshot()
        add(together)
        try:
            async with self._reaching():
                return list(await together.execute())
        except StoreRefused as error:
            if not isinstance(error.__cause__, OutOfMemoryError):
                raise
        one_by_one = self.batch()
        add(one_by_one)
        return await self.send(one_by_one)

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run one script."""
        async with self._reaching():
            return await self._scripts.run(name, keys, args)

    async def run_many(self, calls: Sequence[Call], together: bool = False) -> list[Any]:
        """Run scripts in one round trip; `together`: all or none, and nothing in between."""
        if not calls:
            return []
        async with self._reaching():
            return await self._scripts.run_many(calls, together)

    async def run_soon(self, calls: Sequence[Call]) -> list[Any]:
        """Run a few short scripts in one round trip on the connection that all share: a third less client time."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._soon.run_many(calls)
        except (RedisError, OSError, TimeoutError) as error:
            raise await self._failed(error) from error

    async def insert(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts that insert jobs in one round trip: all or none, and nothing in between.

        Where settings ask for it, replicas have the jobs afterwards.
        """
        if len(calls) > 1 and not self._replicas:
            return await self.run_many(calls, together=True)
        try:
            async with asyncio.timeout(self._timeout):  # on the connection that all share: no slot is taken
                return await self._inserts.run_many(calls, together=len(calls) > 1)
        except (RedisError, OSError, TimeoutError) as error:
            raise await self._failed(error) from error

    def recent_jobs(self, restore: Restore, *kept: float | None) -> RecentJobs | None:
        """Return what remembers written jobs, for no longer than ended ones are kept; None: there is one server."""
        if self._finder is None:
            return None
        found = RecentJobs(self, restore, min([KEEP_SECONDS, *(one for one in kept if one is not None)]))
        # A new connection may lead to another primary.
        self._pipelined.prepare = found.ready
        return found

    def era(self) -> int:
        """Return a number that grows whenever a primary of queues that are watched is replaced."""
        return 0 if self._finder is None else self._finder.era()

    def watch(self, queues: Collection[str]) -> None:
        """Let `era` grow for the primaries of these queues."""
        if self._finder is not None:
            self._finder.watch([self.keys.of(queue, "pending") for queue in queues])

    async def check(self) -> None:
        """Ask the primaries of these queues whether they still are, and the same ones.

        Raises:
            StoreUnavailable: one of them does not answer.
        """
        if self._finder is not None:
            async with self._reaching():
                await self._finder.check(self._client)

    async def confirm(self, writes: Sequence[Sequence[Any]]) -> None:
        """Send commands and wait until replicas have what they and all before them wrote, where settings ask for it."""
        if self._replicas == 0:
            return
        async with self._reaching():
            for answer in await self._pipelined.confirm(writes, False, self._replicas, self._timeout / 4):
                if isinstance(answer, Exception):
                    raise answer

    def of(self, queue: str, names: Iterable[str]) -> list[str]:
        """Return keys of a queue."""
        return [self.keys.of(queue, name) for name in names]

    def part_of(self, queue: str) -> Hashable:
        """Return the node of a cluster that has a queue, as far as is known; None otherwise."""
        if not isinstance(self._client, ClusterClient):
            return None
        return self._client.topology.known_owner(self.keys.of(queue, "pending"))

    async def queues_and_time(self) -> tuple[list[str], int]:
        """Return the names of all queues, and the server's time in microseconds."""
        commands = self.batch()
        commands.smembers(self.keys.queues)
        commands.time()
        names, time = await self.send(commands)
        return sorted(names), microseconds(time)

    async def read(self, jobs: Mapping[str, Sequence[str]], fields: Sequence[str]) -> dict[tuple[str, str], list[Any]]:
        """Return fields of jobs, given as ids by queue, as (queue, id) → values; those that are not there are left out.

        The first field is `status`, or another one that every job has.
        """
        # A caller's id may be any text; one with a lone surrogate cannot be sent.
        possible = {queue: [one for one in ids if one.isascii()] for queue, ids in jobs.items()}
        parts = [(queue, part) for queue, ids in possible.items() for part in chunks(ids)]
        found: dict[tuple[str, str], list[Any]] = {}
        for some in chunks(parts, SCRIPTS_PER_TRIP):
            calls = [Call("read", self.keys.jobs(queue, part), fields) for queue, part in some]
            for (queue, part), rows in zip(some, await self.run_many(calls), strict=True):
                found.update({(queue, job_id): row for job_id, row in zip(part, rows, strict=True) if row})
        if fields[0] == "status":
            # A foreign value there is no job.
            found = {place: row for place, row in found.items() if row[0] in STATES}
        return found

    async def find(self, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
        """Return where jobs are, whatever their queue, as id → (queue, fields); unknown ids are left out."""
        found = await self._find(ids, fields)
        unknown = [job_id for job_id in ids if job_id not in found]
        if unknown and self.restored is not None and await self.restored(unknown):
            found |= await self._find(unknown, fields)
        return found

    async def _find(self, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
        wanted = list(dict.fromkeys(ids))
        found: dict[str, tuple[str, list[Any]]] = {}
        # One that goes from one queue to another one may be seen in neither, but not twice.
        for attempt in range(2):
            if wanted:
                queues = (await self.queues_and_time())[0]
                many = attempt == 0 and len(wanted) > FEW_JOBS
                places = await self._homes(queues, wanted) if many else dict.fromkeys(queues, wanted)
                rows = await self.read(places, fields)
                found |= {job_id: (queue, row) for (queue, job_id), row in rows.items()}
                wanted = [job_id for job_id in wanted if job_id not in found]
        return found

    async def _homes(self, queues: Sequence[str], wanted: list[str]) -> dict[str, list[str]]:
        """Return which of these ids each queue may have: all of them where it has more jobs than that."""
        known, places = set(wanted), dict.fromkeys(queues, wanted)
        for some in chunks(queues, QUEUES_PER_TRIP):
            calls = [Call("members", self.of(queue, HOMES), [len(wanted)]) for queue in some]
            for queue, members in zip(some, await self.run_many(calls), strict=True):
                if members is not None:
                    places[queue] = [job_id for job_id in dict.fromkeys(members) if job_id in known]
        return {queue: ids for queue, ids in places.items() if ids}

    async def find_near(self, guesses: Mapping[str, str], fields: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
        """Return where jobs are like `find`, given the queue where each is looked for first, as id → queue."""
        groups: dict[str, list[str]] = {}
        for job_id, queue in guesses.items():
            groups.setdefault(queue, []).append(job_id)
        near = await self.read(groups, fields) if groups else {}
        found = {job_id: (queue, row) for (queue, job_id), row in near.items()}
        return found | await self.find([job_id for job_id in guesses if job_id not in found], fields)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        self._closes += 1
        try:
            await self._pipelined.close()
            await self._client.aclose()
            await self._client.connection_pool.disconnect()
        finally:
            self._closes += 1
