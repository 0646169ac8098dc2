"""The rules of queues in callers' own transactions, and the ends of jobs in those of their handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from queue_core.errors import InvalidJob, QueueFull, TransactionError
from queue_core.model.job import Claim
from queue_core.model.rules import QueueRules, Rules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.rules.conftest import NewHand
from tests.postgres.traps.hands import Hand, new_job
from tests.waiting import eventually

RULES: Rules = {QUEUE: QueueRules(limit=10), "aged": QueueRules(aging=10)}
KEY = "customer-1"


@pytest.fixture
async def store(postgres_url: str, new_hand: NewHand) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresSettings(url=postgres_url), rules=RULES)
    await store.acquire_leadership("sweep", "leader", 0)
    yield store
    await store.close()


@asynccontextmanager
async def caller(url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
    """Somebody's connection."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


async def claim(store: PostgresStore, limit: int = 10) -> list[Claim]:
    return await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), limit, LEASE))


class RolledBack(Exception):
    """Ends a transaction."""


WAITING = """
select count(*) from pg_stat_activity
 where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""


async def waits(hand: Hand) -> None:
    """Return when somebody waits for a lock."""
    assert await eventually(lambda: hand.do(WAITING) != [(0,)])


async def test_a_key_s_order_is_kept_across_open_transactions(
    store: PostgresStore, postgres_url: str, new_hand: NewHand
) -> None:
    async with caller(postgres_url) as first:
        (one,) = await store.insert_on(first, [new_job(ordering_key=KEY)])
        assert one.rank is not None
        later = asyncio.create_task(store.insert([new_job(ordering_key=KEY)]))
        await waits(new_hand())
        assert await claim(store) == []
        await first.commit()
    (two,) = await later
    assert two.rank is None
    assert [one.id for one in await claim(store)] == [one.id]


async def test_a_key_is_free_after_a_rollback(store: PostgresStore, postgres_url: str) -> None:
    async with caller(postgres_url) as connection:
        await store.insert_on(connection, [new_job(ordering_key=KEY, unique_key="task:1")])
        await connection.rollback()
    (one,) = await store.insert([new_job(ordering_key=KEY, unique_key="task:1")])
    assert one.created
    assert one.rank is not None


@pytest.mark.parametrize("commits", [True, False])
async def test_the_end_of_a_job_hangs_on_no_caller_s_transaction(
    store: PostgresStore, postgres_url: str, new_hand: NewHand, commits: bool
) -> None:
    """It lets go at once, and the leader lets the next one through when the caller is done with the key."""
    await store.insert([new_job(ordering_key=KEY)])
    (running,) = await claim(store)
    async with caller(postgres_url) as connection:
        (waiting,) = await store.insert_on(connection, [new_job(ordering_key=KEY)])
        assert waiting.rank is None
        (settled,) = await store.settle([outcome(running, "completed", ordering_key=KEY)])
        assert (settled.accepted, settled.unblocked) == (True, ())
        assert await store.promote(10) == []
        assert await claim(store) == []
        await (connection.commit() if commits else connection.rollback())
    expected = [waiting.id] if commits else []
    assert [one.id for one in await store.promote(10)] == expected
    assert [one.id for one in await claim(store)] == expected
    counts = "select (select count(*) from ordering_pending), (select count(*) from ordering_locks)"
    assert new_hand().do(counts) == [(0, len(expected))]


async def test_due_and_lost_jobs_of_a_key_that_a_caller_has_locked_hold_up_no_others(
    store: PostgresStore, postgres_url: str, new_hand: NewHand
) -> None:
    lost = new_job(ordering_key=KEY)
    await store.insert([lost])
    assert len(await claim(store)) == 1
    hand = new_hand()
    hand.do("update jobs set losses = 19")
    plain, keyed = new_job(delay=0.001), new_job(delay=0.001, ordering_key=KEY)
    await store.insert([plain, keyed])
    hand.do("update leases set expires_at = now() - interval '1 second'")
    hand.do("update jobs set run_at = now() - interval '1 second' where status = 'scheduled'")
    async with caller(postgres_url) as connection:
        await store.insert_on(connection, [new_job(ordering_key=KEY)])
        (reclaimed,) = await store.reclaim(10)
        assert (reclaimed.id, reclaimed.unblocked) == (lost.id, ())
        assert [one.id for one in await store.promote(10)] == [plain.id]
        due = await store.next_due()
        assert due is not None
        assert 0 < due < 0.5
        await connection.rollback()
    assert [one.id for one in await store.promote(10)] == [keyed.id]
    assert await store.next_due() is None
    assert hand.do("select count(*) from ordering_pending") == [(0,)]


async def test_any_number_of_jobs_behind_a_locked_key_hold_up_no_others(
    store: PostgresStore, postgres_url: str, new_hand: NewHand
) -> None:
    """As many as a round takes, due or lost, and due or lost before all others."""
    behind = [new_job(queue="other", delay=60, ordering_key=KEY) for _ in range(10)]
    lost = [new_job(queue="other", ordering_key=f"lost {n}") for n in range(10)]
    await store.insert([*behind, *lost])
    assert len(await store.claim(ClaimRequest("other", WORKER, (TYPE,), 10, LEASE))) == 10
    hand = new_hand()
    hand.do("update jobs set losses = 19, run_at = run_at - interval '1 hour'")
    hand.do("update leases set expires_at = now() - interval '1 second'")
    others = [new_job(), new_job(ordering_key="another")]
    await store.insert([one._replace(delay=0.001) for one in others])
    await asyncio.sleep(0.01)
    async with caller(postgres_url) as connection:
        keys = [KEY, *[str(one.ordering_key) for one in lost]]
        await store.insert_on(connection, [new_job(queue="other", ordering_key=key) for key in keys])
        await asyncio.wait_for(rounds(store, {one.id for one in others}), 30)
        await asyncio.wait_for(rounds(store, {one.id for one in lost}, lost=True), 30)
        await connection.rollback()
    # the one that its key lets through, when the caller is done with it
    assert [one.id for one in await store.promote(10)] == [behind[0].id]


async def rounds(store: PostgresStore, wanted: set[str], lost: bool = False) -> None:
    """Take due or lost jobs, five at a time, until all that are wanted came."""
    while wanted:
        wanted -= {one.id for one in await (store.reclaim(5) if lost else store.promote(5))}


async def test_a_unique_key_that_waits_for_a_caller(store: PostgresStore, postgres_url: str, new_hand: NewHand) -> None:
    async with caller(postgres_url) as connection:
        (first,) = await store.insert_on(connection, [new_job(unique_key="task:1")])
        later = asyncio.create_task(store.insert([new_job(unique_key="task:1")]))
        await waits(new_hand())
        await connection.commit()
    (second,) = await later
    assert (second.created, second.id) == (False, first.id)


async def test_the_end_of_a_unique_job_waits_for_nobody(store: PostgresStore, postgres_url: str) -> None:
    """An enqueue that found the key taken has it locked until its caller is done."""
    await store.insert([new_job(unique_key="task:1")])
    (running,) = await claim(store)
    async with caller(postgres_url) as connection:
        (refused,) = await store.insert_on(connection, [new_job(unique_key="task:1")])
        assert refused.id == running.id
        assert (await store.settle([outcome(running, "completed")]))[0].accepted
    assert (await store.insert([new_job(unique_key="task:1")]))[0].created


async def test_a_full_queue_refuses_in_a_caller_s_transaction(store: PostgresStore, postgres_url: str) -> None:
    async with caller(postgres_url) as connection:
        await store.insert_on(connection, [new_job() for _ in range(6)])
        with pytest.raises(QueueFull):
            await store.insert_on(connection, [new_job() for _ in range(5)])
        await connection.rollback()
    await store.insert([new_job() for _ in range(10)])


async def test_a_blocking_connection_will_do(store: PostgresStore, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        jobs = [new_job(ordering_key=KEY), new_job(ordering_key=KEY), new_job(queue="aged", priority=5)]
        inserted = await store.insert_on(connection, jobs)
    assert [one.rank is None for one in inserted] == [False, True, False]


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
async def test_an_old_snapshot_is_no_place_for_rules(
    store: PostgresStore, postgres_url: str, level: psycopg.IsolationLevel
) -> None:
    async with caller(postgres_url) as connection:
        await connection.set_isolation_level(level)
        with pytest.raises(InvalidJob, match="READ COMMITTED, not"):
            await store.insert_on(connection, [new_job(ordering_key=KEY)])
        await store.insert_on(connection, [new_job(queue="plain")])


async def test_read_uncommitted_is_read_committed(store: PostgresStore, postgres_url: str) -> None:
    async with caller(postgres_url) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_UNCOMMITTED)
        (inserted,) = await store.insert_on(connection, [new_job(ordering_key=KEY)])
    assert inserted.created


@pytest.mark.parametrize("key", [None, KEY])
async def test_a_transaction_that_may_only_read_is_refused(
    store: PostgresStore, postgres_url: str, key: str | None
) -> None:
    async with caller(postgres_url) as connection:
        await connection.set_read_only(True)
        with pytest.raises(InvalidJob, match="connection= is in a transaction that may only read; enqueue in one that"):
            await store.insert_on(connection, [new_job(ordering_key=key)])
        await connection.rollback()


@pytest.mark.parametrize("named", [True, False])
async def test_a_handler_s_transaction_lets_go_of_the_key(store: PostgresStore, named: bool) -> None:
    await store.insert([new_job(ordering_key=KEY) for _ in range(2)])
    (running,) = await claim(store)
    end = outcome(running, "completed", ordering_key=running.ordering_key if named else None)
    async with store.transaction() as connection:
        settled = await store.settle_on(connection, end)
        assert await claim(store) == []
    (opened,) = settled.unblocked
    assert [one.id for one in await claim(store)] == [opened.id]


async def test_a_handler_s_transaction_that_is_rolled_back_keeps_the_key(store: PostgresStore) -> None:
    await store.insert([new_job(ordering_key=KEY) for _ in range(2)])
    (running,) = await claim(store)
    with pytest.raises(RolledBack):  # noqa: PT012  the block is the transaction
        async with store.transaction() as connection:
            assert (await store.settle_on(connection, outcome(running, "completed", ordering_key=KEY))).accepted
            raise RolledBack
    assert await claim(store) == []
    (settled,) = await store.settle([outcome(running, "dead", ordering_key=KEY)])
    assert len(settled.unblocked) == 1


async def test_a_handler_s_transaction_of_another_level_cannot_let_go(store: PostgresStore, new_hand: NewHand) -> None:
    new_hand().do(
        "do $$ begin execute format('alter database %I set default_transaction_isolation to ''repeatable read''',"
        " current_database()); end $$"
    )
    await store.insert([new_job(ordering_key=KEY) for _ in range(2)])
    (running,) = await claim(store)
    end = outcome(running, "completed", ordering_key=KEY)
    with pytest.raises(TransactionError, match="READ COMMITTED"):  # noqa: PT012  the block is the transaction
        async with store.transaction() as connection:
            await connection.execute("set transaction isolation level repeatable read")
            await store.settle_on(connection, end)
    # The default of the role, the database or the server does not matter.
    async with store.transaction() as connection:
        (level,) = await (await connection.execute("show transaction_isolation")).fetchone()
    assert level == "read committed"
    assert len((await store.settle([end]))[0].unblocked) == 1
