"""Where a queue object was opened: neither another process nor another event loop can use its connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Protocol
from weakref import WeakSet

from queue_core.errors import QueueCoreError
from queue_core.opening import Parts, open_parts
from queue_core.settings import JobsSettings


class Forked(Protocol):
    """What has to know that it finds itself in the child of a fork."""

    def after_fork(self) -> None:
        """Forget what belongs to the parent."""
        ...


_objects: WeakSet[Forked] = WeakSet()
_left: list[object] = []
"""What belongs to the parent, kept in the child: destroyed there, it could end sessions and waits of the parent."""


def tell_of_forks(one: Forked) -> None:
    """Let an object know when it finds itself in the child of a fork."""
    _objects.add(one)


def leave(*of_the_parent: object) -> None:
    """Keep what belongs to the parent, and touch it never again."""
    _left.append(of_the_parent)


def _after_fork() -> None:
    for one in list(_objects):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class Home:
    """The event loop that an object was opened in."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusal = ""

    @property
    def taken(self) -> bool:
        """Whether it was opened somewhere."""
        return self._loop is not None

    def settle(self) -> None:
        """Belong to the running loop."""
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def free(self) -> None:
        """Belong to no loop."""
        self._loop = None

    def refuse(self, sentence: str) -> None:
        """Let it be used no more."""
        self._refusal = sentence

    def gone(self) -> bool:
        """Tell whether its loop has ended, so that all has to be opened again in the one that runs.

        Raises:
            QueueCoreError: its loop is another one that is still there.
        """
        if self._refusal:
            raise QueueCoreError(self._refusal)
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return False
        if self._loop.is_closed():
            return True
        raise QueueCoreError(
            "this queue object was opened in another event loop: close it there first, or make one of its own for this "
            "thread; blocking() takes one that has not been opened"
        )


class Housed:
    """A queue object that opens the parts of its mode, in one process and event loop at a time."""

    settings: JobsSettings
    _parts: Parts
    _open: bool

    def __init__(self) -> None:
        self._opening = asyncio.Lock()
        self._home = Home()
        tell_of_forks(self)

    def _compose(self, parts: Parts, opened: bool) -> None:
        raise NotImplementedError

    async def open(self) -> None:
        """Connect to the store and check its schema; doing it twice is safe.

        Raises:
            StoreUnavailable, SchemaMissing, SchemaNewer: the store cannot be used.
        """
        if self._home.gone():
            self._anew()
        async with self._opening:
            if not self._open:
                await self._parts.store.open()
                self._open = True
                self._home.settle()

    async def parts(self) -> Parts:
        """Return what this object works on, opened."""
        if not self._open or self._home.gone():
            await self.open()
        return self._parts

    def _anew(self) -> None:
        """Forget all connections; what is kept in memory stays."""
        kept = self._parts.store.name == "memory"
        self._opening = asyncio.Lock()
        self._home.free()
        self._compose(self._parts if kept else open_parts(self.settings), opened=False)

    def after_fork(self) -> None:
        """Work on connections of the child's own from now on."""
        if self._home.taken:
            leave(dict(vars(self)))
            if self._parts.store.name == "memory":
                self._home.refuse("a queue in memory belongs to the process that has opened it, not to its children")
            self._anew()
