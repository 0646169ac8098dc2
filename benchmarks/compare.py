"""This queue beside dramatiq and pgqueuer, in turns on the same servers; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import redis

from jobconsole.bench.ground import cpu_seconds
from jobconsole.bench.measure import LATENCY_JOBS
from jobconsole.bench.report import percentile
from jobconsole.bench.tasks import DeliveryRecord
from jobconsole.embedded.servers import EmbeddedServers

ROOT = Path(__file__).resolve().parents[1]
PEER_PROGRAM = ROOT / "benchmarks" / "peers" / "run.py"
PACKAGES = ("dramatiq[redis]", "pgqueuer", "asyncpg", "uvloop", "hiredis")
PEERS = ("dramatiq", "pgqueuer")
TRIAL_JOBS = 5000
STALL_SECONDS = 60.0
END_SECONDS = 5.0

Figures = dict[str, float]


class Bar(NamedTuple):
    """What a ratio has to be."""

    figure: str
    peer: str
    least: float


BARS = (
    Bar("drain", "dramatiq", 2.0),
    Bar("drain", "pgqueuer", 0.9),
    Bar("bulk", "pgqueuer", 0.95),
)
P50_MOST_MS = 3.0


class Failed(Exception):
    """A measurement did not come to its end."""


class Peer:
    """One other queue, in its own processes, on servers that are emptied for each measurement."""

    def __init__(self, name: str, python: Path, servers: EmbeddedServers, folder: Path) -> None:
        self.name = name
        self._python = python
        self._servers = servers
        self._folder = folder
        self._runs = 0
        self._config: dict[str, Any] = {}
        self._database = servers.postgres_url

    def choose_config(self) -> None:
        """Keep the settings with which a short drain is fastest."""
        configs = self._fresh()
        rates = {}
        for self._config in configs:
            self._fresh()
            self._call("enqueue", TRIAL_JOBS)
            rates[json.dumps(self._config)] = self._drain(TRIAL_JOBS)["drain"]
        self._config = json.loads(max(rates, key=lambda config: rates[config]))

    def measure(self, jobs: int) -> Figures:
        """Return the figures of one round."""
        self._fresh()
        record = self._record(LATENCY_JOBS + 1)
        with self._working(record):
            self._call("latency", record.size)
            _until(lambda: not record.missing(), self.name)
        delays = record.delays()
        self._fresh()
        enqueued = self._call("enqueue", jobs)
        return {**enqueued, **self._drain(jobs), "p50_ms": percentile(delays, 0.5) * 1000}

    def _drain(self, jobs: int) -> Figures:
        record = self._record(jobs)
        with self._working(record) as process:
            _until(lambda: not record.missing(), self.name)
            _until(lambda: not self._left(), self.name)
            ended = time.time()
            ((_, start),) = record.starts().items()
            cpu = (cpu_seconds(process.pid) or 0.0) - start.cpu
        return {"drain": jobs / (ended - start.at), "worker_us": cpu / jobs * 1e6}

    def _fresh(self) -> list[dict[str, Any]]:
        """Empty both servers, make the peer's tables and return the settings worth trying."""
        self._runs += 1
        with redis.Redis.from_url(self._servers.redis_url) as client:
            client.flushall()
        self._database = self._servers.create_database(f"{self.name}{self._runs}")
        configs: list[dict[str, Any]] = self._call("prepare", 0)
        return configs

    def _left(self) -> int:
        if self.name == "dramatiq":
            with redis.Redis.from_url(self._servers.redis_url) as client:
                return int(client.hlen("dramatiq:default.msgs"))
        with psycopg.connect(self._database) as connection:
            row = connection.execute("SELECT count(*) FROM pgqueuer").fetchone()
            return int(row[0]) if row else 0

    def _record(self, size: int) -> DeliveryRecord:
        self._runs += 1
        return DeliveryRecord(self._folder / f"{self.name}{self._runs}", size)

    def _command(self, role: str, *more: str) -> list[str]:
        return [str(self._python), str(PEER_PROGRAM), self.name, role, *more]

    def _environment(self) -> dict[str, str]:
        places = {"PEER_POSTGRES_URL": self._database, "PEER_REDIS_URL": self._servers.redis_url}
        return os.environ | places | {"PYTHONPATH": str(ROOT)}

    def _call(self, role: str, jobs: int) -> Any:
        done = subprocess.run(
            self._command(role, "--jobs", str(jobs)),
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed(f"{self.name} {role}: {done.stderr.strip()[-1000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def _working(self, record: DeliveryRecord) -> Iterator[subprocess.Popen[bytes]]:
        command = self._command("work", "--folder", str(record.folder), "--config", json.dumps(self._config))
        with (record.folder / "log").open("wb") as log:
            process = subprocess.Popen(command, env=self._environment(), stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        finally:
            process.kill()
            process.wait()


def _until(reached: Any, who: str) -> None:
    deadline = time.monotonic() + STALL_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise Failed(f"{who} did not finish within {STALL_SECONDS:g} s")
        time.sleep(0.01)


def ours(servers: EmbeddedServers, jobs: int, number: int) -> Figures:
    """Return the figures of `jobconsole bench` on the same servers."""
    with redis.Redis.from_url(servers.redis_url) as client:
        client.flushall()
    place = ["--postgres-url", servers.create_database(f"ours{number}"), "--redis-url", servers.redis_url]
    command = [sys.executable, "-m", "jobconsole", "bench", "--jobs", str(jobs), "--json", *place]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(done.stderr.strip())
    body = json.loads(done.stdout)
    return {
        "single": body["single_enqueue_per_second"],
        "bulk": body["bulk_enqueue_per_second"],
        "drain": body["drain_per_second"],
        "p50_ms": body["latency_p50_ms"],
        "worker_us": body["worker_cpu_us_per_job"],
    }


def make_venv(folder: Path) -> Path:
    """Install the peers and return their Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def measure(rounds: int, jobs: int) -> dict[str, Figures]:
    """Return the medians of all figures by queue."""
    found: dict[str, list[Figures]] = {"ours": [], **{name: [] for name in PEERS}}
    with (
        tempfile.TemporaryDirectory(prefix="compare-") as scratch,
        EmbeddedServers.start(durable=True, redis_appendonly=True) as servers,
    ):
        python = make_venv(Path(scratch) / "venv")
        peers = [Peer(name, python, servers, Path(scratch)) for name in PEERS]
        for peer in peers:
            peer.choose_config()
        for number in range(1, rounds + 1):
            found["ours"].append(ours(servers, jobs, number))
            for peer in peers:
                found[peer.name].append(peer.measure(jobs))
            print(f"round {number}: " + json.dumps({name: runs[-1] for name, runs in found.items()}), file=sys.stderr)
    return {
        name: {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
        for name, runs in found.items()
    }


def show(medians: dict[str, Figures]) -> None:
    """Print the medians, our ratios, and the bars."""
    columns = ("single", "bulk", "drain", "p50_ms", "worker_us")
    print(f"{'':<12}" + "".join(f"{column:>12}" for column in columns))
    for name, figures in medians.items():
        print(f"{name:<12}" + "".join(f"{figures[column]:>12,.1f}" for column in columns))
    for name in PEERS:
        ratios = (medians["ours"][column] / medians[name][column] for column in columns)
        print(f"{'/ ' + name:<12}" + "".join(f"{ratio:>12.2f}" for ratio in ratios))
    for bar in BARS:
        ratio = medians["ours"][bar.figure] / medians[bar.peer][bar.figure]
        verdict = "holds" if ratio >= bar.least else "MISSED"
        print(f"{bar.figure} ≥ {bar.least:g} × {bar.peer}: {ratio:.2f}, {verdict}")
    p50 = medians["ours"]["p50_ms"]
    print(f"latency p50 ≤ {P50_MOST_MS:g} ms: {p50:.2f}, {'holds' if p50 <= P50_MOST_MS else 'MISSED'}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--json", action="store_true", help="print the medians as one JSON object")
    options = parser.parse_args()
    try:
        medians = measure(options.rounds, options.jobs)
    except Failed as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(medians))
    else:
        show(medians)
    return 0


if __name__ == "__main__":
    sys.exit(main())
