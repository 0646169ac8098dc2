"""Finds every pair of steps that can follow each other, and traces that take all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from tests.model.alike import renamed
from tests.model.model import Actions, Jobs, Rules, State, Step
from tests.model.traces import (
    CHANGES,
    FAULTS,
    KINDS_OF_JOBS,
    STEPS,
    SWEEPS,
    Kind,
    Pair,
    Trace,
    Way,
    kind_of,
    names_of,
    pairs_of,
    ways_on,
)

TRIES = 12
"""Ways to go on behind a pair, of which the best is taken."""
MOST = 510
"""Traces: every one takes some 30 ms on each store."""
WANDERINGS = 30_000
"""Random traces: they come to pairs that take more faults and changes than exploring allows."""


class Place(NamedTuple):
    """Where a trace can be."""

    state: State
    # the sweep that it has just done, if it was one
    swept: str = ""


class Edge(NamedTuple):
    """A step to a place."""

    step: Step
    before: Place


class Found(NamedTuple):
    """What the exploration of one kind of jobs has found."""

    jobs: Jobs
    faults: int
    changes: int
    # the first edge to each place, and of each pair the edge to the place between its steps, and the second step
    ways: dict[Place, Edge | None]
    pairs: dict[Pair, tuple[Edge, Place, Kind]]


def find_pairs(jobs: Jobs, faults: int, changes: int) -> Found:
    """Visit all places with at most so many faults and changes."""
    actions, pairs = Actions(Rules(), jobs), dict[Pair, tuple[Edge, Place, Kind]]()
    start = Place(renamed(State(faults=faults, changes=changes), True))
    ways: dict[Place, Edge | None] = {start: None}
    into: dict[Place, dict[Kind, Edge]] = {start: {}}
    ahead = deque([start])
    while ahead:
        place = ahead.popleft()
        for step, found in ways_on(place.swept, actions(place.state)):
            after = Place(renamed(found, True), step.name if step.name in SWEEPS else "")
            if after not in ways:
                ways[after] = Edge(step, place)
                into[after] = {}
                ahead.append(after)
            into[after].setdefault(kind_of(step), Edge(step, place))
    for place, edges in into.items():
        behind = {kind_of(step) for step, _ in ways_on(place.swept, actions(place.state))} if edges else set()
        for first, edge in edges.items():
            for second in behind:
                pairs.setdefault((first, second), (edge, place, second))
    return Found(jobs, faults, changes, ways, pairs)


def trace_to(found: Found, pair: Pair) -> Trace:
    """Return the trace to a pair that was found: its second step is the last one."""
    edge, place, second = found.pairs[pair]
    path = [(kind_of(edge.step), place)]
    before = edge.before
    while (last := found.ways[before]) is not None:
        path.append((kind_of(last.step), before))
        before = last.before
    small, large = State(faults=found.faults, changes=found.changes), State(faults=FAULTS, changes=CHANGES)
    actions, turns, swept = Actions(Rules(), found.jobs), list[int](), ""
    for kind, goal in [*reversed(path), (second, None)]:
        step, small = next(
            way
            for way in ways_on(swept, actions(small))
            if kind_of(way[0]) == kind and (goal is None or renamed(way[1], True) == goal.state)
        )
        ways = ways_on(swept, actions(large))
        turns.append(next(turn for turn, way in enumerate(ways) if way[0] == step))
        large, swept = ways[turns[-1]][1], step.name
    return Trace(found.jobs, tuple(turns))


def extended(trace: Trace, random: Random, left: set[Pair]) -> Trace:
    """Return a trace that goes on, to pairs that are left where there are any at the next step or the one behind it."""
    actions, state, steps, turns = Actions(Rules(), trace.jobs), State(faults=FAULTS, changes=CHANGES), [], []

    def new(last: Step, ways: list[Way]) -> list[int]:
        return [turn for turn, way in enumerate(ways) if (kind_of(last), kind_of(way[0])) in left]

    for number in range(STEPS):
        ways = ways_on(steps[-1].name if steps else "", actions(state))
        if not ways:
            break
        if number < len(trace.turns):
            turn = trace.turns[number]
        else:
            turns_on = new(steps[-1], ways) if steps and left else []
            if left and not turns_on:
                turns_on = [
                    turn for turn, (step, after) in enumerate(ways) if new(step, ways_on(step.name, actions(after)))
                ]
            turn = random.choice(turns_on or range(len(ways)))
        turns.append(turn)
        steps.append(ways[turn][0])
        state = ways[turn][1]
    return Trace(trace.jobs, tuple(turns))


def wander(count: int) -> dict[Pair, Trace]:
    """Return the pairs that so many random traces come to, each with the first way to it."""
    found: dict[Pair, Trace] = {}
    for number in range(count):
        start = Trace(KINDS_OF_JOBS[number % len(KINDS_OF_JOBS)], ())
        trace = extended(start, Random(number), set())
        for place, pair in enumerate(pairs_of(trace.steps()), 2):
            if pair not in found:
                found[pair] = Trace(trace.jobs, trace.turns[:place])
    return found


def choose(found: dict[Pair, Trace]) -> Iterator[tuple[Trace, int]]:
    """Yield traces that take all pairs, given the way to each, and the number of pairs that are left behind each."""
    random, left = Random(1), set(found)
    # The longest way first: it takes others with it.
    for pair in sorted(found, key=lambda pair: (-len(found[pair].turns), str(pair))):
        if pair in left:
            tries = {extended(found[pair], random, left) for _ in range(TRIES)}
            taken = {one: left.intersection(pairs_of(one.steps())) for one in sorted(tries)}
            best = max(taken, key=lambda one: len(taken[one]))
            left -= taken[best]
            yield best, len(left)


def best(traces: Iterable[Trace], most: int = MOST) -> list[Trace]:
    """Return so many traces: those that take all pairs of names, and as many as can be of what is told apart."""
    waiting = {trace: set(pairs_of(trace.steps())) for trace in traces}
    taken, named, chosen = set[Pair](), set[tuple[str, str]](), list[Trace]()

    def worth(trace: Trace) -> int:
        new = waiting[trace] - taken
        return len(new) + 100 * len({names_of(pair) for pair in new} - named)

    while waiting and len(chosen) < most:
        chosen.append(max(waiting, key=worth))
        pairs = waiting.pop(chosen[-1])
        taken |= pairs
        named |= set(map(names_of, pairs))
    return chosen


def explored() -> Iterator[Found]:
    """Explore each kind of jobs to where no new pair of names is found; it takes minutes."""
    for jobs in KINDS_OF_JOBS:
        yield find_pairs(jobs, 1, 1)
    for jobs in KINDS_OF_JOBS[:3]:
        yield find_pairs(jobs, 2, 0)
    yield find_pairs(KINDS_OF_JOBS[3], 0, 2)
    yield find_pairs(KINDS_OF_JOBS[0], 2, 1)
