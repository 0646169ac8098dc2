"""Takes back the jobs of workers on this machine whose processes are gone, long before their leases end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from queue_core.errors import QueueCoreError
from queue_core.ports.store import JobStore, Neighbour

logger = logging.getLogger("queue_core.worker")


PROC = Path("/proc")
GONE = frozenset({"Z", "X", "x"})
"""States of a process that has ended, and for which only its parent still has to ask."""


@cache
def place() -> str:
    """Return where this process runs: host, start of the machine, process and time namespace; empty if unknown.

    Only who runs at the same place sees the same processes under the same numbers.
    """
    try:
        # Mounted for another namespace, it names other processes.
        if int((PROC / "self/stat").read_text(encoding="ascii", errors="replace").split(" ", 1)[0]) != os.getpid():
            return ""
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        spaces = [str((PROC / "self/ns" / name).stat().st_ino) for name in ("pid", "time") if _has(name)]
    except (OSError, ValueError):
        return ""
    return " ".join([socket.gethostname(), boot, *spaces])


def _has(namespace: str) -> bool:
    return namespace == "pid" or (PROC / "self/ns" / namespace).exists()


def process() -> str:
    """Return which process this is at its place: its number and the time of its start; empty if unknown."""
    start = _start(os.getpid()) if place() else None
    return "" if start is None else f"{os.getpid()} {start}"


def is_gone(process: str) -> bool:
    """Return whether a process at this place has surely ended; another one may have its number by now."""
    number, _, start = process.partition(" ")
    if not number.isdecimal() or not start:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False  # that of another user, whom it may be hidden from us
    found = _start(int(number))
    return found is not None and found != start


def _start(number: int) -> str | None:
    """Return the ticks from the machine's start to a process's; "" when it has ended, None when that is hidden."""
    try:
        stat = (PROC / str(number) / "stat").read_text(encoding="ascii", errors="replace")
        # The name may hold anything, brackets and spaces included.
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in GONE else fields[19]
    except (OSError, IndexError):
        return None


CHECK_SECONDS = 0.25
"""Seconds between two checks whether the others are still there: a question to the system for each of them."""
ANSWER_SECONDS = 0.5
"""How long the store is waited for when a worker is gone: it may have unregistered before its end."""
WRITE_OFF_DELAYS = (0.0, 0.5, 2.0, 10.0)
"""Seconds after which a worker is written off, each time: a server may carry out its last calls after its end."""


class Neighbours:
    """The other workers at this place. Each of them watches all the others, so that one that is left suffices."""

    def __init__(self, store: JobStore, reclaim: Callable[[], Awaitable[int]]) -> None:
        self._store = store
        self._reclaim = reclaim
        # asks the store who is there now, for `update_neighbours`; set by the worker
        self.ask: Callable[[], None] = lambda: None
        # worker -> its process
        self._known: dict[str, str] = {}
        # those whose processes are gone, until the answer of the store: until when it is waited for
        self._asked: dict[str, float] = {}
        self._answered = asyncio.Event()
        # (seconds of time.monotonic at which it is due, worker)
        self._gone: list[tuple[float, str]] = []

    def update_neighbours(self, neighbours: Sequence[Neighbour]) -> None:
        """Take note of who is there now, as the store knows it."""
        self._known = dict(neighbours)
        for worker in list(self._asked):
            self._note(worker, crashed=worker in self._known)
            self._answered.set()

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._answered.wait()
            self._answered.clear()
            await self.check()

    async def check(self) -> None:
        """Write those off that are gone since the last check, and those again that are due."""
        now = time.monotonic()
        for worker in [worker for worker, until in self._asked.items() if until <= now]:
            self._note(worker, crashed=True)
        noted = {*self._asked, *(worker for _, worker in self._gone)}
        gone = [worker for worker, process in self._known.items() if worker not in noted and is_gone(process)]
        if gone:
            self._asked |= dict.fromkeys(gone, now + ANSWER_SECONDS)
            self.ask()
        due = sorted({worker for at, worker in self._gone if at <= now})
        if not due:
            return
        self._gone = [(at, worker) for at, worker in self._gone if at > now]
        try:
            await write_off(self._store, self._reclaim, due)
        except QueueCoreError as error:
            logger.warning("the jobs of %s wait for the store: %s", ", ".join(due), error)
            self._gone += [(now + WRITE_OFF_DELAYS[1], worker) for worker in due]

    def _note(self, worker: str, crashed: bool) -> None:
        """Let a worker be written off. One that has stopped in order, too: others may have unregistered it."""
        if crashed:
            logger.warning("the process of worker %s is gone; its jobs are taken back", worker)
        del self._asked[worker]
        self._known.pop(worker, None)
        now = time.monotonic()
        self._gone += [(now + wait, worker) for wait in WRITE_OFF_DELAYS]


async def write_off(store: JobStore, reclaim: Callable[[], Awaitable[int]], workers: Sequence[str]) -> None:
    """Take the jobs back that these workers held, whose processes are gone.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    await store.write_off(workers, place())
    await reclaim()
