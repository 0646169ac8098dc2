"""What is SQLite's own in what the SQL stores share: statements, lists as parameters, filters, and values of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import inf
from typing import Any, Literal

from queue_core.model.filters import Filter, Operator, span_of
from queue_core.model.filters.terms import SIGNATURE_DIGITS
from queue_core.model.states import Status
from queue_core.stores.sql.conditions import Conditions, Pieces
from queue_core.stores.sql.queries import fragments, statement
from queue_core.stores.sql.records import Dialect, Row

PACKAGE = "queue_core.stores.sqlite"


@cache
def load(name: str) -> str:
    """Return a statement by its name, such as `claim/by_rank`; see `queue_core.stores.sql.queries.statement`."""
    return statement(PACKAGE, name)


def texts(values: Iterable[str | int]) -> str:
    """Return texts or whole numbers as one parameter, for `json_each`."""
    return json.dumps(list(values))


def moment(seconds: float) -> datetime:
    """Return the moment that many seconds after the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def tags_of(text: str | None) -> tuple[str, ...]:
    """Return the tags in a row."""
    return () if text is None else tuple(json.loads(text))


def _status(row: Row) -> Status:
    return Status.DEAD if row["state"] == "trashed" else Status(row["state"])


DIALECT = Dialect(moment, tags_of, _status)

_NUMBERS = frozenset({"priority", "retries", "age"})
SELECTIVE_DIGITS = 8
"""Digits of an id that lead to few jobs, so that looking for them first is worth it."""
_LEADING = frozenset({"id", "ids", "signature"})
_DASHES = (8, 12, 16, 20)
_BEYOND = "g"
"""The first character behind all hexadecimal digits."""

_WAYS = {
    "ids": ("from ids", "state by ids"),
    "signatures": ("from signatures", "state by signatures"),
    "lists": ("from lists", "state in lists"),
}


@dataclass(frozen=True, slots=True)
class SqliteConditions(Conditions):
    """A filter as SQL, with its parameters; its places are states."""

    # what leads to the jobs: ids or signatures; else they are read in the order of lists
    by: Literal["ids", "signatures", "lists"] = "lists"

    def query(self, name: str, order: str = "newest", sifting: str = "") -> str:
        """Return a statement with these conditions in it, for the state that the parameter `state` names.

        `sifting`: other conditions, which sift what these lead to.
        """
        pieces, condition = self.pieces.fragments, self.text()
        index, state = _WAYS[self.by]
        # Not joined without need: what an index holds is then all that is read.
        payloads = pieces["payloads"] if "p." in condition else ""
        filled = {"conditions": condition, "order": pieces[order], "payloads": payloads, "sifting": sifting}
        dead_index, dead_state = _WAYS["ids" if self.by == "ids" else "signatures"]
        filled |= {"dead_index": pieces[dead_index], "dead_state": pieces[dead_state]}
        return load(name).format(index=pieces[index], state=pieces[state], **filled)


def conditions(where: Filter, now: float) -> SqliteConditions:
    """Return a filter as SQL; without places when no state can match.

    Raises:
        QueueCoreError: a term that `queue_core.model.filters.parse` would not have made.
    """
    wanted = where.statuses()
    if where.trash:
        places: tuple[str, ...] = ("trashed",) if Status.DEAD in wanted else ()
    else:
        places = tuple(sorted(wanted))
    pieces = Pieces(fragments(PACKAGE), ":{}", _values, {"died =": "trashed died ="} if where.trash else {})
    # The filter's states have chosen the tables.
    parts, params = pieces.conditions([term for term in where.terms if term.field != "status"])
    by: Literal["ids", "signatures", "lists"] = "lists"
    chosen = {term.field: len(term.value) for term in where.terms if not term.negated and term.field in _LEADING}
    if chosen.get("id", 0) >= SELECTIVE_DIGITS or "ids" in chosen:
        by = "ids"
    elif chosen.get("signature") == SIGNATURE_DIGITS and places in {("dead",), ("trashed",)}:
        by = "signatures"
    return SqliteConditions(pieces, places, parts, params | {"now": now}, by)


def _values(field: str, operator: Operator, value: str, path: str) -> dict[str, Any]:
    digits = value.replace("-", "").lower()
    since, until = span_of(value) if field == "died" else (None, None)
    return {
        "since": since.timestamp() if since else -inf,
        "until": until.timestamp() if until else inf,
        "value": float(value) if field in _NUMBERS else value,
        "digits": digits,
        "low": _dashed(digits),
        "high": _dashed(digits) + _BEYOND,
        "signature_end": value + _BEYOND,
        "path": path,
        "operator": operator,
        "members": texts(value.split()) if field in ("ids", "signatures") else "",
    }


def _dashed(digits: str) -> str:
    """Return the beginning of an id as ids are stored."""
    ends = [*_DASHES, len(digits)]
    starts = [0, *_DASHES]
    return "-".join(
        digits[start:end] for start, end in zip(starts, ends, strict=True) if start == 0 or start < len(digits)
    )
