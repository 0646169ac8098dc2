"""Numbered forward migrations: each file once, in order, in its own transaction, one process at a time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql

from queue_core.errors import (
    SchemaEarlier,
    SchemaError,
    SchemaMissing,
    SchemaNewer,
    StoreRefused,
    StoreUnavailable,
)
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.dialect import PACKAGE, load, qualified
from queue_core.stores.postgres.session.connection import read_address
from queue_core.stores.postgres.session.failures import answered, refused, unavailable
from queue_core.stores.postgres.session.plans import DAYS
from queue_core.stores.sql.migrations import (
    FIRST_VERSION,
    RENAMED_VERSION,
    Migration,
    Pending,
    migrations_of,
    pending_from,
    require_version,
)

CONNECT_SECONDS = 10
CONNECT_TRIES = 3
"""How often it connects: the server rolls back what a frozen process has begun, so that others can go on."""
LOCK_ATTEMPTS = 5
"""How often a migration is tried whose tables are busy; 3 s each time, so that other work continues in between."""

Connection = psycopg.Connection[tuple[Any, ...]]


LAST_NUMBERED = 11
"""The last version of the numbering before version 1, whose tables were not in a schema of their own."""
VERSION, EARLIER = "migrate/version", "migrate/earlier"
OTHERS = "migrate/others"
"""Statements that others run as well."""

MIGRATIONS = migrations_of(PACKAGE)
"""All migrations in order; their `{schema}` is replaced by the schema's name."""
KNOWN = MIGRATIONS[-1].version
"""The newest schema version that this program knows."""


def migrate(url: str, schema: str = SCHEMA) -> list[int]:
    """Bring a schema of the database to the newest version and return what was applied, nothing when it had that.

    Also makes the schema where there is none, taking over the tables that an earlier version has made there or
    elsewhere, and the history's partitions for the days ahead. Any number of processes may do it at once: one works,
    the others wait for it and then find nothing to do.

    Raises:
        ConfigurationError: the URL cannot be read.
        StoreUnavailable: no connection, or the tables stayed locked.
        SchemaNewer: a newer version of this program has migrated the database.
        SchemaEarlier: an earlier version has made tables that cannot be taken over.
        SchemaError: a grant is missing, the database has no schema and another encoding than UTF8, the schema has lost
            tables, or a migration failed; it was rolled back, those before it stay.
    """
    applied: list[int] = []
    for _ in range(CONNECT_TRIES - 1):
        with suppress(_Interrupted):
            return _migrate(url, schema, applied)
    try:
        return _migrate(url, schema, applied)
    except _Interrupted as error:
        raise StoreUnavailable("postgres", str(error)) from error


class _Interrupted(Exception):
    """The connection was lost in the middle: this process was frozen, or the server was restarted."""


def _migrate(url: str, schema: str, applied: list[int]) -> list[int]:
    """Migrate on one connection; what was applied is added to the list, and what was applied before is done."""
    with _connect(url) as connection:
        one = _Migrating(connection, schema, applied)
        one.alone("preparing", one.prepare)
        for migration in MIGRATIONS:
            one.alone(f"migration {migration.version} ({migration.name})", partial(one.apply, migration))
        one.alone("making partitions", one.make_partitions)
    return applied


def drop(url: str, schema: str) -> None:
    """Remove a schema with everything in it, after a test or benchmark that had it for itself.

    Raises:
        StoreUnavailable: the server cannot be reached, or refuses it.
        SchemaError: this role may not.
    """
    with _connect(url) as connection:
        connection.execute(load("migrate/drop", schema))


def pending(url: str, schema: str = SCHEMA) -> Pending:
    """Return what `migrate` would do.

    Raises:
        ConfigurationError, StoreUnavailable, SchemaNewer: see `migrate`.
        SchemaError: a grant is missing, the database has no schema and another encoding than UTF8, or the schema has
            lost tables.
    """
    with _connect(url, "any") as connection:
        # Another process may be at work meanwhile.
        connection.execute(load("migrate/glance", schema))
        ((exists, may_use, _, role, database),) = connection.execute(load("migrate/grants", schema)).fetchall()
        if may_use is False:
            raise SchemaError(_missing_grant(schema, exists, role, database))
        found = schema_version(connection, schema)
        earlier = connection.execute(load(EARLIER, schema)).fetchall()
        waiting = pending_from(found, MIGRATIONS, earlier[0][0] if earlier else None)
        if not earlier:
            _require_whole(connection, schema, found)
        if waiting.empty:
            _require_unicode(connection, schema)
            others = connection.execute(load(OTHERS, schema)).fetchall()
            waiting = waiting._replace(others=tuple(name for (name,) in others))
        connection.rollback()
    return waiting


@contextmanager
def _connect(url: str, server: str = "read-write") -> Iterator[Connection]:
    read_address(url)
    try:
        with psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            target_session_attrs=server,
            application_name="queue_core migrate",
            # Where the server's is SQL_ASCII, which is the default there, the driver returns texts as bytes.
            client_encoding="UTF8",
        ) as connection:
            yield connection
    except pg.InsufficientPrivilege as error:
        raise SchemaError(f"this role lacks a right: {_sentence(error)}") from error
    except psycopg.OperationalError as error:
        if answered(error) or isinstance(error, pg.QueryCanceled):
            raise refused(error) from error
        raise unavailable(error) from error
    except pg.ReadOnlySqlTransaction as error:
        raise unavailable(error) from error


class _Migrating:
    """The steps of a migration of one schema."""

    def __init__(self, connection: Connection, schema: str, applied: list[int]) -> None:
        self._connection = connection
        self._schema = schema
        # versions, those of tables that were taken over included
        self.applied = applied

    def alone(self, doing: str, work: Callable[[], None]) -> None:
        """Run one step in its own transaction, alone among all processes that migrate this schema."""
        for attempt in range(1, LOCK_ATTEMPTS + 1):
            applied = len(self.applied)
            try:
                self._run("migrate/begin")
                # A lock of the transaction, not of the session: it works through a pooler and is never left behind.
                self._run("migrate/lock")
                self._run("migrate/impatience")
                work()
                self._connection.commit()
                return
            except psycopg.Error as error:
                del self.applied[applied:]
                if self._connection.broken:
                    raise _Interrupted(_sentence(error)) from error
                self._connection.rollback()
                if not isinstance(error, psycopg.OperationalError):
                    raise SchemaError(f"{doing} failed and was rolled back: {_sentence(error)}") from error
                if not isinstance(error, pg.LockNotAvailable | pg.DeadlockDetected):
                    raise
                if attempt == LOCK_ATTEMPTS:
                    raise StoreRefused("postgres", f"{doing}: the tables are locked by others", passing=True) from error

    def prepare(self) -> None:
        """Make the schema and its list of migrations where they are missing, or take over an earlier version's."""
        ((exists, may_use, may_create, role, database),) = self._run("migrate/grants").fetchall()
        if may_use is False:
            raise SchemaError(_missing_grant(self._schema, exists, role, database))
        found = schema_version(self._connection, self._schema)
        if found > KNOWN:
            raise SchemaNewer(found, KNOWN)
        earlier = self._run(EARLIER).fetchall() if found == 0 else []
        if not earlier:
            _require_whole(self._connection, self._schema, found)
        if found == KNOWN:
            return
        if not may_create:
            raise SchemaError(_missing_grant(self._schema, exists, role, database))
        if found == 0 and not earlier:
            _require_unicode(self._connection, self._schema)
        if not exists:
            self._run("migrate/make_schema")
        if earlier:
            self._take_over(earlier[0][0])
        if earlier or found == RENAMED_VERSION:
            self._run("migrate/rename")
            self.applied.append(FIRST_VERSION)
        else:
            self._run("migrate/versions")

    def _take_over(self, earlier: str) -> None:
        """Move the tables of the numbering before version 1 into the schema, with all that is in them."""
        self._run("migrate/lock_earlier")
        names = {"earlier": sql.Identifier(earlier)}
        ((version,),) = self._fill("migrate/earlier_version", **names).fetchall()
        if version != LAST_NUMBERED:
            raise SchemaEarlier(
                f"the tables in schema '{earlier}' are of version {version} of an earlier numbering, and only its last "
                f"one, {LAST_NUMBERED}, can be taken over",
                "migrate them with a program of that time first",
            )
        for (day,) in self._run("migrate/earlier_days", {"earlier": earlier}).fetchall():
            self._fill("migrate/take_over_day", **names, day=sql.Identifier(day))
        self._fill("migrate/take_over", **names)

    def apply(self, migration: Migration) -> None:
        """Apply a migration unless it was applied before."""
        if schema_version(self._connection, self._schema) >= migration.version:
            return
        self._connection.execute(qualified(migration.sql, self._schema).encode())
        self._run("migrate/record", {"version": migration.version, "name": migration.name})
        self.applied.append(migration.version)

    def make_partitions(self) -> None:
        """Make the history's partitions for the days ahead."""
        self._run(DAYS)

    def _run(self, query: str, params: Mapping[str, Any] | None = None) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(load(query, self._schema), params)

    def _fill(self, query: str, **names: sql.Identifier) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a query file that has places for names."""
        # Literal in the only sense that counts: it comes from a file of this package.
        text = sql.SQL(load(query, self._schema).decode())
        return self._connection.execute(text.format(**names))


def _require_unicode(connection: Connection, schema: str) -> None:
    """Make sure that the database can keep the characters of any job; one that has a schema is used as it is.

    Raises:
        SchemaError: its encoding is not UTF8.
    """
    ((encoding, database),) = connection.execute(load("migrate/encoding", schema)).fetchall()
    if encoding != "UTF8":
        raise SchemaError(
            f'the encoding of the database "{database}" is {encoding}, which cannot keep every text; '
            f"use one that was made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


def tables_of(version: int) -> frozenset[str]:
    """Return the tables that a schema of this version has, but for the list of migrations and the days of history."""
    texts = [migration.sql for migration in MIGRATIONS if migration.version <= version]
    return frozenset(name for text in texts for name in _MADE.findall(text))


_MADE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE \{schema\}\.(\w+) \(", re.MULTILINE)


def _require_whole(connection: Connection, schema: str, found: int) -> None:
    """Make sure that no table has been lost, with whose name a program or a migration would fail.

    Raises:
        SchemaError: some have, or the list of migrations has.
    """
    there = {name for (name,) in connection.execute(load("migrate/tables", schema))}
    if found == 0 and tables_of(FIRST_VERSION) <= there:
        lost = "schema_version, or what is in it"
    elif lacking := tables_of(found) - there if found >= FIRST_VERSION else ():
        lost = f"tables: {', '.join(sorted(lacking))}"
    else:
        return
    raise SchemaError(f'the schema "{schema}" has lost {lost}; restore the database from a backup')


def _missing_grant(schema: str, exists: bool, role: str, database: str) -> str:
    """Return what a role lacks that is to make tables, and who can give it."""
    if exists:
        return f'the role "{role}" lacks a grant: GRANT USAGE, CREATE ON SCHEMA "{schema}" TO "{role}"'
    return (
        f'the role "{role}" may not make the schema "{schema}": either GRANT CREATE ON DATABASE "{database}" '
        f'TO "{role}", or CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"'
    )


def _sentence(error: psycopg.Error) -> str:
    """Return the first line of the server's or the driver's message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def schema_version(connection: Connection, schema: str = SCHEMA) -> int:
    """Return the version of a schema of a database, 0 when there is none."""
    try:
        with connection.transaction():
            row = connection.execute(load(VERSION, schema)).fetchone()
    except (pg.UndefinedTable, pg.UndefinedColumn):
        return 0
    return int(row[0]) if row else 0


def check(connection: Connection, schema: str = SCHEMA) -> None:
    """Make sure that this program and the database's schema fit.

    Raises:
        SchemaMissing, SchemaNewer, SchemaEarlier: they do not.
    """
    found = schema_version(connection, schema)
    if not found:
        raise missing(schema, *(connection.execute(load(query, schema)).fetchall() for query in (EARLIER, OTHERS)))
    require(found)


def missing(schema: str, earlier: Sequence[tuple[Any, ...]], others: Sequence[tuple[Any, ...]]) -> SchemaError:
    """Return what is raised where there is no such schema, given the rows of migrate/earlier and migrate/others."""
    if earlier:
        return SchemaEarlier(f"an earlier version has left its tables in schema '{earlier[0][0]}'")
    return SchemaMissing(0, KNOWN, schema, [name for (name,) in others])


def require(found: int) -> None:
    """Make sure that this program can work with a schema of this version.

    Raises:
        SchemaMissing, SchemaNewer, SchemaEarlier: it cannot.
    """
    if found == RENAMED_VERSION:
        raise SchemaEarlier(f"an earlier version has made the tables of the database, with schema {found}")
    require_version(found, KNOWN)


async def require_schema(schema: str, run: Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]) -> None:
    """Make sure that this program can work with the schema in which this runs queries by their names.

    Raises:
        SchemaMissing, SchemaNewer, SchemaEarlier: it cannot.
    """
    try:
        found = int((await run(VERSION))[0][0])
    except SchemaMissing:
        found = 0
    if not found:
        raise missing(schema, await run(EARLIER), await run(OTHERS))
    require(found)
