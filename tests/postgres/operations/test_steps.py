"""Steps of operations, each in one transaction: who dies leaves nothing behind, who comes takes what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
import pytest

from queue_core.model.operation import Author, ChangeOptions, Operation, OperationRequest, Rollout
from queue_core.model.rules import QueueRules
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.stores.postgres import upkeep
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.operations import PostgresOperations, step
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.session.connection import connection_options
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.store import PostgresStore
from tests.postgres.operations.filling import COMPLETED, DEAD, READY, Database, direct
from tests.postgres.rules.scenes import Player
from tests.postgres.traps.hands import Hand
from tests.postgres.traps.test_traps_plans import LOOKED_AT
from tests.servers import SessionServers, fresh_database

T = TypeVar("T")
ELSEWHERE = ChangeOptions(queue="q2")


@pytest.fixture
async def operations(postgres_url: str, database: Database) -> AsyncIterator[PostgresOperations]:
    await database.queues()
    opened = PostgresOperations(PostgresSettings(url=postgres_url))
    yield opened
    await opened.close()


@pytest.fixture
def executor(postgres_url: str) -> Iterator[Hand]:
    """The connection of an executor whose steps are taken by hand."""
    with Hand(postgres_url) as hand:
        yield hand


async def started(operations: PostgresOperations, ids: list[str], verb: str = "retry", **given: Any) -> Operation:
    """Return a running operation on these jobs."""
    number = (await operations.create(OperationRequest(verb, "some jobs", Author("ana", "host-1"), **given))).number
    await operations.add(number, ids)
    assert await operations.move(number, "running")
    return await operations.get(number)


def until(player: Player, query: str) -> None:
    """Let an executor come so far that this query is its next."""
    while player.next_query != query:
        assert player.step()


def counts(operation: Operation) -> tuple[int, int, int]:
    return (operation.done, operation.processed, operation.skipped)


@pytest.mark.parametrize("verb", ["retry", "move", "delete"])
async def test_an_executor_that_dies_in_a_step_leaves_nothing(
    operations: PostgresOperations, database: Database, postgres_url: str, verb: str
) -> None:
    ids = [await database.dead() for _ in range(4)]
    number = (await started(operations, ids, verb, options=ELSEWHERE)).number
    for after in range(1, 20):
        with Hand(postgres_url) as hand:
            player = Player(hand, step(number, 4, {}))
            over = not all(player.step() for _ in range(after))
        assert counts(await operations.get(number)) == (0, 0, 0), f"it died after {after} statements"
        if over:
            break
    else:
        raise AssertionError("a step does not end")
    done = await operations.step(number, 4)
    assert (done.changed.ids, counts(done.operation)) == (tuple(ids), (4, 4, 0))


async def test_another_executor_takes_the_members_behind(
    operations: PostgresOperations, database: Database, executor: Hand
) -> None:
    ids = [await database.dead() for _ in range(4)]
    number = (await started(operations, ids)).number
    first = Player(executor, step(number, 2, {}))
    first.step()
    other = asyncio.create_task(operations.step(number, 2))
    await asyncio.wait_for(database.until("select exists (select from pg_locks where not granted)"), 60)
    first.finish()
    done = await other
    assert (done.changed.ids, counts(done.operation)) == (tuple(ids[2:]), (4, 4, 0))


@pytest.mark.parametrize("verb", ["retry", "move"])
async def test_a_job_that_runs_again_within_a_step_is_skipped(
    operations: PostgresOperations, inspector: PostgresInspector, database: Database, executor: Hand, verb: str
) -> None:
    ids = [await database.dead() for _ in range(2)]
    number = (await started(operations, ids, verb, options=ELSEWHERE)).number
    player = Player(executor, step(number, 2, {}))
    until(player, f"change/{verb}")
    await database.do("update jobs_dead set last_token = last_token + 1 where id = %(id)s", {"id": ids[0]})
    player.finish()
    assert counts(await operations.get(number)) == (2, 1, 1)
    assert (await inspector.get(ids[0])).queue == "q1"
    assert (await inspector.get(ids[1])).queue == "q2"


async def test_who_moves_while_being_claimed_stays(
    operations: PostgresOperations, database: Database, executor: Hand
) -> None:
    """The step waits for the claim, and then has to see its lease, not the moment before."""
    job_id = await database.ready()
    number = (await started(operations, [job_id], "move", options=ELSEWHERE)).number
    executor.do("begin")
    executor.do("select from jobs where id = %(id)s for no key update", {"id": job_id})
    lease = "insert into leases values (%(id)s, 77, 1, 'w', now(), now() + interval '1 minute')"
    executor.do(lease, {"id": job_id})
    moving = asyncio.create_task(operations.step(number, 1))
    await asyncio.wait_for(database.until("select exists (select from pg_locks where not granted)"), 60)
    executor.do("commit")
    assert counts((await moving).operation) == (1, 0, 1)
    assert await database.value("select queue_id from jobs") == 1


async def test_a_unique_key_stays_with_a_job_that_did_not_move(
    operations: PostgresOperations, database: Database, executor: Hand
) -> None:
    job_id = await database.ready()
    await database.do("update jobs set unique_key = 'u'")
    await database.do("insert into unique_keys select 1, 'u', id, 'infinity' from jobs")
    number = (await started(operations, [job_id], "move", options=ELSEWHERE)).number
    player = Player(executor, step(number, 1, {}))
    until(player, "change/lock_jobs")
    await database.do("insert into leases select id, 7, 1, 'w', now(), now() + interval '1 minute' from jobs")
    player.finish()
    assert await database.do("select queue_id, job_id::text from unique_keys") == [(1, job_id)]


async def test_a_retry_elsewhere_takes_its_unique_key_along(operations: PostgresOperations, database: Database) -> None:
    job_id = await database.dead()
    await database.do("update jobs_dead set unique_key = 'u'")
    await database.do("insert into unique_keys select 1, 'u', id, 'infinity' from jobs_dead")
    await operations.step((await started(operations, [job_id], options=ELSEWHERE)).number, 1)
    assert await database.do("select queue_id, job_id::text from unique_keys") == [(2, job_id)]


async def test_a_key_moves_with_a_job_that_is_to_be_retried(
    postgres_url: str, operations: PostgresOperations, database: Database
) -> None:
    """It waits for its key in the new queue once it is due."""
    holder, job_id = await database.ready(queue_id=2), await database.ready()
    keyed = "update jobs set ordering_key = 'k', admitted = true where id = any(%(ids)s::uuid[])"
    await database.do(keyed, {"ids": [holder, job_id]})
    await database.do("update jobs set status = 'retrying', rank = null where id = %(id)s", {"id": job_id})
    await operations.step((await started(operations, [job_id], "move", options=ELSEWHERE)).number, 1)
    store = PostgresStore(PostgresSettings(url=postgres_url), rules={"q2": QueueRules()})
    await store.open()
    assert await store.promote(10) == []
    state = "select status::text, admitted, rank from jobs where id = %(id)s"
    assert await database.do(state, {"id": job_id}) == [("queued", False, None)]
    await store.close()


async def test_a_place_may_be_higher_than_a_small_number(operations: PostgresOperations, database: Database) -> None:
    """What the driver sends is as wide as the number needs it to be."""
    number = (
        await operations.create(OperationRequest("retry", "x", Author("a", "b"), rollout=Rollout(rate=1e6)))
    ).number
    await database.do(
        "insert into operation_members select %(number)s, n, n::text, null, '' from generate_series(1, 66000) n",
        {"number": number},
    )
    await database.do("update operations set total = 66000")
    assert await operations.move(number, "running")
    for most in (32_767, 32_767):
        await database.do("update operations set next_at = '-infinity'")
        done = await operations.step(number, most)
    assert done.operation.done == 65_534


async def test_old_ones_go_in_batches(
    postgres_url: str, operations: PostgresOperations, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "PRUNE_LIMIT", 10)
    old = [await started(operations, [await database.dead() for _ in range(15)]) for _ in range(2)]
    fresh = await started(operations, [await database.dead()])
    for one in (*old, fresh):
        await operations.step(one.number, 100)
    numbers = [one.number for one in old]
    aged = "update operations set updated_at = now() - interval '91 days' where number = any(%(numbers)s)"
    await database.do(aged, {"numbers": numbers})
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.open()
    await store.upkeep()
    await store.close()
    assert [one.number for one in await operations.list_operations(10)] == [fresh.number]
    assert await database.do("select distinct operation from operation_members") == [(fresh.number,)]


IMPOSSIBLE = [
    "state = 'unheard of'", "processed = processed + 1", "done = done + 1", "barrier = total + 1",
    "barrier = 0, done = 0", "finished_at = now()", "state = 'done'", "state = 'cancelled'", "state = 'preparing'",
    "started_at = null", "skipped = -1, processed = processed + 1", "rate = 0", "stop_percent = 101", "canary = -1",
    "priority = 300",
]  # fmt: skip


@pytest.mark.parametrize("change", IMPOSSIBLE)
async def test_impossible_rows_are_refused(operations: PostgresOperations, database: Database, change: str) -> None:
    await operations.step((await started(operations, [await database.dead() for _ in range(2)])).number, 1)
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.NumericValueOutOfRange)):
        await database.do(f"update operations set {change}")


MEMBERS = 500
SEEN = 10 * MEMBERS
"""Rows and entries of indexes that a step may look at, whatever there is beside them."""
JOBS = {"retry": "jobs_dead", "delete": "jobs_dead", "move": "jobs", "cancel": "jobs"}


@pytest.fixture(scope="module")
def filled_template(servers: SessionServers, migrated_template: str) -> Iterator[str]:
    """The name of a database with many jobs, of which the planner knows nothing: copied sooner than filled."""
    with fresh_database(servers.postgres_url, migrated_template) as url:
        asyncio.run(fill(url))
        yield urlsplit(url).path.removeprefix("/")


async def fill(url: str) -> None:
    async with direct(url) as database:
        await database.queues()
        for table in ("jobs", "jobs_dead", "operation_members"):
            await database.do(f"alter table {table} set (autovacuum_enabled = off)")
            await database.do(f"analyze {table}")
        await database.fill(DEAD, 200_000, trashed=False)
        await database.fill(READY, 20_000)
        await database.fill(COMPLETED, 20_000)


@pytest.fixture
def filled_url(servers: SessionServers, filled_template: str) -> Iterator[str]:
    with fresh_database(servers.postgres_url, filled_template) as url:
        yield url


@pytest.mark.parametrize("verb", list(JOBS))
@pytest.mark.parametrize("known", [True, False], ids=["statistics", "none"])
async def test_a_step_looks_at_its_members_only(filled_url: str, verb: str, known: bool) -> None:
    operations = PostgresOperations(PostgresSettings(url=filled_url))
    async with direct(filled_url) as database, AsyncExitStack() as stack:
        stack.push_async_callback(operations.close)
        await looks_at_its_members_only(filled_url, operations, database, verb, known)


async def looks_at_its_members_only(
    url: str, operations: PostgresOperations, database: Database, verb: str, known: bool
) -> None:
    ids = [row[0] for row in await database.do(f"select id::text from {JOBS[verb]} order by random() limit {MEMBERS}")]
    number = (
        await operations.create(OperationRequest(verb, "x", Author("a", "b"), options=ChangeOptions(queue="q5")))
    ).number
    await database.do("insert into queues (name) values ('q5')")
    await database.do(
        "insert into operation_members select %(number)s, n, 'other ' || n, 1, 'q1' from generate_series(1, 100000) n",
        {"number": number + 1},
    )
    await operations.add(number, ids)
    await operations.move(number, "running")
    if known:
        await database.analyse()
    options = connection_options(PostgresSettings(url=url)) | {"options": "-c plan_cache_mode=force_generic_plan"}
    with psycopg.connect(**options) as connection:
        before = looked_at(connection)
        done = drive(connection, step(number, MEMBERS, {}))
        assert looked_at(connection) - before < SEEN
    assert len(done.changed.ids) == MEMBERS


def looked_at(connection: psycopg.Connection[Any]) -> int:
    """Return how many rows and entries of indexes this transaction has looked at."""
    row = connection.execute(LOOKED_AT, prepare=False).fetchone()
    assert row is not None
    return int(row[0])


def drive(connection: psycopg.Connection[Any], plan: Plan[T]) -> T:
    """Carry out a plan with statements that are prepared for any values."""
    name, params = next(plan)
    while True:
        cursor = connection.execute(load(name, SCHEMA), params, prepare=True)
        try:
            name, params = plan.send(cursor.fetchall() if cursor.description else [])
        except StopIteration as end:
            result: T = end.value
            return result
