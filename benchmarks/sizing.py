"""What a worker service takes: connections, memory, and processor time for a job, by mode; for docs/deployment.md.

.venv/bin/python benchmarks/sizing.py [--jobs 20000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psycopg
import redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue
from queue_core.stores.postgres.migrate import migrate

APP = """
from queue_core import JobQueue
jobs = JobQueue.from_settings()

@jobs.task
async def nothing(n: int) -> None: ...
"""
TICKS = os.sysconf("SC_CLK_TCK")


def seconds_of(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def page(url: str) -> str:
    """Return a page of the health port."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def value(text: str, name: str) -> float:
    """Return the sum of the samples of a metric."""
    return sum(float(found) for found in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def connections(servers: EmbeddedServers) -> tuple[int, int]:
    """Return the connections of others to PostgreSQL and to Redis."""
    with psycopg.connect(servers.postgres_url) as connection:
        query = (
            "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        row = connection.execute(query).fetchone()
    with redis.Redis.from_url(servers.redis_url) as client:
        return row[0] if row else 0, len(client.client_list()) - 1


def measure(mode: str, servers: EmbeddedServers, jobs: int, folder: Path) -> dict[str, object]:
    """Run a service in a mode, let it run jobs, and return what it took."""
    environ = {name: one for name, one in os.environ.items() if not name.startswith(("JOBS", "JOBCONSOLE"))}
    environ["JOBS__QUEUE_BACKEND"] = {"postgres+redis": "redis"}.get(mode, mode)
    if "postgres" in mode:
        environ["JOBS__POSTGRES__URL"] = servers.postgres_url
    if "redis" in mode:
        environ["JOBS__REDIS__URL"] = servers.redis_url
    environ["JOBS__SQLITE__PATH"] = str(folder / "jobs.db")
    subprocess.run([sys.executable, "-m", "jobconsole", "migrate"], env=environ, check=True, stdout=subprocess.DEVNULL)
    before = connections(servers)
    command = [sys.executable, "-m", "jobconsole", "worker", "run", "sizing_app:jobs", "--health-port", "0"]
    service = subprocess.Popen(command, env=environ, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr is not None
        line = next(line for line in service.stderr if "health: " in line)
        url = line.split("health: ")[1].strip().removesuffix("/healthz")
        while value(page(f"{url}/metrics"), "jobconsole_service_slots") < 1:
            time.sleep(0.1)
        time.sleep(3.0)
        (worker,) = json.loads(page(f"{url}/healthz"))["processes"]
        idle, memory = connections(servers), value(page(f"{url}/metrics"), "jobconsole_service_memory_bytes")
        most = list(idle)
        began, used = time.monotonic(), seconds_of(worker["pid"])
        os.environ.update({name: one for name, one in environ.items() if name.startswith("JOBS__")})
        asyncio.run(enqueue(jobs))
        for name in [name for name in os.environ if name.startswith("JOBS__")]:
            del os.environ[name]
        while True:
            most = [max(pair) for pair in zip(most, connections(servers), strict=True)]
            if pending(environ) == 0:
                break
            time.sleep(0.2)
        used = seconds_of(worker["pid"]) - used
        after = value(page(f"{url}/metrics"), "jobconsole_service_memory_bytes")
        quiet = seconds_of(worker["pid"])
        time.sleep(10.0)
        return {
            "mode": mode,
            "postgres": [idle[0] - before[0], most[0] - before[0]],
            "redis": [idle[1] - before[1], most[1] - before[1]],
            "memory MiB": [round(memory / 2**20), round(after / 2**20)],
            "µs of the worker a job": round(used / jobs * 1e6),
            "% of a processor, idle": round((seconds_of(worker["pid"]) - quiet) * 10, 2),
            "seconds": round(time.monotonic() - began, 1),
        }
    finally:
        service.terminate()
        service.wait()


async def enqueue(number: int) -> None:
    """Put jobs in, by 500."""
    async with JobQueue.from_settings() as jobs:
        for start in range(0, number, 500):
            await jobs.enqueue_many("nothing", [{"n": n} for n in range(start, start + 500)])


def pending(environ: dict[str, str]) -> int:
    """Return the jobs that have not ended."""
    command = [sys.executable, "-m", "jobconsole", "health", "--json"]
    body = json.loads(subprocess.run(command, env=environ, check=True, capture_output=True).stdout)
    return int(body["pending"] + body["running"])


def main() -> None:
    """Measure each mode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=20_000)
    jobs = parser.parse_args().jobs
    for mode in ("postgres+redis", "postgres", "redis", "sqlite"):
        with tempfile.TemporaryDirectory() as name, EmbeddedServers.start() as servers:
            migrate(servers.postgres_url)
            (Path(name) / "sizing_app.py").write_text(APP, encoding="utf-8")
            print(json.dumps(measure(mode, servers, jobs, Path(name)), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
