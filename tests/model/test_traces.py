"""The traces that are replayed take every pair of steps that can follow each other in the model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from random import Random

import pytest

from tests.model.model import Jobs
from tests.model.search import MOST, extended, find_pairs, trace_to
from tests.model.traces import KINDS_OF_JOBS, STEPS, Pair, names_of, pairs_of, read

EXPLORED = {
    f"{number}-{faults}-{changes}": (jobs, faults, changes)
    for number, jobs in enumerate(KINDS_OF_JOBS)
    for faults, changes in ((1, 0), (0, 1), (1, 1))
    if number == 0 or faults + changes == 1
}
"""`python -m tests.model --traces` goes on to where no new pair is found, which takes minutes."""


@cache
def taken() -> frozenset[Pair]:
    """Return the pairs that the traces take."""
    return frozenset(pair for trace in read() for pair in pairs_of(trace.steps()))


def named(pairs: Iterable[Pair]) -> set[tuple[str, str]]:
    """Return which actions follow each other."""
    return set(map(names_of, pairs))


@pytest.mark.parametrize(("jobs", "faults", "changes"), EXPLORED.values(), ids=EXPLORED)
def test_every_pair_that_exploring_finds_is_taken(jobs: Jobs, faults: int, changes: int) -> None:
    found = find_pairs(jobs, faults, changes)
    assert named(found.pairs) - named(taken()) == set()


def test_there_are_as_many_as_were_ever_found() -> None:
    """All pairs of actions; of those that are told apart by outcomes and answers, too, nine of ten."""
    assert len(named(taken())) >= 575
    assert len(taken()) >= 1900
    assert len(set(read())) == len(read()) <= MOST
    assert max(len(trace.turns) for trace in read()) <= STEPS


def test_a_trace_to_a_pair_ends_with_it_and_goes_on() -> None:
    found = find_pairs(KINDS_OF_JOBS[3], 1, 0)
    for pair in sorted(found.pairs, key=str)[::20]:
        trace = trace_to(found, pair)
        assert [*pairs_of(trace.steps())][-1:] == [pair]
        assert extended(trace, Random(1), set()).turns[: len(trace.turns)] == trace.turns
