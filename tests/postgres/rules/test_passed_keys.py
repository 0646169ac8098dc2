"""A key whose jobs have ended by the thousand is opened without reading them, and in the same order as ever."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from queue_core.model.operation import ChangeOptions
from queue_core.model.rules import QueueRules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres import ordering
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.session.connection import hot_options
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, outcome
from tests.postgres.traps.hands import Hand, new_job
from tests.postgres.traps.test_traps_plans import looked_at
from tests.waiting import eventually

ENDED = 20_000
END_JOBS = f"""
insert into jobs (id, queue_id, seq, priority, status, run_at, type, payload, max_retries, ordering_key)
select gen_random_uuid(), 1, nextval('job_seq'), 5, 'queued', now(), 'task', '{{}}', 3, 'k'
  from generate_series(1, {ENDED});
update jobs set admitted = true, rank = 122::bigint << 45 | seq where not admitted;
delete from jobs
"""


@pytest.fixture
async def store(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresStore]:
    """A store to which every key releases its next jobs slowly."""
    monkeypatch.setattr(ordering, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(ordering, "SLOW_SECONDS_EACH", 0.0)
    monkeypatch.setattr(ordering, "SLOW_TIMES", 1)
    monkeypatch.setattr(ordering, "SLOW_UNBLOCKED", 1)
    slow = ordering.SlowKeys()
    slow.note_with_others([(QUEUE, "k")], 1.0)
    monkeypatch.setattr(ordering, "_slow", slow)
    store = PostgresStore(PostgresSettings(url=postgres_url), rules={QUEUE: QueueRules()})
    await store.open()
    await store.acquire_leadership("sweep", "leader", 0)
    yield store
    await store.close()


async def insert(store: PostgresStore, count: int = 1, **given: object) -> list[str]:
    jobs = [new_job(ordering_key="k", **given) for _ in range(count)]
    await store.insert(jobs)
    return [job.id for job in jobs]


async def run_one(store: PostgresStore, kind: str = "completed", **given: object) -> str:
    """Claim the only job that may run, end it, and return it."""
    (claim,) = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE))
    (settled,) = await store.settle([outcome(claim, kind, **given)])
    assert settled.accepted
    return claim.id


def passed(hand: Hand) -> list[int]:
    return [place for (place,) in hand.do("select low_watermark from ordering_locks")]


async def test_what_comes_back_to_an_earlier_place_is_let_through_first(
    store: PostgresStore, postgres_url: str
) -> None:
    """Delayed before, retried, given back, or arriving while the key was idle."""
    with Hand(postgres_url) as hand:
        (late,) = await insert(store, delay=0.01)
        jobs = await insert(store, 6)
        assert await run_one(store) == jobs[0]
        assert passed(hand)[0] > 0
        assert await eventually_promoted(store) == []
        assert await run_one(store, "released") == jobs[1]
        assert await run_one(store) == jobs[1]
        assert await run_one(store) == late
        assert await run_one(store, "retrying", delay=0.0) == jobs[2]
        assert await eventually_promoted(store) == [jobs[2]]
        assert [await run_one(store) for _ in range(4)] == jobs[2:]
        assert await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE)) == []
        assert passed(hand)[0] > 0, "an idle key that was slow keeps its lock"
        more = await insert(store, 2)
        assert [await run_one(store) for _ in range(2)] == more


async def test_a_job_that_waits_for_its_retry_holds_its_key(store: PostgresStore, postgres_url: str) -> None:
    first, second = await insert(store, 2)
    assert await run_one(store, "retrying", delay=LEASE) == first
    with Hand(postgres_url) as hand:
        # Whoever opens the key next reads what is behind its mark, where the first job has to be.
        ((place,),) = hand.do("select seq from jobs where id = %(id)s", {"id": first})
        assert passed(hand) == [place - 1]
    await insert(store)
    assert await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE)) == [], second


async def test_a_job_whose_operator_put_it_off_holds_its_key(store: PostgresStore, postgres_url: str) -> None:
    """It died holding the key, and goes on holding it while it waits: whoever opens the key meanwhile finds it."""
    settings, rules = PostgresSettings(url=postgres_url), {QUEUE: QueueRules(dead_blocks_key=True)}
    blocking, operations = PostgresStore(settings, rules=rules), PostgresOperations(settings, rules)
    (first,) = await insert(blocking)
    assert await run_one(blocking, "dead") == first
    assert (await operations.change("retry", [first], ChangeOptions(delay=LEASE))).ids == (first,)
    # The first of them notes how far the key has nothing, the next one goes by that.
    for _ in range(2):
        await insert(blocking)
        assert await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 10, LEASE)) == []
    await operations.close()
    await blocking.close()


async def eventually_promoted(store: PostgresStore) -> list[str]:
    """Promote the one job that is due, and return which jobs are ready by that."""
    found: list[str] = []

    async def once() -> bool:
        before = await store.next_due()
        found.extend(job.id for job in await store.promote(10))
        return before is not None and await store.next_due() is None

    assert await eventually(once)
    return found


async def test_a_caller_s_open_transaction_holds_up_no_other_key(store: PostgresStore, postgres_url: str) -> None:
    """It has noted what its key has passed; who creates the lock of another key must not wait for that."""
    await insert(store)
    await run_one(store)
    await insert(store, delay=0.001)
    other = new_job(ordering_key="other", delay=0.001)
    await store.insert([other])
    async with await psycopg.AsyncConnection.connect(postgres_url) as caller:
        await store.insert_on(caller, [new_job(ordering_key="k")])
        found: list[str] = []

        async def once() -> bool:
            found.extend(job.id for job in await store.promote(10))
            return bool(found)

        assert await eventually(once, 20)
    assert found == [other.id]


async def test_a_key_is_opened_without_reading_what_ended(store: PostgresStore, postgres_url: str) -> None:
    """With a snapshot held, the end of each job of a queue with one key read all that had ended before it."""
    await insert(store)
    await run_one(store)
    with Hand(postgres_url) as snapshot, Hand(postgres_url) as hand:
        snapshot.do("begin isolation level repeatable read")
        snapshot.do("select count(*) from jobs")
        hand.do(END_JOBS)
        jobs = await insert(store, 10)
        assert [await run_one(store) for _ in range(3)] == jobs[:3]
        asked = {"queue_id": "{1}", "key": "{k}", "capacity": "{1}"}
        with psycopg.connect(**hot_options(PostgresSettings(url=postgres_url))) as connection:
            read = {
                whole: looked_at(connection, "ordering/unblock_next", asked | {"whole": whole})
                for whole in (False, True)
            }
            read_again = looked_at(connection, "ordering/raise_watermark", asked)
    assert read[False] < 100
    assert read_again < 100
    assert read[True] >= ENDED


def test_only_keys_that_are_unblocked_often_and_slow_again_and_again_are_noted() -> None:
    slow, key, other = ordering.SlowKeys(), ("q", "k"), ("q", "l")
    long, quick = ordering.SLOW_SECONDS + 1, 0.0
    assert [slow.note([key, other], long) for _ in range(5)] == [[]] * 5
    for _ in range(ordering.SLOW_UNBLOCKED):
        assert slow.note([key], quick) == []
    assert [slow.note([key, other], seconds) for seconds in (long, long, quick, long, long)] == [[]] * 5
    assert slow.note([key, other], long) == [key]
    for number in range(2 * ordering.MAX_SLOW_KEYS):
        slow.note([("q", str(number))], long)
    assert len(slow._unblocked) == ordering.MAX_SLOW_KEYS
    assert len(slow._times) == 0
