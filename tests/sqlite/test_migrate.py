"""Migrations go forward only, each once, whoever else is at it; what is ahead or not ours is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from queue_core.errors import SchemaError, SchemaMissing, SchemaNewer, StoreUnavailable
from queue_core.model.settings import SqliteSettings
from queue_core.queue import JobQueue
from queue_core.stores.sql.migrations import FIRST_VERSION, Migration
from queue_core.stores.sqlite import migrate as schema
from queue_core.stores.sqlite.migrate import KNOWN, MIGRATIONS, migrate


@pytest.fixture
def settings(path: Path) -> SqliteSettings:
    return SqliteSettings(path=str(path))


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("pragma user_version").fetchone()[0])


def names(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("select name from sqlite_schema order by name")]


def ahead(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Let the program know further migrations."""
    known = [*MIGRATIONS, *(Migration(KNOWN + n, "more", sql) for n, sql in enumerate(more, 1))]
    monkeypatch.setattr(schema, "MIGRATIONS", tuple(known))
    monkeypatch.setattr(schema, "KNOWN", known[-1].version)


def test_the_files_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(FIRST_VERSION, KNOWN + 1))


def test_a_new_file_gets_them_all_and_then_none(path: Path, settings: SqliteSettings) -> None:
    assert migrate(settings) == list(range(FIRST_VERSION, KNOWN + 1))
    assert migrate(settings) == []
    assert version(path) == KNOWN


async def test_opening_makes_the_same_schema(path: Path, settings: SqliteSettings, tmp_path: Path) -> None:
    migrate(settings)
    async with JobQueue(sqlite=tmp_path / "other.db") as jobs:
        await jobs.enqueue("task")
    assert names(path) == names(tmp_path / "other.db")


def test_many_at_once_do_it_once(settings: SqliteSettings) -> None:
    with ThreadPoolExecutor(8) as threads:
        applied = list(threads.map(lambda _: migrate(settings), range(8)))
    assert sorted(number for one in applied for number in one) == list(range(FIRST_VERSION, KNOWN + 1))


def test_many_that_open_a_new_file_find_it_whole(path: Path) -> None:
    """None of them meets a schema that another one has only begun."""

    async def opened() -> None:
        async with JobQueue(sqlite=path) as jobs:
            await jobs.enqueue("task")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: asyncio.run(opened()), range(8)))
    assert version(path) == KNOWN


async def test_an_older_file_is_refused_until_it_is_migrated(
    path: Path, settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with JobQueue(sqlite=path) as jobs:
        handle = await jobs.enqueue("task")
    ahead(monkeypatch, "create table more (x integer);\ncreate table most (y text);")
    with pytest.raises(SchemaMissing, match=f"has schema {KNOWN}, older than {KNOWN + 1}; run 'jobconsole migrate'"):
        await JobQueue(sqlite=path).open()
    assert version(path) == KNOWN
    assert migrate(settings) == [KNOWN + 1]
    assert {"more", "most"} <= set(names(path))
    async with JobQueue(sqlite=path) as jobs:
        assert (await jobs.inspector.get(handle.id)).status == "queued"


def test_a_newer_file_is_left_alone(path: Path, settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        ahead(later, "create table more (x integer);")
        migrate(settings)
    with pytest.raises(SchemaNewer):
        migrate(settings)
    assert version(path) == KNOWN + 1


def test_one_that_fails_is_rolled_back_whole(
    path: Path, settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead(monkeypatch, "create table more (x integer);", "create table third (x integer);\ncreate table more (y text);")
    with pytest.raises(SchemaError, match=rf"migration {KNOWN + 2} \(more\) failed and was rolled back: .*more"):
        migrate(settings)
    assert version(path) == KNOWN + 1
    assert "third" not in names(path)


def test_what_is_not_ours(path: Path, settings: SqliteSettings) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table songs (title text)")
    with pytest.raises(SchemaError, match="is the database of another program"):
        migrate(settings)
    assert names(path) == ["songs"]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist"):
        migrate(SqliteSettings(path=str(tmp_path / "nowhere" / "jobs.db")))


def test_a_lock_is_waited_for_and_then_given_up(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match="is locked by another process"):
            migrate(SqliteSettings(path=str(path), timeout=0.2))
