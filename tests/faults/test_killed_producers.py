"""A producer is killed in the middle of an enqueue: a batch is there as a whole, and then it runs, or not at all."""

from __future__ import annotations

import signal

import pytest

from tests.faults.plant import Plant, now


@pytest.mark.parametrize("point", ["before_commit", "before_offer", "after_offer"])
async def test_killed_while_enqueueing(plant: Plant, point: str) -> None:
    plant.arm(point)
    code = plant.crew.produce()
    since = now()
    assert code == -signal.SIGKILL
    ((_, count),) = plant.ledger.open_batches.items()
    plant.crew.start(1)
    await plant.until_quiet()
    found = await plant.findings(f"producer killed {point}", since)
    assert found.problems == []
    assert found.jobs == len(plant.ledger.ids) + (0 if point == "before_commit" else count)
    assert len(plant.ledger.ends) == found.jobs
