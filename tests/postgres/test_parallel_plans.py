"""What PostgreSQL plans in parallel over large tables finds the same as over small ones."""

from __future__ import annotations

import pytest

from queue_core import JobQueue
from queue_core.model.filters import parse
from tests.servers import plan_parallel

FOUND = {
    "payload.n=7": 1,
    "payload.n>3": 6,
    "payload.name~ob": 10,
    "-payload.n<5": 5,
    "type:work payload.n<5 tag:odd": 2,
    "err:bob": 0,
    "queue:default status:queued": 10,
    "id:01": 10,
}


@pytest.mark.parametrize("text", FOUND)
async def test_filters(postgres_url: str, text: str) -> None:
    """On PostgreSQL 15 and 16, filters of payloads were refused: they begin subtransactions."""
    plan_parallel(postgres_url)
    async with JobQueue(postgres=postgres_url) as jobs:
        payloads = [{"n": n, "name": "bob"} for n in range(10)]
        for n, payload in enumerate(payloads):
            await jobs.enqueue("work", payload, tags=["odd"] if n % 2 else [])
        where = parse(text)
        ids = await jobs.inspector.ids(where, 100)
        listed = [job.id for job in (await jobs.inspector.jobs(where, 100)).jobs]
        assert (len(ids), await jobs.inspector.count(where), sorted(listed)) == (FOUND[text], FOUND[text], sorted(ids))
