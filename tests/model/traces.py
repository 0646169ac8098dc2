"""The traces that are replayed on every store: together they take each pair of actions that can follow each other.

`traces.txt` has one a line: the number of its kind of jobs, and which of the ways it goes at each step, as one letter.
`python -m tests.model --traces` chooses them, in a quarter of an hour.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.model.model import Actions, Jobs, Rules, State, Step

FILE = Path(__file__).with_name("traces.txt")
STEPS = 18
"""The longest trace."""
FAULTS, CHANGES = 3, 2
"""How many of them a trace may have."""
LETTERS = string.digits + string.ascii_letters
KINDS_OF_JOBS = [
    Jobs(fails, waits)
    for fails in ((False, False), (True, False), (True, True))
    for waits in ((False, False), (True, False))
]
SWEEPS = frozenset({"reclaim", "promote", "audit"})
"""What the store does for all jobs at once."""
CRASHES = frozenset({"crash", "crash, commits lost"})

Way = tuple[Step, State]
Kind = tuple[str, str, bool | None]
"""What is told apart in a step: its name, the outcome, and whether it was accepted."""
Pair = tuple[Kind, Kind]


def kind_of(step: Step) -> Kind:
    """Return what is told apart in a step."""
    return step.name, step.what, step.accepted


def ways_on(last: str, ways: Iterable[Way], without: frozenset[str] = CRASHES) -> list[Way]:
    """Return the ways that a trace can go behind a step of this name, always in the same order."""
    found = [way for way in ways if way[0].name not in without]
    if last in SWEEPS:
        # The store has swept all jobs in one call.
        found = [way for way in found if way[0].name == last] or found
    return sorted(found, key=lambda way: (str(way[0]), sorted(message.claim for message in way[1].wire)))


class Trace(NamedTuple):
    """A way through the model."""

    jobs: Jobs
    # which of `ways_on`, at each step
    turns: tuple[int, ...]

    def choose(self, steps: Sequence[Step], ways: Iterable[Way]) -> Way | None:
        """Return the next step behind these; None: it is at its end."""
        if len(steps) == len(self.turns):
            return None
        return ways_on(steps[-1].name if steps else "", ways)[self.turns[len(steps)]]

    def steps(self) -> list[Step]:
        """Return its steps."""
        actions, state, steps = Actions(Rules(), self.jobs), State(faults=FAULTS, changes=CHANGES), list[Step]()
        while (way := self.choose(steps, actions(state))) is not None:
            steps.append(way[0])
            state = way[1]
        return steps


def read() -> list[Trace]:
    """Return all traces."""
    lines = [line.split() for line in FILE.read_text(encoding="ascii").splitlines()]
    return [Trace(KINDS_OF_JOBS[int(kind)], tuple(map(LETTERS.index, turns))) for kind, turns in lines]


def write(traces: Iterable[Trace]) -> None:
    """Keep traces."""
    lines = [
        f"{KINDS_OF_JOBS.index(trace.jobs)} {''.join(LETTERS[turn] for turn in trace.turns)}\n" for trace in traces
    ]
    FILE.write_text("".join(lines), encoding="ascii")


def pairs_of(steps: Sequence[Step]) -> Iterator[Pair]:
    """Yield which kinds of steps follow each other."""
    yield from pairwise(map(kind_of, steps))


def names_of(pair: Pair) -> tuple[str, str]:
    """Return the actions of a pair."""
    return pair[0][0], pair[1][0]
