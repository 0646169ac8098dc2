"""Statements by their names, and plans of several that run in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, TypeVar

from queue_core.blocks import blocks_of

T = TypeVar("T")


# Work that takes several statements in one transaction, written once for every kind of connection.
#
# A plan is a generator: it yields a query's name with its parameters and is sent the rows. Its caller
# provides the transaction: a lane, the operations path's pool, or a caller's own connection. Plans rest on READ
# COMMITTED: a statement sees what was committed while the one before it waited for a lock.

ANSWER = 96 << 10
"""Bytes of an answer under a lock, about. So much finds room on the way even where its reader is frozen. A server with
more to send ignores limits and keeps locks; a Unix socket takes some 200 KB, and has no time limit of its own."""
ROW = 80
"""Bytes of a row of such an answer, about, without its values."""

Rows = list[tuple[Any, ...]]
Plan = Generator[tuple[str, Mapping[str, Any]], Rows, T]


async def carry_out(plan: Plan[T], run: Callable[[str, Mapping[str, Any]], Awaitable[Rows]]) -> T:
    """Run a plan's queries one after the other and return what it makes of their rows."""
    try:
        query, params = next(plan)
        while True:
            query, params = plan.send(await run(query, params))
    except StopIteration as end:
        result: T = end.value
        return result


@cache
def load(name: str, schema: str | None = None) -> bytes:
    """Return a query by its name, such as `claim/by_ids`: that block of the file `claim.sql`, without comment lines.

    Its tables and channels are those of a schema; None: it names none of them.

    Raises:
        KeyError, FileNotFoundError: no query has this name.
        ValueError: it names tables or channels, and no schema is given.
    """
    file, _, block = name.partition("/")
    lines = _blocks(file)[block].splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("--")).strip()
    return qualified(text, schema).encode()


@cache
def _blocks(file: str) -> dict[str, str]:
    return blocks_of(files("queue_core.stores.postgres").joinpath("sql", f"{file}.sql").read_text(encoding="utf-8"))


def qualified(text: str, schema: str | None) -> str:
    """Return a text with `{schema}` and `{channels}` replaced, so that it depends on no search_path.

    Raises:
        ValueError: it holds one of them, and no schema is given.
    """
    if schema is None:
        if "{schema}" in text or "{channels}" in text:
            raise ValueError("a text that names tables or channels needs a schema")
        return text
    return text.replace("{schema}", f'"{schema}"').replace("{channels}", channels_of(schema))


LONGEST_NAME = 63
"""Bytes of an identifier of PostgreSQL, and of the name of a channel."""
_LONGEST_CHANNEL = len("_committed")


def channels_of(schema: str) -> str:
    """Return how the names of a schema's notification channels begin.

    A long name of a schema is cut and made unique by a hash, behind a character that no such name has.
    """
    begin = f"queue_core_{schema}"
    if len(begin) + _LONGEST_CHANNEL <= LONGEST_NAME:
        return begin
    digest = sha256(schema.encode()).hexdigest()[:20]
    return f"{begin[: LONGEST_NAME - _LONGEST_CHANNEL - len(digest) - 1]}~{digest}"


def plain_array(values: Iterable[object]) -> str:
    """Return the array literal of numbers or uuids; None becomes NULL.

    Batches go to the server as a handful of array literals: building them costs a tenth of what the driver takes to
    adapt lists value by value.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def text_array(values: Iterable[str | None]) -> str:
    """Return the array literal of texts, quoted; None becomes NULL."""
    parts = [
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    ]
    return "{" + ",".join(parts) + "}"
