"""Whoever carries an operation out is killed again and again: each of its jobs is changed once, and all are counted."""

from __future__ import annotations

from queue_core.model.operation import Author, OperationRequest, Rollout
from tests.faults.plant import LONG, Plant
from tests.waiting import eventually

JOBS = 3000 if LONG else 300


async def test_executors_are_killed(plant: Plant) -> None:
    ids = await plant.enqueue(JOBS)
    plant.crew.start(2)
    await plant.until_quiet()
    asked = OperationRequest("retry", "everything", Author("ana", "bastion-1"), rollout=Rollout(rate=JOBS / 8))
    number = (await plant.jobs.operations.submit(asked, ids)).number

    async def done() -> int:
        return (await plant.jobs.operations.get(number)).done

    kills = 0
    while (seen := await done()) < JOBS:
        assert await eventually(lambda: _is_beyond(plant, number, seen)), plant.crew.log()[-4000:]
        if kills < (30 if LONG else 4):
            plant.crew.kill(plant.random.choice(plant.crew.alive))
            plant.crew.start(1)
            kills += 1
    assert kills > 1
    await plant.until_quiet()
    operation = await plant.jobs.operations.get(number)
    assert (operation.state, operation.processed, operation.skipped, operation.errored) == ("done", JOBS, 0, 0)
    tallies = await plant.jobs.inspector.tallies()
    assert sum(one.count for one in tallies if one.outcome == "retried_by_operator") == JOBS
    assert {len(tokens) >= 2 for tokens in plant.ledger.tokens().values()} == {True}
    assert len(plant.ledger.tokens()) == JOBS


async def _is_beyond(plant: Plant, number: int, seen: int) -> bool:
    return (await plant.jobs.operations.get(number)).done > seen
