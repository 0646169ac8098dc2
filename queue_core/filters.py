"""The filter record that every list, count and bulk verb takes; stores translate it, `parse` reads the language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from queue_core.states import Status

Operator = Literal["=", "~", "<", ">"]


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter."""

    # status, type, queue, error, signature, tag, id, priority, age, retries, worker, text, or payload.<path>
    field: str
    # "=" equal (ids and signatures: begins with), "~" contains without regard to case, "<" and ">" compare
    operator: Operator
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms must hold. No terms: every job (the trash is only shown when asked for)."""

    terms: tuple[Term, ...] = ()
    # jobs in the trash: False leaves them out, True shows only them
    trash: bool = False

    def having(self, *terms: Term) -> Filter:
        """Return this filter with more terms."""
        return Filter((*self.terms, *terms), self.trash)

    def statuses(self) -> frozenset[Status]:
        """Return the states that can match, from the status terms (all when there are none)."""
        found = frozenset(Status)
        for term in self.terms:
            if term.field == "status":
                one = frozenset({Status(term.value)})
                found = found - one if term.negated else found & one
        return found
