"""The health port of a worker service: probes, this service's own metrics, and how many replicas a queue needs.

Served from a thread of the service process, which runs no jobs: it answers whatever the jobs do. What it serves is this
service's alone, save /scale, which reads the store; the store's totals are served by the exporter.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from jobconsole.web.http import HttpServer, Request, Response, plain
from queue_core.backends import open_backend
from queue_core.errors import InvalidJob, QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Overview, QueueInfo
from queue_core.model.rules import Rules, rules_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import check_queue_name
from queue_core.ports.backend import Backend
from queue_core.worker.options import ServiceReport, resident_memory
from queue_core.worker.supervisor import Service

SOON_SECONDS = 60.0
"""Seconds before a job is due at which it counts as work: about what a new replica takes to start."""
SAMPLED_JOBS = 200
"""Waiting jobs of each kind of which the due times are looked at; of more, so many parts of the whole are due soon."""
READ_SECONDS = 2.5
"""Seconds for reading the store."""
FRESH_SECONDS = 5.0
"""Seconds for which one reading serves all questions about a queue."""


class Scale(NamedTuple):
    """How much work a queue has, and how many replicas it takes."""

    queue: str
    running: int
    ready: int
    soon: int
    # of one replica
    slots: int
    replicas: int


async def scale_of(backend: Backend, rules: Rules, queue: str, slots: int) -> Scale:
    """Return how many replicas with so many slots a queue can use: never none while a job runs or could.

    Raises:
        StoreUnavailable: the store did not answer in time.
    """
    overview = await backend.inspector.overview()
    found = next((one for one in overview.queues if one.name == queue), None)
    running, ready = (0, 0) if found is None else (found.running, found.queued)
    soon = await _due_soon(backend, overview, found, queue)
    if found is not None and found.paused:
        ready = soon = 0
    most = rules_of(rules, queue).concurrency
    useful = running + ready + soon
    useful = useful if most is None else max(running, min(useful, most))
    return Scale(queue, running, ready, soon, slots, math.ceil(useful / slots))


async def _due_soon(backend: Backend, overview: Overview, found: QueueInfo | None, queue: str) -> int:
    """Return about how many jobs become due soon, and how many schedules bring one."""
    until = overview.now.timestamp() + SOON_SECONDS
    plans = (await backend.schedules.planning()).schedules
    due = sum(plan.schedule.queue == queue and not plan.paused and plan.next_at <= until for plan in plans)
    counts = {} if found is None else {"scheduled": found.scheduled, "retrying": found.retrying}
    for status, number in counts.items():
        if number:
            where = Filter((Term("status", "=", status), Term("queue", "=", queue)))
            jobs = (await backend.inspector.jobs(where, SAMPLED_JOBS)).jobs
            soon = sum(job.run_at.timestamp() <= until for job in jobs)
            due += soon if number <= len(jobs) else math.ceil(number * soon / max(1, len(jobs)))
    return due


class ServiceCollector(Collector):
    """Translates a service's report into metric families."""

    def __init__(self, report: ServiceReport, restarts: dict[str, int]) -> None:
        self._report = report
        self._restarts = restarts

    def collect(self) -> Iterator[Metric]:
        """Yield the families; a process is named by its place, so that its replacement continues the series."""
        places = list(enumerate(self._report.processes))
        vitals = [one.vitals for _, one in places if one.vitals is not None]
        states = GaugeMetricFamily("jobconsole_service_processes", "Worker processes by state.", labels=["state"])
        for state in ("starting", "working", "stopping", "down"):
            states.add_metric([state], sum(one.state == state for _, one in places))
        yield states
        yield _gauge("slots", "Jobs that this service can run at a time.", sum(one.slots for one in vitals))
        yield _gauge("slots_busy", "Jobs that it runs.", sum(one.busy for one in vitals))
        yield _gauge("handlers_stuck", "Handlers that were given up and still run.", sum(one.stuck for one in vitals))
        lag = GaugeMetricFamily(
            "jobconsole_service_loop_lag_seconds", "How late the event loop is, or was lately.", labels=["process"]
        )
        memory = GaugeMetricFamily(
            "jobconsole_service_memory_bytes", "Resident memory; `service` is the parent.", labels=["process"]
        )
        for place, one in places:
            if one.vitals is not None:
                lag.add_metric([str(place)], one.lag)
                memory.add_metric([str(place)], one.vitals.memory)
        memory.add_metric(["service"], resident_memory())
        yield lag
        yield memory
        restarts = CounterMetricFamily(
            "jobconsole_service_restarts_total", "Processes that were replaced, by why.", labels=["reason"]
        )
        for reason in ("died", "recycled"):
            restarts.add_metric([reason], self._restarts.get(reason, 0))
        yield restarts


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(f"jobconsole_service_{name}", help_, value=value)


class HealthPort:
    """Serves a service's health between `start` and `stop`."""

    def __init__(self, service: Service, host: str, port: int) -> None:
        self._service = service
        self._address = (host, port)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._backend: Backend | None = None
        self._settings: JobsSettings | None = None
        self._known: dict[str, tuple[float, asyncio.Task[Scale]]] = {}

    def start(self) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the port is in use, or the address is not of this machine.
            ValueError: the host is no name at all.
        """
        bound: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(bound,), name="health", daemon=True)
        self._thread.start()
        return bound.result()

    def stop(self) -> None:
        """Stop serving."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(timeout=5.0)

    def _run(self, bound: Future[int]) -> None:
        try:
            asyncio.run(self._serve(bound))
        except Exception as error:
            if bound.done():
                raise
            bound.set_exception(error)

    async def _serve(self, bound: Future[int]) -> None:
        server = HttpServer(
            {"/healthz": self.health, "/readyz": self.ready, "/metrics": self.metrics, "/scale/": self.scale}
        )
        try:
            port = await server.start(*self._address)
            self._loop = asyncio.get_running_loop()
            bound.set_result(port)
            await self._ended.wait()
        finally:
            await server.stop()
            if self._backend is not None:
                await self._backend.close()

    async def health(self, request: Request) -> Response:
        """Answer 200 unless no process gives a sign of its event loop."""
        report = self._service.report()
        return _answer(report.alive, report)

    async def ready(self, request: Request) -> Response:
        """Answer 200 while all processes work, 503 while one starts, is down or drains."""
        report = self._service.report()
        return _answer(report.ready, report)

    async def metrics(self, request: Request) -> Response:
        """Answer a scrape with this service's own facts."""
        registry = CollectorRegistry()
        registry.register(ServiceCollector(self._service.report(), dict(self._service.restarts)))
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(HTTPStatus.OK, encode(registry), content_type)

    async def scale(self, request: Request) -> Response:
        """Answer how many replicas of this service a queue can use."""
        try:
            queue = check_queue_name(unquote(request.path.removeprefix("/scale/")))
        except InvalidJob as error:
            return plain(HTTPStatus.BAD_REQUEST, f"{error}\n")
        if self._service.settings is None:
            return _unavailable("no worker has started yet")
        if self._settings is None:
            self._settings = JobsSettings.model_validate(self._service.settings)
        if self._settings.mode == "memory":
            return _unavailable("queue_backend 'memory' lives inside the worker, where nothing else can read it")
        slots = self._service.options.processes * self._service.options.concurrency
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await asyncio.shield(self._reading(self._settings, queue, slots))
        except (QueueCoreError, TimeoutError) as error:
            return _unavailable(str(error) or f"the store did not answer within {READ_SECONDS:g} s")
        return _json(HTTPStatus.OK, {"version": 1, "value": found.replicas, **found._asdict()})

    def _reading(self, settings: JobsSettings, queue: str, slots: int) -> asyncio.Task[Scale]:
        """Return the reading of a queue that is under way or fresh, or a new one."""
        began, task = self._known.get(queue, (float("-inf"), None))
        old = time.monotonic() - began > FRESH_SECONDS
        if task is None or (task.done() and (old or task.exception() is not None)):
            if self._backend is None:
                self._backend = open_backend(settings)
            task = asyncio.create_task(scale_of(self._backend, settings.rules, queue, slots))
            self._known = dict(list(self._known.items())[-100:])  # any name can be asked for
            self._known[queue] = (time.monotonic(), task)
        return task


def _answer(well: bool, report: ServiceReport) -> Response:
    processes = [{"pid": one.pid, "state": one.state, "lag": round(one.lag, 3)} for one in report.processes]
    body = {"version": 1, "status": "ok" if well else "failing", "stopping": report.stopping, "processes": processes}
    return _json(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, {**body, "pid": os.getpid()})


def _unavailable(sentence: str) -> Response:
    return plain(HTTPStatus.SERVICE_UNAVAILABLE, f"{sentence}\n")


def _json(status: HTTPStatus, body: dict[str, Any]) -> Response:
    return Response(status, f"{json.dumps(body)}\n".encode(), "application/json")
