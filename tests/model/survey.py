"""Goes through every state, as explore does, with a number for each of them: millions of states fit into the memory.

A state is remembered by its hash of 64 bits alone, so two states whose hashes are equal count as one: among 5,000,000
states that is to be expected in fewer than one of a million surveys, and no two surveys hash alike, for the hashes of
texts differ from process to process. It tells what is broken and the step that breaks it, not the shortest way there:
that is explore's.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.alike import renamed
from tests.model.invariants import broken, done
from tests.model.model import Actions, Jobs, Rules, State, Step


class Surveyed(NamedTuple):
    """What was found."""

    states: int
    # the promise that is broken; "": none is
    broken: str = ""
    # the step that breaks it
    step: Step | None = None


def survey(jobs: Jobs, faults: int, changes: int, rules: Rules | None = None) -> Surveyed:
    """Visit all states with at most so many faults and changes by people, the deepest first."""
    rules = rules or Rules()
    actions = Actions(rules, jobs)
    start = renamed(State(faults=faults, changes=changes), rules.fence)
    seen = {hash(start)}
    ending = Ending(actions)
    ahead = [start]
    while ahead:
        state = ahead.pop()
        calm: list[State] = []
        for step, found in actions(state):
            after = renamed(found, rules.fence)
            if reason := broken(actions.store, state, step, found):
                return Surveyed(len(seen), reason, step)
            if (found.faults, found.changes) == (state.faults, state.changes):
                calm.append(after)
            if (number := hash(after)) not in seen:
                seen.add(number)
                ahead.append(after)
        if not ending.reached_from(state, calm):
            return Surveyed(len(seen), "a job never ends")
    return Surveyed(len(seen))


class Ending:
    """Which states have a way without further faults to the end of all jobs."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        # hashes of states that are known to have one
        self._known: set[int] = set()

    def reached_from(self, state: State, calm: list[State]) -> bool:
        """Return whether there is a way from this state, whose successors without a fault are given."""
        number = hash(state)
        if number in self._known:
            return True
        if done(state) or any(hash(after) in self._known for after in calm):
            self._known.add(number)
            return True
        return self._searched(state, calm)

    def _searched(self, state: State, calm: list[State]) -> bool:
        """Look for one, the deepest states first, and remember all states on the way that is found."""
        tried = {hash(state)}
        way = [state]
        branches = [list(calm)]
        while branches:
            if not branches[-1]:
                branches.pop()
                way.pop()
                continue
            after = branches[-1].pop()
            number = hash(after)
            if number in self._known or done(after):
                self._known.update([number, *map(hash, way)])
                return True
            if number not in tried:
                tried.add(number)
                way.append(after)
                branches.append(self._calm(after))
        return False

    def _calm(self, state: State) -> list[State]:
        left = (state.faults, state.changes)
        fence = self._actions.rules.fence
        return [renamed(found, fence) for _, found in self._actions(state) if (found.faults, found.changes) == left]
