"""A thousand queues: what a round of the audit costs follows from the queues that have ready jobs, not from all."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queue_core.delivery import audit as auditing
from queue_core.delivery.audit import DeliveryAudit
from queue_core.model.job import NewJob, new_id
from queue_core.queue import JobQueue
from queue_core.stores.postgres.session.runner import SerialRunner
from tests.redis.conftest import announce

QUEUES = [f"queue-{number}" for number in range(1000)]


@pytest.fixture
async def jobs(postgres_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[JobQueue]:
    """A thousand queues, and a live worker of all of them."""
    async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
        await jobs.store.acquire_leadership("sweep", "test", 0)
        await jobs.store.insert([NewJob(new_id(), queue, "later", "{}", delay=3600.0) for queue in QUEUES])
        announce(jobs.store, "task", queues=QUEUES)
        yield jobs


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each statement was sent."""
    sent: Counter[str] = Counter()
    run = SerialRunner.run

    async def counted(self: SerialRunner, query: str, params: Any = None) -> Any:
        sent[query] += 1
        return await run(self, query, params)

    monkeypatch.setattr(SerialRunner, "run", counted)
    return sent


def audit_of(jobs: JobQueue) -> DeliveryAudit:
    assert jobs.dispatcher is not None
    return DeliveryAudit(jobs.store, jobs.dispatcher)


async def test_an_audit_of_idle_queues_is_one_statement(jobs: JobQueue, statements: Counter[str]) -> None:
    assert await audit_of(jobs).run_once() == 0
    assert statements == {"claim/ready_queues": 1}


async def test_an_audit_reads_the_heads_of_many_queues_together(jobs: JobQueue, statements: Counter[str]) -> None:
    """A thousand queues with a job each that Redis never heard of: all are offered, in a few statements."""
    await jobs.store.insert([NewJob(new_id(), queue, "task", "{}") for queue in QUEUES])
    assert jobs.dispatcher is not None
    for queue in QUEUES:
        await jobs.dispatcher.mark_current(queue)
    statements.clear()
    audit = audit_of(jobs)
    assert await audit.run_once() == 1000
    assert statements["claim/heads"] <= 2 * len(QUEUES) / auditing.QUEUES_PER_READ
    # On a busy machine, where reads are slow, it asks how far the order of arrival has come.
    assert statements.total() <= 1 + 3 * len(QUEUES) / auditing.QUEUES_PER_READ
    assert await audit.run_once() == 0


async def test_deep_heads_are_read_a_few_queues_at_a_time(jobs: JobQueue, statements: Counter[str]) -> None:
    deep, shallow = QUEUES[:15], QUEUES[15:30]
    counts = {**dict.fromkeys(deep, auditing.PEEK_JOBS + 5), **dict.fromkeys(shallow, 1)}
    await jobs.store.insert([NewJob(new_id(), queue, "task", "{}") for queue, n in counts.items() for _ in range(n)])
    assert jobs.dispatcher is not None
    for queue in counts:
        await jobs.dispatcher.mark_current(queue)
    statements.clear()
    audit = audit_of(jobs)
    assert await audit.run_once() == sum(counts.values())
    assert statements["claim/heads"] == 2 + 2 * 2
    statements.clear()
    assert await audit.run_once() == 0
    assert statements["claim/heads"] == 1 + 2, "those that were deep are read once"
