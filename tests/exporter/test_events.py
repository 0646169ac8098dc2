"""The exporter's events, passwords and certificates, over real sockets."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import select
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.server import Exporter, ExporterOptions
from jobconsole.web.auth import make_line, read_auth_file
from queue_core import ConfigurationError, JobQueue
from queue_core.model.events import Event, EventName
from queue_core.model.settings import JobsSettings
from queue_core.stores.postgres.migrate import migrate
from tests.cli.running import Cli
from tests.conformance.modes import settings_of
from tests.exporter.test_server import MEMORY, ask, serving, settings

PATIENCE = 30.0


class Curl:
    """A reader of /events, as `curl -N` is one."""

    def __init__(self, exporter: Exporter, query: str = "", last: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", urlsplit(exporter.url).port or 0, timeout=PATIENCE)
        headers = {"Last-Event-ID": last} if last else {}
        self._connection.request("GET", f"/events?{query}", headers=headers)
        self.answer = self._connection.getresponse()
        self.last = last

    def next(self) -> tuple[str, dict[str, object]]:
        """Return the name and the body of the next event."""
        fields: dict[str, str] = {}
        while line := self.answer.readline():
            if line == b"\n" and "event" in fields:
                self.last = fields.get("id", self.last)
                return fields["event"], json.loads(fields["data"])
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields = {} if line == b"\n" else {**fields, name: value}
        raise EOFError

    def until(self, name: str) -> list[tuple[str, dict[str, object]]]:
        """Read up to an event of this name."""
        found = [self.next()]
        while found[-1][0] != name:
            found.append(self.next())
        return found

    def close(self) -> None:
        """Leave."""
        self._connection.close()
        self.answer.close()


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> JobsSettings:
    """A store in Redis that other processes reach."""
    return settings_of("redis", request)


class TestEvents:
    def test_it_reads_on_after_a_restart_of_the_exporter_and_of_redis(self, own_servers: EmbeddedServers) -> None:
        migrate(own_servers.postgres_url)
        of = settings(own_servers.postgres_url, own_servers.redis_url)

        async def enqueue() -> str:
            async with JobQueue(settings=of) as jobs:
                return (await jobs.enqueue("send", {}, queue="mail")).id

        with serving(of) as exporter:
            curl = Curl(exporter, "queue=mail")
            assert curl.answer.headers["Content-Type"] == "text/event-stream"
            assert curl.next()[0] == "live"
            first = asyncio.run(enqueue())
            name, body = curl.next()
            assert (name, body["id"]) == ("created", first)
            curl.close()
            last = curl.last
        missed = asyncio.run(enqueue())
        with serving(of) as exporter:
            curl = Curl(exporter, "queue=mail", last)
            found = curl.until("live")
            assert {body["id"] for name, body in found[:-1]} >= {missed}
            assert found[-1][1]["complete"] is True
            own_servers.redis.stop()
            own_servers.redis.start()
            # What happens while the exporter is not subscribed is found in the store.
            after = asyncio.run(enqueue())
            ids: set[object] = set()
            while after not in ids:
                ids.add(curl.next()[1].get("id"))
            curl.close()

    def test_a_reader_that_hangs_is_cut_off_and_holds_nobody_up(
        self, stored: JobsSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobconsole.web.http.STALL_SECONDS", 0.5)
        with serving(stored) as exporter, socket.socket() as hanging:
            hanging.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            hanging.settimeout(PATIENCE)
            hanging.connect(("127.0.0.1", urlsplit(exporter.url).port))
            hanging.sendall(b"GET /events HTTP/1.1\r\n\r\n")
            assert hanging.recv(12) == b"HTTP/1.1 200"
            curl = Curl(exporter)
            curl.next()

            async def flood() -> None:
                async with JobQueue(settings=stored) as jobs:
                    for number in range(100):
                        filler = {"error": "x" * 500}
                        events = [Event(EventName.FAILED, "mail", f"{number}-{n}", "t", 1, filler) for n in range(100)]
                        await jobs.bus.publish(events)

            asyncio.run(flood())
            # The other reader learns of every event, or of the gap, up to the last one.
            names = {curl.next()[0] for _ in range(100)}
            assert names <= {"failed", "gap", "state", "live"}
            assert ask(exporter)[0].status == 200
            cut = select.poll()
            cut.register(hanging, 0)
            assert cut.poll(1000 * PATIENCE), "nothing but its end is polled for"
            curl.close()

    def test_places_of_streams_are_bounded_and_are_none_of_scrapes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobconsole.web.http.MAX_STREAMS", 1)
        with serving() as exporter:
            first = Curl(exporter)
            assert first.next()[0] == "live"
            second = Curl(exporter)
            assert (second.answer.status, second.answer.headers["Retry-After"]) == (503, "1")
            assert ask(exporter)[0].status == 200
            first.close()
            second.close()

    def test_what_cannot_be_asked_is_one_sentence(self) -> None:
        with serving() as exporter:
            answer, body = ask(exporter, "/events?event=boom")
            assert answer.status == 400
            assert body.startswith(b"no event 'boom'; there are created, ")

    def test_the_landing_page_has_links(self) -> None:
        with serving() as exporter:
            assert ask(exporter, "/events", method="HEAD")[0].headers["Content-Type"] == "text/event-stream"
            answer, body = ask(exporter, "/")
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            for path in (b"/metrics", b"/healthz", b"/events"):
                assert b'<a href="%s">' % path in body


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


class TestPasswords:
    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        path = tmp_path / "passwords"
        path.write_text(f"# two\n\n{make_line('prometheus', 'geheim: ü')}\n{make_line('grafana', 'x')}\n", "utf-8")
        return str(path)

    def test_metrics_and_events_need_one(self, file: str) -> None:
        with serving(auth_file=file) as exporter:
            for path in ("/metrics", "/events"):
                answer, _ = ask(exporter, path)
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"] == 'Basic realm="jobconsole", charset="UTF-8"'
            for path in ("/", "/healthz"):
                assert ask(exporter, path)[0].status == 200
            for _ in range(2):
                assert ask(exporter, Authorization=basic("prometheus", "geheim: ü"))[0].status == 200
            assert ask(exporter, Authorization=basic("grafana", "x"))[0].status == 200
            wrong = [basic("grafana", "geheim: ü"), basic("nobody", "x"), basic("grafana", ""), basic("", "")]
            for header in (*wrong, "Basic", "Basic ü", "Basic eA==", "Bearer x", f"Basic {'A' * 8000}"):
                assert ask(exporter, Authorization=header.encode("latin-1").decode("latin-1"))[0].status == 401

    @pytest.mark.parametrize(
        "text",
        ["", "prometheus", "a:b", "a:scrypt$3$8$1$AAAAAAAAAAAAAAAA$AAAA", "a:scrypt$1073741824$8$1$c2FsdHNhbHQ=$eA=="],
    )
    def test_a_file_that_is_none(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "passwords"
        path.write_text(text)
        with pytest.raises(ConfigurationError, match="exporter --auth-line NAME"):
            Exporter(MEMORY, ExporterOptions(port=0, auth_file=str(path))).start()

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"No such file or directory$"):
            Exporter(MEMORY, ExporterOptions(port=0, auth_file=str(tmp_path / "none"))).start()

    def test_a_line_is_made_by_a_command(self, tmp_path: Path) -> None:
        cli = Cli({})
        answer = cli("exporter", "--auth-line", "prometheus", stdin="geheim\n")
        assert (answer.code, answer.out.count("\n")) == (0, 1)
        (tmp_path / "passwords").write_text(answer.out)
        (secret,) = read_auth_file(str(tmp_path / "passwords")).values()
        assert secret.matches(b"geheim")
        assert not secret.matches(b"Geheim")
        assert "geheim" not in answer.out
        assert cli("exporter", "--auth-line", "a:b", stdin="x\n").code == 2
        assert cli("exporter", "--auth-line", "a", stdin="").code == 2


@contextmanager
def certificate(folder: Path) -> Iterator[tuple[str, str]]:
    """Make a certificate of 127.0.0.1."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command = [openssl, "req", "-x509", *kind, *names, "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    yield cert, key


class TestTls:
    def test_metrics_over_tls(self, tmp_path: Path) -> None:
        with certificate(tmp_path) as (cert, key), serving(tls_cert=cert, tls_key=key) as exporter:
            assert exporter.url.startswith("https://127.0.0.1:")
            port = urlsplit(exporter.url).port or 0
            context = ssl.create_default_context(cafile=cert)
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            assert (answer.status, b"jobconsole_up" in answer.read()) == (200, True)
            connection.close()
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                client.settimeout(PATIENCE)
                assert not client.recv(100).startswith(b"HTTP")
            (tmp_path / "other").write_text("nothing")
            wrong = ExporterOptions(port=0, tls_cert=cert, tls_key=str(tmp_path / "other"))
            with pytest.raises(ConfigurationError, match=r"no such pair$"):
                Exporter(MEMORY, wrong).start()

    def test_a_certificate_without_a_key(self) -> None:
        with pytest.raises(ConfigurationError, match=r"belong together$"):
            Exporter(MEMORY, ExporterOptions(port=0, tls_cert="cert.pem")).start()
