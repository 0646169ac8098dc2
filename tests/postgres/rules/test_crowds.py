"""Many connections at once under the rules of queues: all is exact, nobody is stuck, nothing waits in a circle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import chain

import pytest

from queue_core.errors import QueueFull
from queue_core.model.job import Claim, Inserted, Outcome
from queue_core.model.rules import BandLimits, QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, outcome
from tests.postgres.rules.conftest import NewHand
from tests.postgres.traps.hands import new_job
from tests.waiting import eventually

CROWD = 6
KEYS = ("a", "b", "c")
KINDS = ("completed", "completed", "completed", "retrying", "released", "dead", "cancelled")

NewStore = Callable[..., PostgresStore]


@pytest.fixture
async def new_store(postgres_url: str) -> AsyncIterator[NewStore]:
    """Makes stores with their own connections, for which the queue has these rules."""
    stores: list[PostgresStore] = []

    def made(**rules: object) -> PostgresStore:
        given = {QUEUE: QueueRules.model_validate(rules)} if rules else {}
        stores.append(PostgresStore(PostgresSettings(url=postgres_url), rules=given))
        return stores[-1]

    await made().acquire_leadership("sweep", "leader", 0)
    yield made
    for store in stores:
        await store.close()


@pytest.fixture
async def inspector(postgres_url: str, request: pytest.FixtureRequest) -> AsyncIterator[PostgresInspector]:
    """Looks at the store, where so many jobs of a key run at a time."""
    most = getattr(request, "param", 1)
    inspector = PostgresInspector(PostgresSettings(url=postgres_url), {QUEUE: QueueRules(key_concurrency=most)})
    yield inspector
    await inspector.close()


async def claimed(store: PostgresStore, limit: int = 10) -> list[Claim]:
    return await store.claim(ClaimRequest(QUEUE, "worker-1", (TYPE,), limit, LEASE))


class Crowd:
    """Producers, workers, a leader and an operator on a few keys."""

    def __init__(
        self, stores: list[PostgresStore], inspector: PostgresInspector, operations: PostgresOperations, most: int
    ) -> None:
        self._stores = stores
        self._inspector = inspector
        self._operations = operations
        self._most = most
        self._chance = random.Random(most)
        self._running: Counter[str | None] = Counter()
        self._dead: list[str] = []
        self._sowing = True
        self._over = False

    async def run(self) -> None:
        """Do everything at once, then only work until nothing is left."""
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            producing = [group.create_task(self._produce(store)) for store in self._stores[:3]]
            for store in self._stores[3:]:
                group.create_task(self._work(store))
            group.create_task(self._sweep())
            operating = group.create_task(self._operate())
            await asyncio.gather(*producing)
            self._sowing = False
            await operating
            assert await eventually(self._nothing_is_left)
            self._over = True

    async def _nothing_is_left(self) -> bool:
        return (await self._inspector.conservation()).unfinished == 0

    async def _produce(self, store: PostgresStore) -> None:
        for _ in range(25):
            # In the order of chance, so that lists name the same keys in different ones.
            keys = self._chance.choices(KEYS, k=self._chance.randint(1, 4))
            await store.insert([new_job(ordering_key=key, delay=self._chance.choice((0.0, 0.0, 0.05))) for key in keys])

    async def _work(self, store: PostgresStore) -> None:
        while not self._over:
            claims = await claimed(store, 3)
            self._running.update(claim.ordering_key for claim in claims)
            assert max(self._running.values(), default=0) <= self._most
            await asyncio.sleep(0.001)
            # A worker's job has ended before the store knows.
            self._running.subtract(claim.ordering_key for claim in claims)
            answers = await store.settle([self._end(claim) for claim in claims])
            assert all(answer.accepted for answer in answers)

    def _end(self, claim: Claim) -> Outcome:
        kind = self._chance.choice(KINDS) if self._sowing else "completed"
        if kind == "dead":
            self._dead.append(claim.id)
        # Now and then by a worker that knows nothing of keys.
        key = self._chance.choice((claim.ordering_key, None))
        return outcome(claim, kind, delay=0.01, ordering_key=key)

    async def _sweep(self) -> None:
        while not self._over:
            await self._stores[0].promote(10)
            await self._stores[0].reclaim(10)
            await asyncio.sleep(0.005)

    async def _operate(self) -> None:
        while self._sowing:
            await self._operations.change("retry", self._chance.sample(self._dead, min(3, len(self._dead))))
            await self._operations.change("delete", self._chance.sample(self._dead, min(1, len(self._dead))))
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("inspector", "most"), [(1, 1), (3, 3)], indirect=["inspector"])
async def test_no_key_gets_stuck_or_runs_too_often(
    new_store: NewStore, new_hand: NewHand, inspector: PostgresInspector, most: int, postgres_url: str
) -> None:
    stores = [new_store(key_concurrency=most) for _ in range(CROWD)]
    operations = PostgresOperations(PostgresSettings(url=postgres_url), {QUEUE: QueueRules(key_concurrency=most)})
    await Crowd(stores, inspector, operations, most).run()
    for part in (inspector, operations, *stores):
        await part.close()  # only then do the servers' processes report
    hand = new_hand()
    assert hand.do("select count(*) from ordering_locks") == [(0,)]
    assert hand.do("select deadlocks from pg_stat_database where datname = current_database()") == [(0,)]


async def test_of_many_that_want_a_unique_key_one_gets_it(new_store: NewStore) -> None:
    stores = [new_store() for _ in range(CROWD)]
    for _ in range(20):
        answers = await asyncio.gather(
            *(store.insert([new_job(unique_key=key) for key in random.sample(KEYS, 3)]) for store in stores)
        )
        every = [one for answer in answers for one in answer]
        assert len({one.id for one in every}) == sum(one.created for one in every) == len(KEYS)
        claims = await claimed(stores[0], 100)
        assert len(claims) == len(KEYS)
        # The ends meet the next round's inserts.
        ends = stores[0].settle([outcome(claim, "completed") for claim in claims[:1]])
        new, _ = await asyncio.gather(stores[1].insert([new_job(unique_key=KEYS[0])]), ends)
        await stores[0].settle([outcome(claim, "completed") for claim in claims[1:]])
        left = [outcome(claim, "completed") for claim in await claimed(stores[0], 100)]
        assert len(left) == sum(one.created for one in new)
        await stores[0].settle(left)


async def test_limits_are_exact_however_many_enqueue_and_come_back(
    new_store: NewStore, inspector: PostgresInspector
) -> None:
    bands = BandLimits(low=15)
    stores = [new_store(limit=40, band_limits=bands) for _ in range(CROWD)]

    async def produce(store: PostgresStore) -> list[Inserted]:
        found: list[Inserted] = []
        for number in range(30):
            with suppress(QueueFull):
                found += await store.insert([new_job(priority=0 if number % 2 else 5) for _ in range(number % 3 + 1)])
        return found

    inserted = list(chain(*await asyncio.gather(*(produce(store) for store in stores))))
    assert len(inserted) == 40
    (queue,) = (await inspector.overview()).queues
    assert queue.depth[0] <= 15
    claims = await claimed(stores[0], 30)
    # 10 wait. Half of those that run come back while producers fill what is left: a return that comes after an enqueue
    # may exceed the limit, one that comes before it may not be forgotten.
    ends = [outcome(claim, "released") for claim in claims[:15]]
    new, *_ = await asyncio.gather(produce(stores[2]), *(stores[1].settle([end]) for end in ends))
    assert 40 - 2 <= 10 + 15 + len(new) <= 40 + 15
    with pytest.raises(QueueFull):
        await stores[3].insert([new_job() for _ in range(3)])
    await stores[1].settle([outcome(claim, "completed") for claim in await claimed(stores[0], 100)])
    await stores[3].insert([new_job() for _ in range(40)])
    with pytest.raises(QueueFull):
        await stores[4].insert([new_job()])


async def test_a_concurrency_is_exact_over_all_workers(new_store: NewStore) -> None:
    stores = [new_store(concurrency=4) for _ in range(CROWD)]
    await stores[0].insert([new_job() for _ in range(120)])
    running = most = done = 0

    async def work(store: PostgresStore) -> None:
        nonlocal running, most, done
        while done < 120:
            claims = await claimed(store, 3)
            running += len(claims)
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= len(claims)
            await store.settle([outcome(claim, "completed") for claim in claims])
            done += len(claims)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(store) for store in stores))
    assert 1 < most <= 4


async def test_arrivals_in_a_queue_with_aging_are_all_different(new_store: NewStore, new_hand: NewHand) -> None:
    stores = [new_store(aging=10.0) for _ in range(CROWD)]
    await asyncio.gather(*(store.insert([new_job() for _ in range(40)]) for store in stores for _ in range(3)))
    ((jobs, places),) = new_hand().do("select count(*), count(distinct rank) from jobs where rank = aged_rank")
    assert jobs == places == CROWD * 3 * 40
