"""Long lists, of which each part is written while the next one is built: all of it is there, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest

from queue_core import JobQueue
from queue_core.client import joblist
from queue_core.client.joblist import PART_JOBS, PartsEnded
from queue_core.errors import QueueClosed, StoreUnavailable
from queue_core.model.job import Inserted, NewJob
from queue_core.model.settings import PostgresSettings
from queue_core.ports.streams import JobParts
from queue_core.stores.postgres.session.bounds import commit
from queue_core.stores.postgres.session.statements import PreparedStatements
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import QUEUE, Listed, new_job

pytestmark = pytest.mark.on_postgres

ALL = "SELECT id::text, rank FROM jobconsole.jobs ORDER BY rank"
COUNTED = "SELECT coalesce(sum(n), 0) FROM jobconsole.tally_deltas WHERE outcome = 'enqueued'"
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = %s"
IN_ONE, IN_IT = "idle in transaction", "active"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(PostgresSettings(url=postgres_url))
    # The statement is prepared by the second list.
    for _ in range(2):
        await store.insert_parts(Listed([new_job(type="earlier") for _ in range(2)], 1))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM jobconsole.jobs")
        connection.execute("DELETE FROM jobconsole.tally_deltas")
    yield store
    await store.close()


def stored(url: str) -> tuple[list[tuple[str, int]], int]:
    """Return the jobs that are there with their ranks, and how many were counted."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(ALL).fetchall()
        ((counted,),) = connection.execute(COUNTED).fetchall()
    return [(job_id, rank) for job_id, rank in rows], int(counted)


def seven() -> list[NewJob]:
    return [new_job(payload=f'{{"n":{n}}}') for n in range(7)]


async def test_they_are_written_in_their_order(store: PostgresStore, postgres_url: str) -> None:
    jobs = seven()
    answers = await store.insert_parts(Listed(jobs, 3))
    assert stored(postgres_url) == ([(answer.id, answer.rank) for answer in answers], 7)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert all(answer.created for answer in answers)


async def test_a_part_that_cannot_be_built_takes_the_others_back(store: PostgresStore, postgres_url: str) -> None:
    def refuse(part: int) -> None:
        if part == 2:
            raise ValueError("no such payload")

    with pytest.raises(ValueError, match="no such payload"):
        await store.insert_parts(Listed(seven(), 3, refuse))
    assert stored(postgres_url) == ([], 0)
    await store.insert_parts(Listed(seven(), 3))
    assert stored(postgres_url)[1] == 7


async def test_a_session_that_ends_in_between_is_followed_by_another(store: PostgresStore, postgres_url: str) -> None:
    def end_it(part: int) -> None:
        if part in {1, 2}:
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                for state in (IN_ONE, IN_IT):
                    connection.execute(f"{OTHERS} AND pid <> pg_backend_pid()", (state,))

    jobs = seven()
    answers = await store.insert_parts(Listed(jobs, 3, end_it))
    assert stored(postgres_url) == ([(answer.id, answer.rank) for answer in answers], 7)


async def test_ids_that_are_there_already_are_left_alone(store: PostgresStore, postgres_url: str) -> None:
    jobs = seven()
    await store.insert(jobs[4:5])
    answers = await store.insert_parts(Listed(jobs, 3))
    assert [answer.created for answer in answers] == [job is not jobs[4] for job in jobs]
    assert sorted(job_id for job_id, _ in stored(postgres_url)[0]) == sorted(job.id for job in jobs)


async def test_a_queue_that_the_database_has_lost_is_made_again(store: PostgresStore, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM jobconsole.queues")
    assert len(await store.insert_parts(Listed(seven(), 3))) == 7
    assert stored(postgres_url)[1] == 7


async def test_a_closed_queue_takes_nothing(store: PostgresStore, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE jobconsole.queues SET closed_at = now() WHERE name = %s", (QUEUE,))
    with pytest.raises(QueueClosed):
        await store.insert_parts(Listed(seven(), 3))
    assert stored(postgres_url) == ([], 0)


async def test_a_commit_whose_answer_is_lost_is_not_tried_again(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs may have run since: their caller looks for them."""
    real, committed = PreparedStatements.run_together, list[bool]()

    async def lose(self: PreparedStatements, steps: Sequence[tuple[bytes, Any]], *meanwhile: Any) -> list[Any]:
        rows = await real(self, steps, *meanwhile)
        if steps[-1][0] == commit():
            committed.append(True)
            raise psycopg.OperationalError("the connection is lost")
        return rows

    monkeypatch.setattr(PreparedStatements, "run_together", lose)
    with pytest.raises(StoreUnavailable):
        await store.insert_parts(Listed(seven(), 3))
    assert committed == [True]
    assert stored(postgres_url)[1] == 7


@pytest.mark.parametrize("was_written", [False, True])
async def test_a_list_whose_answer_is_lost_is_there_once(
    was_written: bool, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with JobQueue(postgres=postgres_url) as jobs:
        store = jobs.store
        assert isinstance(store, PostgresStore)
        real, lost = store.insert_parts, list[bool]()

        async def lose(listed: JobParts) -> list[Inserted]:
            lost.append(True)
            if was_written:
                await real(listed)
            raise StoreUnavailable("postgres", "the answer got lost")

        monkeypatch.setattr(store, "insert_parts", lose)
        handles = await jobs.enqueue_many("task", [{"n": n} for n in range(2 * PART_JOBS + 100)], queue=QUEUE)
        assert lost == [True]
    assert [handle.id for handle in handles] == [job_id for job_id, _ in stored(postgres_url)[0]]


async def test_no_transaction_waits_for_what_takes_long_to_build(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblist, "MAX_PART_SECONDS", 0.0)
    async with JobQueue(postgres=postgres_url) as jobs:
        store = jobs.store
        assert isinstance(store, PostgresStore)
        real, ended = store.insert_parts, list[BaseException]()

        async def note(listed: JobParts) -> list[Inserted]:
            try:
                return await real(listed)
            except PartsEnded as error:
                ended.append(error)
                raise

        monkeypatch.setattr(store, "insert_parts", note)
        handles = await jobs.enqueue_many("task", [{"n": n} for n in range(2 * PART_JOBS)], queue=QUEUE)
        assert len(ended) == 1
    assert [handle.id for handle in handles] == [job_id for job_id, _ in stored(postgres_url)[0]]


async def test_options_that_change_meanwhile_refuse_nothing_that_is_written(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = ["a"]
    async with JobQueue(postgres=postgres_url) as jobs:
        store = jobs.store
        assert isinstance(store, PostgresStore)
        real = store.insert_parts

        async def spoil(listed: JobParts) -> list[Inserted]:
            written = await real(listed)
            tags.append("")  # which is no tag
            return written

        monkeypatch.setattr(store, "insert_parts", spoil)
        handles = await jobs.enqueue_many("task", [{}] * (2 * PART_JOBS), queue=QUEUE, tags=tags)
    assert tags == ["a", ""]
    assert [handle.id for handle in handles] == [job_id for job_id, _ in stored(postgres_url)[0]]
