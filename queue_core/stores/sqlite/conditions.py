"""Filters as SQL: fragments from sql/conditions.sql, put together without a word of what a person typed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.states import Status
from queue_core.model.text import storable
from queue_core.stores.sqlite.queries import load

_NUMBERS = frozenset({"priority", "retries", "age"})
SELECTIVE = 8
"""Digits of an id that lead to few jobs, so that looking for them first is worth it."""
_DASHES = (8, 12, 16, 20)
_BEYOND = "g"
"""The first character behind all hexadecimal digits."""


@cache
def fragments() -> dict[str, str]:
    """Return the named pieces of SQL."""
    text = (files("queue_core.stores.sqlite") / "sql" / "conditions.sql").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"-- \[(.+)\]", line):
            name = match[1]
            found[name] = []
        elif name and line and not line.startswith("--"):
            found[name].append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


@dataclass(frozen=True, slots=True)
class Conditions:
    """A filter as SQL, with its parameters."""

    # where jobs can be that match
    places: tuple[str, ...]
    parts: tuple[str, ...]
    params: dict[str, Any] = field(default_factory=dict)
    # whether an id leads to the jobs; else they are read in the order of lists
    by_id: bool = False

    def also(self, name: str, **params: Any) -> Conditions:
        """Return these conditions together with another fragment."""
        return Conditions(self.places, (*self.parts, fragments()[name]), self.params | params, self.by_id)

    def query(self, name: str, order: str = "newest") -> str:
        """Return a query file with these conditions in it, for the place that the parameter `place` names."""
        pieces = fragments()
        condition = f"\n{pieces['and']}\n".join(self.parts) or pieces["everything"]
        index, place = ("from ids", "place by ids") if self.by_id else ("from lists", "place in lists")
        # Not joined without need: what an index holds is then all that is read.
        payloads = pieces["payloads"] if "p." in condition else ""
        filled = {"conditions": condition, "order": pieces[order], "payloads": payloads}
        return load(name).format(index=pieces[index], place=pieces[place], **filled)


def conditions(where: Filter, now: float) -> Conditions:
    """Return a filter as SQL; without places when no state can match.

    Raises:
        QueueCoreError: a term that `queue_core.model.filters.parse` would not have made.
    """
    wanted = where.statuses()
    if where.trash:
        places: tuple[str, ...] = ("trashed",) if Status.DEAD in wanted else ()
    else:
        places = tuple(sorted(wanted))
    params: dict[str, Any] = {"now": now}
    # The filter's states have chosen the tables.
    terms = [term for term in where.terms if term.field != "status"]
    parts = tuple(_term(term, f"p{number}", params) for number, term in enumerate(terms))
    by_id = any(term.field == "id" and not term.negated and len(term.value) >= SELECTIVE for term in where.terms)
    return Conditions(places, parts, params, by_id)


def _term(term: Term, prefix: str, params: dict[str, Any]) -> str:
    head, _, path = term.field.partition(".")
    fragment = fragments().get(f"{head} {term.operator}")
    if fragment is None or (head == "payload") is not bool(path):
        raise QueueCoreError(f"a filter has no term '{term.field}' with '{term.operator}'")
    # Stores refuse a NUL; so none of them can hold what is looked for.
    value = storable(term.value)
    digits = value.replace("-", "").lower()
    values = {
        "value": float(value) if head in _NUMBERS else value,
        "digits": digits,
        "low": _dashed(digits),
        "high": _dashed(digits) + _BEYOND,
        "signature_end": value + _BEYOND,
        "path": storable(path),
        "operator": term.operator,
    }
    names = {name: f"{prefix}_{name}" for name in values}
    params.update({names[name]: values[name] for name in values})
    condition = fragment.format(**{name: f":{names[name]}" for name in names})
    return fragments()["not" if term.negated else "yes"].format(condition=condition)


def _dashed(digits: str) -> str:
    """Return the beginning of an id as ids are stored."""
    ends = [*_DASHES, len(digits)]
    starts = [0, *_DASHES]
    return "-".join(
        digits[start:end] for start, end in zip(starts, ends, strict=True) if start == 0 or start < len(digits)
    )
