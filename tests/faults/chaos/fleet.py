"""The processes that work and produce, each with ways to the servers and a clock of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queue_core.worker.options import EXIT_UNREACHABLE, ServiceOptions
from tests.architecture.sources import ROOT
from tests.faults.chaos.clocks import SharedClock
from tests.faults.chaos.rules import LEASE, QUEUES
from tests.faults.chaos.wires import Wire
from tests.redis_topology.rig import die_with_parent

TARGET = "tests.faults.chaos.target:jobs"
CONCURRENCY = 10
SERVED = ("default", *QUEUES)


def command_of(kind: str) -> list[str]:
    """Return how a part of the fleet is started."""
    if kind == "producer":
        return [sys.executable, "-m", "tests.faults.chaos.producer"]
    if kind == "service":
        options = [
            "--processes",
            "2",
            "--concurrency",
            str(CONCURRENCY),
            "--lease",
            f"{LEASE}s",
            "--queues",
            ",".join(SERVED),
        ]
        return [sys.executable, "-m", "jobconsole", "worker", "run", TARGET, *options]
    options = ServiceOptions(concurrency=CONCURRENCY, queues=SERVED, lease=LEASE, grace=20.0).to_json()
    return [sys.executable, "-m", "queue_core.worker.process", TARGET, options]


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@dataclass
class Unit:
    """One part of the fleet: a worker, a service with its workers, or a producer."""

    name: str
    # "worker", "service" or "producer"
    kind: str
    environment: Mapping[str, str]
    clock: SharedClock
    # its ways to PostgreSQL and Redis; none where these cannot be in between
    wires: dict[str, Wire] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    # exit codes of processes that have ended by themselves
    ended: list[int] = field(default_factory=list)

    def start(self, folder: Path) -> None:
        """Start its first process."""
        with (folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command_of(self.kind),
                cwd=ROOT,
                env=dict(os.environ) | dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It makes one call of the kernel and takes no lock.
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        """Its first process."""
        assert self.process is not None
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """Its processes that are there."""
        return [self.pid, *children_of(self.pid)]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        for pid in self.pids:
            with_no_error(pid, number)

    def kill(self) -> None:
        """Kill its first process: what it has started has to end by itself."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


def with_no_error(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


class Fleet:
    """All parts, and what they have logged."""

    def __init__(self, folder: Path, seed: int, rate: float) -> None:
        self.folder = folder
        self._seed, self._rate = seed, rate
        self.units: list[Unit] = []
        # parts that a fault is about to end, or to start again
        self.touched: set[str] = set()

    def add(self, kind: str, settings: Mapping[str, Any], wires: dict[str, Wire], clock: SharedClock | None) -> Unit:
        """Start one more part."""
        name = f"{kind}{sum(unit.kind == kind for unit in self.units) + 1}"
        clock = clock or SharedClock(self.folder / f"{name}.clock")
        environment = {
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_SETTINGS": json.dumps(settings),
            "CHAOS_UNIT": name,
            "CHAOS_CLOCK": str(clock.path),
            "CHAOS_SEED": str(self._seed),
            "CHAOS_RATE": str(self._rate),
            "PYTHONPATH": str(ROOT),
        }
        unit = Unit(name, kind, environment, clock, wires)
        self.units.append(unit)
        unit.start(self.folder)
        return unit

    def of(self, *kinds: str) -> list[Unit]:
        """Return the parts of these kinds."""
        return [unit for unit in self.units if unit.kind in kinds]

    def restart(self, unit: Unit) -> None:
        """Start a part again that was killed."""
        unit.start(self.folder)

    def look(self) -> list[str]:
        """Start again what has ended by itself; return what should not have."""
        wrong = []
        for unit in self.units:
            code = unit.process.poll() if unit.process is not None else None
            if code is None or unit.name in self.touched:
                continue
            unit.ended.append(code)
            # A store that is away when a worker starts is the reason of an end with this code.
            if code != EXIT_UNREACHABLE:
                wrong.append(f"{unit.name} has ended by itself with code {code}: {self.log(unit)[-600:]}")
            unit.start(self.folder)
        return wrong

    def log(self, unit: Unit) -> str:
        """Return what a part has logged."""
        path = self.folder / f"{unit.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    async def stop_producers(self) -> None:
        """Let the producers come to their end."""
        self.touched |= {unit.name for unit in self.of("producer")}
        (self.folder / "stop").touch()
        for unit in self.of("producer"):
            assert unit.process is not None
            try:
                await asyncio.to_thread(unit.process.wait, 60)
            except subprocess.TimeoutExpired:
                unit.kill()

    async def drain(self) -> list[str]:
        """Let the workers end as on a deploy; return which did not end well."""
        wrong = []
        for unit in self.of("worker", "service"):
            with_no_error(unit.pid, signal.SIGTERM)
        for unit in self.of("worker", "service"):
            assert unit.process is not None
            try:
                code = await asyncio.to_thread(unit.process.wait, 60)
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                wrong.append(f"{unit.name} does not drain (code {code}): {self.log(unit)[-600:]}")
        return wrong

    async def close(self) -> None:
        """Kill what is left."""
        for unit in self.units:
            for pid in unit.pids if unit.process is not None and unit.process.poll() is None else ():
                with_no_error(pid, signal.SIGKILL)
            for wire in unit.wires.values():
                await wire.close()
