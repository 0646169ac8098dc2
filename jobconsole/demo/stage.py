"""Everything that runs in a demo: servers, worker processes, the producer and the exporter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from jobconsole.demo.folder import FOLDER_VARIABLE, Folder, prepare
from jobconsole.demo.hints import closed_port, repair_hints
from jobconsole.demo.options import DemoOptions
from jobconsole.demo.places import Places, open_places
from jobconsole.demo.processes import Child, Fleet
from jobconsole.exporter.server import Exporter, ExporterOptions
from queue_core.addresses import mask
from queue_core.configuration import load
from queue_core.settings import JobsSettings

BEATS_PER_LEASE = 5


@dataclass(frozen=True, slots=True)
class Stage:
    """A running demo."""

    places: Places
    folder: Folder
    settings: JobsSettings
    fleet: Fleet
    # the supervisor of the worker processes
    workers: Child
    producer: Child
    exporter: Exporter
    # what to run to repair a failing kind
    hints: tuple[str, ...]

    def addresses(self) -> list[str]:
        """Return one line for each place somebody may want to look at."""
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
        _migrate(places.postgres_url)
        port = closed_port()
        exporter = stack.enter_context(Exporter(settings, ExporterOptions(port=0)))
        workers = fleet.start("workers", "jobconsole.demo.workers", _worker_arguments(options))
        producer = fleet.start("producer", "jobconsole.demo.producer", _producer_arguments(options, port))
        hints = tuple(repair_hints(folder, port))
        yield Stage(places, folder, settings, fleet, workers, producer, exporter, hints)


def _environment(options: DemoOptions, places: Places) -> dict[str, str]:
    """Return an environment in which every process reads these settings and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBCONSOLE_")}
    return kept | {
        FOLDER_VARIABLE: str(places.folder),
        "JOBCONSOLE_CONFIG": str(Folder(places.folder).settings),
        "JOBCONSOLE_JOBS__QUEUE_BACKEND": "redis",
        "JOBCONSOLE_JOBS__POSTGRES__URL": places.postgres_url,
        "JOBCONSOLE_JOBS__REDIS__URL": places.redis_url,
        "JOBCONSOLE_JOBS__REDIS__PREFIX": places.redis_prefix,
        "JOBCONSOLE_JOBS__DEFAULTS__LEASE": str(options.lease),
        "JOBCONSOLE_JOBS__DEFAULTS__HEARTBEAT": str(options.lease / BEATS_PER_LEASE),
    }


def _migrate(url: str) -> None:
    from queue_core.stores.postgres.migrate import migrate

    migrate(url)


def _worker_arguments(options: DemoOptions) -> list[str]:
    return ["--processes", str(options.processes), "--concurrency", str(options.concurrency)]


def _producer_arguments(options: DemoOptions, port: int) -> list[str]:
    arguments = ["--port", str(port)]
    if options.rate is not None:
        arguments += ["--rate", str(options.rate)]
    if options.jobs is not None:
        arguments += ["--jobs", str(options.jobs)]
    return arguments
