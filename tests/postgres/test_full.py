"""A server without room: its disk is really full, or its statements end as they do then."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.server import Exporter, ExporterOptions
from queue_core import JobQueue, StoreRefused
from queue_core.model.settings import settings_from
from queue_core.stores.postgres.migrate import migrate
from tests.cli.running import Cli
from tests.conformance.working import PATIENCE, gated_task, working
from tests.conftest import StartServers
from tests.exporter.test_server import ask
from tests.faults.chaos.disks import Disk
from tests.faults.chaos.ground import temporary
from tests.servers import PARALLEL_VARIABLE
from tests.waiting import eventually

CODES = ("53000", "53100", "53200", "53400")
"""Insufficient resources, disk full, out of memory, a configured limit exceeded."""


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A file system that can be filled."""
    disk = Disk(300)
    try:
        if not disk.can_be_filled:
            pytest.skip(f"no file system of its own: {disk.why_not}")
        yield disk
    finally:
        disk.close()


@pytest.fixture
def url(disk: Disk, start_servers: StartServers) -> str:
    """The address of a server whose data is on that file system."""
    with temporary(disk.folder):
        servers: EmbeddedServers = start_servers()
    migrate(servers.postgres_url)
    return servers.postgres_url


def large() -> dict[str, str]:
    """Return a payload for which a table has to grow."""
    return {"text": os.urandom(100_000).hex()}


@contextmanager
def raising(url: str, code: str, table: str) -> Iterator[None]:
    """Let nothing be written into a table meanwhile."""
    with psycopg.connect(url, autocommit=True) as hand:
        hand.execute(
            "CREATE FUNCTION jobconsole.full() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '{code}'; END $$"
        )
        hand.execute(
            f"CREATE TRIGGER no_room BEFORE INSERT ON jobconsole.{table} "
            "FOR EACH ROW EXECUTE FUNCTION jobconsole.full()"
        )
        yield
        hand.execute("DROP FUNCTION jobconsole.full() CASCADE")


@pytest.mark.skipif(PARALLEL_VARIABLE in os.environ, reason="parallel plans share memory in files, here on that disk")
@pytest.mark.parametrize("mode", ["postgres", "postgres+redis"])
def test_everything_that_judges_the_store_finds_a_full_disk(disk: Disk, url: str, redis_url: str, mode: str) -> None:
    cli = Cli({"JOBS__POSTGRES__URL": url} | ({"JOBS__REDIS__URL": redis_url} if mode == "postgres+redis" else {}))
    settings = settings_from(postgres=url, redis=redis_url if mode == "postgres+redis" else None)
    with (
        Exporter(settings, ExporterOptions(port=0, limit=30.0)) as exporter,
        JobQueue(settings=settings).blocking() as jobs,
    ):
        assert cli("health").code == 0
        assert ask(exporter, "/healthz")[0].status == 200
        disk.fill()
        with pytest.raises(StoreRefused, match=r"^postgres refused a statement: .*No space left on device") as refused:
            jobs.enqueue_many("work", [large() for _ in range(20)])
        assert refused.value.passing
        full = cli("health", "--json")
        assert (full.code, full.body["status"]) == (1, "failing")
        assert "No space left on device" in full.body["reason"]
        assert not jobs.health().healthy
        answer, body = ask(exporter, "/healthz")
        assert (answer.status, b"No space left on device" in body) == (503, True)
        assert b'jobconsole_up{backend="postgres"} 1.0' in ask(exporter)[1]
        (found,) = [one["said"] for one in cli("doctor", "--json").body["checks"] if one["name"] == "postgres"]
        assert found.startswith("its disk is full: ")
        disk.free()
        assert cli("health").code == 0
        assert jobs.health().healthy
        assert ask(exporter, "/healthz")[0].status == 200


@pytest.mark.parametrize("code", CODES)
async def test_an_enqueue_without_room_is_refused(postgres_url: str, code: str) -> None:
    async with JobQueue(postgres=postgres_url) as jobs:
        with raising(postgres_url, code, "jobs"):
            with pytest.raises(StoreRefused) as refused:
                await jobs.enqueue("work")
            assert refused.value.passing
        await jobs.enqueue("work")
        assert (await jobs.stats()).total_pending == 1


def test_the_exit_code_without_room(postgres_url: str) -> None:
    cli = Cli({"JOBS__POSTGRES__URL": postgres_url})
    with raising(postgres_url, "53100", "jobs"):
        answer = cli("job", "enqueue", "work")
        assert (answer.code, "postgres refused a statement: could not extend file" in answer.err) == (1, True)
        assert cli("doctor").code == 1
    assert cli("job", "enqueue", "work").code == 0


async def test_outcomes_wait_for_room(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with JobQueue(postgres=postgres_url) as jobs:
        gate = gated_task(jobs)
        handles = await jobs.enqueue_many("work", [{"n": n} for n in range(5)])
        async with working(jobs):
            await asyncio.wait_for(gate.begun.wait(), PATIENCE)
            with raising(postgres_url, "53100", "job_history"):
                gate.go_on.set()
                assert await eventually(lambda: "settle waits for the store" in caplog.text)
            assert [await handle.result(PATIENCE) for handle in handles] == list(range(5))
    assert sorted(gate.ran) == list(range(5))
