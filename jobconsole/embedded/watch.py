"""The guard's eye on the application: every wait of the guard ends when the application is gone."""

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

# How long the guard may take to see that the application is gone when a child of it still holds the socket.
PERIOD_SECONDS = 0.1
# How often something that is about to happen is looked at.
STEP_SECONDS = 0.004


class Orphaned(Exception):
    """The application is gone, or this guard was asked to end."""


class Watch:
    """Knows the application by its socket and by its process id."""

    def __init__(self, connection: socket.socket, parent: int) -> None:
        self.connection = connection
        self._parent = parent
        self._asked_to_end = False

    def listen_to_signals(self) -> None:
        """Take the usual ending signals as a wish to clean up and end."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_end = True

    def check(self) -> None:
        """Raise `Orphaned` when nobody needs the servers any more."""
        if self._asked_to_end or os.getppid() != self._parent:
            raise Orphaned
        try:
            if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                raise Orphaned
        except BlockingIOError:
            return
        except ConnectionError:
            raise Orphaned from None

    def next_bytes(self) -> bytes:
        """Wait for the application to say something."""
        while True:
            self.check()
            if select.select([self.connection], [], [], PERIOD_SECONDS)[0]:
                self.check()
                return self.connection.recv(65536)

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds, and answer whether it did in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                return False
            time.sleep(STEP_SECONDS)
        return True
