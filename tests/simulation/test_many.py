"""Ten thousand schedules, on all processors; `python -m tests.simulation` runs any number."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed

import pytest

from tests.simulation.quiet import quiet
from tests.simulation.schedule import simulate

PARTS, EACH = 200, 50
SECONDS = 1200
"""It takes some 160 on two quiet processors."""


def problems_of(part: int) -> list[tuple[int, list[str]]]:
    """Run the schedules of a part; return the seeds of those that show something, and what."""
    with quiet():
        results = [simulate(seed) for seed in range(10_000 + part * EACH, 10_000 + (part + 1) * EACH)]
    return [(one.seed, one.problems) for one in results if one.problems]


@pytest.mark.timeout(SECONDS + 300)
def test_nothing_is_lost_or_doubled() -> None:
    found: list[tuple[int, list[str]]] = []
    done = 0
    # Fresh interpreters: a fork would take what the tests before have left, with its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        parts = [pool.submit(problems_of, part) for part in range(PARTS)]
        try:
            for part in as_completed(parts, timeout=SECONDS):
                found += part.result()
                done += EACH
        except TimeoutError:
            pool.shutdown(wait=False, cancel_futures=True)
    assert found == []
    if done < PARTS * EACH:
        pytest.skip(f"no more than {done:,} of {PARTS * EACH:,} schedules in {SECONDS} s: others use the processors")
