"""Filters as SQL: fragments of `conditions.sql`, put together without a word of what a person typed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from queue_core.errors import QueueCoreError
from queue_core.model.filters import Operator, Term
from queue_core.model.filters.terms import SIGNATURE_DIGITS
from queue_core.model.text import storable


class Pieces(NamedTuple):
    """What a store makes conditions of."""

    # by field and operator, such as "type ="; and "yes", "not", "and", "everything"
    fragments: Mapping[str, str]
    # how a statement names a parameter, such as ":{}"
    parameter: str
    # (field, operator, value, path of a payload) → what the term's fragment may use, by the names of its places
    values: Callable[[str, Operator, str, str], Mapping[str, Any]]
    # fragments that take the place of others
    instead: Mapping[str, str] = MappingProxyType({})

    def conditions(self, terms: Iterable[Term]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return a condition for each term, and the parameters of all.

        Raises:
            QueueCoreError: a term that `queue_core.model.filters.parse` would not have made.
        """
        params: dict[str, Any] = {}
        return tuple([self._condition(term, f"p{number}", params) for number, term in enumerate(terms)]), params

    def _condition(self, term: Term, prefix: str, params: dict[str, Any]) -> str:
        head, _, path = term.field.partition(".")
        whole = head == "signature" and len(term.value) == SIGNATURE_DIGITS
        name = "whole signature" if whole else f"{head} {term.operator}"
        fragment = self.fragments.get(self.instead.get(name, name))
        if fragment is None or (head == "payload") is not bool(path):
            raise QueueCoreError(f"a filter has no term '{term.field}' with '{term.operator}'")
        places = {}
        # Stores refuse a NUL; so none of them can hold what is looked for.
        for name, value in self.values(head, term.operator, storable(term.value), storable(path)).items():
            params[f"{prefix}_{name}"] = value
            places[name] = self.parameter.format(f"{prefix}_{name}")
        return self.fragments["not" if term.negated else "yes"].format(condition=fragment.format(**places))


@dataclass(frozen=True, slots=True)
class Conditions:
    """A filter as SQL, with its parameters."""

    pieces: Pieces
    # where jobs can be that match: views, or the states in a table's index; none when no state can match
    places: tuple[str, ...]
    # one for each term; all must hold
    parts: tuple[str, ...]
    params: dict[str, Any]

    def also(self, name: str, **params: Any) -> Self:
        """Return these conditions together with another fragment."""
        return replace(self, parts=(*self.parts, self.pieces.fragments[name]), params=self.params | params)

    def text(self) -> str:
        """Return the condition of a statement."""
        fragments = self.pieces.fragments
        return f"\n{fragments['and']}\n".join(self.parts) or fragments["everything"]

    def of(self, terms: Sequence[Term], some: Collection[Term]) -> Self:
        """Return the conditions of some of the terms that these were made of."""
        return replace(self, parts=tuple(part for term, part in zip(terms, self.parts, strict=True) if term in some))
