"""Hands the lines of a job in a child process to its worker."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock, Timer

from queue_core.joblogs import LINES

AT_ONCE = 50
"""Lines handed on as they come in each `WINDOW`, so that they outlive a crash; those of a loop gather."""
WINDOW = 0.25
"""Seconds."""

Line = tuple[int, str]


class Relay:
    """The lines of one attempt."""

    def __init__(self, say: Callable[[Sequence[Line]], None]) -> None:
        self._say = say
        self._lock = Lock()
        self._waiting: deque[Line] = deque(maxlen=LINES)
        self._count = 0
        self._since = float("-inf")
        self._at_once = 0
        self._timer: Timer | None = None

    def log(self, text: str) -> bool:
        """Note a line, from any thread; True when lines come faster than they are handed on."""
        with self._lock:
            self._count += 1
            full = len(self._waiting) == LINES
            self._waiting.append((self._count, text))
            now = time.monotonic()
            if now - self._since >= WINDOW:
                self._since, self._at_once = now, 0
            if self._at_once < AT_ONCE:
                self._at_once += 1
                self._hand_on()
            elif self._timer is None:
                self._timer = Timer(WINDOW, self.flush)
                self._timer.daemon = True
                self._timer.start()
            return full

    def flush(self) -> None:
        """Hand on what has gathered."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._hand_on()

    def _hand_on(self) -> None:
        if self._waiting:
            self._say(list(self._waiting))
            self._waiting.clear()
