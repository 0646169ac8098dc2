"""The application's end of the line to its guard."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from jobconsole.embedded.folders import EmbeddedError, InstanceFolder, above_standard
from jobconsole.embedded.processes import Message

# Longer than anything the guard itself waits for.
ANSWER_SECONDS = 150.0
# `-S -E`: no site packages and no variables, so the guard starts within some ten milliseconds.
START_GUARD = "import sys; sys.path.insert(0, sys.argv[1]); from jobconsole.embedded.guard import main; main()"


class Channel:
    """Sends one order at a time and waits for its answer; may be used from several threads."""

    def __init__(self, folder: InstanceFolder) -> None:
        self._folder = folder.path
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._number = 0
        self._unread = b""
        mine, theirs = socket.socketpair()
        with theirs:
            # A low number would be taken for a standard stream that this process has closed.
            self._connection = socket.socket(fileno=above_standard(mine.detach()))
            try:
                self._process = _start_guard(theirs, folder)
            except OSError as problem:
                self._connection.close()
                raise EmbeddedError(f"The guard of the embedded servers did not start: {problem}.") from problem
            finally:
                os.close(folder.lock)

    @property
    def guard_pid(self) -> int:
        """The process id of the guard."""
        return self._process.pid

    def ask(self, do: str, **fields: object) -> Message:
        """Send an order to the guard and return its answer."""
        if os.getpid() != self._owner:
            raise EmbeddedError("The embedded servers belong to the process that started them, not to its forks.")
        with self._lock:
            self._number += 1
            order = {"id": self._number, "do": do, **fields}
            try:
                self._connection.sendall(json.dumps(order).encode() + b"\n")
                reply = self._answer_to(self._number)
            except TimeoutError:
                raise EmbeddedError(f"The guard of the embedded servers did not answer to {do!r} in time.") from None
            except OSError as problem:
                raise EmbeddedError(f"The guard of the embedded servers is gone{self._last_words()}.") from problem
        if "error" in reply:
            raise EmbeddedError(str(reply["error"]))
        return reply

    def _answer_to(self, number: int) -> Message:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            while b"\n" not in self._unread:
                self._connection.settimeout(max(0.01, deadline - time.monotonic()))
                received = self._connection.recv(65536)
                if not received:
                    raise ConnectionResetError
                self._unread += received
            line, _, self._unread = self._unread.partition(b"\n")
            reply: Message = json.loads(line)
            if reply["id"] == number:  # else the late answer to an order given up
                return reply

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self._folder / "guard.log").read_text(errors="replace").strip().splitlines()
            return f": {lines[-1]}" if lines else ""
        return ""

    def close(self) -> None:
        """End the guard with everything it owns; in a fork, only close the connection."""
        if os.getpid() != self._owner:
            self._connection.close()
            self._process.returncode = 0  # a child of another process, which has to wait for it
            return
        with suppress(EmbeddedError):
            self.ask("close")
        self._connection.close()
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start_guard(theirs: socket.socket, folder: InstanceFolder) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    with (folder.path / "guard.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", START_GUARD, root, str(os.getpid())],
            cwd=folder.path,
            stdin=theirs.fileno(),
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(folder.lock,),
        )
