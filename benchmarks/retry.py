"""How long an operation takes that retries every dead job at once, and how long others wait behind its statements.

    .venv/bin/python benchmarks/retry.py                    # --jobs 50000 --json

Frozen, written and carried out in this process, over PostgreSQL and Redis; no worker runs. A thread looks each few
milliseconds how long the statements have been running that run. Exit code 1: a bar was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from dataclasses import replace

import psycopg
from ground import missed, seed, stretch, verdict

from jobconsole.actions.plan import Target, apply, dead_only, plan
from jobconsole.embedded.servers import EmbeddedServers
from queue_core import JobQueue
from queue_core.client.operations import this_author
from queue_core.model.filters import Filter
from queue_core.model.operation import UNTHROTTLED

BARS = {"seconds": 30.0, "longest statement": 0.5}
POLL_SECONDS = 0.003
"""Seconds between two looks at the statements that run."""
RUNNING = (
    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 FROM pg_stat_activity "
    "WHERE state = 'active' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


class Watch:
    """The longest statement that was seen at work."""

    def __init__(self, url: str) -> None:
        self.longest = 0.0
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _poll(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._over.wait(POLL_SECONDS):
                ((seconds,),) = connection.execute(RUNNING).fetchall()
                self.longest = max(self.longest, seconds)


async def retried(servers: EmbeddedServers) -> dict[str, float]:
    """Retry all dead jobs; return what it took."""
    async with JobQueue(postgres=servers.postgres_url, redis=servers.redis_url) as jobs:
        began = time.perf_counter()
        frozen = await plan(jobs.inspector, "retry", Target("all", wheres=(dead_only(Filter()),)))
        took = time.perf_counter() - began
        report = await apply(jobs.operations, replace(frozen, rollout=UNTHROTTLED), this_author())
        total = time.perf_counter() - began
    if report.processed != len(frozen.ids) or report.problem:
        raise SystemExit(f"only {report.processed:,} of {len(frozen.ids):,} were retried: {report.problem}")
    return {"retried": report.processed, "frozen after": took, "seconds": total}


def main() -> int:
    """Measure, print, compare with the bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with EmbeddedServers.start() as servers:
        seed(servers, options.jobs)
        with Watch(servers.postgres_url) as watch:
            found = asyncio.run(retried(servers))
    row = {name: round(value, 3) for name, value in (found | {"longest statement": watch.longest}).items()}
    sys.stdout.write(json.dumps(row) if options.json else "  ".join(f"{name} {row[name]:,}" for name in row))
    sys.stdout.write("\n")
    slower = stretch()
    bars = {"seconds": BARS["seconds"] * options.jobs / 50_000, "longest statement": BARS["longest statement"]}
    return verdict(missed(f"{options.jobs:,} jobs", row, {name: bar * slower for name, bar in bars.items()}))


if __name__ == "__main__":
    sys.exit(main())
