"""Worker processes that a test kills, stops and continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from queue_core.worker.options import ServiceOptions
from tests.architecture.sources import ROOT
from tests.waiting import PATIENCE, is_running, until

TARGET = "tests.faults.target:jobs"
LEASE = 2.0
"""Seconds; short, so that what is lost comes back soon, and long enough for a machine under load."""


class Holdings(NamedTuple):
    """What a process holds."""

    files: int
    threads: int


class Crew:
    """Worker processes as a service would start them, one by one."""

    def __init__(self, folder: Path, environment: Mapping[str, str], target: str = TARGET) -> None:
        self._folder = folder
        self._target = target
        self._environment = dict(os.environ) | dict(environment) | {"PYTHONPATH": str(ROOT)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, count: int = 1, environment: Mapping[str, str] | None = None, **options: Any) -> list[int]:
        """Start workers, wait until each of them works, and return their pids."""
        given = ServiceOptions(**{"concurrency": 10, "lease": LEASE, "grace": 20.0} | options)
        command = [sys.executable, "-m", "queue_core.worker.process", self._target, given.to_json()]
        pids = []
        for _ in range(count):
            with (self._folder / "workers.log").open("ab") as log:
                process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=self._environment | dict(environment or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            self._processes[process.pid] = process
            pids.append(process.pid)
        for pid in pids:
            assert until(lambda pid=pid: self.works(pid)), f"worker {pid} does not start: {self.log()[-2000:]}"
        return pids

    def start_beside(self, module: str) -> int:
        """Start another program of the tests, and return its pid."""
        with (self._folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes[process.pid] = process
        return process.pid

    def produce(self) -> int:
        """Run a producer until something ends it, and return its exit code."""
        with (self._folder / "producer.log").open("ab") as log:
            return subprocess.run(
                [sys.executable, "-m", "tests.faults.producer"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=PATIENCE,
                check=False,
            ).returncode

    def works(self, pid: int) -> bool:
        """Tell whether a worker has begun to claim; one that ended says why in the log."""
        assert self._processes[pid].poll() is None, self.log()[-4000:]
        return f" {pid} INFO worker " in self.log()

    def log(self) -> str:
        """Return what all workers have logged."""
        return (self._folder / "workers.log").read_text(errors="replace")

    @property
    def alive(self) -> list[int]:
        """The workers that have not ended."""
        return [pid for pid, process in self._processes.items() if process.poll() is None]

    @property
    def pids(self) -> list[int]:
        """All workers that were ever started."""
        return list(self._processes)

    def exists(self, pid: int) -> bool:
        """Tell whether a process is there, whoever started it."""
        return is_running(pid)

    def holds(self, pid: int) -> Holdings:
        """Return what a process holds of the system."""
        where = Path(f"/proc/{pid}")
        return Holdings(len(list((where / "fd").iterdir())), len(list((where / "task").iterdir())))

    def code(self, pid: int) -> int | None:
        """Return how a worker ended; None while it runs."""
        return self._processes[pid].poll()

    def send(self, pid: int, number: signal.Signals) -> None:
        self._processes[pid].send_signal(number)

    def kill(self, pid: int) -> None:
        self.send(pid, signal.SIGKILL)
        self._processes[pid].wait()

    def wait(self, pid: int) -> int:
        """Wait until a worker has ended by itself, and return its exit code."""
        return self._processes[pid].wait(PATIENCE)

    def drain(self) -> None:
        """Let all workers end as on a deploy; each must do so well."""
        for pid in self.alive:
            self.send(pid, signal.SIGTERM)
        for pid in self.alive:
            assert self.wait(pid) == 0, self.log()[-4000:]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
