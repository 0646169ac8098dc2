"""Signals: the first one ends the demo with its summary, the second one at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Listens to the ending signals while it is entered; for the main thread."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._tell: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        for number in ENDING:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def asked(self) -> bool:
        """Answer whether the end was asked for."""
        return self._asked

    def ask(self) -> None:
        """Ask for the end, as the first signal does."""
        self._asked = True
        if self._tell is not None:
            with suppress(RuntimeError):  # the loop is closed already
                self._tell()

    def on_ask(self, tell: Callable[[], None] | None) -> None:
        """Have `tell` called, in the main thread, when the end is asked for; at once when it was already."""
        self._tell = tell
        if self._asked and tell is not None:
            tell()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self.ask()

    async def wait(self, seconds: float, task: asyncio.Task[Any] | None = None) -> bool:
        """Wait until the end is asked for, `task` is done or the time is over; answer whether it was asked for."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(event.set)

        self.on_ask(tell)
        asked = asyncio.create_task(event.wait())
        try:
            await asyncio.wait(
                {asked} if task is None else {asked, task},
                timeout=max(0.0, seconds),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._tell = None
            asked.cancel()
        return self._asked
