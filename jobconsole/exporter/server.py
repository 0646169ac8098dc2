"""The exporter: /metrics and /healthz from a thread of its own, so that it fits into any other program.

It owns its connections and its event loop. A back-end that is down, at the start or later, never ends it:
`jobconsole_up` reports it, and the next scrape tries again.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from jobconsole.exporter.collector import MOST_TYPES, JobsCollector, TypeNames
from jobconsole.exporter.http import HttpServer, Response
from jobconsole.exporter.reading import LIMIT, Reader, Reading
from queue_core.backends import open_backend
from queue_core.model.report import Overview
from queue_core.model.settings import JobsSettings
from queue_core.ports.backend import Backend

DEFAULT_HOST = "127.0.0.1"
"""Metrics contain names of queues and types and need no password: other machines get access on purpose only."""
DEFAULT_PORT = 9808
_MARGIN = 0.5
"""Seconds of Prometheus's own time limit that are left for the way back."""


class ExporterError(Exception):
    """The exporter cannot listen; one sentence, and the exit code of something that cannot be reached."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class ExporterOptions:
    """How to serve."""

    host: str = DEFAULT_HOST
    # 0: a free one
    port: int = DEFAULT_PORT
    # seconds for reading all back-ends
    limit: float = LIMIT
    # job types with a label of their own; none: the first `most_types`
    types: tuple[str, ...] = ()
    most_types: int = MOST_TYPES


class Exporter:
    """Serves the metrics of one job queue between `start` and `stop`, or as a context manager."""

    def __init__(self, settings: JobsSettings, options: ExporterOptions | None = None) -> None:
        self._settings = settings
        self._options = options or ExporterOptions()
        self._types = TypeNames(self._options.types, self._options.most_types)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The address of the metrics, once started."""
        return self._address("/metrics")

    @property
    def health_url(self) -> str:
        """The address of the health check, once started."""
        return self._address("/healthz")

    def _address(self, path: str) -> str:
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"http://{host}:{self._port}{path}"

    def start(self) -> None:
        """Listen and serve; starting twice is safe.

        Raises:
            ExporterError: the port is in use, or the address is not of this machine.
        """
        if self._thread is not None:
            return
        disable_created_metrics()  # type: ignore[no-untyped-call]
        bound: Future[int] = Future()
        arguments = (open_backend(self._settings), bound)
        self._thread = threading.Thread(target=self._run, args=arguments, name="exporter", daemon=True)
        self._thread.start()
        try:
            self._port = bound.result()
        except (OSError, ValueError) as error:  # ValueError: a host that is no name at all
            self._thread.join()
            self._thread = None
            raise ExporterError(self._refusal(error)) from None

    def stop(self) -> None:
        """Stop serving and disconnect; stopping twice or before the start is safe."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._ended is None:
            return
        self._loop.call_soon_threadsafe(self._ended.set)
        thread.join(timeout=5.0)

    def __enter__(self) -> Exporter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, backend: Backend, bound: Future[int]) -> None:
        try:
            asyncio.run(self._serve(backend, bound))
        except Exception as error:
            if bound.done():
                raise
            bound.set_exception(error)

    async def _serve(self, backend: Backend, bound: Future[int]) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        delivery = backend.dispatcher if self._settings.mode.endswith("+redis") else None
        reader = Reader(backend.inspector, delivery, backend.store.name, self._options.limit)
        routes = Routes(reader, self._settings.mode, self._types)
        server = HttpServer({"/metrics": routes.metrics, "/healthz": routes.health})
        try:
            bound.set_result(await server.start(self._options.host, self._options.port))
            # Connections are made, and what is wrong with them is logged, before the first scrape.
            first = asyncio.create_task(reader.read())
            await self._ended.wait()
            first.cancel()
        finally:
            await server.stop()
            await backend.close()

    def _refusal(self, error: Exception) -> str:
        where = f"{self._options.host}:{self._options.port}"
        return f"cannot listen on {where}: {_reason(error)}; choose another with --host and --port"


def _reason(error: Exception) -> str:
    if not isinstance(error, OSError):
        return "this is no host"
    # asyncio's own text repeats the address; that of a name which cannot be resolved is short.
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror)
    return os.strerror(error.errno)


class Routes:
    """What the two paths answer."""

    def __init__(self, reader: Reader, mode: str, types: TypeNames | None = None) -> None:
        self._reader = reader
        self._mode = mode
        self._types = types or TypeNames()

    async def metrics(self, headers: Mapping[str, str]) -> Response:
        """Answer a scrape, within the timeout in Prometheus's header."""
        reading = await self._reader.read(_patience(headers))
        registry = CollectorRegistry()
        registry.register(JobsCollector(lambda: reading, self._types))
        encode, content_type = choose_encoder(headers.get("accept", ""))
        return Response(HTTPStatus.OK, encode(registry), content_type)

    async def health(self, headers: Mapping[str, str]) -> Response:
        """Answer 200 when the store answers (`degraded` without Redis) and 503 when it does not.

        The counts are null where they could not be read in time.
        """
        reading = await self._reader.ping(_patience(headers))
        status = _status(reading)
        healthy = status != "failing"
        body = {
            "version": 1,
            "status": status,
            "healthy": healthy,
            "mode": self._mode,
            **_counts(reading.overview if healthy else None),
            "backends": {name: _row(reading, name) for name in reading.backends},
        }
        code = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(code, f"{json.dumps(body)}\n".encode(), "application/json")


def _status(reading: Reading) -> str:
    if all(backend.up for backend in reading.backends.values()):
        return "ok"
    return "degraded" if all(backend.up for name, backend in reading.backends.items() if name != "redis") else "failing"


def _counts(overview: Overview | None) -> dict[str, int | None]:
    if overview is None:
        return {"pending": None, "running": None, "workers": None}
    return {
        "pending": sum(queue.pending for queue in overview.queues),
        "running": sum(queue.started for queue in overview.queues),
        "workers": sum(not worker.lost for worker in overview.workers),
    }


def _row(reading: Reading, name: str) -> dict[str, Any]:
    backend = reading.backends[name]
    row: dict[str, Any] = {"up": backend.up, "seconds": round(backend.seconds, 6)}
    return row if backend.up else row | {"reason": backend.reason}


def _patience(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.1, float(headers["x-prometheus-scrape-timeout-seconds"]) - _MARGIN)
    except (KeyError, ValueError):
        return None
