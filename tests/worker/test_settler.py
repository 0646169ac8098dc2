"""Outcomes: kept while the store is away, stored when it is back, and never lost to a neighbour."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from queue_core import JobContext, JobQueue, Worker
from queue_core.errors import InvalidJob, SchemaError, StoreUnavailable
from queue_core.model.events import EventName
from queue_core.model.job import Outcome, Settled
from queue_core.runtime import MAX_STATEMENT_LENGTH
from queue_core.worker import settler
from queue_core.worker.settler import _Pace
from tests.conformance.working import until_status, working
from tests.waiting import PATIENCE, eventually
from tests.worker.breaking import BreakingStore


async def test_results_are_kept_while_the_store_is_away(jobs: JobQueue, store: BreakingStore) -> None:
    """Their leases hold: the handlers are not run again."""
    ended = asyncio.Semaphore(0)
    runs = 0

    @jobs.task
    async def work() -> str:
        nonlocal runs
        runs += 1
        store.away = True
        ended.release()
        return "done"

    handles = [await jobs.enqueue("work") for _ in range(5)]
    async with working(jobs) as worker:
        for _ in handles:
            await asyncio.wait_for(ended.acquire(), PATIENCE)
        tries = store.calls["settle"]
        assert await eventually(lambda: store.calls["settle"] >= tries + 3), "it tries again"
        store.away = False
        assert [await handle.result(PATIENCE) for handle in handles] == ["done"] * 5
    assert (runs, worker.refused) == (5, 0)


async def test_a_lost_answer_is_not_a_refusal(jobs: JobQueue, store: BreakingStore) -> None:
    """The first settle was written, its answer got lost: the second one finds it written."""

    @jobs.task
    async def work() -> str:
        store.after["settle"] = asyncio.Event()
        return "done"

    handle = await jobs.enqueue("work")
    async with working(jobs) as worker:
        assert await eventually(lambda: store.calls["settle"] == 1)
        store.away = True
        store.after.pop("settle").set()
        assert await eventually(lambda: store.calls["settle"] > 1)
        store.away = False
        assert await handle.result(PATIENCE) == "done"
    assert worker.refused == 0
    assert (await jobs.inspector.get(handle.id)).retry_count == 0


async def test_what_cannot_be_stored_takes_nobody_with_it(
    jobs: JobQueue, store: BreakingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """One of a batch is poison to the store; the others are stored, and its own lease is left to end."""
    settle = store._store.settle
    batches: list[int] = []

    async def choosy(outcomes: Sequence[Outcome]) -> list[Settled]:
        batches.append(len(outcomes))
        if any(outcome.result == '"poison"' for outcome in outcomes):
            raise InvalidJob("the database refused a value")
        answers: list[Settled] = await settle(outcomes)
        return answers

    store._store.settle = choosy
    store.before["settle"] = asyncio.Event()

    @jobs.task
    async def work(result: str) -> str:
        return result

    handles = await jobs.enqueue_many("work", [{"result": text} for text in ("a", "poison", "b", "c")])
    async with working(jobs, lease="2s", heartbeat="0.2s") as worker:
        assert await eventually(lambda: worker._runner.busy == 0 and store.calls["settle"] == 1)
        store.before.pop("settle").set()
        for handle, result in zip(handles, ("a", None, "b", "c"), strict=True):
            if result:
                assert await handle.result(PATIENCE) == result
        assert await eventually(lambda: handles[1].id not in worker._held)
        assert await eventually(lambda: f"took job {handles[1].id} back" in caplog.text)
    assert f"the outcome of job {handles[1].id} cannot be stored" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError("a lock_timeout of the role"), SchemaError("a right was taken away")])
async def test_an_error_that_is_not_in_the_data_drops_no_outcome(
    jobs: JobQueue, store: BreakingStore, error: Exception
) -> None:
    """It is kept and stored when the error is over: no handler runs twice."""
    ran: list[int] = []

    @jobs.task
    async def work(n: int) -> int:
        store.failing.setdefault("settle", error)
        ran.append(n)
        return n

    handles = await jobs.enqueue_many("work", [{"n": n} for n in range(20)])
    async with working(jobs, concurrency=20) as worker:
        assert await eventually(lambda: len(ran) == 20 and store.calls["settle"] >= 3)
        assert len(worker._held) == 20
        del store.failing["settle"]
        assert [await handle.result(PATIENCE) for handle in handles] == list(range(20))
    assert (sorted(ran), worker.refused) == (list(range(20)), 0)


async def test_an_outcome_that_meets_an_error_again_and_again_holds_up_no_other(
    jobs: JobQueue, store: BreakingStore
) -> None:
    settle = store._store.settle
    mended = False

    async def choosy(outcomes: Sequence[Outcome]) -> list[Settled]:
        if not mended and any(outcome.result == "7" for outcome in outcomes):
            raise RuntimeError("a trigger says no")
        answers: list[Settled] = await settle(outcomes)
        return answers

    store._store.settle = choosy

    @jobs.task
    async def work(n: int) -> int:
        return n

    handles = await jobs.enqueue_many("work", [{"n": n} for n in range(20)])
    async with working(jobs, concurrency=20) as worker:
        for n, handle in enumerate(handles):
            if n != 7:
                assert await handle.result(PATIENCE) == n
        assert set(worker._held) == {handles[7].id}
        mended = True
        assert await handles[7].result(PATIENCE) == 7


async def test_a_settle_that_times_out_is_tried_again_in_halves(jobs: JobQueue, store: BreakingStore) -> None:
    settle = store._store.settle
    tried: list[int] = []

    async def slow(outcomes: Sequence[Outcome]) -> list[Settled]:
        tried.append(len(outcomes))
        if len(outcomes) > 3:
            raise StoreUnavailable("memory", "no answer within 1 s")
        answers: list[Settled] = await settle(outcomes)
        return answers

    store._store.settle = slow
    store.before["settle"] = asyncio.Event()

    @jobs.task
    async def work() -> str:
        return "done"

    handles = await jobs.enqueue_many("work", [{}] * 12)
    async with working(jobs, concurrency=12) as worker:
        assert await eventually(lambda: worker._runner.busy == 0 and store.calls["settle"] == 1)
        store.before.pop("settle").set()
        assert [await handle.result(PATIENCE) for handle in handles] == ["done"] * 12
    assert max(tried) > 3


async def test_a_batch_of_outcomes_is_cut_by_its_size(jobs: JobQueue, store: BreakingStore) -> None:
    settle = store._store.settle
    sizes: list[int] = []

    async def weighing(outcomes: Sequence[Outcome]) -> list[Settled]:
        sizes.append(sum(len(outcome.result or "") for outcome in outcomes))
        answers: list[Settled] = await settle(outcomes)
        return answers

    store._store.settle = weighing
    store.before["settle"] = asyncio.Event()

    @jobs.task
    async def work() -> str:
        return "x" * 1_000_000

    await jobs.enqueue_many("work", [{}] * 50)
    async with working(jobs, concurrency=50) as worker:
        assert await eventually(lambda: worker._runner.busy == 0 and store.calls["settle"] == 1)
        store.before.pop("settle").set()
        assert await eventually(lambda: not worker._held)
    assert max(sizes) <= MAX_STATEMENT_LENGTH
    assert len(sizes) <= 10


async def test_outcomes_that_gather_are_stored_together(jobs: JobQueue, store: BreakingStore) -> None:
    """Natural batches: the first goes alone, the rest waits for it and goes at once."""

    @jobs.task
    async def work() -> None:
        store.before.setdefault("settle", asyncio.Event())

    handles = await jobs.enqueue_many("work", [{}] * 50)
    async with working(jobs, concurrency=50) as worker:
        assert await eventually(lambda: store.calls["settle"] == 1 and worker._runner.busy == 0)
        store.before["settle"].set()
        for handle in handles:
            await handle.result(PATIENCE)
        assert store.calls["settle"] <= 3


async def test_what_cannot_be_stored_in_time_at_the_end_is_said(
    jobs: JobQueue, store: BreakingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker ends although the store does not come back; the job's lease ends by itself."""

    @jobs.task
    async def work() -> None:
        store.away = True

    await jobs.enqueue("work")
    async with working(jobs, lease="2s", heartbeat="0.2s"):
        assert await eventually(lambda: store.calls["settle"] > 0)
    assert "outcomes not stored, their jobs will run again: 1" in caplog.text
    store.away = False


async def test_an_outcome_on_its_way_is_stored_although_all_tasks_are_cancelled(
    jobs: JobQueue, store: BreakingStore
) -> None:
    """As at the end of a program's event loop: it is not known whether the settle was carried out."""
    under_way = store.before["settle"] = asyncio.Event()

    @jobs.task
    async def work() -> str:
        return "done"

    handle = await jobs.enqueue("work")
    before = asyncio.all_tasks()
    running = asyncio.create_task(Worker(jobs, lease="300s").run())
    assert await eventually(lambda: store.calls["settle"] == 1)
    del store.before["settle"]
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.cancelled()
    assert not under_way.is_set()
    assert await handle.result(0) == "done"


@pytest.mark.parametrize("what", ["the worker", "all tasks", "the settle that takes too long at the end"])
async def test_what_was_claimed_behind_an_end_is_given_back_although_that_is_cancelled(
    jobs: JobQueue, store: BreakingStore, what: str
) -> None:
    """The store has given the next job of the key already; forgotten, it would wait for the end of its lease."""
    answer = store.after["settle_and_claim"] = asyncio.Event()

    @jobs.task
    async def work() -> str:
        return "done"

    first, second = await work.options(ordering_key="k").enqueue_many([{}] * 2)
    before = asyncio.all_tasks()
    worker = Worker(jobs, lease="300s")
    running = asyncio.create_task(worker.run())
    await until_status(jobs, second.id, "running")
    del store.after["settle_and_claim"]
    if what.startswith("the settle"):
        worker._settling = 0.01
        worker.stop()
        assert await eventually(lambda: any(task.cancelling() and not task.done() for task in asyncio.all_tasks()))
    for task in {"all tasks": asyncio.all_tasks() - before, "the worker": {running}}.get(what, ()):
        task.cancel()
    await asyncio.sleep(0)
    answer.set()
    await asyncio.wait([running], timeout=PATIENCE)
    assert running.done()
    assert await first.result(0) == "done"
    await jobs.store.reclaim(10)
    job = await jobs.inspector.get(second.id)
    assert (job.status, job.retry_count, job.losses) == ("queued", 0, 0)


async def test_the_end_of_an_earlier_attempt_leaves_the_next_one_held(jobs: JobQueue, store: BreakingStore) -> None:
    """This worker has its own job again before the store answers to the end of its first attempt."""
    tokens: list[int] = []
    goes_on = asyncio.Event()
    first = store.before["settle"] = asyncio.Event()

    @jobs.task(timeout=0)
    async def work(ctx: JobContext) -> int:
        tokens.append(ctx.token)
        if len(tokens) == 2:
            await goes_on.wait()
        return ctx.token

    def claimed_again() -> bool:
        for row in store._store.state.running.values():
            if row.lease.token == tokens[0]:
                row.lease.expires_at = 0.0
        return len(tokens) == 2

    handle = await jobs.enqueue("work")
    events = jobs.bus.subscribe()
    async with working(jobs, lease="60s", heartbeat="0.2s") as worker:
        assert await eventually(lambda: store.calls["settle"] == 1)
        assert await eventually(claimed_again)
        del store.before["settle"]
        first.set()
        assert await eventually(lambda: worker.refused == 1)
        assert {attempt.claim.token for attempt in worker._held.values()} == {tokens[1]}, "its lease is renewed"
        goes_on.set()
        assert await handle.result(PATIENCE) == tokens[1]
        # What was refused did not happen, for whoever listens, too.
        ends: list[int] = []
        async with asyncio.timeout(PATIENCE):
            while not ends:
                ends += [one.token for one in (await anext(events)).events if one.event == EventName.COMPLETED]
        assert ends == [tokens[1]]
        assert worker._settler.settled == 1


@pytest.mark.parametrize("ends", ["with the others", "with a job of another queue", "in time"])
async def test_the_end_of_a_short_job_waits_for_the_others_of_its_limited_queue(
    both: tuple[JobQueue, BreakingStore], ends: str
) -> None:
    """The next jobs start behind a trip: all slots in one and a run are more than half of them a trip."""
    jobs = both[0]
    jobs.queue("limited", concurrency=3)
    goes_on = {n: asyncio.Event() for n in range(4)}

    @jobs.task(queue="limited")
    async def work(n: int) -> None:
        await goes_on[n].wait()

    batches: list[int] = []
    async with jobs, working(jobs, queues=["limited", "default"]) as worker:
        handles = await jobs.enqueue_many("work", [{"n": n} for n in range(3)])
        other = await jobs.enqueue("work", {"n": 3}, queue="default")
        settler = worker._settler
        settler._pace.wait = lambda: 0.01 if ends == "in time" else PATIENCE  # type: ignore[method-assign]
        real = settler._store_batch

        async def noted(batch: list[Outcome]) -> None:
            batches.append(len(batch))
            await real(batch)

        settler._store_batch = noted  # type: ignore[method-assign]
        assert await eventually(lambda: worker._runner.busy == 4)
        goes_on[0].set()
        assert await eventually(lambda: worker._runner.busy == 3)
        if ends == "with the others":
            goes_on[1].set()
            assert await eventually(lambda: worker._runner.busy == 2)
            assert not batches
        elif ends == "with a job of another queue":
            goes_on[3].set()
        first = {"with the others": [], "with a job of another queue": [2], "in time": [1]}[ends]
        assert await eventually(lambda: batches == first)
        for event in goes_on.values():
            event.set()
        for handle in [*handles, other]:
            await handle.result(PATIENCE)
    assert (sum(batches), batches[0]) == (4, first[0] if first else batches[0])
    assert ends != "with the others" or batches[0] >= 3


async def test_how_long_such_an_end_waits() -> None:
    pace = _Pace()
    assert pace.wait() == 0, "nothing is known"
    for _ in range(100):
        pace.note(0.002, [ran_for(1_000)] * 2)
    assert pace.wait() == pytest.approx(0.0015, rel=0.01)
    for _ in range(100):
        pace.note(0.002, [ran_for(1_000), ran_for(4_000)])
    assert pace.wait() == 0, "they run longer than a trip takes"


def ran_for(us: int) -> Outcome:
    return Outcome("x", 1, "limited", "work", "completed", run_us=us)


async def test_its_tries_are_never_further_apart_than_two_seconds(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the store was away: what has ended is stored soon after its return."""
    pauses: list[float] = []

    async def noting(seconds: float) -> None:
        pauses.append(seconds)

    keeper = Worker(jobs)._settler
    assert isinstance(keeper, settler.Settler)
    monkeypatch.setattr(asyncio, "sleep", noting)
    for _ in range(8):
        await keeper._wait_for_store(StoreUnavailable("memory", "away"))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
