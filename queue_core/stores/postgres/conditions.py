"""Filters as SQL: fragments from sql/conditions.sql, put together without a word of what a person typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from psycopg import sql

from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.states import UNFINISHED, Status
from queue_core.model.text import storable
from queue_core.stores.postgres.queries import load, qualified, text_array

PLACES: dict[str, frozenset[Status]] = {
    "running_jobs": frozenset({Status.RUNNING}),
    "waiting_jobs": UNFINISHED - {Status.RUNNING},
    "dead_jobs": frozenset({Status.DEAD}),
    "finished_jobs": frozenset({Status.COMPLETED, Status.CANCELLED}),
}
"""The views that jobs outside the trash are in, by their states."""

_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")


@cache
def fragments(schema: str) -> dict[str, sql.SQL]:
    """Return the named pieces of SQL, with what they use of a schema."""
    text = (files("queue_core.stores.postgres") / "sql" / "conditions.sql").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"-- \[(.+)\]", line):
            name = match[1]
            found[name] = []
        elif name and line and not line.startswith("--"):
            found[name].append(line)
    return {name: _sql(qualified("\n".join(["", *lines, ""]), schema)) for name, lines in found.items()}


def template(name: str, schema: str) -> sql.SQL:
    """Return a query file that has places to fill in."""
    return _sql(load(name, schema).decode())


def _sql(text: str) -> sql.SQL:
    # Literal in the only sense that counts: it comes from a file of this package.
    return sql.SQL(text)


@dataclass(frozen=True, slots=True)
class Conditions:
    """A filter as SQL, with its parameters."""

    schema: str
    # views that can hold what matches
    places: tuple[str, ...]
    condition: sql.Composed
    params: dict[str, Any] = field(default_factory=dict)

    def also(self, name: str, **params: Any) -> Conditions:
        """Return these conditions together with another fragment."""
        known = fragments(self.schema)
        joined = known["and"].join([self.condition, known[name]])
        return Conditions(self.schema, self.places, joined, self.params | params)

    def union(self, part: str, order: str = "newest") -> sql.Composed:
        """Return a query file for each place, all of them together."""
        one, known = template(part, self.schema), fragments(self.schema)
        parts = [
            one.format(place=sql.Identifier(self.schema, place), conditions=self.condition, order=known[order])
            for place in self.places
        ]
        return known["union"].join(parts)


def conditions(where: Filter, schema: str) -> Conditions | None:
    """Return a filter as SQL on the tables of a schema; None when no state can match.

    Raises:
        QueueCoreError: a term that `queue_core.model.filters.parse` would not have made.
    """
    wanted = where.statuses()
    held = {"trashed_jobs": frozenset({Status.DEAD})} if where.trash else PLACES
    places = tuple(place for place, states in held.items() if states & wanted)
    if not places:
        return None
    params: dict[str, Any] = {}
    known = fragments(schema)
    parts = [_term(term, f"p{number}", params, known) for number, term in enumerate(where.terms)]
    everything = known["everything"].format()
    return Conditions(schema, places, known["and"].join(parts or [everything]), params)


def _term(term: Term, prefix: str, params: dict[str, Any], known: Mapping[str, sql.SQL]) -> sql.Composed:
    head, _, path = term.field.partition(".")
    fragment = known.get(f"{head} {term.operator}")
    if fragment is None or (head == "payload") is not bool(path):
        raise QueueCoreError(f"a filter has no term '{term.field}' with '{term.operator}'")
    # Stores refuse a NUL; so none of them can hold what is looked for.
    value = storable(term.value)
    values = {
        "value": value,
        "like": f"%{_escaped(value)}%",
        # Dashes alone begin no id.
        "begins": f"{_escaped(digits)}%" if (digits := value.replace("-", "").lower()) else None,
        "path": text_array(storable(path).split(".")),
        "number": value if _NUMBER.fullmatch(value) else None,
    }
    names = {name: f"{prefix}_{name}" for name in values}
    params.update({names[name]: values[name] for name in values})
    condition = fragment.format(**{name: sql.Placeholder(names[name]) for name in values})
    return known["not" if term.negated else "yes"].format(condition=condition)


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
