"""Days of the history go beside everything else: nobody waits for it, and lists and sums are right all the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from queue_core import JobQueue
from queue_core.model.settings import JobsSettings, PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.scans import history as module
from queue_core.stores.postgres.scans.history import History
from queue_core.stores.postgres.store import PostgresStore
from queue_core.worker.worker import Worker
from tests.conformance.making import LEASE, QUEUE, TYPE, WORKER, new_job, outcome
from tests.postgres.traps.hands import Hand
from tests.waiting import eventually

KEPT = 7 * 86400.0
OLD_DAY = """
do $$
declare
    day date := (now() at time zone 'UTC')::date - 9;
    name text := 'job_history_' || to_char(day, 'YYYYMMDD');
begin
    execute format('create table %I (like job_history including all)', name);
    execute format('alter table job_history attach partition %I for values from (%L) to (%L)', name,
                   to_char(day, 'YYYY-MM-DD') || ' 00:00+00', to_char(day + 1, 'YYYY-MM-DD') || ' 00:00+00');
end $$
"""
OLD_JOBS = """
insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes, max_retries,
                         last_token, created_at, finished_at)
select gen_random_uuid(), 1, n, 5, 'completed', now(), 'task', repeat('x', 200), 0, 0, 3, n, now(),
       date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' - interval '9 days' + interval '1 hour'
  from generate_series(1, %(jobs)s) n
"""
DAYS = """
select i.inhdetachpending from pg_class c left join pg_inherits i on i.inhrelid = c.oid
 where c.relname = 'job_history_' || to_char((now() at time zone 'UTC')::date - 9, 'YYYYMMDD')
"""


@pytest.fixture
def hand(postgres_url: str) -> Iterator[Hand]:
    """A database with a day of the history that is over."""
    with Hand(postgres_url) as hand:
        hand.do("insert into queues (name) values (%(name)s)", {"name": QUEUE})
        hand.do(OLD_DAY)
        hand.do(OLD_JOBS, {"jobs": 5000})
        yield hand


@pytest.fixture
async def history(postgres_url: str) -> AsyncIterator[History]:
    history = History(PostgresSettings(url=postgres_url), KEPT)
    yield history
    await history.close()


async def look(history: History) -> None:
    """Let it do what it does minutes later."""
    history._next_at = float("-inf")
    history.begin()
    await history.idle()


@pytest.fixture
def dump(postgres_url: str) -> Iterator[psycopg.Connection[object]]:
    """Somebody who reads everything as of one moment, for long."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from job_history")
        yield connection


async def test_a_worker_starts_and_settles_while_somebody_reads_the_history(
    hand: Hand, dump: psycopg.Connection[object], postgres_url: str
) -> None:
    settings = JobsSettings(queue_backend="postgres", postgres=PostgresSettings(url=postgres_url))
    async with JobQueue(settings=settings) as jobs:
        done: list[int] = []

        @jobs.task(name=TYPE, queue=QUEUE)
        async def task(number: int) -> None:
            done.append(number)

        worker = Worker(jobs)
        working = asyncio.create_task(worker.run())
        for number in range(20):
            await jobs.enqueue(TYPE, {"number": number}, queue=QUEUE)
        ended = "select count(*) from job_history where finished_at > now() - interval '1 hour'"
        assert await eventually(lambda: hand.do(ended) == [(20,)])
        assert await eventually(lambda: hand.do(DAYS) != [(False,)] or working.done())
        assert not working.done()
        await jobs.enqueue(TYPE, {"number": 20}, queue=QUEUE)
        assert await eventually(lambda: hand.do(ended) == [(21,)])
        worker.stop()
        await asyncio.wait_for(working, 60)


async def test_a_reader_holds_it_up_and_nobody_waits_for_it(
    hand: Hand, dump: psycopg.Connection[object], history: History, postgres_url: str
) -> None:
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.acquire_leadership("sweep", "leader", 0)
    looking = asyncio.ensure_future(look(history))
    longest = 0.0
    while not looking.done():
        await store.insert([new_job()])
        (claim,) = await store.claim(ClaimRequest(QUEUE, WORKER, (TYPE,), 1, LEASE))
        began = time.monotonic()
        assert (await store.settle([outcome(claim, "completed")]))[0].accepted
        longest = max(longest, time.monotonic() - began)
        await asyncio.sleep(0.02)
    assert longest < 2
    assert len(hand.do(DAYS)) == 1
    assert history._next_at > time.monotonic() + module.EVERY_SECONDS, "the next try comes minutes later"
    assert hand.do("select count(*) from pg_stat_activity where query like 'ALTER TABLE%' and state = 'active'") == [
        (0,)
    ]
    dump.rollback()
    await look(history)
    assert hand.do(DAYS) == []
    await store.close()


async def test_a_day_that_is_half_detached_is_dropped_by_another_leader(
    hand: Hand, dump: psycopg.Connection[object], history: History, postgres_url: str
) -> None:
    await look(history)
    assert hand.do(DAYS) == [(True,)]
    dump.rollback()
    other = History(PostgresSettings(url=postgres_url), KEPT)
    await look(other)
    await other.close()
    assert hand.do(DAYS) == []


async def test_the_sums_are_right_at_every_step(
    hand: Hand, history: History, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAGES", 4)
    history._pages = 4
    inspector = PostgresInspector(PostgresSettings(url=postgres_url))
    before = await inspector.conservation()
    assert before.completed == 5000
    history.begin()
    looks = 0
    while history._task is not None and not history._task.done():
        assert await inspector.conservation() == before
        looks += 1
    assert looks > 3
    assert await inspector.conservation() == before
    assert hand.do(DAYS) == []
    assert history.taken() == 5000
    await inspector.close()


async def test_a_day_that_somebody_has_detached_with_its_jobs_is_left_alone(hand: Hand, history: History) -> None:
    ((name,),) = hand.do("select 'job_history_' || to_char((now() at time zone 'UTC')::date - 9, 'YYYYMMDD')")
    hand.do(f"alter table job_history detach partition {name}")
    await look(history)
    assert hand.do(f"select count(*) from {name}") == [(5000,)]
    hand.do(f"delete from {name}")
    await look(history)
    assert hand.do(DAYS) == []
