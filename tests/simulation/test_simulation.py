"""The real worker on a store in memory, in virtual time, under faults that a seed decides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.quiet import quiet
from tests.simulation.schedule import simulate


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    with quiet():
        yield


def test_every_schedule_ends_and_nothing_is_lost_or_doubled() -> None:
    """test_many.py has ten thousand of them."""
    results = [simulate(seed) for seed in range(1, 61)]
    assert [(one.seed, one.problems) for one in results if one.problems] == []
    assert sum(one.faults for one in results) > 400
    assert sum(one.attempts for one in results) > sum(one.jobs for one in results)
    assert sum(one.refused for one in results) > 0


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_what_is_taken_out_is_found(name: str) -> None:
    with mutated(name):
        assert any(simulate(seed).problems for seed in range(1, 1001))


def test_a_seed_is_always_the_same_schedule() -> None:
    first, second, other = simulate(7), simulate(7), simulate(8)
    assert first == second
    assert first.trace != other.trace
