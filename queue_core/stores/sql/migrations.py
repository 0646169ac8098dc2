"""Numbered forward migrations in the files of a store's package, and whether a schema fits this program."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from queue_core.errors import SchemaError, SchemaMissing, SchemaNewer


class Migration(NamedTuple):
    """One file."""

    version: int
    name: str
    sql: str


@cache
def migrations_of(package: str) -> tuple[Migration, ...]:
    """Return all migrations of a store in order.

    Raises:
        SchemaError: the files are not numbered from 1 on without a gap.
    """
    found = sorted(
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files(package).joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    )
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise SchemaError("the migration files of this installation are not complete")
    return tuple(found)


def require_version(found: int, known: int) -> None:
    """Make sure that a schema has the version that this program knows.

    Raises:
        SchemaMissing, SchemaNewer: it has another.
    """
    if found < known:
        raise SchemaMissing(found, known)
    if found > known:
        raise SchemaNewer(found, known)
