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
    count = sum(plant.ledger.open_batches.values())
    plant.crew.start(1)
    await plant.until_quiet()
    found = await plant.findings(f"producer killed {point}", since)
    assert found.problems == []
    # Offers travel behind their callers' backs: the batch after the one that was offered may be written or not.
    possible = {"before_commit": {0}, "before_offer": {count}, "after_offer": {0, count}}[point]
    assert found.jobs - len(plant.ledger.ids) in possible
    assert len(plant.ledger.ends) == found.jobs
