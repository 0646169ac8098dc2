"""The event loop that a queue object is open in, as it is known to all loops and threads that want it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from weakref import ReferenceType, ref

from queue_core.errors import CLOSED, QueueCoreError, StoreUnavailable


class Home:
    """The event loop that an object was opened in, is being opened in, or is going to be."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusal = ""
        # the loop in which the backend's parts have waited, also after it was closed: their locks belong to that one
        self._last: ReferenceType[asyncio.AbstractEventLoop] | None = None
        # loops of several threads may open the object at the same moment
        self.lock = threading.RLock()
        # calls that open it or are going to
        self.users = 0
        # one of them opens; of this loop alone
        self.opening = asyncio.Lock()
        # calls that close it, and how many have ended
        self._closing = self.closes = 0

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Enclose a call that closes it."""
        self._closing += 1
        try:
            yield
        finally:
            self._closing -= 1
            self.closes += 1

    def reason(self, error: StoreUnavailable, closes: int) -> StoreUnavailable:
        """Return what a call raises whose connections were lost, and that began after so many closes."""
        lost = type(error) is StoreUnavailable and (self._closing or self.closes != closes)
        return StoreUnavailable(error.backend, CLOSED) if lost else error

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it was opened in, unless that has ended."""
        return None if self._loop is None or self._loop.is_closed() else self._loop

    @property
    def taken(self) -> bool:
        """Whether it was opened somewhere."""
        return self._loop is not None

    def settle(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Belong to a loop, by default to the running one, if any."""
        with contextlib.suppress(RuntimeError):
            self._loop = loop or asyncio.get_running_loop()
            self._last = ref(self._loop)

    def free(self) -> None:
        """Belong to no loop."""
        self._loop, self.users, self.opening = None, 0, asyncio.Lock()

    def renew(self) -> None:
        """Note that the backend is a new one, whose parts have waited in no loop."""
        self._last = None

    def refuse(self, sentence: str) -> None:
        """Mark it as closed for further use."""
        self._refusal = sentence

    def left_for(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether it was open in another loop than this one, if it is open in none."""
        return self.loop is None and self._last is not None and self._last() is not loop

    def gone(self) -> bool:
        """Return whether it was open in another loop before, so that the running one has to open everything again.

        Raises:
            QueueCoreError: its loop is another one that is still there.
        """
        if self._refusal:
            raise QueueCoreError(self._refusal)
        running = asyncio.get_running_loop()
        if self._loop is running:
            return False
        if self.loop is None:
            return self.left_for(running)
        raise QueueCoreError(
            "this queue object was opened in another event loop: close it there first, make one of its own for this "
            "thread, or call it from here through blocking()"
        )
