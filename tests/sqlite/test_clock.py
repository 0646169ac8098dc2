"""A clock that is set moves neither the ends of leases nor those of backoffs; scheduled times of day stay."""

from __future__ import annotations

import asyncio

import pytest

from queue_core.model.job import Claim
from queue_core.model.operation import Author, OperationRequest, Rollout
from queue_core.model.rules import QueueRules
from queue_core.stores.sqlite import claim as timekeeping
from queue_core.stores.sqlite.operations import SqliteOperations
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.session import SqliteFile
from queue_core.stores.sqlite.store import SqliteStore
from queue_core.testing import FakeClock
from tests.conformance.making import LEASE, QUEUE, held, new_job, outcome, worker_beat
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST

pytestmark = pytest.mark.skipif(not timekeeping.machine(), reason="this system does not tell when it was started")

JUMPS = [600.0, -600.0, 86400.0, -86400.0]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def file(new_file: NewFile, clock: FakeClock) -> SqliteFile:
    return new_file(clock=clock)


@pytest.fixture
def store(file: SqliteFile) -> SqliteStore:
    return SqliteStore(file)


async def running(store: SqliteStore) -> Claim:
    job = new_job()
    await store.insert([job])
    (claim,) = await store.claim(REQUEST)
    assert claim.id == job.id
    return claim


async def beat(store: SqliteStore, *claims: Claim) -> tuple[str, ...]:
    heart = store.open_heartbeat()
    reply = await asyncio.to_thread(heart.renew, worker_beat(*map(held, claims), worker=REQUEST.worker))
    await asyncio.to_thread(heart.close)
    return reply.lost


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_lease_lasts_as_long_as_it_should(store: SqliteStore, clock: FakeClock, jump: float) -> None:
    claim = await running(store)
    clock.set_back(-jump)
    assert await store.reclaim(10) == []
    clock.advance(LEASE - 10)
    assert await store.reclaim(10) == []
    clock.advance(20)
    assert [job.id for job in await store.reclaim(10)] == [claim.id]


@pytest.mark.parametrize("jump", JUMPS)
async def test_also_when_a_heartbeat_sees_it_first(store: SqliteStore, clock: FakeClock, jump: float) -> None:
    claim, other = await running(store), await running(store)
    clock.set_back(-jump)
    assert await beat(store, claim) == ()
    clock.advance(LEASE - 10)
    assert await store.reclaim(10) == []
    clock.advance(20)
    assert {job.id for job in await store.reclaim(10)} == {claim.id, other.id}


@pytest.mark.parametrize("jump", JUMPS)
async def test_it_is_corrected_once_whoever_sees_it(
    store: SqliteStore, new_file: NewFile, clock: FakeClock, jump: float
) -> None:
    claim = await running(store)
    others = [SqliteStore(new_file(clock=clock)) for _ in range(3)]
    clock.set_back(-jump)
    await asyncio.gather(*(one.acquire_leadership("sweep", f"w{n}", 5) for n, one in enumerate(others)), beat(store))
    clock.advance(LEASE - 10)
    assert await store.reclaim(10) == []
    clock.advance(20)
    assert [job.id for job in await others[0].reclaim(10)] == [claim.id]


@pytest.mark.parametrize("jump", [600.0, -600.0])
async def test_backoffs_and_leaderships_too(store: SqliteStore, clock: FakeClock, jump: float) -> None:
    claim = await running(store)
    await store.settle([outcome(claim, "retrying", delay=30.0)])
    assert await store.acquire_leadership("sweep", "one", 30)
    clock.set_back(-jump)
    assert not await store.acquire_leadership("sweep", "two", 30)
    assert await store.promote(10) == []
    clock.advance(31)
    assert await store.acquire_leadership("sweep", "two", 30)
    assert [ready.id for ready in await store.promote(10)] == [claim.id]


@pytest.mark.parametrize("jump", JUMPS)
async def test_unique_keys_are_held_as_long_as_they_should(store: SqliteStore, clock: FakeClock, jump: float) -> None:
    keyed = {"unique_key": "one", "unique_seconds": 300.0}
    (first,) = await store.insert([new_job(**keyed)])
    clock.set_back(-jump)
    (again,) = await store.insert([new_job(**keyed)])
    assert (again.id, again.created) == (first.id, False)
    clock.advance(290)
    assert not (await store.insert([new_job(**keyed)]))[0].created
    clock.advance(20)
    assert (await store.insert([new_job(**keyed)]))[0].created


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_rate_gains_what_it_should(new_file: NewFile, clock: FakeClock, jump: float) -> None:
    """Ten starts a second, and as many saved up."""
    store = SqliteStore(new_file(clock=clock), rules={QUEUE: QueueRules(rate="10/s")})
    await store.insert([new_job() for _ in range(30)])
    assert len(await store.claim(REQUEST)) == 10
    clock.set_back(-jump)
    assert len(await store.claim(REQUEST)) == 0
    clock.advance(0.5)
    assert len(await store.claim(REQUEST)) == 5


@pytest.mark.parametrize("jump", JUMPS)
async def test_the_next_step_of_an_operation_comes_when_its_rate_allows_it(
    file: SqliteFile, store: SqliteStore, clock: FakeClock, jump: float
) -> None:
    operations = SqliteOperations(file)
    asked = OperationRequest("cancel", "two jobs", Author("ana", "bastion-1"), rollout=Rollout(rate=0.01))
    number = (await operations.create(asked)).number
    jobs = [new_job() for _ in range(2)]
    await store.insert(jobs)
    await operations.add(number, [job.id for job in jobs])
    await operations.move(number, "running")
    assert (await operations.step(number, 1)).changed.ids == (jobs[0].id,)
    clock.set_back(-jump)
    await store.acquire_leadership("sweep", "one", 30)
    clock.advance(90)
    assert (await operations.step(number, 1)).changed.ids == ()
    clock.advance(20)
    assert (await operations.step(number, 1)).changed.ids == (jobs[1].id,)


@pytest.mark.parametrize("jump", JUMPS)
async def test_workers_are_lost_when_they_should_be(
    file: SqliteFile, store: SqliteStore, clock: FakeClock, jump: float
) -> None:
    await beat(store)
    clock.set_back(-jump)
    await store.acquire_leadership("sweep", "one", 30)
    inspector = SqliteInspector(file)
    assert [one.lost for one in (await inspector.overview()).workers] == [False]
    clock.advance(31)
    assert [one.lost for one in (await inspector.overview()).workers] == [True]


async def test_a_time_of_day_is_meant_as_such(store: SqliteStore, clock: FakeClock) -> None:
    job = new_job(run_at=clock.now() + 900)
    await store.insert([job])
    await store.acquire_leadership("sweep", "one", 30)
    clock.set_back(-901)
    await store.acquire_leadership("sweep", "one", 30)
    assert [ready.id for ready in await store.promote(10)] == [job.id]


async def test_workers_are_not_taken_for_lost(store: SqliteStore, file: SqliteFile, clock: FakeClock) -> None:
    await beat(store)
    clock.set_back(-600)
    await store.acquire_leadership("sweep", "one", 30)
    (worker,) = (await SqliteInspector(file).overview()).workers
    assert not worker.lost
    assert worker.heartbeat_age < 5


async def test_another_start_of_the_machine_is_not_compared(
    store: SqliteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it the steady clock begins anew, and the leases of before are over when the time of day says so."""
    claim = await running(store)
    monkeypatch.setattr(timekeeping, "machine", lambda: "another start")
    clock.advance(LEASE + 1)
    clock.set_back(-5000)
    assert [job.id for job in await store.reclaim(10)] == [claim.id]


async def test_small_corrections_change_nothing(store: SqliteStore, file: SqliteFile, clock: FakeClock) -> None:
    claim = await running(store)
    before = (await SqliteInspector(file).get(claim.id)).lease_expires_at
    clock.set_back(timekeeping.CLOCK_TOLERANCE * 0.9)
    await store.acquire_leadership("sweep", "one", 30)
    assert (await SqliteInspector(file).get(claim.id)).lease_expires_at == before
