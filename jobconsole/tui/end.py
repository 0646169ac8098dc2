"""The end of a console from outside: its terminal is gone, or a signal ends it.

The system sends SIGHUP to a process that has a controlling terminal. A console without one (under a supervisor, in a
container) or that ignores the signal (nohup) would read an end of input again and again, and write to no reader
for ever.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

STDIN = 0
"""The descriptor by which a console has its terminal."""
GRACE = 1.0
"""Seconds after which a process whose terminal is gone ends, whatever it still does."""
PATIENCE = 5.0
"""Seconds after which one that got a signal ends: its drawing may be stuck in a write to the terminal."""
HUNG_UP = 128 + signal.SIGHUP
"""The exit code that a shell reports for a process ended by the signal."""


def end_with_terminal(descriptor: int, hang_up: Callable[[], None] | None = None) -> None:
    """End this process when the terminal behind a descriptor is hung up; the drawing may be stuck in a write then."""
    threading.Thread(target=_watch, args=(descriptor, hang_up or _end), name="hangup", daemon=True).start()


def _watch(descriptor: int, hang_up: Callable[[], None]) -> None:
    poll = select.poll()
    # Nothing is asked for: a hang-up is reported always, keys are not.
    poll.register(descriptor, 0)
    if any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll()):
        hang_up()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(GRACE)
    os._exit(HUNG_UP)


class EndingSignals:
    """While it is entered, SIGTERM and SIGHUP call a function in the event loop, with the exit code: 128 + the signal.

    A signal that is ignored stays so: nohup. After the first one no other changes the code, also once it is left.
    """

    def __init__(self, leave: Callable[[int], object]) -> None:
        self._leave = leave
        self._heard = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()

        def hear(number: int, _: object) -> None:
            if not self._heard:
                self._heard = True
                loop.call_soon_threadsafe(self._leave, 128 + number)
                _end_later(128 + number)

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, hear)

    def __exit__(self, *_: object) -> None:
        if not self._heard:
            for number, handler in self._before.items():
                signal.signal(number, handler)


def _end_later(code: int) -> None:
    timer = threading.Timer(PATIENCE, os._exit, [code])
    timer.daemon = True
    timer.start()
