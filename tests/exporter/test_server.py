"""The exporter over HTTP: what it answers, how long it takes when a server hangs, and how it starts and ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.reading import Reader
from jobconsole.exporter.server import Exporter, ExporterError, ExporterOptions, Routes
from jobconsole.web.http import Request
from queue_core.model.report import Overview
from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings
from queue_core.stores.memory.read import MemoryInspector
from queue_core.stores.postgres.migrate import migrate
from tests.conformance.world import World
from tests.exporter.scenes import play

SCRAPE = Request("GET", "/")
MEMORY = JobsSettings(queue_backend="memory")
SLACK = 5.0
"""Seconds that a busy machine may add to a time limit."""


def settings(postgres_url: str, redis_url: str) -> JobsSettings:
    return JobsSettings(
        queue_backend="redis",
        postgres=PostgresSettings(url=SecretStr(postgres_url)),
        redis=RedisSettings(url=SecretStr(redis_url)),
    )


@contextmanager
def serving(of: JobsSettings = MEMORY, **options: Any) -> Iterator[Exporter]:
    with Exporter(of, ExporterOptions(port=0, **options)) as exporter:
        yield exporter


def ask(
    exporter: Exporter, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(exporter.url).port or 0, timeout=30)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def up(body: bytes) -> dict[str, float]:
    found = {metric.name: metric for metric in text_string_to_metric_families(body.decode())}
    return {sample.labels["backend"]: sample.value for sample in found["jobconsole_up"].samples}


class TestAnswers:
    def test_metrics_in_both_formats(self) -> None:
        with serving() as exporter:
            answer, body = ask(exporter)
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            assert up(body) == {"memory": 1}
            answer, body = ask(exporter, Accept="application/openmetrics-text; version=1.0.0")
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert "jobconsole_up" in {metric.name for metric in openmetrics(body.decode())}

    def test_head_has_the_head_alone(self) -> None:
        with serving() as exporter:
            answer, body = ask(exporter, method="HEAD")
            assert (answer.status, body) == (200, b"")
            assert int(answer.headers["Content-Length"]) > 100

    def test_health(self) -> None:
        with serving() as exporter:
            answer, body = ask(exporter, "/healthz?verbose")
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "application/json"
            report = json.loads(body)
            assert report.pop("backends")["memory"]["up"] is True
            counts = {"pending": 0, "running": 0, "workers": 0}
            assert report == {"version": 1, "status": "ok", "healthy": True, "mode": "memory", **counts}

    def test_other_paths_and_methods(self) -> None:
        with serving() as exporter:
            answer, body = ask(exporter, "/nothing")
            assert (answer.status, body) == (404, b"404 not found; there are / /events /healthz /metrics\n")
            answer, _ = ask(exporter, method="POST")
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")

    def test_a_request_may_name_the_host_as_a_proxy_does(self) -> None:
        with serving() as exporter:
            for target in ("http://jobs.internal:9808/healthz", "HTTPS://jobs.internal/healthz?verbose=1"):
                assert ask(exporter, target)[0].status == 200
            assert ask(exporter, "http://jobs.internal")[0].headers["Content-Type"].startswith("text/html")
            assert ask(exporter, "ftp://jobs.internal/healthz")[0].status == 404

    @pytest.mark.parametrize("message", [b"hello\r\n\r\n", b"GET /metrics SMTP/1\r\n\r\n", b"x" * 100_000])
    def test_what_is_no_http_is_refused(self, message: bytes) -> None:
        with serving() as exporter, socket.create_connection(("127.0.0.1", urlsplit(exporter.url).port or 0)) as client:
            client.sendall(message)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(4096).startswith(b"HTTP/1.1 400 ") or len(message) > 1000
            assert ask(exporter)[0].status == 200

    def test_a_client_that_says_nothing_holds_nobody_up(self) -> None:
        with serving() as exporter, socket.create_connection(("127.0.0.1", urlsplit(exporter.url).port or 0)):
            assert ask(exporter)[0].status == 200


class TestLife:
    def test_a_port_in_use_is_one_sentence(self) -> None:
        with serving() as exporter:
            port = urlsplit(exporter.url).port
            with pytest.raises(ExporterError) as caught:
                Exporter(MEMORY, ExporterOptions(port=port or 0)).start()
        assert str(caught.value) == (
            f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --host and --port"
        )
        assert caught.value.exit_code == 3

    def test_an_address_of_another_machine_is_one_sentence(self) -> None:
        with pytest.raises(ExporterError, match=r"^cannot listen on 192\.0\.2\.1:0: [^\n]*; choose another"):
            Exporter(MEMORY, ExporterOptions(host="192.0.2.1", port=0)).start()

    def test_starting_and_stopping_twice_is_safe(self) -> None:
        before = threading.active_count()
        exporter = Exporter(MEMORY, ExporterOptions(port=0))
        exporter.stop()
        for _ in range(2):
            exporter.start()
            exporter.start()
            assert ask(exporter)[0].status == 200
            exporter.stop()
            exporter.stop()
        assert threading.active_count() == before


class _Slow(MemoryInspector):
    """An inspector whose overview waits, and is counted."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)  # type: ignore[arg-type]
        self.reads = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def overview(self) -> Overview:
        self.reads += 1
        self.begun.set()
        await self.go.wait()
        return await super().overview()


class TestReading:
    async def test_scrapes_that_overlap_share_one_read(self, remembered: World) -> None:
        inspector = _Slow(remembered)
        routes = Routes(Reader(inspector, None, "memory", 30.0), "memory")
        scrapes = [asyncio.create_task(routes.metrics(SCRAPE)) for _ in range(5)]
        await inspector.begun.wait()
        inspector.go.set()
        answers = await asyncio.gather(*scrapes)
        assert inspector.reads == 1
        assert len({answer.body for answer in answers}) == 1
        await routes.metrics(SCRAPE)
        assert inspector.reads == 2

    async def test_a_read_that_takes_too_long_is_given_up_and_counted(self, remembered: World) -> None:
        inspector = _Slow(remembered)
        routes = Routes(Reader(inspector, None, "memory", 0.05), "memory")
        answer = await routes.metrics(SCRAPE)
        assert answer.status == 200
        assert up(answer.body) == {"memory": 0}
        assert b"queue_size" not in answer.body
        assert b'jobconsole_scrape_errors_total{backend="memory"} 1.0' in answer.body
        inspector.go.set()
        answer = await routes.metrics(SCRAPE)
        assert up(answer.body) == {"memory": 1}
        assert b'jobconsole_scrape_errors_total{backend="memory"} 1.0' in answer.body
        inspector.go.clear()
        answer = await routes.metrics(SCRAPE)
        assert b'jobconsole_scrape_errors_total{backend="memory"} 2.0' in answer.body

    async def test_health_counts_jobs_and_workers_where_that_is_done_in_time(self, remembered: World) -> None:
        await play(remembered)
        counts = ("status", "healthy", "pending", "running", "workers")
        routes = Routes(Reader(remembered.inspector, None, "memory", 10.0), "memory")
        await remembered.running(priority=127)
        await remembered.beat(worker="lost")
        await remembered.advance(60.0)
        await remembered.beat()
        report = json.loads((await routes.health(SCRAPE)).body)
        assert tuple(report[name] for name in counts) == ("ok", True, 8, 1, 1)
        slow = Routes(Reader(_Slow(remembered), None, "memory", 0.05), "memory")
        report = json.loads((await slow.health(SCRAPE)).body)
        assert tuple(report[name] for name in counts) == ("ok", True, None, None, None)

    async def test_it_answers_before_prometheus_gives_up(self, remembered: World) -> None:
        routes = Routes(Reader(_Slow(remembered), None, "memory", 60.0), "memory")
        began = time.monotonic()
        await routes.metrics(SCRAPE._replace(headers={"x-prometheus-scrape-timeout-seconds": "0.6"}))
        assert time.monotonic() - began < SLACK


class TestServersThatFail:
    @pytest.fixture
    def exporter(self, own_servers: EmbeddedServers) -> Iterator[Exporter]:
        migrate(own_servers.postgres_url)
        with serving(settings(own_servers.postgres_url, own_servers.redis_url), limit=1.5) as exporter:
            yield exporter

    def test_a_hung_redis(self, exporter: Exporter, own_servers: EmbeddedServers) -> None:
        assert up(ask(exporter)[1]) == {"postgres": 1, "redis": 1}
        own_servers.redis.pause()
        began = time.monotonic()
        answer, body = ask(exporter)
        assert time.monotonic() - began < 1.5 + SLACK
        assert answer.status == 200
        assert up(body) == {"postgres": 1, "redis": 0}
        assert b"job_workers" in body
        answer, body = ask(exporter, "/healthz")
        assert (answer.status, json.loads(body)["status"]) == (200, "degraded")
        own_servers.redis.resume()
        assert up(ask(exporter)[1]) == {"postgres": 1, "redis": 1}

    def test_a_hung_postgres(self, exporter: Exporter, own_servers: EmbeddedServers) -> None:
        assert up(ask(exporter)[1])["postgres"] == 1
        own_servers.postgres.pause()
        for _ in range(2):
            began = time.monotonic()
            answer, body = ask(exporter)
            assert time.monotonic() - began < 1.5 + SLACK
            assert answer.status == 200
            assert up(body) == {"postgres": 0, "redis": 1}
            assert b"job_workers" not in body
        answer, body = ask(exporter, "/healthz")
        report = json.loads(body)
        assert (answer.status, report["status"], report["healthy"], report["pending"]) == (503, "failing", False, None)
        own_servers.postgres.resume()
        _until_up(exporter)

    def test_a_schema_that_is_gone(self, exporter: Exporter, own_servers: EmbeddedServers) -> None:
        assert ask(exporter, "/healthz")[0].status == 200
        with psycopg.connect(own_servers.postgres_url, autocommit=True) as hand:
            hand.execute("ALTER SCHEMA jobconsole RENAME TO gone")
            answer, body = ask(exporter, "/healthz")
            report = json.loads(body)
            found = (report["status"], report["healthy"], report["pending"], report["backends"]["postgres"]["up"])
            assert (answer.status, *found) == (503, "failing", False, None, False)
            assert "schema" in report["backends"]["postgres"]["reason"]
            assert up(ask(exporter)[1])["postgres"] == 0
            hand.execute("ALTER SCHEMA gone RENAME TO jobconsole")
        answer, body = ask(exporter, "/healthz")
        assert (answer.status, json.loads(body)["status"]) == (200, "ok")

    def test_both_stopped_and_started_again(self, exporter: Exporter, own_servers: EmbeddedServers) -> None:
        own_servers.redis.stop()
        own_servers.postgres.stop()
        assert up(ask(exporter)[1]) == {"postgres": 0, "redis": 0}
        assert ask(exporter, "/healthz")[0].status == 503
        own_servers.postgres.start()
        own_servers.redis.start()
        _until_up(exporter)

    def test_servers_that_were_never_there(self) -> None:
        nowhere = settings("postgresql://app:hunter2@127.0.0.1:1/app", "redis://:hunter2@127.0.0.1:1/0")
        with serving(nowhere, limit=1.5) as exporter:
            answer, body = ask(exporter)
            assert (answer.status, up(body)) == (200, {"postgres": 0, "redis": 0})
            assert b"hunter2" not in ask(exporter, "/healthz")[1]


def test_dead_jobs_that_cannot_be_grouped_in_time(postgres_url: str) -> None:
    postgres = JobsSettings(queue_backend="postgres", postgres=PostgresSettings(url=SecretStr(postgres_url)))
    # A slow machine reads the rest within this time; the lock is kept for longer.
    with serving(postgres, limit=4.0) as exporter, psycopg.connect(postgres_url) as hand:
        hand.execute("LOCK TABLE jobconsole.signature_minutes")
        for _ in range(2):
            body = ask(exporter)[1]
            assert up(body) == {"postgres": 1}
            assert b'jobconsole_scrape_errors_total{backend="postgres"} 0.0' in body
            assert b"jobconsole_signatures_up 0.0" in body
            assert b"job_workers{" in body
            assert b"jobs_signatures{" not in body
        assert ask(exporter, "/healthz")[0].status == 200
        hand.rollback()
        body = ask(exporter)[1]
        assert b"jobconsole_signatures_up 1.0" in body
        assert b'jobs_signatures{state="new"} 0.0' in body


def _until_up(exporter: Exporter) -> None:
    """Scrape until everything is readable; a pool may need an attempt to find that its connections are dead."""
    deadline = time.monotonic() + 30
    while set(up(ask(exporter)[1]).values()) != {1.0}:
        assert time.monotonic() < deadline
