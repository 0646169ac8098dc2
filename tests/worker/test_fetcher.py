"""Getting jobs: what was taken is not forgotten, whatever happens between the taking and the running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from queue_core import JobContext, JobQueue, SchemaMissing
from queue_core.delivery.audit import DeliveryAudit
from queue_core.errors import StoreUnavailable
from queue_core.model.job import Claim
from queue_core.model.rules import AHEAD_SECONDS
from queue_core.model.states import Status
from queue_core.ports.delivery import Nomination
from queue_core.ports.store import ClaimRequest
from queue_core.worker import leader
from queue_core.worker.runner import Runner
from queue_core.worker.worker import Worker
from tests.around import Around
from tests.conformance.working import until, working
from tests.waiting import PATIENCE, eventually
from tests.worker.breaking import BreakingStore, breaking_queue


class Nominating(Around):
    """A dispatcher that hands out ids, each once, as Redis does."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._offered: dict[str, None] = {}
        self._news = asyncio.Event()
        self.takes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)

    async def offer(self, ready: Sequence[Any]) -> None:
        self._offered |= dict.fromkeys(job.id for job in ready)
        self._news.set()

    async def take(self, queues: Sequence[str], limit: int, timeout: float) -> Nomination | None:
        self.takes += 1
        try:
            async with asyncio.timeout(timeout):
                while not self._offered:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return None
        ids = list(self._offered)[:limit]
        for job_id in ids:
            del self._offered[job_id]
        return Nomination(queues[0], ids)

    async def missing(self, heads: Sequence[Any]) -> list[Any]:
        return []  # an audit that finds nothing: what is forgotten stays forgotten


@pytest.fixture
def nominating(jobs: JobQueue) -> Nominating:
    """The dispatcher of the queue object."""
    return nominating_in(jobs)


def nominating_in(jobs: JobQueue) -> Nominating:
    """Give a queue object a dispatcher that hands out ids."""
    dispatcher = Nominating(jobs.dispatcher)
    jobs._backend = jobs._backend._replace(dispatcher=dispatcher)  # type: ignore[arg-type]
    jobs._enqueuer._backend = jobs._backend
    return dispatcher


async def test_candidates_in_hand_are_tried_again_when_the_store_is_back(
    jobs: JobQueue, store: BreakingStore, nominating: Nominating
) -> None:
    """Else they would have to wait for the audit, some hundred a second."""

    @jobs.task
    async def work() -> str:
        return "done"

    numbers: set[int] = set()
    claim = store.claim

    async def noting(request: ClaimRequest) -> list[Claim]:
        if request.ids is not None:
            numbers.add(request.number)
        return await claim(request)  # type: ignore[no-any-return]

    store.claim = noting  # type: ignore[attr-defined]
    async with working(jobs):
        assert await eventually(lambda: nominating.takes > 0)
        store.before["claim"] = asyncio.Event()
        handles = await jobs.enqueue_many("work", [{}] * 5)
        assert await eventually(lambda: store.calls["claim"] > 0)
        store.away = True
        store.before.pop("claim").set()
        taken = nominating.takes
        tries = store.calls["claim"]
        assert await eventually(lambda: store.calls["claim"] >= tries + 2)
        assert nominating.takes <= taken + 1, "it does not drain the ready set while it cannot claim"
        assert len(numbers) == 1, "it is one claim, whose answer may have got lost"
        store.away = False
        for handle in handles:
            assert await handle.result(PATIENCE) == "done"


async def test_a_lease_counts_from_the_first_time_that_its_claim_was_asked_for(
    jobs: JobQueue, store: BreakingStore, nominating: Nominating
) -> None:
    """The store may have carried out what it did not answer, and gives the same jobs when it is asked again."""
    gate = asyncio.Event()

    @jobs.task
    async def work() -> None:
        await gate.wait()

    async with working(jobs, lease="300s", heartbeat="100s") as worker:
        assert await eventually(lambda: nominating.takes > 0)
        store.failing["claim"] = StoreUnavailable("memory", "somebody pulled the plug")
        handle = await jobs.enqueue("work")
        assert await eventually(lambda: store.calls["claim"] >= 2)
        failed_at = time.monotonic()
        store.failing.clear()
        assert await eventually(lambda: handle.id in worker._held)
        assert worker._held[handle.id].renewed < failed_at
        gate.set()
        await handle.result(PATIENCE)


async def test_candidates_that_may_not_start_yet_are_given_back() -> None:
    """Else they would have to wait for the audit."""
    jobs, _ = breaking_queue()
    jobs.queue("rated", rate="4/s")

    @jobs.task(queue="rated")
    async def work() -> str:
        return "done"

    async with jobs:
        nominating_in(jobs)

        async def announced() -> bool:
            return bool((await jobs.inspector.overview()).workers)

        async with working(jobs):
            await until(announced)  # what no live worker takes is not given back
            for handle in await jobs.enqueue_many("work", [{}] * 10, queue="rated"):
                assert await handle.result(PATIENCE) == "done"


async def test_a_queue_that_holds_jobs_back_is_looked_at_again_before_the_audit_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a queue of 100 jobs a second would start as many as may start at once each second, and no more."""

    async def nothing(audit: DeliveryAudit) -> int:
        return 0

    monkeypatch.setattr(DeliveryAudit, "run_once", nothing)
    jobs, _ = breaking_queue()
    jobs.queue("rated", rate="4/s")

    @jobs.task(queue="rated")
    async def work() -> str:
        return "done"

    async with jobs, working(jobs):
        for handle in await jobs.enqueue_many("work", [{}] * 10, queue="rated"):
            assert await handle.result(PATIENCE) == "done"


async def test_of_several_queues_no_more_is_claimed_than_there_is_room_for() -> None:
    """Where no dispatcher is, one is asked after the other."""
    jobs, _ = breaking_queue()
    jobs._backend = jobs._backend._replace(dispatcher=None)
    jobs._enqueuer._backend = jobs._backend
    gate = asyncio.Event()

    @jobs.task(timeout=0)
    async def work() -> None:
        await gate.wait()

    async with jobs:
        await jobs.enqueue_many("work", [{}] * 2, queue="few")
        await jobs.enqueue_many("work", [{}] * 5, queue="many")
        async with working(jobs, queues=("many", "few"), concurrency=3) as worker:
            assert await eventually(lambda: worker._runner.busy == 3)
            assert sorted(one.claim.queue for one in worker._held.values()) == ["few", "few", "many"]
            gate.set()


async def test_jobs_of_a_queue_with_a_rate_have_to_start_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took their tokens when they were claimed, and a rate counts starts."""
    within: dict[str, float] = {}
    accept = Runner.accept

    def noted(runner: Runner, claims: Sequence[Claim], claimed_at: float, count: int, start_by: float) -> None:
        within[claims[0].queue] = start_by - claimed_at
        accept(runner, claims, claimed_at, count, start_by)

    monkeypatch.setattr(Runner, "accept", noted)
    jobs, _ = breaking_queue()
    jobs.queue("rated", rate="100/s")

    @jobs.task
    async def work() -> None: ...

    async with jobs, working(jobs, queues=("rated", "default")):
        for queue in ("rated", "default"):
            await (await jobs.enqueue("work", queue=queue)).result(PATIENCE)
    assert within == {"rated": pytest.approx(AHEAD_SECONDS), "default": inf}


async def test_what_a_handler_enqueued_in_its_transaction_is_offered_when_that_commits(
    jobs: JobQueue, nominating: Nominating
) -> None:
    @jobs.task
    async def work() -> str:
        return "done"

    @jobs.task
    async def outer(ctx: JobContext) -> str:
        async with ctx.transaction() as connection:
            return (await jobs.enqueue("work", connection=connection)).id

    async with working(jobs):
        handle = await outer.enqueue()
        inner = await handle.result(PATIENCE)
        assert await jobs.wait_for("default", inner, PATIENCE) == "done"


async def test_a_stop_in_the_middle_of_a_claim_gives_the_jobs_back(jobs: JobQueue, store: BreakingStore) -> None:
    """The store has given them already; forgotten, they would wait for the end of their lease as if crashed."""
    runs = 0

    @jobs.task
    async def work() -> None:
        nonlocal runs
        runs += 1

    store.after["claim"] = asyncio.Event()
    handles = await jobs.enqueue_many("work", [{}] * 5)
    async with working(jobs, stops=True, lease="1h", heartbeat="0.2s") as worker:
        assert await eventually(lambda: store.calls["claim"] > 0)
        worker.stop()
        await asyncio.sleep(0)
        store.after.pop("claim").set()
    found = [await jobs.inspector.get(handle.id) for handle in handles]
    assert {job.status for job in found} == {Status.QUEUED}
    assert {(job.crashes, job.retry_count) for job in found} == {(0, 0)}
    assert runs == 0, "nothing begins after a stop"


async def test_a_claim_that_fails_unexpectedly_is_not_the_end(
    jobs: JobQueue, store: BreakingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Every loop starts again, and says so."""

    @jobs.task
    async def work() -> str:
        return "done"

    for name in ("claim", "acquire_leadership", "settle"):
        store.failing[name] = RuntimeError(f"{name} is broken")
    handle = await jobs.enqueue("work")
    async with working(jobs):
        assert await eventually(lambda: "the fetcher failed and starts again" in caplog.text)
        assert await eventually(lambda: "the sweeper failed and starts again" in caplog.text)
        store.failing.clear()
        assert await handle.result(PATIENCE) == "done"


async def test_a_schema_that_is_gone_is_said_in_sentences(
    jobs: JobQueue, store: BreakingStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that was dropped and made anew is restored in minutes: once for each loop, and no traceback."""
    monkeypatch.setattr(leader, "RESTART_SECONDS", 0.01)
    ended = asyncio.Event()

    @jobs.task
    async def work() -> str:
        ended.set()
        return "done"

    store.failing["settle"] = SchemaMissing(0, 5)
    handle = await jobs.enqueue("work")
    async with working(jobs):
        await ended.wait()
        store.failing["upkeep"] = SchemaMissing(0, 5)
        assert await eventually(lambda: "the audit waits for the store: the database has no schema" in caplog.text)
        store.failing |= {name: SchemaMissing(0, 5) for name in ("claim", "acquire_leadership")}
        await jobs.enqueue("work")
        assert await eventually(lambda: "the fetcher failed and starts again: the database has no sch" in caplog.text)
        assert await eventually(lambda: "the sweeper failed and starts again: the database has no sch" in caplog.text)
        assert await eventually(lambda: "settle waits for the store: the database has no schema" in caplog.text)
        store.failing.clear()
        assert await handle.result(PATIENCE) == "done"
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []
    assert caplog.text.count("the fetcher failed") == 1


async def test_the_store_away_is_waited_for_with_patience(jobs: JobQueue, store: BreakingStore) -> None:
    @jobs.task
    async def work() -> str:
        return "done"

    async with working(jobs):
        assert await (await jobs.enqueue("work")).result(PATIENCE) == "done"
        handle = await jobs.enqueue("work", delay=0.1)
        store.away = True
        assert await eventually(lambda: store.calls["acquire_leadership"] > 1)
        before = store.calls["claim"]
        loop = asyncio.get_running_loop()
        started = loop.time()
        await eventually(lambda: False, 1.5)
        assert store.calls["claim"] - before <= 2 + 12 * (loop.time() - started), "it asks less and less often"
        store.away = False
        assert await handle.result(PATIENCE) == "done"


async def test_each_time_that_the_store_is_away_the_first_tries_are_close_together(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it was away before."""
    pauses: list[float] = []
    turns = [*[StoreUnavailable("memory", "away")] * 6, None, *[StoreUnavailable("memory", "away")] * 2]
    fetching = Worker(jobs, queues=["default"])._fetcher

    async def fetch(limit: int) -> None:
        if not turns:
            raise asyncio.CancelledError
        if (turn := turns.pop(0)) is not None:
            raise turn

    async def noting(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(fetching, "_fetch", fetch)
    monkeypatch.setattr(asyncio, "sleep", noting)
    with pytest.raises(asyncio.CancelledError):
        await fetching.run()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 0.1, 0.2]
