"""The guard: a small process of its own session that owns both servers and ends with the application.

It is started by `EmbeddedServers`, takes orders as JSON lines on its standard input (a socket) and ends, with the
servers and their folder, when that socket closes or when its parent changes. Only the standard library is loaded.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from jobconsole.embedded.processes import (
    LaunchPlan,
    Message,
    Orphaned,
    ServerPlan,
    Watch,
    adopt_orphans,
    freeze,
    kill_family,
    last_lines,
    remove_shared_memory,
    send,
    spawn,
    thaw,
)


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
        """Return whether the running process accepts clients."""
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
        """Freeze the process and its children: connections stay open and get no answer."""
        if self.pid is not None:
            freeze(self.pid)

    def resume(self) -> None:
        """Continue a frozen server."""
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
        """Return whether the process accepts clients, as its own file reports."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"


class GuardedRedis(GuardedServer):
    """A server of the Redis protocol."""

    name = "The Redis-protocol server"

    def is_ready(self) -> bool:
        """Return whether the process accepts clients and has loaded its data."""
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


# How long a server may take to end by itself before it is killed: all is to be gone within a second.
GRACE_SECONDS = 0.4
# How long the removal of the folder is repeated while dying children still write into it.
REMOVAL_SECONDS = 3.0
# Parts of the package that no server needs: not worth copying.
UNNEEDED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "__pycache__")
NEEDED_PROGRAMS = frozenset({"postgres", "initdb"})


class ServerGuard:
    """Carries out the application's orders, one after the other."""

    def __init__(self, watch: Watch, plan: LaunchPlan) -> None:
        self.folder = Path(plan["folder"])
        self._watch = watch
        self._plan = plan
        run_as = (plan["run_as"][0], plan["run_as"][1]) if plan["run_as"] else None
        self._run_as = run_as
        self.postgres = GuardedPostgres(plan["postgres"], run_as, plan["patience"], watch)
        self.redis = GuardedRedis(plan["redis"], run_as, plan["patience"], watch)
        self._servers: dict[str, GuardedServer] = {"postgres": self.postgres, "redis": self.redis}

    def launch(self) -> None:
        """Start both servers, one while the other prepares itself."""
        for name in ("redis", "postgres"):
            self._copy(name)
            self._servers[name].prepare()
            self._servers[name].launch()
        for server in self._servers.values():
            server.await_ready()

    def _copy(self, name: str) -> None:
        for source, target in self._plan["copies"].get(name, []):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            if Path(source).is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=_unneeded)
            else:
                shutil.copy2(source, target)
        if self._plan["copies"].get(name):
            give_to(self.folder / "programs", self._run_as)

    def run(self, order: Message) -> Message:
        """Do what the application asks, and answer it."""
        if order["do"] == "template":
            return {"path": str(self._template())}
        if order["do"] in ("launch", "close"):
            return self._pids()
        server = self._servers[order["server"]]
        actions: dict[str, Callable[[], None]] = {
            "start": lambda: _start(server),
            "stop": lambda: server.stop(order["mode"]),
            "kill": server.kill,
            "pause": server.pause,
            "resume": server.resume,
            "look": lambda: None,
        }
        actions[order["do"]]()
        return self._pids()

    def _pids(self) -> Message:
        return {"pids": {name: server.pid for name, server in self._servers.items()}}

    def _template(self) -> Path:
        """Run initdb into a folder that other instances may copy, once."""
        path = self.folder / "template"
        if not path.exists():
            self.postgres.initialise(path)
        return path

    def end(self) -> None:
        """End both servers and remove the folder."""
        for server in self._servers.values():
            server.begin_end()
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and any(server.pid is not None for server in self._servers.values()):
            time.sleep(0.002)
        for server in self._servers.values():
            server.finish_end()
        _reap_all()
        remove_shared_memory(self.postgres.data)
        _remove(self.folder)


def _start(server: GuardedServer) -> None:
    server.launch()
    server.await_ready()


def _unneeded(folder: str, names: list[str]) -> set[str]:
    left_out = set(UNNEEDED(folder, names))
    if Path(folder).name == "bin":
        left_out |= set(names) - NEEDED_PROGRAMS
    return left_out


def _reap_all() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + REMOVAL_SECONDS
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        _reap_all()


def serve(watch: Watch) -> None:
    """Read orders until the application closes, or is gone."""
    guard: ServerGuard | None = None
    unread = b""
    closing: Message | None = None
    try:
        while closing is None:
            unread += watch.next_bytes()
            while b"\n" in unread and closing is None:
                line, _, unread = unread.partition(b"\n")
                order: Message = json.loads(line)
                if order["do"] == "close":
                    closing = order
                else:
                    guard = guard or ServerGuard(watch, order["plan"])
                    _answer(watch.connection, order, guard)
    except Orphaned:
        pass
    finally:
        if guard is not None:
            guard.end()
    if closing is not None:
        _reply(watch.connection, {"id": closing["id"]})


def _answer(connection: socket.socket, order: Message, guard: ServerGuard) -> None:
    reply: Message = {"id": order["id"]}
    try:
        if order["do"] == "launch":
            guard.launch()
        reply |= guard.run(order)
    except (Refusal, OSError) as problem:
        reply["error"] = str(problem)
    _reply(connection, reply)


def _reply(connection: socket.socket, reply: Message) -> None:
    with suppress(ConnectionError):
        connection.sendall(json.dumps(reply).encode() + b"\n")


def main() -> None:
    """Run as the guard of the process whose id is the last argument."""
    # Standard input is the socket: it survives a parent whose own standard streams are closed.
    watch = Watch(socket.socket(fileno=os.dup(0)), int(sys.argv[-1]))
    watch.listen_to_signals()
    os.umask(0o077)
    adopt_orphans()
    serve(watch)


if __name__ == "__main__":
    main()
