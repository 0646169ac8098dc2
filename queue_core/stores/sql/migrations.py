"""Numbered forward migrations in the files of a store's package, and whether a schema fits this program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from queue_core.errors import SchemaError, SchemaMissing, SchemaNewer

FIRST_VERSION = 2
"""The version of the first file, which makes everything in an empty store."""
RENAMED_VERSION = 1
"""The version before it: the same tables under other names, which `migrate` renames."""


class Migration(NamedTuple):
    """One file."""

    version: int
    name: str
    sql: str


@cache
def migrations_of(package: str) -> tuple[Migration, ...]:
    """Return all migrations of a store in order.

    Raises:
        SchemaError: the files are not numbered without a gap.
    """
    found = sorted(
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files(package).joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    )
    if [migration.version for migration in found] != list(range(FIRST_VERSION, FIRST_VERSION + len(found))):
        raise SchemaError("the migration files of this installation are not complete")
    return tuple(found)


class Pending(NamedTuple):
    """What `migrate` would do with a store."""

    # the version that its schema has; 0: none, or one of the numbering before version 1
    schema: int
    versions: list[int]
    # where an earlier version has made a store: the file, or the schema of tables of the numbering before version 1
    earlier: str | None
    # where there is no schema yet: a few others of this program in the same database, one of which may have been meant
    others: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the store has neither a schema nor anything of an earlier version."""
        return bool(self.versions) and self.schema == 0 and self.earlier is None


def pending_from(found: int, migrations: Sequence[Migration], earlier: str | None) -> Pending:
    """Return what `migrate` would do with a schema of this version.

    Raises:
        SchemaNewer: a newer version of this program has made it.
    """
    if found > migrations[-1].version:
        raise SchemaNewer(found, migrations[-1].version)
    return Pending(found, [migration.version for migration in migrations if migration.version > found], earlier)


def require_version(found: int, known: int) -> None:
    """Make sure that a schema has the version that this program knows.

    Raises:
        SchemaMissing, SchemaNewer: it has another.
    """
    if found < known:
        raise SchemaMissing(found, known)
    if found > known:
        raise SchemaNewer(found, known)
