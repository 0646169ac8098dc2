"""Headers: texts that travel with a job through all of its states, to its handler and to who looks at it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from queue_core.client.context import JobContext
from queue_core.client.middleware import Middleware
from queue_core.errors import InvalidJob, QueueCoreError
from queue_core.model.filters import Filter
from queue_core.model.job import NewJob, headers_of
from queue_core.model.operation import MemberVerb
from queue_core.model.retry import Retry
from queue_core.queue import JobQueue
from tests.conformance.making import QUEUE
from tests.conformance.test_operations_moving import OTHER, move
from tests.conformance.working import PATIENCE, working
from tests.conformance.world import STATES, World

HEADERS = {"traceparent": "00-1-2-01", "tenant": 'Zoë "1" {}\n\x1b'}


@pytest.mark.parametrize("keys", [{}, {"ordering_key": "a", "unique_key": "b"}])
@pytest.mark.parametrize("state", STATES)
async def test_they_stay_in_every_state(world: World, state: str, keys: dict[str, Any]) -> None:
    with_headers = await world.job_in(state, headers=HEADERS, **keys)
    without = await world.job_in(state, **{name: f"{key} too" for name, key in keys.items()})
    assert (await world.job(with_headers)).headers == HEADERS
    assert (await world.job(without)).headers == {}


async def test_they_stay_on_every_way(world: World) -> None:
    """Claims of each kind, a retry, a release, a loss, a move, the trash, an operator's retry, and the history."""

    async def check(claim: Any = None) -> None:
        assert (await world.job(job_id)).headers == HEADERS
        assert claim is None or headers_of(claim.headers) == HEADERS

    job_id = await world.insert(headers=HEADERS)
    (claim,) = await world.claim()
    await check(claim)
    await world.settle(claim, "released")
    await world.settle(await world.claim_job(job_id), "released", to_back=True)
    await check()
    await world.settle(await world.claim_job(job_id), "retrying", delay=0.0)
    await world.store.promote(10)
    await check(await world.claim_job(job_id))
    await world.advance(61)
    await world.store.reclaim(10, 5)
    await check()
    assert (await move(world, job_id)).changed.ids
    await check()
    claim = await world.claim_job(job_id, queue=OTHER)
    await check(claim)
    await world.settle(claim, "dead")
    assert (await move(world, job_id, queue=QUEUE)).changed.ids
    await check()
    for verb in ("delete", "restore", "retry"):
        assert (await world.change(cast("MemberVerb", verb), [job_id])).ids, verb
        await check()
    claim = await world.claim_job(job_id)
    await world.settle(claim, "completed")
    await check()
    assert (await world.change("retry", [job_id])).ids
    await check(await world.claim_job(job_id))


async def test_a_list_shows_them(world: World) -> None:
    await world.insert(headers=HEADERS)
    (job,) = (await world.inspector.jobs(Filter(), 10)).jobs
    assert job.headers == HEADERS


async def test_a_handler_reads_what_was_given(jobs: JobQueue) -> None:
    class Trace(Middleware):
        async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
            for number, job in enumerate(jobs):
                job.headers["number"] = str(number)

        async def around_run(self, ctx: JobContext, call: Any) -> Any:
            seen.append(ctx.headers)
            return await call()

    seen: list[dict[str, str]] = []

    @jobs.task(retry=Retry(max_retries=1, delay=0))
    async def read(ctx: JobContext) -> dict[str, str]:
        if ctx.attempt == 1:
            raise ValueError
        return ctx.headers

    async with working(jobs):
        handle = await read.options(headers={"a": "b"}).enqueue()
        assert await handle.result(PATIENCE) == {"a": "b"}
        assert await (await read.enqueue()).result(PATIENCE) == {}
    jobs.middleware(Trace())
    handles = await read.options(headers={"a": "b"}).enqueue_many([{}, {}])
    async with working(jobs):
        for number, handle in enumerate(handles):
            assert await handle.result(PATIENCE) == {"a": "b", "number": str(number)}
    assert sorted(map(json.dumps, seen)) == sorted([json.dumps({"a": "b", "number": n}) for n in "0011"])


TOO_LARGE = "the headers of a job have 4,097 bytes; the limit is 4,096"


@pytest.mark.parametrize(("headers", "why"), [
    ({"a": "é" * 2048}, TOO_LARGE),
    ({str(n): "" for n in range(33)}, "a job has at most 32 headers, not 33"),
    ({"a": 1}, "header 'a' is a text, not int"),
    ({1: "a"}, "a header's name is a text that is not empty, not 1"),
    ({"a": "\0"}, "header 'a' cannot hold the character NUL or halves of characters"),
    ({"a": "\ud800"}, "header 'a' cannot hold the character NUL or halves of characters"),
    ({"a\n": ""}, "a header's name cannot hold braces, unseen characters or spaces at its ends: 'a\\n'"),
    ([("a", "b")], "headers is a dict of texts, not list"),
])  # fmt: skip
async def test_what_cannot_be_one_is_refused(headers: Any, why: str) -> None:
    async with JobQueue(memory=True) as jobs:
        with pytest.raises(InvalidJob) as caught:
            await jobs.enqueue("any", headers=headers)
        assert str(caught.value) == why
        assert await jobs.inspector.count(Filter()) == 0


async def test_what_a_hook_gives_is_checked_too() -> None:
    class Large(Middleware):
        async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
            jobs[0].headers["a"] = "x" * 4096

    async with JobQueue(memory=True) as jobs:
        jobs.middleware(Large())
        with pytest.raises(QueueCoreError) as caught:
            await jobs.enqueue("any")
        assert str(caught.value) == TOO_LARGE
        assert await jobs.inspector.count(Filter()) == 0


async def test_the_largest_fit(jobs: JobQueue) -> None:
    headers = {f"{number:02}": "x" * 126 for number in range(32)}
    handles = await jobs.enqueue_many("any", [{}] * 100, headers=headers)
    assert (await jobs.inspector.get(handles[-1].id)).headers == headers


def test_what_is_stored_by_others_is_read() -> None:
    """A value that is no text is left out, and what is no object holds none."""
    assert headers_of('{"a": "b", "c": 1}') == {"a": "b"}
    assert [headers_of(text) for text in (None, "", "[1]", "{", "null")] == [{}] * 5
