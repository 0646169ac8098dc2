"""A file that an earlier version has made, under other names, is taken over, or refused."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobQueue, SchemaEarlier
from queue_core.model.filters import parse
from queue_core.model.settings import SqliteSettings
from queue_core.stores.sql.migrations import FIRST_VERSION
from queue_core.stores.sqlite.migrate import (
    APPLICATION_ID,
    KNOWN,
    LAST_NUMBERED,
    NUMBERED_APPLICATION_ID,
    migrate,
    schema_of,
    statements,
)
from tests.cli.running import Cli
from tests.conformance.working import PATIENCE, until, working

APPLIED = list(range(FIRST_VERSION, KNOWN + 1))
NUMBERS = ", ".join(f"{number:04}" for number in APPLIED)
HERE = Path(__file__).parent
FILES = [file.read_text(encoding="utf-8") for file in sorted(HERE.joinpath("earlier").glob("*.sql"))]
RENAMED = {"place": "state", "aged": "aged_rank", "ended": "last_outcome", "begun": "started", "holds": "admitted"}
Make = Callable[[Path], None]
SENTENCE = "run 'jobconsole migrate', which takes over all jobs"


def advance(path: Path, first: int, last: int) -> None:
    """Apply the migrations of that time from one version to another."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        for text in FILES[first:last]:
            for statement in statements(text):
                connection.execute(statement)
        connection.execute(f"pragma application_id = {NUMBERED_APPLICATION_ID}")
        connection.execute(f"pragma user_version = {last}")


def make_1(path: Path) -> None:
    """Make the schema of version 1, as the program of that time did."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        for statement in statements((HERE / "version_1.sql").read_text(encoding="utf-8")):
            connection.execute(statement)
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute("pragma user_version = 1")


def make_last(path: Path) -> None:
    """Make the last schema of the numbering before version 1."""
    advance(path, 0, LAST_NUMBERED)


ages = pytest.mark.parametrize("make", [make_last, make_1], ids=["numbered", "renamed"])


def fill(path: Path, *names: str) -> None:
    """Write jobs of that time."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("insert into queues (name) values ('work')")
        for statement in ";".join(
            (HERE / "queries" / "earlier" / name).read_text(encoding="utf-8") for name in names
        ).split(";"):
            connection.execute(statement, {"n": 1000} if ":n" in statement else {})


def schema(path: Path) -> dict[str, Any]:
    """Answer everything that is made in a file, without its comments, and the rows of what is made with some."""
    with closing(sqlite3.connect(path)) as connection:
        # The names of checks keep those of their columns.
        made = {
            name: re.sub(r"\s+|CONSTRAINT jobs_\w+_check", "", re.sub(r"--.*", "", text or "").replace('"', ""))
            for name, text in connection.execute("select name, sql from sqlite_schema")
        }
        rows = {table: connection.execute(f"select * from {table}").fetchall() for table in ("counters", "clocks")}
    return made | rows


@ages
def test_it_is_then_what_a_new_one_is(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "earlier.db")
    migrate(SqliteSettings(path=str(tmp_path / "earlier.db")))
    migrate(SqliteSettings(path=str(tmp_path / "new.db")))
    assert schema(tmp_path / "earlier.db") == schema(tmp_path / "new.db")


@ages
async def test_a_program_refuses_it_in_one_sentence(path: Path, make: Make) -> None:
    make(path)
    with pytest.raises(SchemaEarlier, match=f"^an earlier version has made .*; {SENTENCE}$"):
        await JobQueue(sqlite=path).open()
    assert schema_of(SqliteSettings(path=str(path))) == 0


@ages
def test_the_command_line_refuses_it_until_it_is_taken_over(path: Path, make: Make) -> None:
    make(path)
    cli = Cli({"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": str(path)})
    for command in (("queue", "list"), ("job", "list"), ("dlq", "list")):
        answer = cli(*command)
        assert (answer.code, SENTENCE in answer.err) == (5, True)
    answer = cli("doctor")
    assert (answer.code, SENTENCE in answer.out) == (1, True)
    taken = f"would take over the file {path}, which an earlier version has made\n"
    assert cli("migrate", "--dry-run").out == taken
    answer = cli("migrate")
    assert (answer.code, answer.out) == (0, f"applied {NUMBERS}; the schema is {KNOWN}\n")
    assert cli("queue", "list").code == 0
    assert cli("migrate").out == f"nothing to do; the schema is {KNOWN}\n"
    cli.close()


@pytest.mark.parametrize(
    ("version", "files"), [(1, ("history.sql", "unfinished.sql")), (4, ("history.sql", "unfinished.sql", "keyed.sql"))]
)
def test_a_file_of_before_is_brought_along(path: Path, version: int, files: tuple[str, ...]) -> None:
    advance(path, 0, version)
    fill(path, *files)
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute("pragma table_info (jobs)")]
        kept = connection.execute(f"select {', '.join(columns)} from jobs order by number").fetchall()
    advance(path, version, LAST_NUMBERED)
    assert migrate(SqliteSettings(path=str(path))) == APPLIED
    with closing(sqlite3.connect(path)) as connection:
        today = ", ".join(RENAMED.get(column, column) for column in columns)
        assert connection.execute(f"select {today} from jobs order by number").fetchall() == kept
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert Counter(row[0] for row in connection.execute("select status from job_list"))["completed"] > 900
        assert connection.execute("select keeps_counts, high, normal, low from queues").fetchall() == [(0, 0, 0, 0)]


@ages
async def test_its_jobs_run(path: Path, make: Make) -> None:
    make(path)
    fill(path, "unfinished.sql")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("insert into payloads (number, payload) select number, '{}' from jobs")
        connection.execute("update counters set seq = 10")
    migrate(SqliteSettings(path=str(path)))
    async with JobQueue(sqlite=path) as jobs:

        @jobs.task(name="task", queue="work")
        async def task() -> str:
            return "done"

        async def all_done() -> bool:
            return await jobs.inspector.count(parse("status:completed"), 100) == 5

        async with working(jobs):
            assert await (await jobs.enqueue("task", queue="work")).result(PATIENCE) == "done"
            await until(all_done)


@pytest.mark.parametrize("version", [1, LAST_NUMBERED - 1])
def test_an_older_one_is_refused_and_left_alone(path: Path, version: int) -> None:
    advance(path, 0, version)
    before = schema(path)
    with pytest.raises(
        SchemaEarlier, match=f"is of version {version} of an earlier numbering.*, {LAST_NUMBERED}, can be"
    ):
        migrate(SqliteSettings(path=str(path)))
    assert schema(path) == before


@ages
def test_many_that_migrate_at_once_take_it_over_once(path: Path, make: Make) -> None:
    make(path)
    with ThreadPoolExecutor(8) as threads:
        applied = list(threads.map(lambda _: migrate(SqliteSettings(path=str(path))), range(8)))
    assert sorted(number for one in applied for number in one) == APPLIED
