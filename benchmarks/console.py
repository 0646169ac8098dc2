"""How fast the console is in a real terminal, over PostgreSQL and Redis with many dead jobs.

    .venv/bin/python benchmarks/console.py                    # --jobs 50000 1000000 --rounds 3 --json

A pseudo-terminal at both sizes; what is measured is the time from the start of the process, or from a key, until the
text that answers it has come out.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.stores.postgres.migrate import migrate

SIZES = ((80, 24), (200, 50))
SEED = (Path(__file__).parent / "seeding" / "dead.sql").read_text(encoding="utf-8")
PATIENCE_SECONDS = 60.0
PAGE_BYTES = 1_000
"""Of a page of rows at 80x24 at least."""
BARS = {
    50_000: {"first paint": 0.5, "home complete": 1.0, "filter": 0.5, "page key": 0.05, "next page": 0.3},
    1_000_000: {"first paint": 0.5, "home complete": 2.0, "filter": 2.0, "page key": 0.05, "next page": 0.3},
}
_ESCAPES = re.compile(rb"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[\[\]][0-9;?<>=]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78])")


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, command: list[str], size: tuple[int, int], environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**environment, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
        )  # fmt: skip
        os.close(slave)
        # bytes that came out over all
        self.total = 0

    def press(self, keys: str) -> None:
        """Write keys; what is timed from now on is their effect."""
        self.began = time.perf_counter()
        os.write(self._master, keys.encode())

    def until(self, pattern: str) -> float:
        """Return the seconds until a text has come out, escape sequences left out.

        Raises:
            TimeoutError: it did not.
        """
        wanted, heard = re.compile(pattern.encode()), b""
        while time.perf_counter() - self.began < PATIENCE_SECONDS:
            heard += self._read(0.5)
            if wanted.search(_ESCAPES.sub(b"", heard)):
                return time.perf_counter() - self.began
        raise TimeoutError(f"{pattern!r} did not come; the last was {_ESCAPES.sub(b'', heard)[-2000:]!r}")

    def answered(self, least: int) -> float:
        """Return the seconds until at least so many bytes have come out: the lines that a key has led to.

        Raises:
            TimeoutError: they did not.
        """
        count = 0
        while time.perf_counter() - self.began < PATIENCE_SECONDS:
            count += len(self._read(0.5))
            if count >= least:
                return time.perf_counter() - self.began
        raise TimeoutError(f"only {count} bytes came")

    def quiet(self, seconds: float = 0.5) -> None:
        """Wait until nothing comes any more, and let go of it."""
        while self._read(seconds):
            pass

    def close(self) -> None:
        """End the program."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    def _read(self, seconds: float) -> bytes:
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        part = os.read(self._master, 65_536)
        self.total += len(part)
        return part


@contextmanager
def opened(size: tuple[int, int], environment: dict[str, str]) -> Iterator[Terminal]:
    """A console in a terminal of its own."""
    terminal = Terminal([sys.executable, "-m", "jobconsole"], size, environment)
    try:
        yield terminal
    finally:
        terminal.close()


def once(size: tuple[int, int], environment: dict[str, str], jobs: int) -> dict[str, float]:
    """Measure one console from its start on."""
    found: dict[str, float] = {}
    with opened(size, environment) as terminal:
        found["first paint"] = terminal.until(r"Dead letters")
        found["home complete"] = terminal.until(rf"40 signatures .{{1,2}} {jobs:,} jobs")
        terminal.quiet()
        terminal.press("/")
        terminal.quiet()
        terminal.press("type:type3")
        found["filter"] = terminal.until(rf"8 signatures .{{1,2}} {jobs // 5:,} jobs")
        terminal.press("\x1b")
        terminal.until(r"40 signatures")
        terminal.press("3")
        terminal.until(r"\b200\+ jobs")
        terminal.quiet()
        # the next rows are there: the key alone
        terminal.press("\x1b[6~")
        found["page key"] = terminal.answered(PAGE_BYTES)
        terminal.quiet()
        # the end of what is loaded: the page after it is read
        terminal.press("G")
        found["next page"] = terminal.until(r"\b400\+ jobs")
    return found


def measure(servers: EmbeddedServers, jobs: int, rounds: int) -> list[dict[str, object]]:
    """Seed a store and measure at each size; medians of the rounds."""
    url = servers.postgres_url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SEED, {"count": jobs})
        connection.execute("VACUUM ANALYZE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBCONSOLE_")} | {
        "JOBCONSOLE_JOBS__POSTGRES__URL": url,
        "JOBCONSOLE_JOBS__REDIS__URL": servers.redis_url,
    }
    rows: list[dict[str, object]] = []
    for size in SIZES:
        runs = [once(size, environment, jobs) for _ in range(rounds)]
        medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
        rows.append({"jobs": jobs, "size": f"{size[0]}x{size[1]}", **medians})
    return rows


def imports() -> float:
    """Return the seconds that the process needs before it can draw: Python, Textual and this program."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import jobconsole.tui.app"], check=True)
        took.append(time.perf_counter() - began)
    return min(took)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load = round(imports(), 3)
    with EmbeddedServers.start() as servers:
        rows = [row for jobs in options.jobs for row in measure(servers, jobs, options.rounds)]
    if options.json:
        print(json.dumps({"imports": load, "rows": rows}))
        return 0
    print(f"imports: {load} s of what follows until the first paint")
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    for jobs, bars in BARS.items():
        print(f"bars with {jobs:,}: " + ", ".join(f"{name} {bar} s" for name, bar in bars.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
