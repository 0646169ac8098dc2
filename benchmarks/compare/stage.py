"""Where contestants run: fresh databases on servers that all share, roles in processes, and workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis

from benchmarks.compare.contestants import PEERS_FOLDER, Contestant
from jobconsole.bench.ground import PostgresUsage, RedisUsage
from jobconsole.bench.record import DeliveryRecord
from jobconsole.configuration import without_settings
from jobconsole.embedded.servers import EmbeddedServers

ROOT = Path(__file__).resolve().parents[2]
STALL_SECONDS = 60.0
"""So long without any progress, and a measurement has failed."""
CALL_SECONDS = 300.0
END_SECONDS = 5.0
STEP_SECONDS = 0.01
DATABASE = "contestant"


class Failed(Exception):
    """A measurement did not come to its end; the message is one sentence."""


@dataclass(slots=True)
class Workers:
    """Worker processes and the process that watches the store."""

    who: str
    record: DeliveryRecord
    pids: tuple[int, ...]
    watcher: subprocess.Popen[str]

    def go(self) -> None:
        """Let the workers begin."""
        (self.record.folder / "go").touch()

    def ended(self) -> float:
        """Wait until the store shows every job as finished; return when, in seconds since the epoch.

        Raises:
            Failed: no job has run for long.
        """
        missing, deadline = -1, 0.0
        while self.watcher.poll() is None:
            now = self.record.missing()
            if now != missing:
                missing, deadline = now, time.monotonic() + STALL_SECONDS
            elif time.monotonic() > deadline:
                raise Failed(f"{self.who}: {missing} jobs are not finished after {STALL_SECONDS:g} s without progress")
            time.sleep(STEP_SECONDS)
        return float(_answer(self.who, self.watcher.communicate()[0])["ended"])


@dataclass(frozen=True, slots=True)
class Place:
    """Empty servers with the tables of one contestant."""

    contestant: Contestant
    python: Path
    environment: Mapping[str, str]
    folder: Path

    def record(self, name: str, size: int) -> DeliveryRecord:
        """Make the record of a phase."""
        return DeliveryRecord(self.folder / name, size)

    def call(self, role: str, *arguments: str) -> dict[str, Any]:
        """Play a role to its end and return its answer.

        Raises:
            Failed: it ended with an error, or not at all.
        """
        who = f"{self.contestant.name} {role}"
        try:
            done = subprocess.run(
                self._command(role, *arguments),
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=CALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{who}: no end after {CALL_SECONDS:g} s") from None
        if done.returncode:
            raise Failed(f"{who}: {_last_line(done.stderr)}")
        return _answer(who, done.stdout)

    @contextmanager
    def workers(self, record: DeliveryRecord, count: int, config: Mapping[str, Any]) -> Iterator[Workers]:
        """Start workers that wait for `go`, and end them."""
        started: list[subprocess.Popen[Any]] = []
        try:
            with (record.folder / "log").open("wb") as log:
                arguments = ("--folder", str(record.folder), "--config", json.dumps(config))
                for _ in range(count):
                    command = self._command("work", *arguments)
                    started.append(
                        subprocess.Popen(command, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
                    )
                watcher = subprocess.Popen(
                    self._command("watch", "--folder", str(record.folder)),
                    env=self.environment,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            pids = tuple(process.pid for process in started)
            started.append(watcher)
            names = {f"{pid}.ready" for pid in pids} | {"watching"}
            until(lambda: names <= {path.name for path in record.folder.iterdir()}, f"{self.contestant.name} workers")
            yield Workers(self.contestant.name, record, pids, watcher)
        finally:
            _end(started)

    def _command(self, role: str, *arguments: str) -> list[str]:
        return [str(self.python), str(PEERS_FOLDER / "role.py"), self.contestant.module, role, *arguments]


class Stage:
    """The servers, which one contestant at a time uses, and what they have cost so far."""

    def __init__(self, servers: EmbeddedServers, folder: Path, pythons: Mapping[str, Path]) -> None:
        self._servers = servers
        self._folder = folder
        self._pythons = pythons
        self._runs = 0
        # of each contestant whose tables were made, in a database that is copied from then on
        self._configs: dict[str, list[dict[str, Any]]] = {}
        self._postgres = PostgresUsage(servers.postgres_url)
        self._redis = RedisUsage(servers.redis_url)
        self._control = psycopg.connect(servers.postgres_url, autocommit=True)

    def fresh(self, contestant: Contestant, **more: str) -> Place:
        """Empty both servers and make the tables of a contestant; `more` is for its environment.

        Raises:
            Failed: the tables cannot be made.
        """
        self._runs += 1
        with redis.Redis.from_url(self._servers.redis_url) as client:
            client.flushall()
        folder = self._folder / f"{self._runs}"
        folder.mkdir()
        template = f"made-{contestant.name}"
        if contestant.name not in self._configs:
            place = self._place(contestant, self._servers.create_database(template), folder, {})
            self._configs[contestant.name] = place.call("prepare")["configs"]
        self._servers.drop_database(DATABASE)
        postgres_url = self._servers.create_database(DATABASE, template=template)
        # So that none that is due falls into a measurement.
        self._control.execute("CHECKPOINT")
        return self._place(contestant, postgres_url, folder, more)

    def configs(self, contestant: Contestant) -> list[dict[str, Any]]:
        """Return the worker settings that a contestant's module names, once its tables were made."""
        return self._configs[contestant.name]

    def _place(self, contestant: Contestant, postgres_url: str, folder: Path, more: Mapping[str, str]) -> Place:
        environment = without_settings(os.environ) | {
            "PYTHONPATH": str(ROOT),
            "PEER_POSTGRES_URL": postgres_url,
            "PEER_REDIS_URL": self._servers.redis_url,
        }
        if contestant.own:
            environment |= _settings(contestant, postgres_url, self._servers.redis_url)
        return Place(contestant, self._pythons[contestant.name], {**environment, **more}, folder)

    def cpu_seconds(self, contestant: Contestant) -> float:
        """Return the CPU time that the contestant's servers have used so far."""
        used: dict[str, PostgresUsage | RedisUsage] = {"postgres": self._postgres, "redis": self._redis}
        return sum(used[server].cpu_seconds() or 0.0 for server in contestant.servers)

    def wal_bytes(self) -> int:
        """Return how much PostgreSQL has written ahead so far."""
        row = self._control.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        return int(row[0]) if row else 0

    def durability(self) -> str:
        """Return what the servers promise, as they report it."""
        row = self._control.execute(
            "SELECT version(), current_setting('fsync'), current_setting('synchronous_commit')"
        ).fetchone()
        assert row is not None
        with redis.Redis.from_url(self._servers.redis_url) as client:
            kept = {**client.config_get("appendonly"), **client.config_get("appendfsync")}
            about = client.info("server")
        name = "Valkey" if "valkey_version" in about else "Redis"
        version = about.get("valkey_version", about["redis_version"])
        return (
            f"PostgreSQL {row[0].split()[1]} (fsync {row[1]}, synchronous_commit {row[2]}), "
            f"{name} {version} (appendonly {kept['appendonly']}, appendfsync {kept['appendfsync']})"
        )

    def close(self) -> None:
        """Disconnect."""
        self._postgres.close()
        self._redis.close()
        self._control.close()


def _settings(contestant: Contestant, postgres_url: str, redis_url: str) -> dict[str, str]:
    uses = contestant.servers
    made = {"JOBS_CONFIG": os.devnull, "JOBS__QUEUE_BACKEND": "redis" if "redis" in uses else "postgres"}
    if "postgres" in uses:
        made["JOBS__POSTGRES__URL"] = postgres_url
    if "redis" in uses:
        made["JOBS__REDIS__URL"] = redis_url
    return made


def until(reached: Callable[[], bool], who: str) -> None:
    """Wait until something holds.

    Raises:
        Failed: it took too long.
    """
    deadline = time.monotonic() + STALL_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise Failed(f"{who}: not ready after {STALL_SECONDS:g} s")
        time.sleep(STEP_SECONDS)


def _end(processes: Sequence[subprocess.Popen[Any]]) -> None:
    """Ask processes to end, and kill those that do not."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _answer(who: str, text: str) -> dict[str, Any]:
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        raise Failed(f"{who}: it ended without an answer")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it ended with an error"
