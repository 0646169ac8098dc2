"""Many executors, operations and workers on the same jobs: each step is taken once, and nothing waits in a circle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from itertools import chain
from typing import Any

import pytest

from queue_core.model.job import NewJob
from queue_core.model.operation import Author, ChangeOptions, Operation, OperationRequest
from queue_core.model.rules import QueueRules, Rules
from queue_core.model.settings import PostgresSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.operations import PostgresOperations
from queue_core.stores.postgres.store import PostgresStore
from tests.conformance.making import LEASE, new_job, outcome
from tests.postgres.operations.filling import Database

QUEUES = ("a", "b")
RULES: Rules = {"a": QueueRules(dead_blocks_key=True, limit=10_000), "b": QueueRules(aging=60.0)}
KINDS = ("completed", "retrying", "released", "dead", "dead", "dead")
JOBS = 240
WAYS = (ChangeOptions(), ChangeOptions(queue="a"), ChangeOptions(queue="b", spread=0.01), ChangeOptions(priority=9))
VERBS = ("retry", "retry", "move", "move", "cancel", "delete", "restore")
PLACES = """
select id::text from jobs union all select id::text from jobs_dead union all select id::text from job_history
"""
STUCK = """
select queue_id, ordering_key from jobs where ordering_key is not null and status = 'queued' and not admitted
except
select queue_id, ordering_key from (select * from (select queue_id, ordering_key from jobs where admitted) j
                                    union all select queue_id, ordering_key from jobs_dead where admitted) h
"""
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


@pytest.fixture
async def stores(postgres_url: str) -> AsyncIterator[list[PostgresStore]]:
    """The stores of three worker processes."""
    settings = PostgresSettings(url=postgres_url)
    opened = [PostgresStore(settings, rules=RULES) for _ in range(3)]
    await opened[0].acquire_leadership("sweep", "leader", 0)
    yield opened
    for store in opened:
        await store.close()


@pytest.fixture
async def executors(postgres_url: str) -> AsyncIterator[list[PostgresOperations]]:
    settings = PostgresSettings(url=postgres_url)
    opened = [PostgresOperations(settings, RULES) for _ in range(3)]
    yield opened
    for one in opened:
        await one.close()


async def work(store: PostgresStore, chance: random.Random, over: asyncio.Event) -> None:
    """Do what workers and their leader do."""
    while not over.is_set():
        for queue in QUEUES:
            claims = await store.claim(ClaimRequest(queue, "w", None, 10, LEASE))
            ended = [
                outcome(one, chance.choice(KINDS), ordering_key=one.ordering_key)._replace(delay=0.0) for one in claims
            ]
            chance.shuffle(ended)
            await store.settle(ended)
        await store.promote(100)


async def execute(executor: PostgresOperations, steps: dict[int, list[str]]) -> None:
    """Take steps of all operations until all have ended."""
    while running := await executor.list_operations(100, unfinished=True):
        for one in running:
            done = await executor.step(one.number, 17)
            steps.setdefault(one.number, []).extend(done.changed.ids)


async def ask(executor: PostgresOperations, chance: random.Random, ids: list[str]) -> Operation:
    """Let a random operation run on all jobs, in any order."""
    asked = OperationRequest(chance.choice(VERBS), "all jobs", Author("ana", "host-1"), options=chance.choice(WAYS))
    number = (await executor.create(asked)).number
    await executor.add(number, chance.sample(ids, len(ids)))
    await executor.move(number, "running")
    return await executor.get(number)


def jobs(chance: random.Random) -> list[NewJob]:
    keys: list[dict[str, Any]] = [{}, {"ordering_key": "k"}, {"ordering_key": "l"}, {"unique_key": "u"}]
    made = [new_job(queue=chance.choice(QUEUES), **chance.choice(keys), max_retries=9) for _ in range(JOBS)]
    unique = [one._replace(unique_key=f"u{n % 50}") if one.unique_key else one for n, one in enumerate(made)]
    return unique


@pytest.mark.parametrize("seed", range(3))
async def test_each_step_is_taken_once_and_no_job_is_lost(
    stores: list[PostgresStore], executors: list[PostgresOperations], database: Database, seed: int
) -> None:
    chance, over, steps = random.Random(seed), asyncio.Event(), {}
    written = [one for one in await stores[0].insert(jobs(chance)) if one.created]
    ids = [one.id for one in written]
    working = [asyncio.create_task(work(store, random.Random(seed + n), over)) for n, store in enumerate(stores)]
    asked = []
    for _ in range(4):
        asked += [await ask(executors[0], chance, ids) for _ in range(3)]
        await asyncio.gather(*(execute(executor, steps) for executor in executors))
    over.set()
    await asyncio.gather(*working)
    for one in asked:
        found = await executors[0].get(one.number)
        assert (found.state, found.done, found.processed + found.skipped) == ("done", len(ids), len(ids))
        members = [member.id for member in await executors[0].list_members(one.number, 0, JOBS)]
        assert sorted(steps[one.number]) == sorted(members)
        assert (len(set(members)), len(members)) == (found.processed, found.processed)
    assert any(chain(steps.values()))
    assert Counter(row[0] for row in await database.do(PLACES)) == Counter(ids)
    # What somebody had locked is left to the leader's next round.
    await stores[0].promote(1000)
    assert await database.do(STUCK) == []
    for one in (*stores, *executors):
        await one.close()
    assert await database.value(DEADLOCKS) == 0
