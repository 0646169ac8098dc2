"""The SQL files of this package, and how texts and lists go into their parameters."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from queue_core.blocks import blocks_of


@cache
def load(name: str) -> str:
    """Return a query by its name, such as `claim/by_rank`: that block of the file `claim.sql`, without comment lines.

    Raises:
        KeyError, FileNotFoundError: no query has this name.
    """
    file, _, block = name.partition("/")
    lines = _blocks(file)[block].splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip()


@cache
def _blocks(file: str) -> dict[str, str]:
    return blocks_of((files("queue_core.stores.sqlite") / "sql" / f"{file}.sql").read_text(encoding="utf-8"))


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a script one by one; the driver's own way to run one commits first."""
    statement = ""
    for line in text.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def texts(values: Iterable[str | int]) -> str:
    """Return texts or whole numbers as one parameter, for `json_each`."""
    return json.dumps(list(values))
