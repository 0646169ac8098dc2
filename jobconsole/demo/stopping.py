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

    async def wait(self, seconds: float) -> bool:
        """Wait for the end being asked for, at most so long, and answer whether it was."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(event.set)

        self.on_ask(tell)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), max(0.0, seconds))
        finally:
            self._tell = None
        return self._asked
