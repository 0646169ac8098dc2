"""The exporter: /metrics, /healthz and /events from a thread of its own, so that it fits into any other program.

It owns its connections and its event loop. A back-end that is down, at the start or later, never ends it:
`jobconsole_up` reports it, and the next scrape tries again.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from jobconsole.exporter.collector import MAX_TYPES, JobsCollector, TypeNames
from jobconsole.exporter.reading import READ_SECONDS, Reader, Reading
from jobconsole.web.auth import BasicAuth
from jobconsole.web.http import Guard, Handler, HttpServer, Request, Response, plain, why_not_listening
from jobconsole.web.stream import CONTENT_TYPE, HEADERS, EventStreams, parse_query
from queue_core.backends import open_backend
from queue_core.client.feed import EventFeed
from queue_core.client.health import check_writes
from queue_core.errors import ConfigurationError
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
    limit: float = READ_SECONDS
    # job types with a label of their own; none: the first `most_types`
    types: tuple[str, ...] = ()
    most_types: int = MAX_TYPES
    # files of a certificate chain and its key, both or none
    tls_cert: str | None = None
    tls_key: str | None = None
    # file of names and hashed passwords, without which metrics and events are refused
    auth_file: str | None = None


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

    @property
    def events_url(self) -> str:
        """The address of the events, once started."""
        return self._address("/events")

    def _address(self, path: str) -> str:
        scheme = "http" if self._options.tls_cert is None else "https"
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"{scheme}://{host}:{self._port}{path}"

    def start(self) -> None:
        """Listen and serve; starting twice is safe.

        Raises:
            ExporterError: the port is in use, or the address is not of this machine.
            ConfigurationError: a file cannot be used.
        """
        if self._thread is not None:
            return
        disable_created_metrics()  # type: ignore[no-untyped-call]
        bound: Future[int] = Future()
        doors = _doors(self._options)
        looking = self._settings.model_copy(update={"postgres": self._settings.postgres.for_reading()})
        arguments = (open_backend(looking), doors, bound)
        self._thread = threading.Thread(target=self._run, args=arguments, name="exporter", daemon=True)
        self._thread.start()
        try:
            self._port = bound.result()
        except (OSError, ValueError) as error:
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

    def _run(self, backend: Backend, doors: _Doors, bound: Future[int]) -> None:
        try:
            asyncio.run(self._serve(backend, doors, bound))
        except Exception as error:
            if bound.done():
                raise
            bound.set_exception(error)

    async def _serve(self, backend: Backend, doors: _Doors, bound: Future[int]) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        delivery = backend.dispatcher if self._settings.mode.endswith("+redis") else None
        reader = Reader(
            backend.inspector, delivery, backend.store.name, self._options.limit, partial(check_writes, backend)
        )
        routes = Routes(reader, self._settings.mode, self._types)
        feed = EventFeed(backend.bus)
        streams = EventStreams(feed, backend.inspector)
        handlers: dict[str, Handler] = {
            "/": routes.landing,
            "/metrics": routes.metrics,
            "/healthz": routes.health,
            "/events": EventRoute(streams),
        }
        server = HttpServer(handlers, doors.guard, doors.tls, frozenset({"/events"}))
        try:
            bound.set_result(await server.start(self._options.host, self._options.port))
            # Connections are made, and what is wrong with them is logged, before the first scrape.
            first = asyncio.create_task(reader.read())
            await self._ended.wait()
            first.cancel()
        finally:
            await server.stop()
            await feed.close()
            await backend.close()

    def _refusal(self, error: OSError | ValueError) -> str:
        where = f"{self._options.host}:{self._options.port}"
        return f"cannot listen on {where}: {why_not_listening(error)}; choose another with --host and --port"


class _Doors(NamedTuple):
    """Who gets in, and how."""

    guard: Guard
    tls: ssl.SSLContext | None


def _doors(options: ExporterOptions) -> _Doors:
    """Read the files of the options.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    tls = None
    if (options.tls_cert is None) is not (options.tls_key is None):
        raise ConfigurationError("--tls-cert and --tls-key belong together")
    if options.tls_cert is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            tls.load_cert_chain(options.tls_cert, options.tls_key, password="")
        except (OSError, ValueError) as error:
            reason = (
                error.strerror
                if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError)
                else "no such pair"
            )
            raise ConfigurationError(f"{options.tls_cert} and {options.tls_key}: {reason}") from None
    if options.auth_file is None:
        return _Doors(_everyone, tls)
    try:
        return _Doors(BasicAuth(options.auth_file, OPEN), tls)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


async def _everyone(request: Request) -> Response | None:
    return None


OPEN = frozenset({"/", "/healthz"})
"""Paths without a password: a probe has none, and the landing page has nothing but links."""

_LANDING = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>jobconsole</title>
<h1>jobconsole {version}</h1>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus
<li><a href="/healthz">/healthz</a>: whether jobs can be enqueued and run
<li><a href="/events">/events</a>: what happens, as Server-Sent Events
</ul>
</html>
"""


class EventRoute:
    """Answers /events with a stream."""

    def __init__(self, streams: EventStreams) -> None:
        self._streams = streams

    async def __call__(self, request: Request) -> Response:
        """Return the stream of the events that the request asks for."""
        try:
            query = parse_query(request.query, request.headers.get("last-event-id", ""))
        except ValueError as error:
            return plain(HTTPStatus.BAD_REQUEST, f"{error}\n")
        return Response(HTTPStatus.OK, b"", CONTENT_TYPE, HEADERS, self._streams.read(query))


class Routes:
    """What the other paths answer."""

    def __init__(self, reader: Reader, mode: str, types: TypeNames | None = None) -> None:
        self._reader = reader
        self._mode = mode
        self._types = types or TypeNames()

    async def landing(self, request: Request) -> Response:
        """Answer with links to the other paths."""
        body = _LANDING.format(version=version("jobconsole"))
        policy = {"Content-Security-Policy": "default-src 'none'"}
        return Response(HTTPStatus.OK, body.encode(), "text/html; charset=utf-8", policy)

    async def metrics(self, request: Request) -> Response:
        """Answer a scrape, within the timeout in Prometheus's header."""
        reading = await self._reader.read(_patience(request.headers))
        registry = CollectorRegistry()
        registry.register(JobsCollector(lambda: reading, self._types))
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(HTTPStatus.OK, encode(registry), content_type)

    async def health(self, request: Request) -> Response:
        """Answer 200 when the store can be read and written (`degraded` without Redis), else 503.

        The counts are null where they could not be read in time.
        """
        reading = await self._reader.ping(_patience(request.headers))
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
