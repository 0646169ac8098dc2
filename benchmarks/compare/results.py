"""The figures of a run: kept round by round, with the machine and what could not be measured; as JSON and back."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self


class Spread(NamedTuple):
    """The rounds of one figure, or of the ratio of two."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Self | None:
        """Return the spread of the values that were measured; None where there is none."""
        found = [value for value in values if value is not None]
        return cls(statistics.median(found), min(found), max(found)) if found else None


@dataclass(slots=True)
class Results:
    """What a run has found. Values are in the order of the rounds; None: not measured in that one."""

    # contestant → figure → a value a round
    figures: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    # what is measured on, a sentence each
    machine: list[str] = field(default_factory=list)
    # what could not be measured and why, a sentence each
    notes: list[str] = field(default_factory=list)
    # contestant → its name with the release, in the order of the tables
    labels: dict[str, str] = field(default_factory=dict)
    # how many times longer than its processor time a busy loop took before each round: above 1 others compete
    stretches: list[float] = field(default_factory=list)

    def add(self, contestant: str, taken: Mapping[str, float | None]) -> None:
        """Add the figures of one measure of one round."""
        for figure, value in taken.items():
            self.figures.setdefault(contestant, {}).setdefault(figure, []).append(value)

    def spread(self, contestant: str, figure: str) -> Spread | None:
        """Return a figure over all rounds; None where it was not measured."""
        return Spread.of(self._values(contestant, figure))

    def ratio(self, figure: str, contestant: str, peer: str) -> Spread | None:
        """Return a figure divided by a peer's, round by round: what slows a whole round leaves it as it is."""
        pairs = zip(self._values(contestant, figure), self._values(peer, figure), strict=False)
        return Spread.of(own / other for own, other in pairs if own is not None and other)

    def _all(self) -> Iterator[list[float | None]]:
        return (values for figures in self.figures.values() for values in figures.values())

    def _values(self, contestant: str, figure: str) -> list[float | None]:
        return self.figures.get(contestant, {}).get(figure, [])

    def rounds(self) -> int:
        """Return the most rounds in which any figure was measured."""
        return max((len([one for one in values if one is not None]) for values in self._all()), default=0)

    def append(self, other: Results) -> None:
        """Add the rounds of another run behind those of this one; a figure that only one has is None in the other's."""
        before = max(map(len, self._all()), default=0)
        for contestant, figures in other.figures.items():
            for figure, values in figures.items():
                own = self.figures.setdefault(contestant, {}).setdefault(figure, [])
                own.extend([None] * (before - len(own)))
                own.extend(values)
        for name, label in other.labels.items():
            self.labels.setdefault(name, label)
        self.machine = list(dict.fromkeys([*self.machine, *other.machine]))
        self.notes = list(dict.fromkeys([*self.notes, *other.notes]))
        self.stretches += other.stretches

    def to_json(self) -> str:
        """Return everything as one JSON object."""
        body: dict[str, Any] = {
            "machine": self.machine,
            "notes": self.notes,
            "labels": self.labels,
            "stretches": self.stretches,
            "figures": self.figures,
        }
        return json.dumps(body)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        body = json.loads(text)
        if not isinstance(body, dict) or "figures" not in body:
            raise ValueError("no figures of this program")
        names = ("figures", "machine", "notes", "labels", "stretches")
        return cls(**{name: body[name] for name in names if name in body})
