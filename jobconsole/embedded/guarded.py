"""The two servers as the guard holds them; light, because the guard loads it."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from jobconsole.embedded.leftovers import freeze, kill_family, send, thaw
from jobconsole.embedded.protocol import ServerPlan
from jobconsole.embedded.spawning import last_lines, spawn
from jobconsole.embedded.watch import Watch


class Refusal(Exception):
    """What was asked could not be done; the message goes to the application."""


class GuardedServer:
    """One server: at most one process of it runs at a time."""

    name = "server"
    # What each way of stopping sends; the first is the usual one.
    stop_signals: ClassVar[dict[str, signal.Signals]] = {"fast": signal.SIGTERM}
    # Ends it at once, without care for its data; also what the kernel sends when the guard itself is killed.
    end_signal = signal.SIGKILL

    def __init__(self, plan: ServerPlan, run_as: tuple[int, int] | None, patience: float, watch: Watch) -> None:
        self.log = Path(plan["log"])
        self.data = Path(plan["data"])
        self._plan = plan
        self._run_as = run_as
        self._patience = patience
        self._watch = watch
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running server."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def prepare(self) -> None:
        """Make what the server needs before its first start."""
        self.make_folder(self.data)

    def launch(self) -> None:
        """Start the process unless it runs."""
        if self.pid is None:
            self._process = spawn(self._plan["command"], self.data, self.log, self._run_as, self.end_signal)

    def await_ready(self) -> None:
        """Wait until the server answers."""
        ready = self._watch.until(lambda: self.pid is None or self.is_ready(), self._patience)
        if self.pid is None:
            raise Refusal(f"{self.name} ended while it started; its log ends with: {last_lines(self.log)}")
        if not ready:
            self.kill()
            raise Refusal(f"{self.name} did not start within {self._patience:.0f} s: {last_lines(self.log)}")

    def is_ready(self) -> bool:
        """Answer whether the running process accepts clients."""
        raise NotImplementedError

    def stop(self, mode: str) -> None:
        """Stop the process in the given way, and wait for its end."""
        pid = self.pid
        if pid is None:
            return
        self.resume()
        send(pid, self.stop_signals[mode])
        if not self._watch.until(lambda: self.pid is None, self._patience):
            raise Refusal(f"{self.name} did not stop within {self._patience:.0f} s: {last_lines(self.log)}")

    def kill(self) -> None:
        """Kill the process and its children at once, as a crash of the machine would."""
        pid = self.pid
        if pid is not None:
            family = kill_family(pid)
            self._watch.until(lambda: self.pid is None, self._patience)
            self._watch.until(lambda: all(_is_gone(child) for child in family[1:]), self._patience)

    def pause(self) -> None:
        """Freeze the process and its children: connections stay open and nobody answers."""
        if self.pid is not None:
            freeze(self.pid)

    def resume(self) -> None:
        """Let a frozen server go on."""
        if self.pid is not None:
            thaw(self.pid)

    def begin_end(self) -> None:
        """Ask for the quickest end that leaves nothing behind."""
        if self.pid is not None:
            self.resume()
            send(self.pid, self.end_signal)

    def finish_end(self) -> None:
        """Kill what did not end by itself."""
        pid = self.pid
        if pid is not None:
            kill_family(pid)
            with suppress(subprocess.TimeoutExpired):
                assert self._process is not None
                self._process.wait(timeout=5)

    def make_folder(self, path: Path) -> None:
        """Make a private folder of the server's user."""
        path.mkdir(mode=0o700, exist_ok=True)
        if self._run_as is not None:
            os.chown(path, *self._run_as)


def _is_gone(child: int) -> bool:
    """Reap a process whose parent was killed and which this guard has adopted; answer whether it is gone."""
    with suppress(ChildProcessError):
        os.waitpid(child, os.WNOHANG)
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return True
    return False


class GuardedPostgres(GuardedServer):
    """PostgreSQL."""

    name = "PostgreSQL"
    stop_signals: ClassVar = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
    # Not SIGKILL: the postmaster still ends its children and gives its shared memory back.
    end_signal = signal.SIGQUIT

    def prepare(self) -> None:
        """Fill the data folder: from a template, or by initdb."""
        template = self._plan.get("template")
        if template:
            shutil.copytree(template, self.data, symlinks=True)
            give_to(self.data, self._run_as)
        else:
            self.initialise(self.data)

    def initialise(self, data: Path) -> None:
        """Run initdb into a new folder."""
        self.make_folder(data)
        command = [*self._plan.get("initdb", []), "-D", str(data)]
        process = spawn(command, data.parent, self.log, self._run_as, signal.SIGKILL)
        try:
            if not self._watch.until(lambda: process.poll() is not None, self._patience):
                raise Refusal(f"initdb did not end within {self._patience:.0f} s: {last_lines(self.log)}")
        finally:
            if process.poll() is None:
                kill_family(process.pid)
                process.wait()
        if process.returncode != 0:
            raise Refusal(f"initdb failed: {last_lines(self.log)}")

    def is_ready(self) -> bool:
        """Answer whether the process accepts clients: it says so in its own file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"


class GuardedRedis(GuardedServer):
    """A server of the Redis protocol."""

    name = "The Redis-protocol server"

    def is_ready(self) -> bool:
        """Answer whether the process accepts clients and has loaded its data."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1.0)
            try:
                client.connect(self._plan["socket"])
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False


def give_to(folder: Path, run_as: tuple[int, int] | None) -> None:
    """Give a copied file or folder to the servers' user."""
    if run_as is None:
        return
    os.chown(folder, *run_as)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(parent, name), *run_as, follow_symlinks=False)
