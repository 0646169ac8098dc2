"""What others have asked of a store while somebody looks, and jobs that go the way a test wants."""

from __future__ import annotations

from queue_core import JobQueue
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import UNTHROTTLED, Author, Operation, OperationRequest, Rollout
from tests.conformance.world import World
from tests.tui.scenes import crm, dead

ANA = Author("ana", "desk-7")
CAREFUL = Rollout(canary=2, rate=None, stop_percent=50.0)
SYNC = {"type": "sync_crm", "queue": "crm"}


async def crowd(world: World, number: int) -> list[str]:
    """Return the ids of so many dead jobs of one signature, which wait for nobody else in their queue."""
    await world.beat()
    return await dead(world, number, crm(), **SYNC)


async def ask(
    jobs: JobQueue,
    ids: list[str],
    verb: str = "retry",
    pace: Rollout = UNTHROTTLED,
    why: str = "",
    label: str = "some jobs",
) -> Operation:
    """Submit an operation, as another console would."""
    asked = OperationRequest(verb, label, ANA, why, rollout=pace, signatures=("77aa00cccccc",))
    return await jobs.operations.submit(asked, ids)


async def end_ready(jobs: JobQueue, world: World, kind: str, number: int) -> None:
    """Claim so many retried jobs, as soon as there are so many, and let all of them end like this."""
    left = number
    while left:
        for claim in await world.claim(left, queue="crm", types=("sync_crm",)):
            await world.settle(claim, kind, **({"failure": crm()} if kind == "dead" else {}))
            left -= 1


async def in_state(jobs: JobQueue, status: str) -> int:
    """Return how many jobs are in a state."""
    return await jobs.inspector.count(Filter((Term("status", "=", status),)))
