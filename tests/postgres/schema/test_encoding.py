"""A schema is made in a database that can keep every text, and used in any."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from jobconsole.cli.failures import FAILED
from queue_core import SchemaError
from queue_core.stores.postgres import migrate as module
from queue_core.stores.postgres.migrate import KNOWN, migrate, pending
from queue_core.stores.sql.migrations import FIRST_VERSION
from tests.cli.running import Cli
from tests.servers import SessionServers, fresh_database

ADVICE = "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def lacking(request: pytest.FixtureRequest, servers: SessionServers) -> Iterator[tuple[str, str]]:
    """The encoding and the address of an empty database that lacks characters."""
    with fresh_database(servers.postgres_url, encoding=request.param) as url:
        yield request.param, url


def schemas(url: str) -> int:
    """Return whether there is a schema, as a number."""
    with psycopg.connect(url) as connection:
        (found,) = connection.execute("select count(*) from pg_namespace where nspname = 'jobconsole'").fetchall()
        return int(found[0])


def test_no_schema_is_made_in_a_database_that_lacks_characters(lacking: tuple[str, str]) -> None:
    encoding, url = lacking
    cli = Cli({"JOBS__POSTGRES__URL": url})
    for command in (["migrate"], ["migrate", "--dry-run"]):
        answer = cli(*command)
        assert (answer.code, answer.out) == (FAILED, "")
        assert f" is {encoding}, which cannot keep every text; " in answer.err
        assert answer.err.endswith(f"{ADVICE}\n")
        assert answer.err.count("\n") == 1
    assert schemas(url) == 0


def test_one_that_an_administrator_has_made_stays_empty(lacking: tuple[str, str]) -> None:
    _, url = lacking
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create schema jobconsole")
        with pytest.raises(SchemaError, match="ENCODING 'UTF8'"):
            migrate(url)
        assert connection.execute("select count(*) from pg_class where relname = 'jobs'").fetchall() == [(0,)]


def test_a_schema_that_is_there_migrates(lacking: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = lacking
    with monkeypatch.context() as patch:
        patch.setattr(module, "_require_unicode", lambda *_: None)
        patch.setattr(module, "MIGRATIONS", module.MIGRATIONS[:1])
        assert migrate(url) == [FIRST_VERSION]
    missing = list(range(FIRST_VERSION + 1, KNOWN + 1))
    assert pending(url).versions == missing
    assert migrate(url) == missing
    assert migrate(url) == []
