"""What runs in a queue with a concurrency is counted exactly, without what ended before the last count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import psycopg
import pytest

from queue_core.errors import QueueCoreError
from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres import capacity
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, UNKNOWN, WORKER, outcome
from tests.postgres.traps.hands import Hand, new_job
from tests.postgres.traps.test_traps_plans import looked_at
from tests.waiting import eventually

MOST = 10
RULES = {QUEUE: QueueRules(concurrency=MOST)}
NewStore = Callable[..., PostgresStore]


@pytest.fixture
async def new_store(postgres_url: str) -> AsyncIterator[NewStore]:
    """Makes stores, each as of a process of its own."""
    async with AsyncExitStack() as stack:

        def make(**given: object) -> PostgresStore:
            store = PostgresStore(PostgresSettings(url=postgres_url), **given)  # type: ignore[arg-type]
            stack.push_async_callback(store.close)
            return store

        store = make()
        await store.open()
        await store.acquire_leadership("sweep", "leader", 0)
        await store.insert([new_job() for _ in range(300)])
        yield make


def request(limit: int) -> ClaimRequest:
    return ClaimRequest(QUEUE, WORKER, (TYPE,), limit, LEASE)


async def test_a_count_without_a_lease_epoch_knows_of_no_later_claims(new_store: NewStore, postgres_url: str) -> None:
    """Behind a crash of the server none is live until a leader raises it, and others may claim at once then."""
    leader, store, other = [new_store(rules=RULES) for _ in range(3)]
    (running,) = await other.claim(request(1))
    with Hand(postgres_url) as hand:
        hand.do("delete from lease_epoch_live")
    assert await store.claim(request(MOST)) == []
    await leader.acquire_leadership("sweep", "leader", 0)
    later = await other.claim(request(4))
    assert len(later) == 4
    assert len(await store.claim(request(MOST))) == MOST - len([running, *later])


async def test_ends_that_are_undone_count_as_running(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction in which they ended and others were claimed is rolled back behind the count."""
    store = new_store(rules=RULES)
    # The next count looks at the whole queue, and those behind it at what that one saw.
    monkeypatch.setattr(capacity, "FULL_SCAN_INTERVAL", 0.0)
    monkeypatch.setattr(capacity, "FULL_SCAN_PAUSE_FACTOR", 0.0)
    claims = await store.claim(request(MOST))
    assert len(claims) == MOST
    monkeypatch.undo()
    behind = request(4)._replace(start_count=4)
    ends = [outcome(claim, "completed") for claim in claims[:4]]
    # The server refuses the claim, which has counted in the statement before.
    monkeypatch.setattr(capacity, "INLINE_BYTES", 1 << 80)
    with pytest.raises(QueueCoreError):
        await store.settle_and_claim(ends, [behind])
    monkeypatch.undo()
    assert await store.claim(request(MOST)) == []
    settled, more = await store.settle_and_claim(ends, [behind])
    assert ([one.accepted for one in settled], len(more)) == ([True] * 4, 4)
    assert await store.claim(request(MOST)) == []


async def test_claims_behind_ends_of_several_queues_lock_these_in_one_order(
    new_store: NewStore, postgres_url: str
) -> None:
    """Two workers whose jobs end in another order do not wait for each other."""
    store = new_store(rules={**RULES, "second": QueueRules(concurrency=MOST)})
    await store.insert([new_job(queue="second") for _ in range(2)])
    requests = [request(1)._replace(queue=queue, start_count=1) for queue in ("second", QUEUE)]
    ends = [outcome(claim, "completed") for one in requests for claim in await store.claim(one)]
    with Hand(postgres_url) as holder, Hand(postgres_url) as watcher, holder.transaction():
        assert holder.do("select queue_id from queue_rates where queue_id = 1 for update") == [(1,)]
        ending = asyncio.create_task(store.settle_and_claim(ends, requests))
        assert await eventually(lambda: watcher.do("select 1 from pg_locks where not granted") != [])
        assert watcher.do("select queue_id from queue_rates for update skip locked") == [(2,)]
    settled, claims = await ending
    assert ([one.accepted for one in settled], {claim.queue for claim in claims}) == ([True] * 2, {QUEUE, "second"})


async def test_the_concurrency_holds_whoever_claimed_and_ended_since_the_last_count(new_store: NewStore) -> None:
    one, two = new_store(rules=RULES), new_store(rules=RULES)
    mine, theirs = await one.claim(request(4)), await two.claim(request(4))
    assert [len(await store.claim(request(5))) for store in (one, two)] == [2, 0]
    for _ in range(5):
        await two.settle([outcome(claim, "completed") for claim in mine])
        await one.settle([outcome(claim, "released") for claim in theirs])
        mine, theirs = await one.claim(request(3)), await two.claim(request(20))
        assert (len(mine), len(theirs)) == (3, 5)
    assert await new_store(rules=RULES).claim(request(5)) == []


async def test_who_does_not_know_the_rule_is_counted_from_the_next_whole_look(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    knows, does_not = new_store(rules=RULES), new_store()
    assert len(await knows.claim(request(2))) == 2
    early = await does_not.claim(request(5))
    monkeypatch.setattr(capacity, "FULL_SCAN_INTERVAL", 0.0)
    monkeypatch.setattr(capacity, "FULL_SCAN_PAUSE_FACTOR", 0.0)
    knows._claimer._running[QUEUE]._whole_at = 0.0
    assert len(await knows.claim(request(20))) == MOST - 2 - len(early)
    assert await knows.claim(request(1)) == []


async def test_with_more_running_than_are_remembered_all_leases_are_counted(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing large is sent under the lock of a queue."""
    monkeypatch.setattr(capacity, "MAX_REMEMBERED", 3)
    one, two = new_store(rules=RULES), new_store(rules=RULES)
    await one.insert([new_job(queue="other") for _ in range(MOST)])
    assert len(await one.claim(request(MOST)._replace(queue="other", worker="another"))) == MOST
    for _ in range(2):
        assert [len(await store.claim(request(4))) for store in (one, two, one, two)] == [4, 4, 2, 0]
        assert one._claimer._running[QUEUE].known[0] == []
        held = await one._claims.run("capacity/running_scan", {"queue_id": 1, "some": 5})
        assert (held[0][0], len(held[0][1])) == (MOST, 5)
        await one._claims.run("heartbeat/hand_back", {"worker": WORKER, "started": "{}", "last": 0})
        assert len(await two.reclaim(100)) == MOST


async def test_a_count_reads_nothing_that_ended_before_the_last_one(new_store: NewStore, postgres_url: str) -> None:
    """A transaction that is open keeps the leases of all jobs that have ended: a claim read every one of them."""
    store = new_store(rules=RULES)
    with Hand(postgres_url) as snapshot, Hand(postgres_url) as hand:
        snapshot.do("begin isolation level repeatable read")
        snapshot.do("select count(*) from leases")
        long = await store.claim(request(2))
        hand.do(
            "insert into leases (id, token, queue_id, worker, started_at, expires_at, limited)"
            " select gen_random_uuid(), (select max(token) from leases), 1, 'gone', now(), now(), true"
            "   from generate_series(1, 20000);"
            " delete from leases where worker = 'gone'"
        )
        for _ in range(3):
            await store.settle([outcome(claim, "completed") for claim in await store.claim(request(5))])
        running, last = store._claimer._running[QUEUE].known
        assert set(running) >= {claim.id for claim in long}
        asked = {"queue_id": 1, "running": list(running), "room": MOST}
        with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
            read = [looked_at(connection, "capacity/running", asked | {"above": above}) for above in (last, 0)]
    assert read[0] < 100
    assert read[1] >= 20_000


async def test_a_job_whose_payload_is_not_there_any_more_is_not_given(new_store: NewStore) -> None:
    """It came apart from its lease, which was over by then: another worker may have run the job."""
    store = new_store(rules=RULES)
    (large,) = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE))
    rows = [(job_id, 1, TYPE, None, 5, 1) for job_id in (large.id, UNKNOWN)]
    assert [row[0] for row in await store._claimer._with_payloads(rows)] == [large.id]
