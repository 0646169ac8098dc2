"""Payloads and results of a megabyte each: written, claimed and settled in parts that fit into a store's time limit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from queue_core.model.job import Claim, NewJob, Outcome
from queue_core.ports.offers import OfferingStore
from queue_core.queue import JobQueue
from queue_core.runtime import MAX_STATEMENT_LENGTH
from tests.conformance.working import PATIENCE, working

TEXT = ('a line with \\ and " of it\n' * 40_000)[:900_000]
MANY = 12


def weigh(jobs: JobQueue, name: str, size: Callable[[Any], int], answers: bool = False) -> list[int]:
    """Note how many characters a call of the store carries, each time."""
    call, sizes = getattr(jobs.store, name), list[int]()

    async def weighed(items: Sequence[Any]) -> Any:
        answer = await call(items)
        sizes.append(sum(map(size, answer if answers else items)))
        return answer

    setattr(jobs.store, name, weighed)
    return sizes


def of_job(job: NewJob) -> int:
    return len(job.payload)


def of_claim(claim: Claim) -> int:
    return len(claim.payload)


def of_outcome(outcome: Outcome) -> int:
    return len(outcome.result or "")


async def test_many_callers_with_large_payloads_and_results(jobs: JobQueue) -> None:
    @jobs.task
    async def give_back(text: str) -> str:
        return text

    inserts = weigh(jobs, "insert_new" if isinstance(jobs.store, OfferingStore) else "insert", of_job)
    claims = weigh(jobs, "claim", of_claim, answers=True)
    settles = weigh(jobs, "settle", of_outcome)
    handles = await asyncio.gather(*(give_back.enqueue(TEXT) for _ in range(MANY)))
    async with working(jobs, concurrency=MANY):
        async with asyncio.timeout(PATIENCE):
            for handle in handles:
                assert await handle.result() == TEXT
    one = 2 * len(TEXT)  # with its escapes
    assert max(inserts) <= MAX_STATEMENT_LENGTH
    assert max(claims) <= MAX_STATEMENT_LENGTH + one
    assert max(settles) <= MAX_STATEMENT_LENGTH


async def test_a_list_with_large_payloads_is_written_as_one(jobs: JobQueue) -> None:
    handles = await jobs.enqueue_many("anything", [{"n": n, "text": TEXT} for n in range(MANY)])
    found = await jobs.list("type:anything", limit=MANY)
    assert {job.id for job in found.jobs} == {handle.id for handle in handles}
    assert (await jobs.get(handles[-1].id)).payload == {"n": MANY - 1, "text": TEXT}
