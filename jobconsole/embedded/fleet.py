"""The processes of the demo: each leads a session of its own, and the warden ends all of them when the demo is gone."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jobconsole.embedded.places import DemoError
from jobconsole.embedded.warden import REMOVAL_SECONDS, kill_sessions

WARDEN = Path(__file__).with_name("warden.py")
STEP_SECONDS = 0.02
"""How often the end of a process is looked at."""


class FleetProcess:
    """One process and its session."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        """The process id, which is also the session's."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """Send SIGTERM to the process alone: it knows what to do with its children."""
        if self.ended is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill what is left of the session."""
        kill_sessions({self.pid})
        self._process.wait()

    def last_words(self) -> str:
        """Return the last line of its log."""
        with suppress(OSError):
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
            return lines[-1].strip()[:300] if lines else ""
        return ""


class Fleet:
    """Starts processes and leaves none behind, not even when this process is killed."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """`folder` is where they run, and what the warden removes in the end."""
        self._folder = folder
        self._environment = dict(environment)
        self._children: list[FleetProcess] = []
        # those that were asked to end
        self._ending: set[FleetProcess] = set()
        self._warden = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WARDEN), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def start(
        self, name: str, module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> FleetProcess:
        """Start a module of this package as a process; `environment` has further variables for it."""
        log = self._folder / "logs" / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self._folder,
                env={**self._environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        child = FleetProcess(name, process, log)
        self._log(f"session {child.pid}")
        self._children.append(child)
        return child

    def check(self) -> None:
        """Look whether everything still runs.

        Raises:
            DemoError: a process has ended by itself.
        """
        for child in self._children:
            if child.ended is not None and child not in self._ending:
                raise DemoError(f"The {child.name} process {_how(child.ended, child.last_words())}.")

    async def end(self, child: FleetProcess, seconds: float) -> bool:
        """Ask a process to end, kill its session after `seconds`, and answer whether it ended by itself."""
        self._ending.add(child)
        child.ask_to_end()
        willing = await _until(lambda: child.ended is not None, seconds)
        child.kill()
        self._log(f"gone {child.pid}")
        self._children.remove(child)
        self._ending.discard(child)
        return willing

    def close(self) -> None:
        """Kill what still runs and remove the folder; may be called twice."""
        for child in list(self._children):
            child.kill()
        assert self._warden.stdin is not None
        with suppress(OSError):
            self._warden.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._warden.wait(timeout=2 * REMOVAL_SECONDS)

    def _log(self, line: str) -> None:
        assert self._warden.stdin is not None
        try:
            self._warden.stdin.write(line.encode() + b"\n")
            self._warden.stdin.flush()
        except OSError:
            raise DemoError("The demo's warden process is gone; the demo ends here.") from None


def _how(status: int, last_words: str) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"has ended with {status}" + (f": {last_words.rstrip('.')}" if last_words else "")


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until something holds, and answer whether it did in time."""
    deadline = time.monotonic() + seconds
    while True:
        if condition():
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(STEP_SECONDS)
