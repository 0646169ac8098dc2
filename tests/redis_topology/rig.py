"""Real Sentinels and real clusters: every server a process of its own, on ports of the loopback address."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from jobconsole.embedded.binaries import find_redis, preference

PATIENCE = 30.0
NAME = "jobs-primary"
SLOTS = 16_384


def wait_until(what: str, holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until something holds, and return what it is."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := holds():
                return found
        except redis.RedisError:
            pass
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Return ports that no other process listens on, each below the range that needs a bus port above 65535."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port < 55_000:
                found.append(port)
        return found


def die_with_parent() -> None:
    """Let the kernel kill this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def tls_program() -> Path | None:
    """Return a server that speaks TLS; the one of the wheel does not."""
    found = shutil.which("redis-server")
    if found is None:
        return None
    # Without a certificate it ends at once, and complains of that, or of an option that it does not know.
    command = [found, "--port", "0", "--tls-port", "7000"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return Path(found) if "tls-cert-file" in answer.stdout + answer.stderr else None


class Certificate:
    """A key and a certificate for the loopback address, which is its own authority."""

    def __init__(self, folder: Path) -> None:
        self.key, self.certificate = folder / "tls.key", folder / "tls.crt"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(self.key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)

    def options(self, port: int) -> dict[str, str]:
        """Return the options of a server that speaks TLS alone."""
        files = {"tls-cert-file": str(self.certificate), "tls-key-file": str(self.key)}
        both = {"tls-ca-cert-file": str(self.certificate), "tls-auth-clients": "no", "tls-replication": "yes"}
        return {"port": "0", "tls-port": str(port)} | files | both


class Server:
    """One server; its folder and port stay when it is started again."""

    def __init__(
        self, folder: Path, port: int, *options: str, sentinel: bool = False, tls: Certificate | None = None
    ) -> None:
        self.port = port
        self.tls = tls
        self.folder = folder / str(port)
        self.folder.mkdir()
        self._options, self._sentinel = options, sentinel
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, on the data that it has."""
        program = find_redis(preference(None)).path if self.tls is None else tls_program()
        place = {"port": str(self.port)} if self.tls is None else self.tls.options(self.port)
        command = [str(program)]
        if self._sentinel:
            command += [str(self.folder / "sentinel.conf"), "--sentinel"]
            if not (self.folder / "sentinel.conf").exists():
                own = [f"{name} {value}" for name, value in place.items()]
                lines = [*own, "bind 127.0.0.1", f"dir {self.folder}", *self._options]
                (self.folder / "sentinel.conf").write_text("\n".join(lines) + "\n")
        else:
            command += [part for name, value in place.items() for part in (f"--{name}", value)]
            command += ["--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
            command += self._options
        with (self.folder / "log").open("ab") as log:
            # It makes one call of the kernel and takes no lock.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)  # noqa: PLW1509

    def revive(self) -> None:
        """Let it run again, whatever was done to it."""
        if self._process is None:
            self.start()
        else:
            self.resume()

    def client(self, **options: Any) -> redis.Redis:
        """Return a client of this server alone."""
        if self.tls is not None:
            options |= {"ssl": True, "ssl_ca_certs": str(self.tls.certificate), "host": "127.0.0.1"}
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=5, **options)

    def ask(self, *command: Any, **options: Any) -> Any:
        """Run one command."""
        with self.client(**options) as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze it: connections stay open and get no answer."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


class Trio:
    """A primary with two replicas, and three Sentinels."""

    def __init__(self, folder: Path, password: str = "", tls: bool = False) -> None:
        self.tls = Certificate(folder) if tls else None
        ports = free_ports(6)
        login = ["--requirepass", password, "--masterauth", password] if password else []
        self.options = {"password": password} if password else {}
        data = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0", *login]
        self.servers = [Server(folder, port, *data, tls=self.tls) for port in ports[:3]]
        first = self.servers[0]
        wait_until("the primary answers", lambda: first.ask("PING", **self.options))
        for replica in self.servers[1:]:
            wait_until("it answers", lambda one=replica: one.ask("PING", **self.options))
            replica.ask("REPLICAOF", "127.0.0.1", first.port, **self.options)
        watch = [
            f"sentinel monitor {NAME} 127.0.0.1 {first.port} 2",
            f"sentinel down-after-milliseconds {NAME} 600",
            f"sentinel failover-timeout {NAME} 1000",
        ]
        watch += [f"sentinel auth-pass {NAME} {password}", f"requirepass of-{password}"] if password else []
        watch += [f"sentinel sentinel-pass of-{password}"] if password else []
        self.sentinel_options = {"password": f"of-{password}"} if password else {}
        self.sentinels = [Server(folder, port, *watch, sentinel=True, tls=self.tls) for port in ports[3:]]
        for sentinel in self.sentinels:
            wait_until("it answers", lambda one=sentinel: one.ask("PING", **self.sentinel_options))
        self.wait_whole()

    @property
    def hosts(self) -> str:
        """The addresses of the Sentinels, as in a URL."""
        return ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)

    def url(self, name: str = NAME) -> str:
        """Return the address of the primary that Sentinels know by this name."""
        login = f":{self.options['password']}@" if self.options else ""
        query = [f"sentinel_password={self.sentinel_options['password']}"] if self.options else []
        query += [f"ssl_ca_certs={self.tls.certificate}"] if self.tls else []
        scheme = "rediss" if self.tls else "redis"
        return f"{scheme}+sentinel://{login}{self.hosts}/{name}/0{'?' if query else ''}{'&'.join(query)}"

    def primary(self) -> Server:
        """Return the server that a Sentinel calls the primary."""
        for sentinel in self.sentinels:
            try:
                _, port = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME, **self.sentinel_options)
            except redis.RedisError:
                continue
            return next(one for one in self.servers if one.port == int(port))
        raise AssertionError("no Sentinel answers")

    def wait_whole(self, replicas: int = 2) -> None:
        """Wait until every Sentinel sees a quorum, and so many replicas follow the primary."""

        def whole() -> bool:
            names = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
            if len({str(one.ask(*names, **self.sentinel_options)) for one in self.sentinels}) > 1:
                return False  # a client believes most of them
            for one in self.sentinels:
                # The parser of the answer differs between versions of the library: text is enough here.
                if "OK" not in str(one.ask("SENTINEL", "CKQUORUM", NAME, **self.sentinel_options)):
                    return False
            primary = self.primary().ask("ROLE", **self.options)
            return primary[0] == "master" and len(primary[2]) >= replicas

        wait_until("the trio is whole", whole)

    def failover(self) -> None:
        """Demote the primary as planned, and wait for its successor."""
        before = self.primary().port
        # On a busy machine a Sentinel that has not heard of its replicas lately finds none of them suitable.
        ask = ("SENTINEL", "FAILOVER", NAME)
        wait_until("a replica is suitable", lambda: self.sentinels[0].ask(*ask, **self.sentinel_options))
        wait_until("there is another primary", lambda: self.primary().port != before)

    def close(self) -> None:
        """End all servers."""
        for one in [*self.sentinels, *self.servers]:
            one.kill()


class Cluster:
    """Three masters with a replica each."""

    def __init__(self, folder: Path, *options: str, tls: bool = False) -> None:
        self.tls = Certificate(folder) if tls else None
        # All at once: until they are listened to, a port that is asked for later may be the same one.
        ports, buses = (found := free_ports(12))[:6], found[6:]
        options = (*options, "--tls-cluster", "yes") if tls else options
        common = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--appendonly", "yes"]
        common += ["--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0", *options]
        self.servers = []
        for port, bus in zip(ports, buses, strict=True):
            self.servers.append(Server(folder, port, *common, "--cluster-port", str(bus), tls=self.tls))
        for server in self.servers:
            wait_until("it answers", lambda one=server: one.ask("PING"))
        first = self.servers[0]
        for server in self.servers[1:]:
            bus = server.ask("CONFIG", "GET", "cluster-port")
            number = bus["cluster-port"] if isinstance(bus, dict) else bus[1]
            first.ask("CLUSTER", "MEET", "127.0.0.1", server.port, number)
        step = SLOTS // 3 + 1
        for place, server in enumerate(self.servers[:3]):
            server.ask("CLUSTER", "ADDSLOTSRANGE", place * step, min(SLOTS, (place + 1) * step) - 1)
        wait_until("all know all", lambda: all(len(self.nodes(one)) == 6 for one in self.servers))
        for master, replica in zip(self.servers[:3], self.servers[3:], strict=True):
            node = master.ask("CLUSTER", "MYID")
            wait_until("it replicates", lambda one=replica, of=node: one.ask("CLUSTER", "REPLICATE", of))
        self.wait_whole()

    @staticmethod
    def nodes(server: Server) -> list[list[str]]:
        """Return what a server knows of the nodes: id, address, flags, …, slots."""
        with server.client() as client:
            client.set_response_callback("CLUSTER NODES", str)
            text = str(client.execute_command("CLUSTER NODES"))
        return [line.split() for line in text.splitlines() if line.strip()]

    @property
    def url(self) -> str:
        """The address of the cluster by two of its nodes."""
        hosts = f"127.0.0.1:{self.servers[0].port},127.0.0.1:{self.servers[4].port}"
        return (
            f"rediss+cluster://{hosts}?ssl_ca_certs={self.tls.certificate}" if self.tls else f"redis+cluster://{hosts}"
        )

    def masters(self) -> list[Server]:
        """Return the servers that own slots."""
        alive = next(one for one in self.servers if self._answers(one))
        found = [line for line in self.nodes(alive) if "master" in line[2] and "fail" not in line[2] and len(line) > 8]
        ports = {int(line[1].partition("@")[0].rpartition(":")[2]) for line in found}
        return [one for one in self.servers if one.port in ports]

    @staticmethod
    def _answers(server: Server) -> bool:
        try:
            return bool(server.ask("PING"))
        except redis.RedisError:
            return False

    def owner(self, slot: int, among: Sequence[Server] = ()) -> Server:
        """Return the master of a slot, as one of these servers, or of all, knows it."""
        for line in self.nodes(next(one for one in among or self.servers if self._answers(one))):
            for part in line[8:]:
                first, _, last = part.partition("-")
                if not part.startswith("[") and int(first) <= slot <= int(last or first):
                    port = int(line[1].partition("@")[0].rpartition(":")[2])
                    return next(one for one in self.servers if one.port == port)
        raise AssertionError(f"no master owns slot {slot}")

    def replica_of(self, master: Server) -> Server:
        """Return a replica of a master."""
        node = master.ask("CLUSTER", "MYID")
        for line in self.nodes(master):
            if line[3] == node:
                port = int(line[1].partition("@")[0].rpartition(":")[2])
                return next(one for one in self.servers if one.port == port)
        raise AssertionError("it has no replica")

    def misses(self, server: Server) -> bool:
        """Return whether a server takes another one for lost."""
        return any({"fail", "fail?"}.intersection(line[2].split(",")) for line in self.nodes(server))

    def wait_whole(self) -> None:
        """Wait until every server serves all slots and knows the three pairs, and every replica follows its master."""

        def whole() -> bool:
            for one in self.servers:
                with one.client() as client:
                    client.set_response_callback("CLUSTER INFO", str)
                    if "cluster_state:ok" not in str(client.execute_command("CLUSTER INFO")):
                        return False
                role = one.ask("ROLE")
                if role[0] == "slave" and role[3] != "connected":
                    return False
                alive = [line for line in self.nodes(one) if "fail" not in line[2]]
                masters = {line[0] for line in alive if "master" in line[2] and len(line) > 8}
                if len(masters) != 3 or {line[3] for line in alive if "slave" in line[2]} != masters:
                    return False
            return True

        wait_until("the cluster is whole", whole)

    def wait_down(self) -> None:
        """Wait until every server that answers refuses to serve."""

        def down() -> bool:
            answers = []
            for one in filter(self._answers, self.servers):
                with one.client() as client:
                    client.set_response_callback("CLUSTER INFO", str)
                    answers.append("cluster_state:fail" in str(client.execute_command("CLUSTER INFO")))
            return all(answers)

        wait_until("the cluster is down", down)

    def migrate(self, slot: int, target: Server) -> None:
        """Give a slot with its keys to another master, while clients go on."""
        source = self.owner(slot)
        node = target.ask("CLUSTER", "MYID")
        try:
            source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", node)
        except redis.ResponseError as error:
            if "unknown" not in str(error).lower():
                raise
            self._migrate_by_keys(slot, source, target)
        wait_until("the slot has moved", lambda: self.owner(slot) is target)

    def _migrate_by_keys(self, slot: int, source: Server, target: Server) -> None:
        with self.migrating(slot, source, target) as move:
            while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
                move(*keys)

    @contextmanager
    def migrating(self, slot: int, source: Server, target: Server) -> Iterator[Callable[..., None]]:
        """Let a slot be on its way; gives what moves keys."""
        ids = [one.ask("CLUSTER", "MYID") for one in (source, target)]
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        yield lambda *keys: source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for one in (target, source):
            one.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
        wait_until("the slot has moved", lambda: self.owner(slot) is target)

    def close(self) -> None:
        """End all servers."""
        for one in self.servers:
            one.kill()


@contextmanager
def started(make: Callable[..., Any], *args: Any, **options: Any) -> Iterator[Any]:
    """Start servers in a folder of their own."""
    folder = Path(tempfile.mkdtemp(prefix="topology", dir="/tmp"))
    found = None
    try:
        found = make(folder, *args, **options)
        yield found
    finally:
        if found is not None:
            found.close()
        shutil.rmtree(folder, ignore_errors=True)
