"""Changes of operators against everything that goes on at the same time, and in batches."""

from __future__ import annotations

import asyncio
from functools import partial

import psycopg
import pytest

from queue_core.model.filters import parse
from queue_core.model.job import NewJob, new_id
from queue_core.model.operation import UNCHANGED, ChangeOptions, MemberVerb
from queue_core.model.settings import SCHEMA, PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.change import members_of, retry
from queue_core.stores.postgres.dialect import load, plain_array
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.read import PostgresInspector
from queue_core.stores.postgres.scans.blocks import WHOLE_TABLE
from queue_core.stores.postgres.scans.history import History
from queue_core.stores.postgres.session.plans import run_plan
from queue_core.stores.postgres.session.transaction import run_on
from queue_core.stores.postgres.store import PostgresStore
from tests.postgres.operations.filling import DEAD, READY, Database

BATCH = 5_000


@pytest.mark.parametrize("verb", ["cancel", "move"])
async def test_a_claim_that_is_not_committed_yet_wins_over_a_change(
    operations: PostgresOperations, database: Database, verb: MemberVerb
) -> None:
    """The change waits for the claim, and then has to see its lease, not the moment before."""
    await database.queues()
    job_id = await database.ready()
    await database.do("insert into lease_epoch_live values (true, 1)")
    request = {
        "ids": plain_array([job_id]), "queue_id": 1, "queue": "q1", "types": "{task}", "limit": 1, "starting": 1,
        "worker": "w", "lease": 60.0, "claim": 0, "release": 0, "inline": None, "within": False, "synchronous": "off",
    }  # fmt: skip
    async with database.connection.transaction():
        claimed = await database.connection.execute(load("claim/by_ids", SCHEMA), request)
        assert len(await claimed.fetchall()) == 1
        options = ChangeOptions(priority=9) if verb == "move" else UNCHANGED
        changing = asyncio.create_task(operations.change(verb, [job_id], options))
        await asyncio.wait_for(database.until("select exists (select from pg_locks where not granted)"), 30)
    assert (await changing).ids == (() if verb == "move" else (job_id,))
    assert await database.do("select cancel from leases") == [(verb == "cancel",)]
    assert await database.value("select count(*) from jobs") == 1
    assert await database.value("select count(*) from job_history") == 0


async def test_a_move_of_another_console_that_is_not_committed_yet_wins(
    operations: PostgresOperations, database: Database
) -> None:
    """What the rules of its queue have to do with the job was read before: it is in another queue by now."""
    await database.queues()
    job_id = await database.ready()
    async with database.connection.transaction():
        await database.connection.execute("update jobs set queue_id = 2")
        moving = asyncio.create_task(operations.change("move", [job_id], ChangeOptions(queue="q3")))
        await asyncio.wait_for(database.until("select exists (select from pg_locks where not granted)"), 30)
    assert (await moving).ids == ()
    assert await database.value("select queue_id from jobs") == 2


async def test_what_another_console_has_put_into_the_trash_is_not_moved(
    operations: PostgresOperations, database: Database
) -> None:
    """Its commit comes between the look at the job and the move."""
    await database.queues()
    job_id = await database.dead()
    async with database.connection.transaction():
        await database.connection.execute("update jobs_dead set trashed_at = now()")
        moving = asyncio.create_task(operations.change("move", [job_id], ChangeOptions(queue="q3")))
        await asyncio.wait_for(database.until("select exists (select from pg_locks where not granted)"), 30)
    assert (await moving).ids == ()
    assert await database.value("select queue_id from jobs_dead") == 1


async def test_claims_and_cancels_of_the_same_jobs_lose_none(
    postgres_url: str, operations: PostgresOperations, database: Database
) -> None:
    store = PostgresStore(PostgresSettings(url=postgres_url))
    await store.open()
    await store.acquire_leadership("sweep", "w", 60.0)
    ids = [new_id() for _ in range(400)]
    await store.insert([NewJob(job_id, "q", "task", "{}") for job_id in ids])

    async def claim() -> None:
        for at in range(0, 400, 20):
            await store.claim(ClaimRequest("q", "w", ("task",), 20, 60.0, ids[at : at + 20]))

    async def cancel() -> None:
        for at in range(380, -1, -20):
            await operations.change("cancel", ids[at : at + 20])

    await asyncio.gather(claim(), cancel())
    await store.close()
    running = await database.value("select count(*) from jobs j join leases l on l.id = j.id")
    cancelled = await database.value("select count(*) from job_history")
    assert running + cancelled == 400
    assert await database.value("select count(*) from leases") == running
    assert await database.value("select count(*) from jobs") == running


async def test_two_consoles_retry_the_same_jobs_once(
    postgres_url: str, inspector: PostgresInspector, database: Database
) -> None:
    await database.queues()
    await database.fill(DEAD, 1_000, trashed=False)
    consoles = [PostgresOperations(PostgresSettings(url=postgres_url)) for _ in range(4)]
    ids = await inspector.ids(parse("status:dead"), 1_000)
    changed = await asyncio.gather(
        *(console.change("retry", ids if at % 2 else ids[::-1]) for at, console in enumerate(consoles))
    )
    assert sorted(job_id for one in changed for job_id in one.ids) == sorted(ids)
    assert await database.value("select count(*) from jobs") == 1_000
    total = await database.value("select sum(n)::int from tally_deltas where outcome = 'retried_by_operator'")
    assert total == 1_000
    for console in consoles:
        await console.close()


async def test_retried_jobs_queue_up_behind_what_waits_in_the_order_given(
    operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    dead = [await database.dead() for _ in range(3)]
    waits = await database.ready()
    changed = await operations.change("retry", dead[::-1])
    assert [ready.id for ready in sorted(changed.ready, key=lambda ready: ready.rank)] == dead[::-1]
    rank = await database.value("select rank from jobs where id = %(id)s", {"id": waits})
    assert all(ready.rank > rank for ready in changed.ready)


async def test_a_retried_job_keeps_its_crashes(operations: PostgresOperations, database: Database) -> None:
    await database.queues()
    job_id = await database.dead(error="ValueError: y")
    await database.do("update jobs_dead set last_token = 0, crashes = 2")
    await operations.change("retry", [job_id])
    kept = await database.do("select last_token > 0, crashes, retry_count, error, status::text from jobs")
    assert kept == [(True, 2, 0, "ValueError: y", "queued")]


async def test_an_id_that_is_unfinished_already_is_left_in_the_dlq(
    operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    job_id = await database.dead()
    await database.ready(id=job_id)
    assert (await operations.change("retry", [job_id])).ids == ()
    assert await database.value("select count(*) from jobs_dead") == 1


async def test_an_id_used_again_after_its_end_is_retried_from_its_newest_life(
    operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    job_id = new_id()
    for seconds in (20, 10):
        await database.do(
            "insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes,"
            " max_retries, last_token, created_at, finished_at) values (%(id)s, 1, 1, 5, 'completed', now(), 'x',"
            " %(payload)s, 0, 0, 3, 1, now(), now() - make_interval(secs => %(s)s))",
            {"id": job_id, "payload": f'{{"s": {seconds}}}', "s": seconds},
        )
    assert (await operations.change("retry", [job_id])).ids == (job_id,)
    assert await database.value("select payload from jobs") == '{"s": 10}'
    assert await database.value("select payload from job_history") == '{"s": 20}'
    # Its newest life of all died.
    await database.do("delete from jobs")
    await database.dead(id=job_id)
    assert (await operations.change("retry", [job_id])).ids == (job_id,)
    assert await database.value("select payload from jobs") not in ('{"s": 10}', '{"s": 20}')
    assert await database.value("select payload from job_history") == '{"s": 20}'


async def test_a_spread_retry_is_due_within_its_seconds(
    inspector: PostgresInspector, operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    await database.fill(DEAD, 200, trashed=False)
    ids = await inspector.ids(parse("status:dead"), 200)
    changed = await operations.change("retry", ids, ChangeOptions(spread=600.0))
    assert sorted(changed.ids) == sorted(ids)
    assert changed.ready == ()
    rows = await database.do(
        "select count(*)::int, min(status::text), bool_and(rank is null),"
        " bool_and(run_at > now() - interval '1 minute'), bool_and(run_at <= now() + interval '10 minutes'),"
        " max(run_at) - min(run_at) > interval '5 minutes' from jobs"
    )
    assert rows == [(200, "scheduled", True, True, True, True)]


async def test_batches_of_thousands_go_through_every_verb(
    inspector: PostgresInspector, operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    await database.fill(DEAD, BATCH, trashed=False)
    await database.fill(READY, BATCH)
    dead, ready = [await inspector.ids(parse(f"status:{state}"), BATCH) for state in ("dead", "queued")]
    assert len((await operations.change("delete", dead)).ids) == BATCH
    assert len((await operations.change("restore", dead)).ids) == BATCH
    assert len((await operations.change("retry", dead)).ready) == BATCH
    assert len((await operations.change("cancel", [*dead, *ready])).ids) == 2 * BATCH
    found = await inspector.conservation()
    assert (found.dead, found.unfinished, found.cancelled) == (0, 0, 2 * BATCH)


async def test_purged_jobs_go_on_counting_before_and_after_the_fold(
    inspector: PostgresInspector, operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    await database.fill(DEAD, 100, trashed=True)
    await database.do(
        "insert into job_attempts (job_id, token, number, kind, exception, message, traceback, signature, outcome)"
        " select id, 1, 1, 'error', 'x', 'x', 'x', signature, 'dead' from jobs_dead"
    )
    ids = await inspector.ids(parse("trash:yes"), 60)
    assert len((await operations.change("purge", ids)).ids) == 60
    assert (await inspector.conservation()).dead == 100
    await database.do(load("upkeep/fold", SCHEMA).decode(), {"limit": 1_000, **WHOLE_TABLE})
    assert await database.value("select count(*) from tally_deltas") == 0
    assert (await inspector.conservation()).dead == 100
    assert await database.value("select count(*) from job_attempts") == 40


async def test_a_day_that_is_dropped_counts_no_job_that_is_just_being_retried(
    inspector: PostgresInspector, database: Database, postgres_url: str
) -> None:
    await database.queues()
    ids = [new_id() for _ in range(2)]
    for job_id in ids:
        await database.do(
            "insert into job_history (id, queue_id, seq, priority, status, run_at, type, payload, retry_count, crashes,"
            " max_retries, last_token, created_at, finished_at) values (%(id)s, 1, 1, 5, 'completed', now(), 'x', '{}',"
            " 0, 0, 3, 1, now(), date_trunc('day', now() at time zone 'UTC') at time zone 'UTC' - interval '1 hour')",
            {"id": job_id},
        )
    history = History(PostgresSettings(url=postgres_url), 0.0)
    async with await psycopg.AsyncConnection.connect(postgres_url) as retrying:
        await run_plan(retry(members_of(ids[:1]), ChangeOptions(), {}), partial(run_on, retrying, SCHEMA))
        history.begin()
        await asyncio.wait({asyncio.ensure_future(history.idle())}, timeout=0.5)
        await retrying.commit()
    await history.idle()
    await history.close()
    found = await inspector.conservation()
    assert (found.completed, found.unfinished) == (1, 1)


@pytest.mark.parametrize("verb", ["retry", "delete", "restore", "purge", "cancel"])
async def test_ids_that_are_none_are_skipped(operations: PostgresOperations, database: Database, verb: str) -> None:
    await database.queues()
    ids = ["", "x", "'; drop table jobs; --", "\0", new_id(), "{}", "NULL"]
    assert await operations.change(verb, ids) == ((), ())
    assert await operations.change(verb, []) == ((), ())


async def test_an_id_is_an_id_however_it_is_written_and_counts_once(
    inspector: PostgresInspector, operations: PostgresOperations, database: Database
) -> None:
    await database.queues()
    job_id = await database.dead()
    assert (await operations.change("delete", [job_id.upper(), job_id.replace("-", ""), job_id])).ids == (job_id,)
    assert (await inspector.get(job_id.upper())).id == job_id
