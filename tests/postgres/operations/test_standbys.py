"""What holds old rows without being a session here, on a real standby: doctor names it, and its advice ends it."""

from __future__ import annotations

import asyncio
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from jobconsole.core.connection import Connection
from jobconsole.core.doctor import postgres as checks
from jobconsole.embedded.binaries import USER, postgres_url
from jobconsole.embedded.folders import server_identity
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.server import Exporter, ExporterOptions
from jobconsole.settings import to_read
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.run import make_queue
from queue_core.model.settings import JobsSettings, PostgresSettings, settings_from
from queue_core.queue import JobQueue
from queue_core.stores.postgres.migrate import migrate
from queue_core.stores.postgres.read import PostgresInspector
from tests.cli.running import Cli
from tests.exporter.test_server import ask
from tests.servers import see_tables
from tests.tui.seat import seated
from tests.waiting import eventually, until

NAME, SLOT = "reporting", "reports"


@pytest.fixture
def primary() -> Iterator[EmbeddedServers]:
    """A server of this test alone: what holds its rows must not hold those of others."""
    with EmbeddedServers.start() as servers:
        see_tables(servers.postgres_url)
        migrate(servers.postgres_url)
        yield servers


@pytest.fixture
async def inspector(primary: EmbeddedServers) -> AsyncIterator[PostgresInspector]:
    """Looks at the primary."""
    inspector = PostgresInspector(PostgresSettings(url=primary.postgres_url))
    yield inspector
    await inspector.close()


@contextmanager
def standby(primary: EmbeddedServers) -> Iterator[str]:
    """Copy the primary and follow it, telling it what is read here; give the address."""
    program = primary.postgres.program
    if not program.with_name("pg_basebackup").exists():
        pytest.skip("this PostgreSQL comes without pg_basebackup")
    who = server_identity()
    if who is not None and not all(folder.stat().st_mode & stat.S_IXOTH for folder in program.parents):
        pytest.skip("the user as whom root runs PostgreSQL may not enter the folder of this environment")
    run_as: dict[str, Any] = {} if who is None else {"user": who.uid, "group": who.gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="standby-"))
    data = folder / "data"
    sockets = re.search(r"host=([^&]+)", primary.postgres_url)
    assert sockets is not None
    try:
        if who is not None:
            shutil.chown(folder, who.uid, who.gid)
        host = sockets[1].replace("%2F", "/")
        copy = [str(program.with_name("pg_basebackup")), "-D", str(data), "-h", host, "-p", "5432", "-U", USER]
        subprocess.run([*copy, "-R", "-c", "fast"], check=True, cwd=folder, timeout=60, **run_as)
        command = [str(program), "-D", str(data), "-k", str(folder), "-h", "", "-p", "5432"]
        # With fewer connections than the primary it would not start.
        settings = ("hot_standby_feedback=on", "wal_receiver_status_interval=1", "max_connections=200", "fsync=off")
        for setting in (*settings, f"cluster_name={NAME}"):
            command += ["-c", setting]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **run_as)
        try:
            yield postgres_url(folder)
        finally:
            server.terminate()
            server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answers(url: str) -> bool:
    """Tell whether a server can be read."""
    try:
        with psycopg.connect(url) as connection:
            return connection.execute("select pg_is_in_recovery()").fetchone() == (True,)
    except psycopg.OperationalError:
        return False


async def test_doctor_names_a_standby_and_a_slot_that_hold_old_rows(
    primary: EmbeddedServers, inspector: PostgresInspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standby while it is read, and its slot even when the standby is gone for good."""
    monkeypatch.setattr(checks, "HELD_TRANSACTIONS", 5)
    with psycopg.connect(primary.postgres_url, autocommit=True) as connection:

        async def held(kind: str, name: str) -> bool:
            connection.execute("select pg_current_xact_id()")
            found = (await inspector.facts())["held_snapshots"]
            return [(one["kind"], one["name"]) for one in found if one["transactions"] >= 5] == [(kind, name)]

        with standby(primary) as url:
            assert until(lambda: answers(url))
            with psycopg.connect(url) as reader:
                reader.execute("begin isolation level repeatable read")
                reader.execute("select count(*) from jobs")
                assert await eventually(lambda: held("standby", NAME))
                check = checks._held_snapshots(await inspector.facts())
                assert (check.level, NAME in check.finding) == ("warn", True)
                connection.execute("select pg_create_physical_replication_slot(%s)", [SLOT])
                with psycopg.connect(url, autocommit=True) as other:
                    other.execute(f"alter system set primary_slot_name = '{SLOT}'")
                    other.execute("select pg_reload_conf()")
                assert await eventually(lambda: held("replication slot", SLOT))
        assert await eventually(lambda: held("replication slot", SLOT)), "nobody follows it any more"
        check = checks._held_snapshots(await inspector.facts())
        assert (check.level, SLOT in check.finding) == ("warn", True)
        advice = re.search(r"select pg_drop_replication_slot\('\w+'\)", check.advice)
        assert advice is not None
        connection.execute(advice[0])
        assert (await inspector.facts())["held_snapshots"] == []
        assert checks._held_snapshots(await inspector.facts()).level == "ok"


async def test_doctor_names_a_prepared_transaction(inspector: PostgresInspector, primary: EmbeddedServers) -> None:
    with psycopg.connect(primary.postgres_url, autocommit=True) as connection:
        connection.execute("alter system set max_prepared_transactions = 2")
        primary.postgres.stop()
        primary.postgres.start()
    with psycopg.connect(primary.postgres_url, autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("select pg_current_xact_id()")
        connection.execute("prepare transaction 'forgotten'")
        assert (await inspector.facts())["prepared_transactions"] == 1
        connection.execute("rollback prepared 'forgotten'")


def test_doctor_asks_for_the_primary_of_a_standby(primary: EmbeddedServers) -> None:
    with standby(primary) as url:
        assert until(lambda: answers(url))
        answer = Cli({"JOBS__POSTGRES__URL": url})("doctor", "--json")
    (check,) = answer.body["checks"]
    assert (answer.code, check["name"], check["level"]) == (1, "postgres", "fail")
    assert check["said"].startswith("it answers, but accepts no writes: it is a standby, or read-only: ")
    assert check["advice"].startswith("give the primary's address in jobs.postgres.url")


@contextmanager
def standby_with_a_job(primary: EmbeddedServers) -> Iterator[tuple[str, str]]:
    """Run a standby of a primary with a job, and wait until it has that; give its address and the job's id."""
    with JobQueue(postgres=primary.postgres_url).blocking() as jobs:
        job = jobs.enqueue("report")
    with standby(primary) as url:
        assert until(lambda: answers(url))
        cli = Cli({"JOBS__POSTGRES__URL": url})
        assert until(lambda: cli("--read-only", "job", "show", job.id, "--json").code == 0)
        yield url, job.id


def test_the_exporter_reads_a_standby(primary: EmbeddedServers, caplog: pytest.LogCaptureFixture) -> None:
    """Its health is that of a store in which nothing can be enqueued, unless a server to read from was asked for."""
    with standby_with_a_job(primary) as (url, _):
        settings = settings_from(postgres=url)
        for asked, code, said in (
            (settings, 503, ["postgres cannot be written"]),
            (to_read(settings), 200, []),
            (settings_from(postgres=f"{url}&target_session_attrs=standby"), 200, []),
        ):
            caplog.clear()
            with Exporter(asked, ExporterOptions(port=0, limit=30.0)) as exporter:
                for _ in range(2):
                    _, metrics = ask(exporter)
                    assert b'jobconsole_up{backend="postgres"} 1.0' in metrics
                    assert b'queue_size{queue="default"} 1.0' in metrics
                    answer, body = ask(exporter, "/healthz")
                    assert answer.status == code
                    assert (b"the server is a standby" in body) == (code == 503)
            lines = [one.getMessage() for one in caplog.records if one.name == "jobconsole.exporter"]
            assert [line.partition(":")[0] for line in lines] == said


async def test_health_finds_a_primary_that_has_become_a_standby(primary: EmbeddedServers) -> None:
    async with JobQueue(postgres=primary.postgres_url) as jobs:
        await jobs.enqueue("report")
        assert (await jobs.health()).healthy
        with psycopg.connect(primary.postgres_url) as connection:
            found = connection.execute("show data_directory").fetchone()
        assert found is not None
        primary.postgres.stop()
        await asyncio.to_thread(Path(found[0], "standby.signal").touch)
        primary.postgres.start()
        found_out = await jobs.health()
    assert (found_out.healthy, found_out.pending) == (False, 1)
    assert found_out.reason.startswith("postgres accepts no writes: ")


LOOKS = (("queue", "list"), ("job", "list"), ("dlq", "groups"), ("worker", "list"), ("op", "list"), ("health",))


def test_read_only_tools_look_at_a_standby(primary: EmbeddedServers) -> None:
    with standby_with_a_job(primary) as (url, job_id):
        cli = Cli({"JOBS__POSTGRES__URL": url})
        for look in LOOKS:
            answer = cli("--read-only", *look)
            assert (answer.code, answer.err) == (0, ""), look
        refused = cli("job", "cancel", job_id, "--yes")
    assert refused.code == 3
    assert "postgres accepts no writes" in refused.err


WRITABLE = "give the primary's address in jobs.postgres.url, or a role whose transactions may write"


def test_read_only_tools_need_a_role_that_may_read(primary: EmbeddedServers) -> None:
    """Also where its transactions are read-only, so that no mistake of a tool writes anything."""
    with psycopg.connect(primary.postgres_url, autocommit=True) as connection:
        connection.execute("create role looker login")
        connection.execute("alter role looker set default_transaction_read_only = on")
        connection.execute("grant usage on schema jobconsole to looker")
        connection.execute("grant select on all tables in schema jobconsole to looker")
    url = primary.postgres_url.replace(f"://{USER}@", "://looker@")
    assert "looker" in url
    cli = Cli({"JOBS__POSTGRES__URL": url})
    for look in LOOKS:
        answer = cli("--read-only", *look)
        assert (answer.code, answer.err) == (0, ""), look
    for words, remedy in (
        (("job", "list"), "--read-only reads what it has"),
        (("migrate",), f"{WRITABLE}"),
        (("queue", "pause", "default"), f"{WRITABLE}"),
        (("job", "enqueue", "t"), f"{WRITABLE}"),
    ):
        answer = cli(*words)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("jobconsole: postgres accepts no writes: ")
        assert answer.err.endswith(f"; {remedy}\n")
    assert cli("migrate", "--dry-run").code == 0


async def test_a_read_only_console_needs_a_role_that_may_read(primary: EmbeddedServers) -> None:
    with psycopg.connect(primary.postgres_url, autocommit=True) as connection:
        connection.execute("create role watcher login")
        connection.execute("alter role watcher set default_transaction_read_only = on")
        connection.execute("grant usage on schema jobconsole to watcher")
        connection.execute("grant select on all tables in schema jobconsole to watcher")
    url = SecretStr(primary.postgres_url.replace(f"://{USER}@", "://watcher@"))
    settings = JobsSettings(queue_backend="postgres", postgres=PostgresSettings(url=url))
    app = ConsoleApp(Connection(lambda: make_queue(settings, read_only=True)), read_only=True)
    async with seated(app) as seat:
        await seat.until("LIVE")
