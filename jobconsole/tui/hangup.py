"""The end of a console whose terminal is gone.

The system tells whoever has a controlling terminal with SIGHUP. A console without one (under a supervisor, in a
container) or that ignores the signal (nohup) would read an end of input again and again, and write to nobody for ever.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable

GRACE = 1.0
"""Seconds after which a process that ignores the signal ends all the same."""
HUNG_UP = 128 + signal.SIGHUP
"""The exit code of one that a shell would say was ended by the signal."""


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
