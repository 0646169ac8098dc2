"""What the leader's upkeep does for keys: forget those that nobody holds, and let through whom nobody did."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from queue_core.model.rules import AGING_EPOCH_US, QueueRules, aged_rank
from queue_core.model.settings import PostgresSettings, RetentionSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.scans import keys as walks
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.rules.conftest import NewHand
from tests.postgres.traps.hands import Hand, new_job

KEY = "customer-1"


@pytest.fixture
def hand(new_hand: NewHand) -> Hand:
    return new_hand()


@pytest.fixture
async def store(postgres_url: str, hand: Hand) -> AsyncIterator[PostgresStore]:
    rules = {QUEUE: QueueRules(dead_blocks_key=True), "more": QueueRules(key_concurrency=3)}
    store = PostgresStore(PostgresSettings(url=postgres_url), RetentionSettings(dead=3600.0), rules)
    await store.acquire_leadership("sweep", "leader", 0)
    yield store
    await store.close()


async def claimed(store: PostgresStore, queue: str = QUEUE) -> list[str]:
    return [claim.id for claim in await store.claim(ClaimRequest(queue, WORKER, (TYPE,), 10, LEASE))]


async def test_unique_keys_go_when_nobody_holds_them(
    store: PostgresStore, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "KEYS_PER_STATEMENT", 3)
    keys = [f"task:{n}" for n in range(10)]
    await store.insert([new_job(unique_key=key) for key in keys])
    await store.insert([new_job(unique_key=f"timed:{n}", unique_seconds=600.0) for n in range(8)])
    for claim in await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 7, LEASE)):
        await store.settle([outcome(claim, "completed")])
    hand.do(
        "update unique_keys set expires_at = now() - interval '1 second' where key < 'timed:7' and key like 'timed:%'"
    )
    await store._upkeep.prune()
    assert hand.do("select key from unique_keys order by key") == [("task:7",), ("task:8",), ("task:9",), ("timed:7",)]


async def test_locks_go_that_rolled_back_transactions_had_made(
    store: PostgresStore, postgres_url: str, hand: Hand, new_hand: NewHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application with a key for each of its orders would leave a row with each."""
    monkeypatch.setattr(walks, "LOCKS_PER_STATEMENT", 3)
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        for number in range(10):
            await store.insert_on(connection, [new_job(ordering_key=f"order-{number}")])
            await connection.rollback()
        await store.insert_on(connection, [new_job(ordering_key="order-5")])
        await connection.commit()
        other = new_hand()
        with other.transaction():
            other.do("select from ordering_locks where key = 'order-2' for update")
            await store._upkeep.prune()
        assert hand.do("select key from ordering_locks order by key") == [("order-2",), ("order-5",)]
        await store._upkeep.prune()
        assert hand.do("select key from ordering_locks") == [("order-5",)]


async def test_a_key_that_somebody_has_locked_is_left(store: PostgresStore, hand: Hand, new_hand: NewHand) -> None:
    await store.insert([new_job(unique_key="task:1")])
    (job_id,) = await claimed(store)
    await store.settle([outcome(one, "completed") for one in [await_claim(job_id, hand)]])
    other = new_hand()
    with other.transaction():
        other.do("select from unique_keys for update")
        await store._upkeep.prune()
        assert hand.do("select count(*) from unique_keys") == [(1,)]
    await store._upkeep.prune()
    assert hand.do("select count(*) from unique_keys") == [(0,)]


def await_claim(job_id: str, hand: Hand) -> object:
    """Return what an outcome needs of a claim."""
    ((token,),) = hand.do("select token from leases where id = %(id)s", {"id": job_id})
    return type("Held", (), {"id": job_id, "token": token, "queue": QUEUE, "type": TYPE})


async def test_a_dead_job_that_expires_lets_go(
    store: PostgresStore, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its end, and not only when the keys are checked."""
    monkeypatch.setattr(store._upkeep, "_keepers", ())
    await store.insert([new_job(ordering_key=KEY) for _ in range(2)])
    (claim,) = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE))
    assert (await store.settle([outcome(claim, "dead", ordering_key=KEY)]))[0].unblocked == ()
    await store._upkeep.prune()
    assert await claimed(store) == []
    hand.do("update jobs_dead set died_at = died_at - interval '2 hours'")
    await store._upkeep.prune()
    assert hand.do("select count(*) from jobs_dead") == [(0,)]
    assert len(await claimed(store)) == 1


async def test_more_of_a_key_are_let_through_when_the_rule_changes(
    store: PostgresStore, hand: Hand, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "KEYS_CHECKED", 2)
    before = PostgresStore(PostgresSettings(url=postgres_url))
    await before.insert([new_job(queue="more", ordering_key=key) for key in "abcde" for _ in range(4)])
    await before.close()
    assert len(await claimed(store, "more")) == 5
    for _ in range(3):
        await store._upkeep.prune()
    assert len(await claimed(store, "more")) == 10
    assert hand.do("select count(*) from jobs where admitted group by ordering_key") == [(3,)] * 5


async def test_leases_without_a_job_go_when_they_are_over(store: PostgresStore, hand: Hand) -> None:
    """A crash of the server between two asynchronous commits leaves them; with its job, a lease is the reclaim's."""
    await store.insert([new_job() for _ in range(3)])
    gone, alive, lost = await claimed(store)
    hand.do("delete from jobs where id = any(%(ids)s::uuid[])", {"ids": [gone, alive]})
    hand.do(
        "update leases set expires_at = now() - interval '1 second' where id = any(%(ids)s::uuid[])",
        {"ids": [gone, lost]},
    )
    await store._upkeep.prune()
    assert {str(job_id) for (job_id,) in hand.do("select id from leases")} == {alive, lost}


async def test_the_rank_of_an_aged_job_is_everywhere_the_same(hand: Hand) -> None:
    arrival = AGING_EPOCH_US + 123_456_789_012
    for priority in (-128, 5, 127):
        for aging_us in (1, 10_000_000, 86_400_000_000):
            found = hand.do(
                "select aged_rank(%(p)s::smallint, %(a)s::bigint, %(s)s::bigint)",
                {"p": priority, "a": arrival, "s": aging_us},
            )
            assert found == [(aged_rank(priority, arrival, aging_us),)]
    assert hand.do("select aged_rank(5::smallint, 1, 0), aged_rank(5::smallint, null, null)") == [(None, None)]


async def test_the_views_show_the_keys_of_every_state(store: PostgresStore, postgres_url: str) -> None:
    inspector = PostgresInspector(PostgresSettings(url=postgres_url))
    jobs = [new_job(ordering_key=f"key-{n}", unique_key=f"task:{n}") for n in range(6)]
    await store.insert([*jobs[:5], jobs[5]._replace(delay=60.0)])
    claims = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 4, LEASE))
    ends = [outcome(claim, kind) for claim, kind in zip(claims, ("completed", "dead", "retrying"), strict=False)]
    assert all(answer.accepted for answer in await store.settle(ends))
    found = [await inspector.get(job.id) for job in jobs]
    assert {str(job.status) for job in found} == {"completed", "dead", "retrying", "running", "queued", "scheduled"}
    assert [(job.ordering_key, job.unique_key) for job in found] == [(f"key-{n}", f"task:{n}") for n in range(6)]
    await inspector.close()
