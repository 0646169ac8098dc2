"""A program in a terminal of its own, with somebody who looks and presses keys: a pseudo-terminal, or tmux."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

ROWS, COLUMNS = 40, 120
PATIENCE = 60.0
"""Seconds until something that has to stand on the screen counts as not coming."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[PX^_][^\x1b]*\x1b\\\\|[@-_=>])")

_TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
"""Makes the terminal on its input that of its session, and becomes another program."""


class Terminal(Protocol):
    """A terminal in which a program runs."""

    def wait_for(self, text: str) -> None:
        """Wait until a text has been drawn.

        Raises:
            AssertionError: it did not come.
        """

    def press(self, keys: str) -> None:
        """Press keys."""

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""

    def close(self) -> None:
        """Leave nothing behind, whatever has happened."""


class PseudoTerminal:
    """What every machine has: the program draws into it, and what it has drawn is searched without its colours."""

    def __init__(
        self, command: Sequence[str], size: tuple[int, int], environment: Mapping[str, str], controlling: bool = False
    ) -> None:
        """`controlling`: it is the terminal of the program's session, as a shell needs it to stop and continue jobs."""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE, *command] if controlling else command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environment,
        )
        os.close(theirs)
        self.drawn = b""
        self._searched = 0

    def wait_for(self, text: str) -> None:
        """Wait until a text has been drawn since the last one that was waited for."""
        end = time.monotonic() + PATIENCE
        while text not in self._text():
            if time.monotonic() > end or not self._read(0.2):
                raise AssertionError(f"{text!r} did not come; drawn was: {self._text()[-3000:]}")
        self._searched = len(self.drawn)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        while self._read(PATIENCE):
            pass
        return self._process.wait(PATIENCE)

    def hang_up(self) -> int:
        """Take the terminal away and return how the program ends."""
        os.close(self._ours)
        self._ours = -1
        return self._process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Stop the program by SIGSTOP, and take in what it has drawn before that."""
        self._process.send_signal(signal.SIGSTOP)
        # A program that waits for its drawing to be read does not stop before.
        while os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is None:
            self._read(0.05)
        while self._read(0.0):
            if not select.select([self._ours], [], [], 0)[0]:
                break
        self._searched = len(self.drawn)

    def go_on(self) -> None:
        """Let a stopped program go on."""
        self._process.send_signal(signal.SIGCONT)

    @property
    def modes(self) -> list[Any]:
        """The modes of the terminal: whether it hands over keys or lines, and the like."""
        return termios.tcgetattr(self._ours)

    @modes.setter
    def modes(self, modes: list[Any]) -> None:
        termios.tcsetattr(self._ours, termios.TCSANOW, modes)

    def close(self) -> None:
        """Leave nothing behind."""
        if self._ours >= 0:
            os.close(self._ours)
        self._process.kill()
        self._process.wait()

    def _text(self) -> str:
        return _SEQUENCE.sub("", self.drawn[self._searched :].decode(errors="replace"))

    def _read(self, seconds: float) -> bool:
        """Take in what has been drawn; False when the program has closed its side."""
        ready, _, _ = select.select([self._ours], [], [], seconds)
        part = _read(self._ours) if ready else None
        self.drawn += part or b""
        return part != b""


class Tmux:
    """A terminal as people have one: what stands on its screen is what was drawn, after all that moved and cleared."""

    def __init__(
        self, command: Sequence[str], size: tuple[int, int], environment: Mapping[str, str], folder: Path
    ) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._environment = dict(environment)
        self._code = folder / "code"
        line = f"{' '.join(command)}; echo $? > {self._code}.new; mv {self._code}.new {self._code}"
        self._run("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), line)

    @staticmethod
    def is_there() -> bool:
        """Whether tmux is installed."""
        return shutil.which("tmux") is not None

    def screen(self) -> str:
        """Return what stands on the screen."""
        return self._run("capture-pane", "-p")

    def wait_for(self, text: str) -> None:
        """Wait until a text stands on the screen."""
        end = time.monotonic() + PATIENCE
        while text not in (screen := self.screen()):
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come; the screen:\n{screen}")
            time.sleep(0.05)

    def press(self, keys: str) -> None:
        """Press keys."""
        for key in keys:
            self._run("send-keys", *(["Enter"] if key == "\r" else ["-l", key]))

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        end = time.monotonic() + PATIENCE
        while not self._code.exists():
            assert time.monotonic() < end, "it does not end"
            time.sleep(0.05)
        return int(self._code.read_text())

    def close(self) -> None:
        """Leave nothing behind."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, env=self._environment)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, env=self._environment)
        return done.stdout


def plain_environment(**given: str) -> dict[str, str]:
    """Return this process's environment for a program in a terminal, without settings of the console."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JOBCONSOLE_", "JOBS_", "TMUX"))}
    return kept | {"TERM": "xterm-256color"} | given


def in_a_terminal(command: Sequence[str], wait_for: str, key: str) -> tuple[int, str]:
    """Run a program, press a key once it has drawn something, and return its exit code with all that it has drawn."""
    terminal = PseudoTerminal(command, (COLUMNS, ROWS), plain_environment())
    try:
        terminal.wait_for(wait_for)
        terminal.press(key)
        return terminal.end(), terminal.drawn.decode(errors="replace")
    finally:
        terminal.close()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the program has closed its side
        return b""
