"""The command line, the settings and the exporter on a file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobconsole.configuration import load
from jobconsole.core.doctor.checks import check_sqlite
from jobconsole.exporter.server import Exporter, ExporterOptions
from queue_core.errors import ConfigurationError
from queue_core.model.settings import JobsSettings, SqliteSettings
from queue_core.queue import JobQueue
from queue_core.stores.sqlite.migrate import KNOWN
from tests.cli.running import Cli

FACTS: dict[str, Any] = {
    "version": "3.45.0", "path": "/srv/jobs.db", "schema": 1, "schema_known": 1, "journal_mode": "wal",
    "bytes": 1 << 20, "wal_bytes": 1 << 20, "disk_free_bytes": 1 << 40, "page_bytes": 4096, "pages": 256,
    "free_pages": 10,
}  # fmt: skip


@pytest.fixture
def cli(path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(path.parent)
    return Cli({"JOBS__SQLITE__PATH": str(path)})


def test_a_rehearsal_of_migrate_makes_no_file(cli: Cli, path: Path) -> None:
    assert cli("migrate", "--dry-run").out == f"would make the schema, version {KNOWN}\n"
    assert not path.exists()
    cli("migrate")
    assert cli("migrate", "--dry-run").out == f"nothing to do; the schema is {KNOWN}\n"
    path.write_text("this is something else, and long enough for somebody to have written it on purpose")
    assert cli("migrate", "--dry-run").code == 3


def test_migrate(cli: Cli) -> None:
    assert cli("migrate").out == f"made the schema, version {KNOWN}\n"
    assert cli("migrate").out == f"nothing to do; the schema is {KNOWN}\n"
    assert cli("migrate", "--json").body["applied"] == []
    refused = cli("migrate", "--read-only")
    assert (refused.code, refused.out) == (5, "")


def test_from_enqueue_to_dlq(cli: Cli, path: Path) -> None:
    job_id = cli("job", "enqueue", "task", '{"n": 1}', "--queue", "work").out.strip()
    assert cli("job", "list", "--json").body["jobs"][0]["id"] == job_id
    assert cli("queue", "pause", "work").code == 0
    assert cli("queue", "list", "--json").body["queues"][0]["paused"] is True
    assert cli("job", "cancel", job_id, "--yes").code == 0
    assert '"cancelled"' in cli("job", "show", job_id, "--json").out


def test_a_file_that_is_none(cli: Cli, path: Path) -> None:
    path.write_bytes(b"no database, only a text " * 50)
    for command in (["queue", "list"], ["migrate"], ["job", "enqueue", "task"]):
        answer = cli(*command)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err == f"jobconsole: {path} is not an SQLite database\n"


def test_the_file_of_another_program_cannot_be_used(cli: Cli, path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table theirs (n)")
    for command in (["queue", "list"], ["migrate"], ["job", "enqueue", "task"]):
        answer = cli(*command)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err == f"jobconsole: {path} is the database of another program; choose another file\n"


def test_a_file_that_others_lock_cannot_be_reached(cli: Cli, path: Path) -> None:
    cli("migrate")
    cli.environ["JOBS__SQLITE__TIMEOUT"] = "0.1s"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        answer = cli("job", "enqueue", "task")
    assert (answer.code, answer.out) == (3, "")
    assert "is locked by another process" in answer.err


def test_the_doctor(cli: Cli, path: Path) -> None:
    cli("migrate")
    levels = {check["name"]: check["level"] for check in cli("doctor", "--json").body["checks"]}
    names = ("sqlite", "file", "schema", "write-ahead log", "free space", "disk space")
    assert [levels[name] for name in names] == ["ok"] * 6
    path.write_bytes(b"no database, only a text " * 50)
    answer = cli("doctor", "--json")
    assert answer.code == 1
    (check,) = answer.body["checks"]
    assert (check["name"], check["level"]) == ("sqlite", "fail")
    assert "jobs.sqlite.path" in check["advice"]


@pytest.mark.parametrize(
    ("facts", "name", "level", "advice"),
    [
        ({"schema": 2}, "schema", "fail", "upgrade this program"),
        ({"wal_bytes": 1 << 30}, "write-ahead log", "warn", "reads the file"),
        ({"pages": 1 << 20, "free_pages": 900_000}, "free space", "warn", "VACUUM"),
        ({"disk_free_bytes": 1 << 20}, "disk space", "fail", "make room"),
    ],
)
def test_judgement(facts: dict[str, Any], name: str, level: str, advice: str) -> None:
    assert {check.level for check in check_sqlite(FACTS)} == {"ok"}
    (check,) = [check for check in check_sqlite(FACTS | facts) if check.level != "ok"]
    assert (check.name, check.level) == (name, level)
    assert advice in check.advice


def test_a_path_alone_chooses_the_mode(tmp_path: Path) -> None:
    def mode(jobs: dict[str, Any]) -> str:
        return load(None, {"XDG_CONFIG_HOME": str(tmp_path)}, {"jobs": jobs}).settings.mode

    assert mode({"sqlite": {"path": "jobs.db"}}) == "sqlite"
    assert mode({"sqlite": {"timeout": 5}}) == "postgres"
    assert mode({"queue_backend": "sqlite"}) == "sqlite"
    assert mode({"queue_backend": "memory", "sqlite": {"path": "jobs.db"}}) == "memory"
    assert mode({"postgres": {"url": "postgresql://h/d"}, "sqlite": {"path": "jobs.db"}}) == "postgres"
    with pytest.raises(ConfigurationError, match=r"command line: jobs\.sqlite\.path: SQLite needs the path of a file"):
        mode({"sqlite": {"path": ":memory:"}})
    with pytest.raises(ConfigurationError, match="did you mean 'path'"):
        mode({"sqlite": {"pth": "jobs.db"}})


def test_the_exporter(path: Path) -> None:
    async def fill() -> None:
        async with JobQueue(sqlite=path) as jobs:
            await jobs.enqueue_many("task", [{}] * 3, queue="work")

    asyncio.run(fill())
    settings = JobsSettings(queue_backend="sqlite", sqlite=SqliteSettings(path=str(path)))
    with Exporter(settings, ExporterOptions(host="127.0.0.1", port=0)) as exporter:
        with urllib.request.urlopen(exporter.url, timeout=30) as answer:
            text = answer.read().decode()
        with urllib.request.urlopen(exporter.health_url, timeout=30) as answer:
            assert json.loads(answer.read())
    assert 'queue="work"' in text
