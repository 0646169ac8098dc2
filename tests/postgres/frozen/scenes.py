"""What processes do to rows that others need, too: each as what one does, and what another one wants meanwhile."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from queue_core.model.job import new_id
from queue_core.model.rules import QueueRules, Rules
from queue_core.model.schedule import Announcement, Schedule, Tick
from queue_core.model.settings import PostgresSettings, RetentionSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.scans.keys import StalledKeys, UnusedKeys, UnusedLocks
from queue_core.stores.postgres.schedules import PostgresSchedules
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, TYPE, WORKER, Listed, new_job, outcome
from tests.postgres.traps.hands import PATIENCE, Hand

KEY, APART = "customer-1", "customer-2"


@dataclass
class Process:
    """The parts of one process that work on a queue."""

    url: str
    queue: str
    rules: Rules
    hand: Hand
    prepare: bool = True
    timeout: float = PATIENCE
    kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {"url": self.url, "prepare": self.prepare, "timeout": self.timeout}
        settings = PostgresSettings.model_validate(given)
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
    # somebody else keeps a transaction open meanwhile, which nothing ends
    caller_s: bool = False
    # who wakes up after so long is told that it failed, and does it again
    may_fail: bool = False
    # the time limit of a call: on a loaded machine a frozen one waits long for all the others that are frozen, too
    timeout: float = PATIENCE
    # after how many statements it is frozen: a range reaches beyond the last one
    points: Sequence[int] = range(1, 20)
    # without a pooler it is one message, behind which nothing is held
    one_message: bool = False


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


async def settle_again(process: Process) -> None:
    again = outcome(process.kept["claim"], "retrying", ordering_key=KEY, delay=LEASE)
    (answer,) = await process.store.settle([again])
    assert answer.accepted


async def hand_over(process: Process) -> None:
    """End a job and claim the next one of its key, or of its queue, in one transaction."""
    claim = process.kept["claim"]
    ids = None if process.rules[process.queue].concurrency else ()
    request = ClaimRequest(process.queue, WORKER, (TYPE,), 1, LEASE, ids, 1)
    ended = outcome(claim, "completed", ordering_key=KEY)
    (answer,), _ = await process.store.settle_and_claim([ended], [request])
    assert answer.accepted


async def in_parts(process: Process) -> None:
    """Enqueue a list of which each part is built while the one before it is written."""
    jobs = [new_job(queue=process.queue) for _ in range(9)]
    answers = await process.store.insert_parts(Listed(jobs, 3))
    assert [answer.id for answer in answers] == [job.id for job in jobs]


def keyed(process: Process) -> Awaitable[Any]:
    return process.insert(ordering_key=KEY)


def keyed_apart(process: Process) -> Awaitable[Any]:
    return process.insert(ordering_key=APART)


def unique(process: Process) -> Awaitable[Any]:
    return process.insert(unique_key="u")


async def claim_one(process: Process) -> None:
    assert len(await process.claim()) == 1


async def claim_apart(process: Process) -> None:
    """Claim a job of another key."""
    await keyed_apart(process)
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


async def locked_by_a_caller(process: Process) -> None:
    """Let two jobs with different keys run; a caller's transaction has the first one's key locked, and keeps it."""
    await process.insert(ordering_key=KEY)
    await process.insert(ordering_key=APART)
    process.kept["claims"] = await process.claim(2)
    caller = process.kept["caller"] = Hand(process.hand.url)
    caller.do("begin")
    mine = "queue_id = (select id from queues where name = %(queue)s) and key = %(key)s"
    caller.do(f"select from ordering_locks where {mine} for update", {"queue": process.queue, "key": KEY})


async def settle_both(process: Process) -> None:
    keys = {claim.id: claim.ordering_key for claim in process.kept["claims"]}
    outcomes = [outcome(claim, "completed", ordering_key=keys[claim.id]) for claim in process.kept["claims"]]
    assert [one.accepted for one in await process.store.settle(outcomes)] == [True, True]
    process.kept["caller"].close()


async def joint(process: Process) -> None:
    """End a job in the transaction of its handler; all of it is begun again when its end was lost."""
    async with process.store.transaction() as connection:
        ended = outcome(process.kept["claim"], "completed", ordering_key=KEY)
        assert (await process.store.settle_on(connection, ended)).accepted


async def unheld(process: Process) -> None:
    """Leave a unique key of a job that has ended."""
    await process.insert(unique_key="u")
    (claim,) = await process.claim()
    await process.store.settle([outcome(claim, "completed")])


async def keep_keys(process: Process) -> None:
    await keeper(process, UnusedKeys).run()


async def stalled(process: Process) -> None:
    """Let a key have room, and somebody wait for it."""
    await process.insert(3, ordering_key=KEY)
    process.hand.do("update jobs set admitted = false, rank = null where ordering_key = %(key)s", {"key": KEY})


async def keep_gates(process: Process) -> None:
    await keeper(process, StalledKeys).run()


def keeper(process: Process, kind: type[Any]) -> Any:
    """Return one of the leader's walks over keys."""
    return next(one for one in process.store._upkeep._keepers if isinstance(one, kind))


async def left_locks(process: Process) -> None:
    """Leave locks that no job has."""
    await process.insert()
    process.hand.do(
        "insert into ordering_locks (queue_id, key) select id, k from queues, unnest(array['a', 'b', %(key)s]) k "
        "where name = %(queue)s",
        {"queue": process.queue, "key": KEY},
    )


async def keep_locks(process: Process) -> None:
    await keeper(process, UnusedLocks).run()


async def overdue(process: Process) -> None:
    """Let a dead job with the key be over its retention."""
    await dead(process)
    process.hand.do("update jobs_dead set died_at = now() - interval '100 days'")


async def expire(process: Process) -> None:
    process.store._upkeep._retention = RetentionSettings(dead=86400.0)
    assert await process.store._upkeep._expire_holding() == 1


async def crashed(process: Process) -> None:
    """Let the server have forgotten its live epoch, as after a crash."""
    await process.insert(5)
    process.hand.do("truncate lease_epoch_live")


async def lead(process: Process) -> None:
    assert await process.store.acquire_leadership("sweep", "leader", 0)


async def lead_and_claim(process: Process) -> None:
    await lead(process)
    await claim_one(process)


async def scheduled(process: Process) -> None:
    schedule = Schedule(process.queue, "* * * * *", "UTC", TYPE, "{}", process.queue, 5, 3, KEY)
    process.kept["due"] = float(int(time.time()) - 60)
    await process.schedules.announce([Announcement(schedule, process.kept["due"])])


async def fire(process: Process) -> None:
    due_at = process.kept["due"]
    job = new_job(queue=process.queue, ordering_key=KEY)
    await process.schedules.fire(Tick(process.queue, due_at, due_at + 60.0, job))


SCENES: dict[str, Scene] = {
    "an enqueue with an ordering key": Scene({}, nothing, keyed, keyed),
    "an enqueue with a unique key": Scene({}, nothing, unique, unique),
    "an enqueue of a long list": Scene({}, nothing, in_parts, lambda one: one.insert()),
    "an enqueue below a limit": Scene({"limit": 100}, nothing, lambda one: one.insert(), lambda one: one.insert()),
    "an enqueue with aging": Scene({"aging": 10}, nothing, lambda one: one.insert(), lambda one: one.insert()),
    "the end of a job with an ordering key": Scene({}, running, settle, keyed, one_message=True),
    "the end of a job that hands over its ordering key": Scene({}, running, hand_over, keyed, one_message=True),
    "the end of a job with an ordering key that runs again": Scene({}, running, settle_again, keyed),
    "the end of a job that hands over its place": Scene({"concurrency": 3}, running, hand_over, claim_apart),
    "a claim under a concurrency": Scene({"concurrency": 3}, lambda one: one.insert(5), claim_one, claim_one),
    "a claim under a rate": Scene({"rate": 50}, lambda one: one.insert(5), claim_one, claim_one),
    "jobs that become due": Scene({}, due, promote, keyed, alone=True),
    "a job of a lost worker": Scene({}, lost, reclaim, keyed, alone=True),
    "a tick of a schedule": Scene({}, scheduled, fire, fire),
    "the end of a job whose key a caller has locked": Scene(
        {}, locked_by_a_caller, settle_both, keyed_apart, caller_s=True
    ),
    "the end of a handler's transaction": Scene({}, running, joint, keyed, caller_s=True, may_fail=True),
    "keys that nobody holds are forgotten": Scene({}, unheld, keep_keys, unique, alone=True),
    "locks that no job has are forgotten": Scene({}, left_locks, keep_locks, keyed, alone=True),
    "jobs that nobody let through": Scene({}, stalled, keep_gates, keyed, alone=True),
    "dead jobs over their retention": Scene({"dead_blocks_key": True}, overdue, expire, keyed, alone=True),
    "the epoch of leases is raised": Scene({}, crashed, lead, lead_and_claim, alone=True),
}


async def large(process: Process) -> None:
    """Let more wait than fits into any buffer on the way."""
    await process.insert(30, payload=LARGE_PAYLOAD)


async def claim_many(process: Process) -> None:
    claims = await process.claim(20)
    assert [claim.payload == LARGE_PAYLOAD for claim in claims] == [True] * 20


LARGE_PAYLOAD = '{"x": "' + "x" * 400_000 + '"}'
LARGE = Scene({"concurrency": 30}, large, claim_many, claim_one)


LONG_KEYS = [f"{n:05}".ljust(200, "k") for n in range(3000)]


async def long_list(process: Process) -> None:
    """Write more jobs, with longer keys, than fit into one answer."""
    await process.store.insert([new_job(queue=process.queue, ordering_key=key) for key in LONG_KEYS])


LONG = Scene({}, nothing, long_list, lambda one: one.insert(ordering_key=LONG_KEYS[-1]), points=(2, 3, 4, 5, 8, 12))


def queue_of(n: int) -> str:
    """Return the name of a queue that nobody else uses."""
    return f"queue-{n}-{new_id()[-6:]}"


def rules_of(scene: Scene, queue: str) -> Rules:
    return {queue: QueueRules.model_validate(scene.rules)}
