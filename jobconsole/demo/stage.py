"""Everything that runs in a demo: servers, worker processes, the producer and the exporter."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from jobconsole.configuration import without_settings
from jobconsole.demo.ledger import read_ledger
from jobconsole.demo.material import FOLDER_VARIABLE, Folder, closed_port, prepare, repair_hints
from jobconsole.demo.options import DemoOptions
from jobconsole.demo.releases import STORY, WorkerService
from jobconsole.embedded.fleet import Fleet, FleetProcess
from jobconsole.embedded.places import DemoError, ServerPlaces, open_places
from jobconsole.exporter.server import Exporter, ExporterOptions
from queue_core.backends import migrate
from queue_core.configuration import load
from queue_core.model.addresses import mask
from queue_core.model.report import WorkerInfo
from queue_core.model.settings import JobsSettings
from queue_core.ports.inspector import Inspector

HEARTBEATS_PER_LEASE = 5


@dataclass(frozen=True, slots=True)
class Stage:
    """A running demo."""

    places: ServerPlaces
    folder: Folder
    settings: JobsSettings
    fleet: Fleet
    workers: WorkerService
    producer: FleetProcess
    exporter: Exporter
    # what to run to repair a failing kind
    hints: tuple[str, ...]

    def addresses(self) -> list[str]:
        """Return one line for each place to look at."""
        return [
            f"postgres: {mask(self.places.postgres_url)}",
            f"redis: {mask(self.places.redis_url)} (prefix {self.places.redis_prefix})",
            f"metrics: {self.exporter.url}",
        ]


@contextmanager
def open_stage(options: DemoOptions) -> Iterator[Stage]:
    """Start everything, and end everything; what is to end well has to be ended before.

    Raises:
        DemoError: something cannot be started.
    """
    with ExitStack() as stack:
        places = stack.enter_context(open_places(options))
        environment = _environment(options, places)
        places.folder.mkdir(mode=0o700, exist_ok=True)
        fleet = Fleet(places.folder, environment)
        stack.callback(fleet.close)
        folder = prepare(places.folder)
        settings = load(environ=environment).settings
        migrate(settings)
        port = closed_port()
        exporter = stack.enter_context(Exporter(settings, ExporterOptions(port=0)))
        deployments = STORY if options.deployments is None else options.deployments
        workers = WorkerService(fleet, _worker_arguments(options), deployments)
        producer = fleet.start("producer", "jobconsole.demo.producer", _producer_arguments(options, port))
        hints = (*repair_hints(folder, port), *workers.hints)
        yield Stage(places, folder, settings, fleet, workers, producer, exporter, hints)


def _environment(options: DemoOptions, places: ServerPlaces) -> dict[str, str]:
    """Return an environment in which every process reads these settings and no others."""
    return without_settings(os.environ) | {
        FOLDER_VARIABLE: str(places.folder),
        "JOBS_CONFIG": os.devnull,
        "JOBS__QUEUE_BACKEND": "redis",
        "JOBS__POSTGRES__URL": places.postgres_url,
        "JOBS__REDIS__URL": places.redis_url,
        "JOBS__REDIS__PREFIX": places.redis_prefix,
        "JOBS__DEFAULTS__LEASE": str(options.lease),
        "JOBS__DEFAULTS__HEARTBEAT": str(options.lease / HEARTBEATS_PER_LEASE),
    }


def _worker_arguments(options: DemoOptions) -> list[str]:
    return ["--processes", str(options.processes), "--concurrency", str(options.concurrency)]


def _producer_arguments(options: DemoOptions, port: int) -> list[str]:
    arguments = ["--port", str(port)]
    if options.rate is not None:
        arguments += ["--rate", str(options.rate)]
    if options.jobs is not None:
        arguments += ["--jobs", str(options.jobs)]
    return arguments


STEP_SECONDS = 0.05
START_SECONDS = 60.0
"""Generous: a slow machine on which other things run."""
BUSY_SECONDS = 20.0


async def live_workers(inspector: Inspector) -> list[WorkerInfo]:
    """Return the workers that are there; one that was just killed is still announced for a moment."""
    return [worker for worker in (await inspector.overview()).workers if not worker.lost and _exists(worker.pid)]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


async def await_workers(stage: Stage, inspector: Inspector, count: int, without: int | None = None) -> list[int]:
    """Wait until so many workers have announced themselves, and return their pids.

    Raises:
        DemoError: a process has ended, or they did not come.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        stage.fleet.check()
        pids = sorted(worker.pid for worker in await live_workers(inspector) if worker.pid != without)
        if len(pids) >= count:
            return pids
        if time.monotonic() > deadline:
            raise DemoError(f"Only {len(pids)} of {count} workers came within {START_SECONDS:g} s.")
        await asyncio.sleep(STEP_SECONDS)


async def crash_one(stage: Stage, inspector: Inspector) -> int:
    """Kill a worker process, if possible in the middle of a handler, and return its pid."""
    deadline = time.monotonic() + BUSY_SECONDS
    workers = await live_workers(inspector)
    while not (busy := [one for one in _in_a_handler(stage, workers) if _stopped_there(stage, one)]):
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(STEP_SECONDS)
        workers = await live_workers(inspector) or workers
    victim = (busy or workers)[0].pid
    for each in [one.pid for one in busy[1:]]:
        _send(each, signal.SIGCONT)
    _send(victim, signal.SIGKILL)
    return victim


def _stopped_there(stage: Stage, worker: WorkerInfo) -> bool:
    """Stop a process, and continue it unless it still is in a handler: most take milliseconds."""
    _send(worker.pid, signal.SIGSTOP)
    if _in_a_handler(stage, [worker]):
        return True
    _send(worker.pid, signal.SIGCONT)
    return False


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _in_a_handler(stage: Stage, workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    """Return the workers that run handlers by the ledger's word."""
    ledger = read_ledger(stage.folder.ledger)
    names = {worker for job_id, attempts in ledger.starts.items() for token, worker in attempts.items()
             if (job_id, token) not in ledger.ends}  # fmt: skip
    return [worker for worker in workers if worker.id in names]
