"""The health of a worker service: for probes, Prometheus, KEDA and systemd."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobconsole.web import service
from jobconsole.web.http import Request
from jobconsole.web.service import SOON_SECONDS, HealthPort, Scale, scale_of
from queue_core import JobQueue
from queue_core.model.rules import QueueRules
from queue_core.runtime import end_tasks
from queue_core.worker.options import (
    ProcessReport,
    ServiceManager,
    ServiceReport,
    Vitals,
    open_note,
    read_vitals,
    write_vitals,
)
from queue_core.worker.supervisor import Service
from tests.cli.running import Cli
from tests.emptying import new_file
from tests.waiting import PATIENCE, until

VITALS = Vitals(time.monotonic(), True, 10, 3, 0, 1 << 27, 0.01)
WORKS = ProcessReport(7, "working", VITALS, 0.1)
STARTS = ProcessReport(7, "starting", None, 0.1)
HANGS = ProcessReport(7, "working", VITALS, 100.0)


class TestReport:
    def test_vitals_go_through_a_file(self) -> None:
        descriptor = open_note()
        assert read_vitals(descriptor) is None
        write_vitals(descriptor, VITALS._replace(busy=1))
        write_vitals(descriptor, VITALS)
        assert read_vitals(descriptor) == VITALS
        os.close(descriptor)

    def test_ready_and_alive(self) -> None:
        assert ServiceReport((WORKS, WORKS), False).ready
        assert not ServiceReport((WORKS, STARTS), False).ready
        assert not ServiceReport((WORKS,), True).ready
        assert ServiceReport((WORKS, HANGS), False).alive, "one that hangs is replaced by itself"
        assert not ServiceReport((HANGS, HANGS), False).alive
        assert ServiceReport((HANGS,), True).alive, "what drains is not killed by a probe"
        assert HANGS.lag > 90


async def test_a_store_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    async def hang(backend: object, rules: object, queue: str, slots: int) -> Scale:
        begun.append(queue)
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(service, "scale_of", hang)
    monkeypatch.setattr(service, "open_backend", lambda settings: None)
    monkeypatch.setattr(service, "FRESH_SECONDS", -1.0)
    monkeypatch.setattr(service, "READ_SECONDS", 0.01)
    works = SimpleNamespace(settings={"queue_backend": "sqlite"}, options=SimpleNamespace(processes=1, concurrency=1))
    port = HealthPort(cast(Service, works), "127.0.0.1", 0)
    for _ in range(3):
        assert (await port.scale(Request("GET", "/scale/mail"))).status == 503
    assert begun == ["mail"]
    await end_tasks(*(task for _, task in port._known.values()))


class TestServiceManager:
    @pytest.fixture
    def channel(self, tmp_path: Path) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(str(tmp_path / "notify"))
            channel.settimeout(PATIENCE)
            yield channel

    def test_ready_signs_of_life_and_stopping(self, channel: socket.socket) -> None:
        environ = {"NOTIFY_SOCKET": channel.getsockname(), "WATCHDOG_USEC": "1000000", "HOME": "/"}
        manager = ServiceManager(environ)
        assert environ == {"HOME": "/"}, "the children are other processes"
        assert manager.patience == 0.5
        manager.notify(ServiceReport((STARTS,), False))
        assert channel.recv(100) == b"WATCHDOG=1"
        manager.notify(ServiceReport((WORKS,), False))
        assert channel.recv(100) == b"READY=1\nSTATUS=1 worker processes work"
        manager._next = 0.0
        manager.notify(ServiceReport((HANGS,), False))
        manager.notify(ServiceReport((WORKS,), True))
        assert channel.recv(100) == b"STOPPING=1\nSTATUS=draining", "and no sign of life of what hangs"

    def test_an_abstract_address(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            name = f"jobconsole-test-{os.getpid()}"
            channel.bind(f"\0{name}")
            channel.settimeout(PATIENCE)
            ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).notify(ServiceReport((WORKS,), False))
            assert channel.recv(100).startswith(b"READY=1")

    def test_without_a_manager_nothing_is_looked_at(self) -> None:
        manager = ServiceManager({"WATCHDOG_USEC": "1000000"})
        manager.notify(ServiceReport((WORKS,), False))
        assert manager.patience == float("inf")
        assert ServiceManager({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "x"}).patience == 0.5
        other = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
        ServiceManager(other).notify(ServiceReport((WORKS,), False))


class TestScale:
    async def test_running_ready_and_soon_due_work(self) -> None:
        async with JobQueue(memory=True) as jobs:
            backend = await jobs.backend()

            async def scale(**rules: Any) -> tuple[int, int, int, int]:
                found = await scale_of(backend, {"mail": QueueRules(**rules)}, "mail", 10)
                return found.running, found.ready, found.soon, found.replicas

            assert await scale() == (0, 0, 0, 0)
            await jobs.enqueue("send", {}, queue="other")
            for _ in range(11):
                await jobs.enqueue("send", {}, queue="mail")
            assert await scale() == (0, 11, 0, 2)
            assert await jobs.claim_next("mail") is not None
            await jobs.enqueue("send", {}, queue="mail", delay=SOON_SECONDS / 2)
            await jobs.enqueue("send", {}, queue="mail", delay=10 * SOON_SECONDS)
            assert await scale() == (1, 10, 1, 2)
            assert await scale(concurrency=5) == (1, 10, 1, 1)
            await jobs.operations.pause_queue("mail")
            assert await scale() == (1, 0, 0, 1), "what runs keeps its worker"

    async def test_a_schedule_that_ticks_soon_is_work(self) -> None:
        async with JobQueue(memory=True) as jobs:
            at = datetime.now(UTC) + timedelta(seconds=SOON_SECONDS / 2)
            jobs.schedule("soon", f"{at.minute} {at.hour} * * *", "send", queue="mail")
            jobs.schedule("often", "* * * * *", "send", queue="mail")
            await jobs.schedules.announce()
            found = await scale_of(await jobs.backend(), {}, "mail", 10)
            assert found.soon >= 1
            assert found.replicas == 1

    async def test_of_many_waiting_jobs_a_part_is_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobconsole.web.service.SAMPLED_JOBS", 4)
        async with JobQueue(memory=True) as jobs:
            await jobs.enqueue_many("send", [{}] * 12, queue="mail", delay=SOON_SECONDS / 2)
            assert (await scale_of(await jobs.backend(), {}, "mail", 5)).soon == 12


APP = """
import asyncio
from pathlib import Path
from queue_core import JobQueue
jobs = JobQueue.from_settings()

@jobs.task(queue="mail")
async def wait(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.02)
"""


class Probe:
    """Asks a health port."""

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port or 0

    def __call__(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def value(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(self("/metrics")[1].decode())
        found = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in found if labels.items() <= sample.labels.items())


class TestService:
    def test_from_its_start_to_its_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "app.py").write_text(APP)
        new_file(tmp_path / "jobs.db")
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        store = {"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": str(tmp_path / "jobs.db")}
        cli = Cli({**store, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"})
        options = ["--processes", "2", "--concurrency", "3", "--health-port", "0"]
        process = cli.start("worker", "run", "app:jobs", *options)
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "health: http" in line)
            probe = Probe(line.split("health: ")[1])
            assert until(lambda: probe("/readyz")[0] == 200)
            messages = {manager.recv(200).splitlines()[0] for _ in range(2)}
            assert until(lambda: messages.add(manager.recv(200).splitlines()[0]) or b"READY=1" in messages)
            assert probe("/healthz")[0] == 200
            # The service reads where the store is soon after its first worker works.
            assert until(lambda: probe("/scale/mail")[0] == 200)
            assert json.loads(probe("/scale/mail")[1])["value"] == 0
            for name in ("", "a%00b"):
                code, text = probe(f"/scale/{name}")
                assert (code, text.startswith(b"the queue's name ")) == (400, True)
            assert (probe.value("jobconsole_service_slots"), probe.value("jobconsole_service_slots_busy")) == (6, 0)
            assert probe.value("jobconsole_service_memory_bytes", process="service") > 1 << 20
            assert probe.value("jobconsole_service_processes", state="working") == 2
            for _ in range(2):
                cli("job", "enqueue", "wait", json.dumps({"path": str(tmp_path / "go")}), "--queue", "mail")
            assert until(lambda: probe.value("jobconsole_service_slots_busy") == 2)
            # A reading is fresh for some seconds.
            assert until(lambda: json.loads(probe("/scale/mail")[1])["running"] == 2)
            assert json.loads(probe("/scale/mail")[1])["value"] == 1
            assert b"queue_size" not in probe("/metrics")[1], "the store's totals are the exporter's"
            os.kill(json.loads(probe("/healthz")[1])["processes"][0]["pid"], signal.SIGKILL)
            assert until(lambda: probe.value("jobconsole_service_restarts_total", reason="died") == 1)
            (tmp_path / "go").write_text("")
            process.send_signal(signal.SIGTERM)
            while b"STOPPING=1" not in manager.recv(200):
                pass
            process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
        finally:
            cli.close()
            manager.close()

    def test_a_port_in_use_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            answer = Cli({"JOBS__QUEUE_BACKEND": "memory"})("worker", "run", "app:jobs", "--health-port", port)
        assert (answer.code, answer.err) == (
            3,
            f"jobconsole: cannot listen on 127.0.0.1:{port}: Address already in use\n",
        )

    def test_a_host_that_is_no_name_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        cli = Cli({"JOBS__QUEUE_BACKEND": "memory"})
        answer = cli.process("worker", "run", "app:jobs", "--health-port", "0", "--health-host", "a..b")
        assert (answer.code, answer.err) == (3, "jobconsole: cannot listen on a..b:0: this is no host\n")
