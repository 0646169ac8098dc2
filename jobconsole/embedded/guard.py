"""The guard: a small process of its own session that owns both servers and outlives nobody.

It is started by `EmbeddedServers`, takes orders as JSON lines on its standard input (a socket) and ends, with the
servers and their folder, when that socket closes or when its parent changes. Only the standard library is loaded.
"""

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jobconsole.embedded.guarded import GuardedPostgres, GuardedRedis, GuardedServer, Refusal, give_to
from jobconsole.embedded.leftovers import remove_shared_memory
from jobconsole.embedded.protocol import LaunchPlan, Message
from jobconsole.embedded.spawning import adopt_orphans
from jobconsole.embedded.watch import Orphaned, Watch

# How long a server may take to end by itself before it is killed: all is to be gone within a second.
GRACE_SECONDS = 0.4
# How long the removal of the folder is repeated while dying children still write into it.
REMOVAL_SECONDS = 3.0
# Parts of the package that no server needs: not worth copying.
UNNEEDED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "__pycache__")
NEEDED_PROGRAMS = frozenset({"postgres", "initdb"})


class Guard:
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

    def carry_out(self, order: Message) -> Message:
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
    guard: Guard | None = None
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
                    guard = guard or Guard(watch, order["plan"])
                    _answer(watch.connection, order, guard)
    except Orphaned:
        pass
    finally:
        if guard is not None:
            guard.end()
    if closing is not None:
        _reply(watch.connection, {"id": closing["id"]})


def _answer(connection: socket.socket, order: Message, guard: Guard) -> None:
    reply: Message = {"id": order["id"]}
    try:
        if order["do"] == "launch":
            guard.launch()
        reply |= guard.carry_out(order)
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
