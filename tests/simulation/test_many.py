"""Ten thousand schedules; `python -m tests.simulation` runs any number."""

from __future__ import annotations

import pytest

from tests.simulation.quiet import quiet
from tests.simulation.schedule import simulate

PARTS, EACH = 20, 500


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_or_doubled(part: int) -> None:
    with quiet():
        results = [simulate(seed) for seed in range(10_000 + part * EACH, 10_000 + (part + 1) * EACH)]
    assert [(one.seed, one.problems) for one in results if one.problems] == []
