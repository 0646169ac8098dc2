"""A thread of its own for a connection, so that a slow disk never holds up the event loop; first come, first served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from queue_core.errors import StoreUnavailable
from queue_core.stores.sqlite.link import Link, Mode, Transaction

MARGIN = 1.0
"""Seconds that an answer may take beyond the wait for the lock, so that the lock's own sentence comes first."""
CLOSE_SECONDS = 5.0

T = TypeVar("T")


class Lane:
    """Does one piece of work at a time, each in a transaction, within a time limit."""

    def __init__(self, link: Link, timeout: float, name: str) -> None:
        self._link = link
        self._timeout = timeout
        self._name = name
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[Transaction], T], mode: Mode) -> T:
        """Do work in a transaction. Who is cancelled while it waits for its turn has done nothing.

        Raises:
            StoreUnavailable: no lock or no answer in time; in the second case it may still be done.
            QueueCoreError: see `Link.transact`.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite-{self._name}")
        deadline = time.monotonic() + self._timeout
        answer = asyncio.get_running_loop().run_in_executor(self._thread, self._link.transact, work, mode, deadline)
        try:
            async with asyncio.timeout(self._timeout + MARGIN):
                return await answer
        except TimeoutError:
            if mode is Mode.LOOK:
                self._link.interrupt()
            late = f"{self._link.path} gave no answer within {self._timeout:g} s"
            raise StoreUnavailable("sqlite", late) from None

    async def close(self) -> None:
        """Finish what is on its way and disconnect; doing it twice is safe, and using the lane opens it again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        closed = asyncio.get_running_loop().run_in_executor(thread, self._link.close)
        thread.shutdown(wait=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(closed)
