"""One read of all back-ends for a scrape: in parallel, within one time limit, shared by scrapes that overlap."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from queue_core.client.operating.signatures import NEW_WINDOW, states_of
from queue_core.errors import QueueCoreError, SchemaError
from queue_core.model.addresses import mask
from queue_core.model.filters import parse
from queue_core.model.report import Overview, Tally
from queue_core.model.text import safe
from queue_core.model.triage.signatures import SignatureWord
from queue_core.ports.delivery import Dispatcher, DispatchUnavailable
from queue_core.ports.inspector import Inspector

T = TypeVar("T")
logger = logging.getLogger("jobconsole.exporter")


READ_SECONDS = 2.5
"""Seconds for a read of everything; below the 10 s of a scrape, and longer than a healthy store ever takes."""


class BackendState(NamedTuple):
    """How the read of one back-end went."""

    up: bool
    # of this read
    seconds: float
    # failed reads since this process began
    errors: int
    # why it is not up, in one line
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one scrape or health check is made of; without `overview`, the store could not be read in time."""

    backends: Mapping[str, BackendState]
    overview: Overview | None = None
    tallies: tuple[Tally, ...] = ()
    # error signatures by their state; None: these, which look at every dead job, could not be read in time
    signatures: Mapping[SignatureWord, int] | None = None


class _Stored(NamedTuple):
    overview: Overview
    tallies: tuple[Tally, ...]


MAX_SIGNATURES = 1000
"""Signatures whose states are counted: those that grow most."""
_DEAD = parse("status:dead")


class _Answer(NamedTuple, Generic[T]):
    backend: BackendState
    value: T | None


class Reader:
    """Reads the store through its inspector and asks the dispatcher whether it answers."""

    def __init__(
        self,
        inspector: Inspector,
        dispatcher: Dispatcher | None,
        store: str = "postgres",
        limit: float = READ_SECONDS,
        check_writes: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._inspector = inspector
        self._dispatcher = dispatcher
        self._store = store
        self._limit = limit
        # raises where the store cannot be written, which reads do not show
        self._check_writes = check_writes
        self._errors: dict[str, int] = {}
        self._down: set[tuple[str, str]] = set()
        # a cancelled read of a frozen server may take its time to end; no second one is begun meanwhile
        self._busy: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._shared: dict[str, asyncio.Task[Reading]] = {}

    async def read(self, patience: float | None = None) -> Reading:
        """Return a fresh reading, within `patience` seconds if that is less than the limit.

        Calls that overlap get the same one.
        """
        return await self._share("read", self._read, patience)

    async def ping(self, patience: float | None = None) -> Reading:
        """Return whether the back-ends answer, and the jobs and workers as far as they can be counted in time."""
        return await self._share("ping", self._ping, patience)

    async def _share(
        self, what: str, begin: Callable[[float], Coroutine[Any, Any, Reading]], patience: float | None
    ) -> Reading:
        task = self._shared.get(what)
        if task is None or task.done():
            limit = self._limit if patience is None else min(patience, self._limit)
            task = self._shared[what] = asyncio.create_task(begin(limit))
        return await asyncio.shield(task)

    async def _read(self, limit: float) -> Reading:
        (backend, stored), others, (signatures, reason) = await asyncio.gather(
            self._within(limit, self._store, "read", self._stored), self._delivery(limit), self._grouped(limit)
        )
        backends = {self._store: backend, **others}
        if stored is None:
            return Reading(backends)
        self._note(f"{self._store} (signatures)", reason)
        return Reading(backends, stored.overview, stored.tallies, signatures)

    async def _ping(self, limit: float) -> Reading:
        """Ask whether the store can be used, and count beside; counts that take longer are no failure of it."""
        (ping, seconds), (count, _), refusal, others = await asyncio.gather(
            self._settled(limit, self._store, "ping", self._inspector.ping),
            self._settled(limit, self._store, "overview", self._inspector.overview),
            self._refusal(limit),
            self._delivery(limit),
        )
        uncounted = _failure(count, limit)
        unfit = uncounted if _schema_unfit(count) else None
        backend = self._state(self._store, seconds, _failure(ping, limit) or unfit)
        if backend.up:
            self._note(self._store, refusal, "written")
            backend = backend._replace(up=refusal is None, reason=refusal or "")
        return Reading({self._store: backend, **others}, None if uncounted else count.result())

    async def _refusal(self, limit: float) -> str | None:
        """Return why the store cannot be written, or None where it can, or there is no way to know."""
        if self._check_writes is None:
            return None
        task, _ = await self._settled(limit, self._store, "write", self._check_writes)
        return _failure(task, limit)

    async def _stored(self) -> _Stored:
        overview, tallies = await asyncio.gather(self._inspector.overview(), self._inspector.tallies())
        return _Stored(overview, tuple(tallies))

    async def _grouped(self, limit: float) -> tuple[Mapping[SignatureWord, int] | None, str | None]:
        """Count signatures; None, and why, where that fails alone: it takes as long as there are dead jobs."""
        task, _ = await self._settled(limit, self._store, "signatures", self._signatures)
        reason = _failure(task, limit)
        return (task.result(), None) if reason is None else (None, reason)

    async def _signatures(self) -> Mapping[SignatureWord, int]:
        groups = await self._inspector.signatures(_DEAD, NEW_WINDOW, 1, MAX_SIGNATURES)
        return Counter(state.word for state in (await states_of(self._inspector, groups)).values())

    async def _delivery(self, limit: float) -> dict[str, BackendState]:
        if self._dispatcher is None:
            return {}
        backend, _ = await self._within(limit, "redis", "ping", self._dispatcher.ping)
        return {"redis": backend}

    async def _within(
        self, limit: float, name: str, what: str, begin: Callable[[], Coroutine[Any, Any, T]]
    ) -> _Answer[T]:
        task, seconds = await self._settled(limit, name, what, begin)
        reason = _failure(task, limit)
        return _Answer(self._state(name, seconds, reason), task.result() if reason is None else None)

    def _state(self, name: str, seconds: float, reason: str | None) -> BackendState:
        """Note how a read went, and return it."""
        self._note(name, reason)
        return BackendState(reason is None, seconds, self._errors.get(name, 0), reason or "")

    async def _settled(
        self, limit: float, name: str, what: str, begin: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[asyncio.Task[T], float]:
        """Run a read up to the limit, behind an earlier one that has not ended; return it and the seconds it took."""
        began = time.monotonic()
        task = self._busy.get((name, what))
        if task is not None and not task.done():
            await asyncio.wait({task}, timeout=limit)
        if task is None or task.done():
            task = self._busy[name, what] = asyncio.create_task(begin())
            await asyncio.wait({task}, timeout=max(0.0, began + limit - time.monotonic()))
        if not task.done():
            task.cancel()
        return task, time.monotonic() - began

    def _note(self, name: str, reason: str | None, what: Literal["read", "written"] = "read") -> None:
        """Count a failed read, and log what fails when it went well before; one line for each change."""
        if reason is not None and what == "read":
            self._errors[name] = self._errors.get(name, 0) + 1
        if reason is not None and (name, what) not in self._down:
            self._down.add((name, what))
            logger.warning("%s cannot be %s: %s", name, what, reason)
        elif reason is None and (name, what) in self._down:
            self._down.discard((name, what))
            logger.warning("%s can be %s again", name, what)


def _schema_unfit(task: asyncio.Task[Any]) -> bool:
    """Return whether a read failed since the store has no schema, or another one: no later read will do better."""
    return task.done() and not task.cancelled() and isinstance(task.exception(), SchemaError)


def _failure(task: asyncio.Task[Any], limit: float) -> str | None:
    """Return why a read gave nothing, or None when it gave something."""
    if not task.done() or task.cancelled():
        return f"no answer within {limit:g} s"
    error = task.exception()
    if error is None:
        return None
    text = " ".join(str(error).split())
    if not isinstance(error, QueueCoreError | DispatchUnavailable):
        text = f"{type(error).__name__}: {text}"
    return safe(mask(text), 300)
