"""What processes do to rows that others need, too: each as what one does, and what another one wants meanwhile."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from queue_core.identifiers import new_id
from queue_core.operations import Author, NewOperation
from queue_core.rules import QueueRules, Rules
from queue_core.schedules import Announcement, Schedule, Tick
from queue_core.settings import PostgresSettings
from queue_core.store import ClaimRequest
from queue_core.stores.postgres.inspector import PostgresInspector
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.schedules import PostgresSchedules
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, TYPE, WORKER, new_job, outcome
from tests.postgres.traps.hands import Hand

KEY = "customer-1"


@dataclass
class Process:
    """The parts of one process that work on a queue."""

    url: str
    queue: str
    rules: Rules
    hand: Hand
    prepare: bool = True
    kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = PostgresSettings.model_validate({"url": self.url, "prepare": self.prepare})
        self.store = PostgresStore(settings, rules=self.rules)
        self.inspector = PostgresInspector(settings, rules=self.rules)
        self.operations = PostgresOperations(settings, self.rules)
        self.schedules = PostgresSchedules(settings, self.store)

    async def insert(self, count: int = 1, **given: Any) -> list[Any]:
        return await self.store.insert([new_job(queue=self.queue, **given) for _ in range(count)])

    async def claim(self, limit: int = 1) -> list[Any]:
        return await self.store.claim(ClaimRequest(self.queue, WORKER, (TYPE,), limit, LEASE))

    async def close(self) -> None:
        for part in (self.schedules, self.operations, self.inspector, self.store):
            await part.close()


Work = Callable[[Process], Awaitable[Any]]


@dataclass(frozen=True)
class Scene:
    """What is there before, what the process does that will be frozen, and what another one does meanwhile."""

    rules: dict[str, Any]
    before: Work
    work: Work
    other: Work
    # it is done for all queues at once, by one leader
    alone: bool = False


async def nothing(process: Process) -> None:
    """Connect, as a process has that was not started a moment ago."""
    await process.insert(type="warm")


async def running(process: Process) -> None:
    """Let one job with the key run, and two wait for it."""
    await process.insert(3, ordering_key=KEY)
    (process.kept["claim"],) = await process.claim()


async def dead(process: Process) -> None:
    """Bury a job with the key."""
    await running(process)
    await process.store.settle([outcome(process.kept["claim"], "dead", ordering_key=KEY)])


async def settle(process: Process) -> None:
    (answer,) = await process.store.settle([outcome(process.kept["claim"], "completed", ordering_key=KEY)])
    assert answer.accepted


def keyed(process: Process) -> Awaitable[Any]:
    return process.insert(ordering_key=KEY)


async def claim_one(process: Process) -> None:
    assert len(await process.claim()) == 1


async def due(process: Process) -> None:
    """Let two jobs become due, one of them with the key."""
    await process.insert(ordering_key=KEY, delay=0.001)
    await process.insert(delay=0.001)
    process.hand.do("update jobs set run_at = now() - interval '1 second' where status = 'scheduled'")


async def promote(process: Process) -> None:
    await process.store.promote(10)


async def lost(process: Process) -> None:
    """Lose the worker of the running job for good."""
    await running(process)
    process.hand.do("update jobs set losses = 99 where id = %(id)s", {"id": process.kept["claim"].id})
    process.hand.do(
        "update leases set expires_at = now() - interval '1 second' where id = %(id)s",
        {"id": process.kept["claim"].id},
    )


async def reclaim(process: Process) -> None:
    await process.store.reclaim(10)


async def asked(process: Process) -> None:
    """Ask for the dead job to be retried."""
    await dead(process)
    wanted = NewOperation("retry", "retry", Author("a", "b"))
    operation = await process.operations.create(wanted)
    await process.operations.add(operation.number, [process.kept["claim"].id])
    assert await process.operations.move(operation.number, "running")
    process.kept["number"] = operation.number


async def step(process: Process) -> None:
    done = (await process.operations.step(process.kept["number"], 10)).operation
    assert (done.done, done.processed) == (1, 1)


async def scheduled(process: Process) -> None:
    schedule = Schedule(process.queue, "* * * * *", "UTC", TYPE, "{}", process.queue, 5, 3, KEY)
    process.kept["due"] = float(int(time.time()) - 60)
    await process.schedules.announce([Announcement(schedule, process.kept["due"])])


async def fire(process: Process) -> None:
    due_at = process.kept["due"]
    job = new_job(queue=process.queue, ordering_key=KEY)
    await process.schedules.fire(Tick(process.queue, due_at, due_at + 60.0, job))


async def cancel(process: Process) -> None:
    await process.inspector.cancel([process.kept["claim"].id])


async def delete(process: Process) -> None:
    assert (await process.inspector.delete([process.kept["claim"].id])).ids


SCENES: dict[str, Scene] = {
    "an enqueue with an ordering key": Scene({}, nothing, keyed, keyed),
    "an enqueue with a unique key": Scene(
        {}, nothing, lambda one: one.insert(unique_key="u"), lambda one: one.insert(unique_key="u")
    ),
    "an enqueue below a limit": Scene({"limit": 100}, nothing, lambda one: one.insert(), lambda one: one.insert()),
    "an enqueue with aging": Scene({"aging": 10}, nothing, lambda one: one.insert(), lambda one: one.insert()),
    "the end of a job with an ordering key": Scene({}, running, settle, keyed),
    "a claim under a concurrency": Scene({"concurrency": 3}, lambda one: one.insert(5), claim_one, claim_one),
    "a claim under a rate": Scene({"rate": 50}, lambda one: one.insert(5), claim_one, claim_one),
    "jobs that become due": Scene({}, due, promote, keyed, alone=True),
    "a job of a lost worker": Scene({}, lost, reclaim, keyed, alone=True),
    "a step of an operation": Scene({}, asked, step, keyed),
    "another step of an operation": Scene({}, asked, step, step),
    "a tick of a schedule": Scene({}, scheduled, fire, fire),
    "a job is cancelled": Scene({}, running, cancel, keyed),
    "a job is deleted": Scene({"dead_blocks_key": True}, dead, delete, keyed),
}


async def large(process: Process) -> None:
    """Let more wait than fits into any buffer on the way."""
    await process.insert(30, payload=LARGE_PAYLOAD)


async def claim_many(process: Process) -> None:
    claims = await process.claim(20)
    assert [claim.payload == LARGE_PAYLOAD for claim in claims] == [True] * 20


LARGE_PAYLOAD = '{"x": "' + "x" * 400_000 + '"}'
LARGE = Scene({"concurrency": 30}, large, claim_many, claim_one)


def queue_of(n: int) -> str:
    """Return the name of a queue that nobody else uses."""
    return f"queue-{n}-{new_id()[-6:]}"


def rules_of(scene: Scene, queue: str) -> Rules:
    return {queue: QueueRules.model_validate(scene.rules)}
