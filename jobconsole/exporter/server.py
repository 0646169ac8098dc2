"""The exporter: /metrics and /healthz from a thread of its own, so that it fits into any other program.

It owns its connections and its event loop. A back-end that is down, at the start or later, never ends it:
`jobconsole_up` says so, and the next scrape tries again.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from jobconsole.exporter.collector import JobsCollector
from jobconsole.exporter.http import HttpServer, Response
from jobconsole.exporter.reading import LIMIT, Reader, Reading
from jobconsole.exporter.types import MOST_TYPES, TypeNames
from queue_core.opening import Parts, open_parts
from queue_core.settings import JobsSettings

DEFAULT_HOST = "127.0.0.1"
"""Metrics tell names of queues and types and need no password: other machines are let in on purpose only."""
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
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._port: int | OSError = 0

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
        parts = open_parts(self._settings)
        self._started.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(parts)), name="exporter", daemon=True)
        self._thread.start()
        self._started.wait()
        if isinstance(self._port, OSError):
            self._thread.join()
            self._thread = None
            raise ExporterError(self._refusal(self._port)) from None

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

    async def _serve(self, parts: Parts) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        delivery = parts.dispatcher if self._settings.mode.endswith("+redis") else None
        routes = Routes(Reader(parts.inspector, delivery, parts.store.name, self._options.limit), self._types)
        server = HttpServer({"/metrics": routes.metrics, "/healthz": routes.health})
        try:
            self._port = await server.start(self._options.host, self._options.port)
        except OSError as error:
            self._port = error
            return
        finally:
            self._started.set()
        try:
            await self._ended.wait()
        finally:
            await server.stop()
            await _close(parts)

    def _refusal(self, error: OSError) -> str:
        where = f"{self._options.host}:{self._options.port}"
        # asyncio's own text repeats the address; that of a name which cannot be resolved is short.
        known = error.errno is not None and not isinstance(error, socket.gaierror)
        reason = os.strerror(error.errno) if known else error.strerror  # type: ignore[arg-type]
        return f"cannot listen on {where}: {reason}; choose another with --host and --port"


class Routes:
    """What the two paths answer."""

    def __init__(self, reader: Reader, types: TypeNames | None = None) -> None:
        self._reader = reader
        self._types = types or TypeNames()

    async def metrics(self, headers: Mapping[str, str]) -> Response:
        """Answer a scrape, within the time that Prometheus says it waits."""
        reading = await self._reader.read(_patience(headers))
        registry = CollectorRegistry()
        registry.register(JobsCollector(lambda: reading, self._types))
        encode, content_type = choose_encoder(headers.get("accept", ""))
        return Response(HTTPStatus.OK, encode(registry), content_type)

    async def health(self, headers: Mapping[str, str]) -> Response:
        """Answer 200 when the store answers (`degraded` without Redis) and 503 when it does not."""
        reading = await self._reader.ping(_patience(headers))
        status = _status(reading)
        code = HTTPStatus.SERVICE_UNAVAILABLE if status == "failing" else HTTPStatus.OK
        body = {"version": 1, "status": status, "backends": {name: _row(reading, name) for name in reading.backends}}
        return Response(code, f"{json.dumps(body)}\n".encode(), "application/json")


def _status(reading: Reading) -> str:
    if all(backend.up for backend in reading.backends.values()):
        return "ok"
    return "degraded" if all(backend.up for name, backend in reading.backends.items() if name != "redis") else "failing"


def _row(reading: Reading, name: str) -> dict[str, Any]:
    backend = reading.backends[name]
    row: dict[str, Any] = {"up": backend.up, "seconds": round(backend.seconds, 6)}
    return row if backend.up else row | {"reason": backend.reason}


def _patience(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.1, float(headers["x-prometheus-scrape-timeout-seconds"]) - _MARGIN)
    except (KeyError, ValueError):
        return None


async def _close(parts: Parts) -> None:
    for part in (parts.inspector, parts.dispatcher, parts.bus, parts.store):
        if part is not None:
            await part.close()
