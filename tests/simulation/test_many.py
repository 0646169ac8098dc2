"""Ten thousand schedules, on all processors; `python -m tests.simulation` runs any number."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.quiet import quiet
from tests.simulation.schedule import simulate

PARTS, EACH = 40, 250


def problems_of(part: int) -> list[tuple[int, list[str]]]:
    """Run the schedules of a part; return the seeds of those that show something, and what."""
    with quiet():
        results = [simulate(seed) for seed in range(10_000 + part * EACH, 10_000 + (part + 1) * EACH)]
    return [(one.seed, one.problems) for one in results if one.problems]


@pytest.mark.timeout(1800)
def test_nothing_is_lost_or_doubled() -> None:
    # Fresh interpreters: a fork would take what the tests before have left, with its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        found = [problem for part in pool.map(problems_of, range(PARTS)) for problem in part]
    assert found == []
