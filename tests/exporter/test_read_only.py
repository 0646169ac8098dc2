"""The exporter only looks: a role or a server that can only be read is read, and what is said of it is true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from jobconsole.embedded.binaries import USER
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.server import Exporter
from jobconsole.settings import to_read
from queue_core import JobQueue
from queue_core.model.settings import JobsSettings, PostgresSettings
from queue_core.stores.postgres.migrate import migrate
from tests.exporter.test_events import Curl
from tests.exporter.test_server import ask, serving, up
from tests.waiting import until

ROLES = {
    "by the role": "alter role looker set default_transaction_read_only = on",
    "by the role in the database": "alter role looker in database {} set default_transaction_read_only = on",
}
SETTING = "alter system set default_transaction_read_only = "


def of(url: str) -> JobsSettings:
    return JobsSettings(queue_backend="postgres", postgres=PostgresSettings(url=SecretStr(url)))


def as_looker(url: str) -> str:
    assert f"://{USER}@" in url
    return url.replace(f"://{USER}@", "://looker@")


def twice(url: str) -> str:
    """Return an address of several servers, all of which are the same one."""
    return re.sub(r"host=([^&]+)", r"host=\1,\1", url)


@pytest.fixture
def primary(own_servers: EmbeddedServers) -> str:
    """The address of a server with a job, and with a role that only looks."""
    migrate(own_servers.postgres_url)
    with psycopg.connect(own_servers.postgres_url, autocommit=True) as hand:
        hand.execute("create role looker login")
        hand.execute("grant usage on schema jobconsole to looker")
        hand.execute("grant select on all tables in schema jobconsole to looker")
    with JobQueue(postgres=own_servers.postgres_url).blocking() as jobs:
        jobs.enqueue("report")
    return own_servers.postgres_url


@contextmanager
def hand_of(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as hand:
        hand.execute("set default_transaction_read_only = off")
        yield hand


def turn(url: str, on: bool) -> None:
    """Make the server read-only, or end that, and wait until its sessions have it so."""
    word = "on" if on else "off"
    with hand_of(url) as hand:
        hand.execute(f"{SETTING}{word}")
        hand.execute("select pg_reload_conf()")

    def found() -> bool:
        with psycopg.connect(url) as other:
            return other.execute("show default_transaction_read_only").fetchone() == (word,)

    assert until(found)


def reads(exporter: Exporter) -> None:
    """Find the families of the queues, and no failed read."""
    _, body = ask(exporter)
    assert up(body) == {"postgres": 1}
    assert b'queue_size{queue="default"} 1.0' in body
    assert b'jobconsole_scrape_errors_total{backend="postgres"} 0.0' in body


def health(exporter: Exporter) -> tuple[int, str, int, str]:
    """Return the code of a health check, the status, the jobs that wait, and why the store is not well."""
    answer, body = ask(exporter, "/healthz")
    report = json.loads(body)
    return answer.status, report["status"], report["pending"], report["backends"]["postgres"].get("reason", "")


WELL = (200, "ok", 1, "")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage().partition(":")[0] for one in caplog.records if one.name == "jobconsole.exporter"]


@pytest.mark.parametrize(
    ("way", "several", "read_only"),
    [
        ("by the role", False, False),
        ("by the role", False, True),
        ("by the role", True, True),
        ("by the role in the database", True, False),
    ],
)
def test_a_role_that_may_only_read(
    primary: str, way: str, several: bool, read_only: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """That it does not write is its own matter: of whether others may, nothing is known by it, as with rights."""
    with psycopg.connect(primary, autocommit=True) as hand:
        hand.execute(ROLES[way].format(hand.info.dbname))
    url = as_looker(twice(primary) if several else primary)
    with serving(to_read(of(url)) if read_only else of(url), limit=30.0) as exporter:
        for _ in range(2):
            reads(exporter)
            assert health(exporter) == WELL
        events = Curl(exporter)
        events.until("live")
        with JobQueue(postgres=primary).blocking() as jobs:
            job = jobs.enqueue("report")
        assert events.until("created")[-1][1]["id"] == job.id
        events.close()
    assert said(caplog) == []


def test_its_sessions_are_kept(primary: str) -> None:
    with psycopg.connect(primary, autocommit=True) as hand:
        hand.execute(ROLES["by the role"])
        sessions = "select pid from pg_stat_activity where usename = 'looker' order by pid"
        with serving(of(as_looker(primary)), limit=30.0) as exporter:
            health(exporter)
            before = hand.execute(sessions).fetchall()
            for _ in range(3):
                health(exporter)
            assert set(before) & set(hand.execute(sessions).fetchall())


@pytest.mark.parametrize("way", ["before it begins", "while it is there"])
def test_a_server_that_takes_no_writes(primary: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is read, and whether jobs can be enqueued is what the health is about."""
    if way == "before it begins":
        turn(primary, on=True)
    with serving(of(primary), limit=30.0) as exporter:
        reads(exporter)
        if way == "while it is there":
            assert health(exporter) == WELL
            turn(primary, on=True)
        for _ in range(3):
            reads(exporter)
            code, status, _, reason = health(exporter)
            assert (code, status) == (503, "failing")
            assert reason.startswith("postgres accepts no writes: ")
        assert said(caplog) == ["postgres cannot be written"]
        turn(primary, on=False)
        for _ in range(2):
            reads(exporter)
            assert health(exporter) == WELL
    assert said(caplog) == ["postgres cannot be written", "postgres can be written again"]


@pytest.mark.parametrize("way", ["alter role all", "alter database"])
def test_a_server_that_takes_no_writes_by_another_way(primary: str, way: str) -> None:
    with hand_of(primary) as hand:
        whom = f"alter database {hand.info.dbname}" if way == "alter database" else way
        hand.execute(f"{whom} set default_transaction_read_only = on")
    with serving(of(primary), limit=30.0) as exporter:
        reads(exporter)
        assert health(exporter)[:2] == (503, "failing")


def test_who_asks_for_a_server_that_can_be_read_finds_nothing_amiss(
    primary: str, caplog: pytest.LogCaptureFixture
) -> None:
    turn(primary, on=True)
    for asked in (to_read(of(primary)), of(f"{primary}&target_session_attrs=any")):
        with serving(asked, limit=30.0) as exporter:
            for _ in range(2):
                reads(exporter)
                assert health(exporter) == WELL
    assert said(caplog) == []
