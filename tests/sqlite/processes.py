"""Programs on one file, and what they left there and beside it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.sqlite.app import FILE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0

Spawn = Callable[..., subprocess.Popen[bytes]]


@contextmanager
def spawning(path: Path) -> Iterator[Spawn]:
    """Give what starts programs that share the file; all are gone at the end."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, FILE: str(path)}
        command = [sys.executable, "-m", *arguments]
        # A process group of its own: what a worker service starts goes with it.
        running.append(subprocess.Popen(command, cwd=ROOT, env=environment, process_group=0))
        return running[-1]

    try:
        yield start
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def entries(path: Path) -> list[dict[str, Any]]:
    """Return what programs have noted beside the file."""
    ledger = path.with_suffix(".ledger")
    return [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()] if ledger.exists() else []


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that other processes do."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def number(path: Path, query: str) -> int:
    """Return what somebody with the sqlite3 program would read; 0 before there is anything."""
    with closing(sqlite3.connect(path, timeout=PATIENCE)) as connection:
        try:
            return int(connection.execute(query).fetchone()[0])
        except sqlite3.OperationalError:
            return 0
