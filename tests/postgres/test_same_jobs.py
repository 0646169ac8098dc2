"""Lists of jobs that differ in their payloads alone, which have a statement of their own."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import psycopg
import pytest

from queue_core.model.job import Inserted, NewJob, new_id
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.insert import differ_in_payload_alone
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import new_job

pytestmark = pytest.mark.on_postgres

STORED = """
SELECT j.id::text, q.name, rank, extract(epoch FROM run_at)::float8, type, payload, priority, max_retries,
       coalesce(tags, '{}'), headers
  FROM jobconsole.jobs j JOIN jobconsole.queues q ON q.id = j.queue_id WHERE j.id = ANY (%s)
"""


def stored(url: str, ids: list[str]) -> dict[str, tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return {job_id: tuple(row) for job_id, *row in connection.execute(STORED, (ids,))}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"priority": 100, "max_retries": 0, "tags": ("a", 'b"\\{}'), "headers": {"trace": "ü"}},
        {"delay": 60.0, "priority": -128},
        {"run_at": 1.5},
        {"run_at": time.time() + 1e6, "queue": "other, queue", "type": "type of 'quotes' %s"},
    ],
)
async def test_they_are_stored_as_each_alone_would_be(postgres_url: str, options: dict[str, Any]) -> None:
    store = PostgresStore(PostgresSettings(url=postgres_url))
    jobs = [new_job(payload=json.dumps({"number": n, "text": 'a"\\,{}'}), **options) for n in range(20)]
    alone = new_job(**options)
    # The second list of a queue takes the statement again, prepared.
    answers = await store.insert(jobs[:10]) + await store.insert(jobs[10:])
    (one,) = await store.insert([alone])
    await store.close()
    rows = stored(postgres_url, [job.id for job in (*jobs, alone)])
    last = rows[alone.id]
    for job, answer in zip(jobs, answers, strict=True):
        queue, rank, due, *rest = rows[job.id]
        assert (answer.id, answer.queue, answer.rank, answer.created) == (job.id, queue, rank, True)
        assert (answer.due is None) is (one.due is None)
        assert answer.due is None or answer.due == pytest.approx(due)
        assert rest == [*last[3:4], job.payload, *last[5:]]
    ranks = [answer.rank for answer in answers]
    assert ranks == sorted(ranks, key=lambda rank: rank or 0)


async def test_the_ranks_of_lists_that_are_written_at_once_are_their_own(postgres_url: str) -> None:
    stores = [PostgresStore(PostgresSettings(url=postgres_url)) for _ in range(4)]
    lists = [[[new_job() for _ in range(2_000)] for _ in range(4)] for _ in stores]

    async def write(store: PostgresStore, own: list[list[NewJob]]) -> list[Inserted]:
        return [answer for jobs in own for answer in await store.insert(jobs)]

    written = await asyncio.gather(*map(write, stores, lists))
    for store in stores:
        await store.close()
    answers = {one.id: one.rank for own in written for one in own}
    ranks = {job_id: row[1] for job_id, row in stored(postgres_url, list(answers)).items()}
    assert answers == ranks
    ordered = [[answers[job.id] for jobs in own for job in jobs] for own in lists]
    assert all(ranks == sorted(ranks) for ranks in ordered)
    assert any(ranks[-1] - ranks[0] >= len(ranks) for ranks in ordered), "none was written beside another"


GAPS = """
CREATE FUNCTION take_a_place() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('jobconsole.job_seq'); RETURN NEW; END $$;
CREATE TRIGGER take_a_place BEFORE INSERT ON jobconsole.jobs FOR EACH ROW WHEN (NEW.payload LIKE '%gap%')
    EXECUTE FUNCTION take_a_place()
"""
"""Takes a place in the order of arrival between two jobs of a list, as another producer may."""


@pytest.mark.parametrize("gaps", [(1,), (3,), (0, 2)])
async def test_the_ranks_of_a_list_are_known_around_a_place_that_another_took(
    postgres_url: str, gaps: tuple[int, ...]
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(GAPS.encode())
    store = PostgresStore(PostgresSettings(url=postgres_url))
    answers = await store.insert([new_job(payload='{"gap":1}' if n in gaps else "{}") for n in range(5)])
    await store.close()
    rows = stored(postgres_url, [answer.id for answer in answers])
    assert [answer.rank for answer in answers] == [rows[answer.id][1] for answer in answers]
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP FUNCTION take_a_place CASCADE")


async def test_ids_that_are_there_already_are_left_alone(postgres_url: str) -> None:
    store = PostgresStore(PostgresSettings(url=postgres_url))
    jobs = [new_job(payload='{"a":1}') for _ in range(3)]
    await store.insert(jobs[:1])
    answers = await store.insert([job._replace(payload='{"a":2}') for job in jobs])
    await store.close()
    assert [answer.created for answer in answers] == [False, True, True]
    rows = stored(postgres_url, [job.id for job in jobs])
    assert [rows[job.id][4] for job in jobs] == ['{"a":1}', '{"a":2}', '{"a":2}']


async def test_texts_that_are_no_json_are_stored_each_as_it_is(postgres_url: str) -> None:
    """What parts payloads on their way may be in one: a store does not judge them."""
    store = PostgresStore(PostgresSettings(url=postgres_url))
    texts = ["a\x1fb", "\x1f", "{}", "", 'c\x1f"\\']
    jobs = [new_job(payload=text) for text in texts]
    await store.insert(jobs)
    await store.close()
    rows = stored(postgres_url, [job.id for job in jobs])
    assert [rows[job.id][4] for job in jobs] == texts


@pytest.mark.parametrize(
    "other",
    [
        {"queue": "b"},
        {"type": "b"},
        {"priority": 6},
        {"delay": 1.0},
        {"run_at": 1.0},
        {"max_retries": 4},
        {"tags": ("b",)},
        {"headers": {"b": "c"}},
    ],
)
def test_any_other_difference_counts(other: dict[str, Any]) -> None:
    assert differ_in_payload_alone([new_job(), new_job(payload='{"a":1}')])
    assert not differ_in_payload_alone([new_job(), new_job(), new_job(id=new_id(), **other)])
