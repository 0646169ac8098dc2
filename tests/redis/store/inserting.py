"""The job that the tests of scripts begin with, and what stands in Redis once it is inserted."""

from __future__ import annotations

from queue_core.model.job import Claim
from tests.conformance.world import World

QUEUED = {
    "type": "task",
    "payload": "{}",
    "status": "queued",
    "priority": "5",
    "max_retries": "3",
    "rank": "5/1",
    "created_at": "t1",
    "updated_at": "t1",
    "run_at": "t1",
}
"""The hash of a job that is just inserted."""
NEW = {
    "queues": ["work"],
    "schema": "2",
    "seq": "1",
    "unfinished": {"a": "t1"},
    "by_type:task": ["a"],
    "types": {"task": "1"},
    "depths": {"q5": "1"},
    "tallies": {"enqueued:n:task": "1"},
    "minutes": {"enqueued": 1},
}
"""What stands beside the job itself."""


async def inserted(world: World, **given: object) -> str:
    return await world.insert(**{"id": "a"} | given)


async def claimed(world: World, **given: object) -> Claim:
    await inserted(world, **given)
    return await world.claim_job("a")
