"""Goes through every state that the model can reach, and looks whether each promise holds in it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tests.model.alike import renamed
from tests.model.invariants import broken, done
from tests.model.model import Actions, Jobs, Rules, State, Step

Way = dict[State, tuple[Step, State] | None]
"""How each state was reached first."""


class Explored(NamedTuple):
    """What was found."""

    states: int
    # the promise that is broken; "": none is
    broken: str = ""
    # the shortest way to it
    steps: tuple[Step, ...] = ()


def explore(jobs: Jobs, faults: int, changes: int, rules: Rules | None = None) -> Explored:
    """Visit all states with at most so many faults and changes by people, up to the first that breaks a promise."""
    rules = rules or Rules()
    actions = Actions(rules, jobs)
    start = renamed(State(faults=faults, changes=changes), rules.fence)
    way: Way = {start: None}
    ahead = deque([start])
    without_faults: dict[State, list[State]] = {}
    while ahead:
        state = ahead.popleft()
        for step, found in actions(state):
            after = renamed(found, rules.fence)
            if (found.faults, found.changes) == (state.faults, state.changes):
                without_faults.setdefault(after, []).append(state)
            if reason := broken(actions.store, state, step, found):
                return Explored(len(way), reason, (*steps_to(way, state), step))
            if after not in way:
                way[after] = (step, state)
                ahead.append(after)
    if stuck := _stuck(way, without_faults):
        return Explored(len(way), "a job never ends", steps_to(way, stuck))
    return Explored(len(way))


def _stuck(way: Way, without_faults: dict[State, list[State]]) -> State | None:
    """Return the first state from which no way without further faults leads to the end of all jobs."""
    good = {state for state in way if done(state)}
    ahead = deque(good)
    while ahead:
        for before in without_faults.get(ahead.popleft(), ()):
            if before not in good:
                good.add(before)
                ahead.append(before)
    return next((state for state in way if state not in good), None)


def steps_to(way: Way, state: State) -> tuple[Step, ...]:
    """Return the shortest way to a state."""
    steps = []
    while (last := way[state]) is not None:
        steps.append(last[0])
        state = last[1]
    return tuple(reversed(steps))
