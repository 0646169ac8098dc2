"""Rules of queues as producers and workers meet them: through the queue object, in every mode."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from queue_core.client.context import JobContext
from queue_core.errors import ConfigurationError, InvalidJob, QueueFull
from queue_core.model.filters import Filter
from queue_core.model.operation import ChangeOptions
from queue_core.model.retry import Retry
from queue_core.model.rules import QueueArguments, QueueRules
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from queue_core.worker.worker import Worker
from tests.conformance.test_jobs_operations import asked
from tests.conformance.working import PATIENCE, until_status, working

Ruled = Callable[..., AbstractAsyncContextManager[JobQueue]]


@pytest.fixture
def ruled(mode_settings: JobsSettings) -> Ruled:
    """Opens a queue object of the mode under test whose queue `default` has these rules."""

    @asynccontextmanager
    async def opened(**rules: Any) -> AsyncIterator[JobQueue]:
        settings = mode_settings.model_copy(update={"queues": {"default": QueueRules(**rules)}})
        async with JobQueue(settings=settings) as jobs:
            yield jobs

    return opened


async def test_a_unique_job_gives_the_first_one_s_handle(jobs: JobQueue) -> None:
    @jobs.task
    async def thumbnail(path: str) -> str:
        return path

    @jobs.task
    async def other(path: str) -> str:
        return path

    once = thumbnail.options(unique="a.png")
    first, second = await once.enqueue("a.png"), await once.enqueue("a.png")
    assert (first.created, second.created, second.id) == (True, False, first.id)
    # Another type has keys of its own.
    assert (await other.options(unique="a.png").enqueue("a.png")).created
    async with working(jobs):
        assert await second.result(PATIENCE) == "a.png"
        await until_status(jobs, first.id, "completed")
    assert (await once.enqueue("a.png")).created


async def test_an_idempotency_key_holds_after_the_end(jobs: JobQueue) -> None:
    @jobs.task
    async def charge() -> str:
        return "charged"

    once = charge.options(unique="order-17", unique_for="1h")
    first = await once.enqueue()
    async with working(jobs):
        assert await first.result(PATIENCE) == "charged"
    again = await once.enqueue()
    assert (again.created, again.id, await again.result(PATIENCE)) == (False, first.id, "charged")


async def test_many_producers_of_one_unique_job(jobs: JobQueue) -> None:
    handles = await asyncio.gather(*(jobs.enqueue("t", {"n": n}, unique="k") for n in range(30)))
    assert sum(handle.created for handle in handles) == 1
    assert len({handle.id for handle in handles}) == 1


async def test_jobs_of_a_key_run_in_order_and_one_at_a_time(jobs: JobQueue) -> None:
    order: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()
    failed: set[tuple[str, int]] = set()

    @jobs.task(retry=Retry(max_retries=3, delay=0.01))
    async def step(key: str, number: int) -> None:
        assert key not in running
        running.add(key)
        await asyncio.sleep(0)
        running.discard(key)
        if number % 5 == 2 and (key, number) not in failed:
            failed.add((key, number))
            raise OSError("the first time it fails")
        order[key].append(number)

    handles = [
        await step.options(ordering_key=key, priority=number).enqueue(key, number)
        for number in range(10)
        for key in "abc"
    ]
    async with working(jobs), working(jobs):
        await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
    assert dict(order) == {key: list(range(10)) for key in "abc"}
    assert len(failed) == 6


async def test_a_fifo_queue_is_one_key(ruled: Ruled) -> None:
    async with ruled(fifo=True) as jobs:
        order: list[int] = []

        @jobs.task
        async def step(number: int) -> None:
            order.append(number)

        handles = [await step.options(priority=number).enqueue(number) for number in range(20)]
        async with working(jobs), working(jobs):
            await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
        assert order == list(range(20))


async def test_shards_bound_the_keys(ruled: Ruled) -> None:
    async with ruled(shards=4) as jobs:
        handles = [await jobs.enqueue("t", {}, ordering_key=f"customer-{number}") for number in range(50)]
        keys = {(await jobs.inspector.get(handle.id)).ordering_key for handle in handles}
        assert len(keys) == 4
        again = await jobs.enqueue("t", {}, ordering_key="customer-0")
        first = await jobs.inspector.get(handles[0].id)
        assert (await jobs.inspector.get(again.id)).ordering_key == first.ordering_key


async def test_a_full_queue_refuses_and_says_when_to_come_again(ruled: Ruled) -> None:
    async with ruled(limit=2, retry_after="7s") as jobs:
        await jobs.enqueue_many("t", [{}, {}])
        with pytest.raises(QueueFull, match="queue 'default' is full") as caught:
            await jobs.enqueue("t")
        assert (caught.value.retry_after, caught.value.limit) == (7.0, 2)
        assert await jobs.try_enqueue("t") is None
        assert (await jobs.try_enqueue("t", queue="other")) is not None


async def test_a_task_s_try_enqueue(ruled: Ruled) -> None:
    async with ruled(limit=1) as jobs:

        @jobs.task
        async def work() -> None: ...

        assert await work.try_enqueue() is not None
        assert await work.try_enqueue() is None


async def test_who_is_refused_takes_nobody_else_along(ruled: Ruled) -> None:
    async with ruled(limit=25) as jobs:
        handles = await asyncio.gather(*(jobs.try_enqueue("t", {"n": n}) for n in range(60)))
        assert sum(handle is not None for handle in handles) == 25
        stats = (await jobs.inspector.overview()).queues[0]
        assert stats.pending == 25


async def test_a_queue_s_concurrency_over_workers(ruled: Ruled) -> None:
    async with ruled(concurrency=3) as jobs:
        running = most = 0

        @jobs.task
        async def work() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

        handles = await work.enqueue_many([{}] * 60)
        async with working(jobs), working(jobs):
            await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
        assert 1 < most <= 3


async def test_a_queue_s_rate_over_workers(ruled: Ruled) -> None:
    async with ruled(rate="50/s") as jobs:
        loop = asyncio.get_running_loop()
        starts: list[float] = []

        @jobs.task
        async def work(ctx: JobContext) -> None:
            starts.append(loop.time())

        handles = await work.enqueue_many([{}] * 90)
        async with working(jobs), working(jobs):
            await asyncio.gather(*(handle.result(PATIENCE) for handle in handles))
        # The burst is 50; the other 40 need 0.8 s at least, however fast the machine is.
        assert max(starts) - min(starts) >= 0.7


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ordering_key": ""}, "ordering_key is a text that is not empty"),
        ({"ordering_key": 7}, "ordering_key is a text"),
        ({"ordering_key": "k" * 201}, "the limit is 200"),
        ({"unique": "a\0b"}, "unique cannot hold the character NUL"),
        ({"unique_for": "5m"}, "needs unique="),
        ({"unique": "a", "unique_for": "soon"}, "unique_for:"),
        ({"unique": "a", "unique_for": 0}, "unique_for: 0 is no time"),
        ({"unique": "a", "unique_for": "0s"}, "unique_for: 0 is no time"),
    ],
)
async def test_what_cannot_be_a_key(jobs: JobQueue, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidJob, match=sentence):
        await jobs.enqueue("t", {}, **options)


async def test_the_events_tell_of_new_jobs_only(jobs: JobQueue) -> None:
    first = await jobs.enqueue("t", {}, unique="k")
    heard: list[str] = []
    listening = asyncio.Event()

    async def listen() -> None:
        async for batch in jobs.bus.subscribe():
            heard.extend(event.id for event in batch.events if event.event == "created")
            listening.set()

    task = asyncio.create_task(listen())
    try:
        async with asyncio.timeout(PATIENCE):
            while not listening.is_set():
                await jobs.enqueue("probe")
                await asyncio.sleep(0.01)
            again = await jobs.enqueue("t", {}, unique="k")
            last = await jobs.enqueue("t")
            while last.id not in heard:  # noqa: ASYNC110  what a subscriber has heard is no event
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
    assert again.id == first.id
    known = {job.id for job in (await jobs.inspector.jobs(Filter(), 1000)).jobs}
    assert set(heard) <= known


async def test_rules_for_all_queues_and_a_queue_s_own_ones(mode_settings: JobsSettings) -> None:
    every = QueueRules.model_validate({"band_limits": {"high": 1, "low": 2}, "aging": 60, "retry_after": 7})
    own = QueueRules.model_validate({"band_limits": {"low": None}, "limit": 2})
    settings = mode_settings.model_copy(update={"queues": {"*": every, "mail": own}})
    processes = (
        [JobQueue(settings=settings)] if settings.mode == "memory" else [JobQueue(settings=settings) for _ in "abc"]
    )
    async with processes[0] as jobs:
        for queue in ("images", "mail"):
            await jobs.enqueue("any", queue=queue, priority="high")
            with pytest.raises(QueueFull) as full:
                await jobs.enqueue("any", queue=queue, priority="high")
            assert (full.value.band, full.value.limit, full.value.retry_after) == ("high", 1, 7)
        await jobs.enqueue("any", queue="mail", priority="low")
        with pytest.raises(QueueFull) as full:
            await jobs.enqueue("any", queue="mail", priority="low")
        assert (full.value.band, full.value.limit) == ("", 2)
    # Another process, which has not met the queue: a retried job is placed by the queue's aging, and counts.
    async with processes[len(processes) // 2] as jobs:
        job = await jobs.claim_next("images")
        assert job is not None
        await job.fail("gone", retry=False)
        await jobs.enqueue("late", queue="images", priority="low")
    async with processes[-1] as jobs:
        assert (await jobs.operations.change("retry", [job.id])).ids == (job.id,)
        (first, second) = await jobs.store.list_ready("images", 0, 10)
        assert (first.id, second.id != first.id) == (job.id, True)
        assert second.rank - first.rank == pytest.approx((10 - 0) * 60e6, rel=0.2)
        with pytest.raises(QueueFull):
            await jobs.enqueue("any", queue="images", priority="high")


async def test_rules_of_a_program_come_below_its_configuration(mode_settings: JobsSettings) -> None:
    given = {"mail": QueueRules.model_validate({"limit": 1}), "*": QueueRules.model_validate({"retry_after": "9s"})}
    jobs = JobQueue(settings=mode_settings.model_copy(update={"queues": given}))
    rules = jobs.queue("mail", limit=50, rate="50/s", concurrency=5)
    assert (rules.limit, rules.rate, rules.concurrency, rules.retry_after) == (1, 50, 5, 9)
    assert jobs.queue("*", retry_after="20s", key_concurrency=2).key_concurrency == 2
    assert jobs.queue("other", limit=3).retry_after == 9
    with pytest.raises(ConfigurationError, match="'mail' has rules from this program already"):
        jobs.queue("mail", limit=2)
    with pytest.raises(ConfigurationError, match=r"^queue 'x': there is no rule 'ratee'; there are .*, rate, "):
        jobs.queue("x", ratee="1/s")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="queue 'x': rate: 'fast' is no rate"):
        jobs.queue("x", rate="fast")
    async with jobs:
        await jobs.enqueue("any", queue="mail")
        with pytest.raises(QueueFull, match=r"limit 1\); try again in 9 s"):
            await jobs.enqueue("any", queue="mail")
        with pytest.raises(ConfigurationError, match="too late: give them before the first use"):
            jobs.queue("late", limit=2)


async def test_no_queue_has_the_name_under_which_all_queues_have_rules(jobs: JobQueue) -> None:
    move = asked("move", options=ChangeOptions(queue="*"))
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: jobs.enqueue("any", queue="*"),
        lambda: jobs.claim_next("*"),
        lambda: jobs.operations.submit(move, []),
        lambda: jobs.operations.change("retry", [], ChangeOptions(queue="*")),
        lambda: jobs.operations.drain_queue("default", "*"),
    ]
    refused = r"^a queue cannot be named '\*', under which rules for all queues are given$"
    for call in calls:
        with pytest.raises(InvalidJob, match=refused):
            await call()
    with pytest.raises(InvalidJob, match=refused):
        jobs.schedule("hourly", "0 * * * *", "any", queue="*")
    with pytest.raises(InvalidJob, match=refused):
        jobs.task(queue="*")(nothing)
    with pytest.raises(ConfigurationError, match=refused):
        Worker(jobs, queues=["*"])


async def nothing() -> None: ...


def test_the_arguments_are_those_of_the_record() -> None:
    assert list(QueueArguments.__annotations__) == list(QueueRules.model_fields)
