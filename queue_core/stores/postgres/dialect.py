"""What is PostgreSQL's own in what the SQL stores share: names, arrays as parameters, filters, and values of rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any

from queue_core.model.filters import Filter, Operator, span_of
from queue_core.model.filters.match import NUMBER
from queue_core.model.states import UNFINISHED, Status
from queue_core.stores.sql.conditions import Conditions, Pieces
from queue_core.stores.sql.queries import fragments, statement
from queue_core.stores.sql.records import Dialect, Row

PACKAGE = "queue_core.stores.postgres"

Rows = list[tuple[Any, ...]]
"""The answer to a statement."""


@cache
def load(name: str, schema: str | None = None) -> bytes:
    """Return a statement by its name, such as `claim/by_ids`; see `queue_core.stores.sql.queries.statement`.

    Its tables and channels are those of a schema; None: it names none of them.

    Raises:
        KeyError: no statement has this name.
        ValueError: it names tables or channels, and no schema is given.
    """
    return qualified(statement(PACKAGE, name), schema).encode()


def filled(name: str, schema: str, **places: str) -> bytes:
    """Return a statement that has places for others or for their conditions, with these in them."""
    return qualified(statement(PACKAGE, name), schema).format(**places).encode()


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


EVERY_TYPE = ("",)
"""What a worker that takes every type has announced: no type has this name."""


def moment(stored: datetime) -> datetime:
    """Return the moment in UTC, whatever the session's time zone is."""
    return stored.astimezone(UTC)


def _tags(stored: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(stored or ())


def _status(row: Row) -> Status:
    return Status(row["status"])


DIALECT = Dialect(moment, _tags, _status)

VIEWS: dict[str, frozenset[Status]] = {
    "running_jobs": frozenset({Status.RUNNING}),
    "waiting_jobs": UNFINISHED - {Status.RUNNING},
    "dead_jobs": frozenset({Status.DEAD}),
    "finished_jobs": frozenset({Status.COMPLETED, Status.CANCELLED}),
}
"""The views that jobs outside the trash are in, by their states."""


@dataclass(frozen=True, slots=True)
class PostgresConditions(Conditions):
    """A filter as SQL, with its parameters; its places are views."""

    schema: str

    def view(self, name: str) -> str:
        """Return a view's name in statements."""
        return f'"{self.schema}"."{name}"'

    def union(self, part: str, order: str = "newest") -> str:
        """Return a statement for each place, all of them together."""
        statements = [
            filled(
                part,
                self.schema,
                view=self.view(place),
                conditions=self.text(),
                order=self.pieces.fragments[order],
            ).decode()
            for place in self.places
        ]
        return f"\n{self.pieces.fragments['union']}\n".join(statements)

    def query(self, name: str, part: str, order: str = "newest") -> bytes:
        """Return a statement over a part for each place, in an order of all places."""
        return filled(name, self.schema, views=self.union(part, order), order=self.pieces.fragments[f"all {order}"])


def conditions(where: Filter, schema: str) -> PostgresConditions | None:
    """Return a filter as SQL on the tables of a schema; None when no state can match.

    Raises:
        QueueCoreError: a term that `queue_core.model.filters.parse` would not have made.
    """
    wanted = where.statuses()
    held = {"trashed_jobs": frozenset({Status.DEAD})} if where.trash else VIEWS
    places = tuple(place for place, states in held.items() if states & wanted)
    if not places:
        return None
    pieces = pieces_of(schema)
    return PostgresConditions(pieces, places, *pieces.conditions(where.terms), schema)


@cache
def pieces_of(schema: str) -> Pieces:
    """Return what conditions on the tables of a schema are made of."""
    found = {name: qualified(text, schema) for name, text in fragments(PACKAGE).items()}
    return Pieces(found, "%({})s", _values)


def _values(field: str, operator: Operator, value: str, path: str) -> dict[str, Any]:
    since, until = span_of(value) if field == "died" else (None, None)
    return {
        "since": since or "-infinity",
        "until": until or "infinity",
        "value": value,
        "like": f"%{_escaped(value)}%",
        # Dashes alone begin no id.
        "begins": f"{_escaped(digits)}%" if (digits := value.replace("-", "").lower()) else None,
        "path": text_array(path.split(".")),
        "number": value if NUMBER.fullmatch(value) else None,
    }


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
