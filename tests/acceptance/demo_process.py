"""The demo as a user starts it: a process of its own, its lines read as they come."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.waiting import PATIENCE, running, until


class DemoProcess:
    """`jobconsole demo --json …` with the lines of its stderr; killed at the end of the block."""

    def __init__(self, *arguments: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JOBCONSOLE_", "JOBS_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jobconsole", "demo", "--json", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=kept,
        )
        self.lines: list[str] = []
        self._unread: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._unread.put(line.rstrip("\n"))
        self._unread.put(None)

    @property
    def pid(self) -> int:
        """The demo's own process."""
        return self._process.pid

    def line(self, pattern: str, seconds: float = PATIENCE) -> re.Match[str]:
        """Wait for a line that matches from its start on."""
        deadline = time.monotonic() + seconds
        while True:
            line = self._unread.get(timeout=max(0.01, deadline - time.monotonic()))
            if line is None:
                raise AssertionError(f"the demo ended without a line like {pattern!r}: {self.lines[-5:]}")
            self.lines.append(line)
            if match := re.match(pattern, line):
                return match

    def addresses(self) -> dict[str, str]:
        """Wait until the demo has said where everything is."""
        return {name: self.line(rf"{name}: (\S+)")[1] for name in ("postgres", "redis", "metrics")}

    def workers(self) -> set[int]:
        """Wait until the demo has named its worker processes."""
        return set(map(int, self.line(r"workers: ([\d ]+)$")[1].split()))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the demo's own process."""
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        return self._process.wait(PATIENCE)

    def summary(self) -> tuple[int, dict[str, Any]]:
        """Wait for the end, and return the exit code with the one object on stdout."""
        assert self._process.stdout is not None
        text = self._process.stdout.read()
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        while (line := self._unread.get()) is not None:
            self.lines.append(line)
        assert text.count("\n") == 1, (text, self.lines[-5:])
        return code, json.loads(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._reader.join(PATIENCE)
            stream.close()


def folder_of(postgres_url: str) -> Path:
    """Return the folder of the embedded servers."""
    return Path(parse_qs(urlsplit(postgres_url).query)["host"][0]).parent


def assert_nothing_left(folder: Path, pids: set[int]) -> None:
    """Wait until the processes and everything that names the folder are gone, and the folder too."""
    assert until(lambda: not running(pids)), f"still there: {running(pids)}"
    assert until(lambda: not _named(folder)), f"still there: {_named(folder)}"
    assert until(lambda: not folder.exists())


def _named(folder: Path) -> list[str]:
    """Return the command lines of processes that run in or on the folder (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = str((entry / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in command or where.startswith(str(folder)):
            found.append(f"{entry.name} {command}")
    return found
