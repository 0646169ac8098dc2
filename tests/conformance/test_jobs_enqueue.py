"""JobQueue.enqueue: what is refused is refused in one sentence before anything is written; the rest is durable."""

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_core.errors import ConfigurationError, InvalidJob, StoreUnavailable, TooLarge
from queue_core.model.job import Inserted, NewJob
from queue_core.model.retry import Retry
from queue_core.model.rules import Priority
from queue_core.ports.locks import LockingStore
from queue_core.ports.offers import OfferingStore
from queue_core.queue import JobQueue


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


PAYLOADS: dict[str, Any] = {
    "no dict": ["a.png"],
    "a text": "a.png",
    "nan": {"x": math.nan},
    "infinity": {"x": [1, -math.inf]},
    "nul": {"x": "a\0b"},
    "nul in a key": {"a\0b": 1},
    "lone surrogate": {"x": "\ud800"},
    "bytes": {"x": b"abc"},
    "a date": {"x": datetime(2026, 1, 1, tzinfo=UTC)},
    "a set": {"x": {1, 2}},
    "number as key": {1: "x"},
    "too deep": nested(101),
    "endless": nested(100_000),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "naive run_at": {"run_at": datetime(2030, 1, 1)},
    "run_at as text": {"run_at": "2030-01-01"},
    "negative delay": {"delay": -1},
    "delay without a unit known": {"delay": "5 fortnights"},
    "delay that is nan": {"delay": math.nan},
    "endless delay": {"delay": math.inf},
    "delay in milliseconds by mistake": {"delay": 1e12},
    "delay and run_at": {"delay": 5, "run_at": datetime(2030, 1, 1, tzinfo=UTC)},
    "priority too high": {"priority": 128},
    "priority too low": {"priority": -129},
    "priority as a word": {"priority": "soonest"},
    "priority that is a truth": {"priority": True},
    "half a priority": {"priority": 1.5},
    "negative retries": {"max_retries": -1},
    "retries that are a text": {"max_retries": "3"},
    "too many retries": {"max_retries": 1001},
    "no queue": {"queue": ""},
    "queue with braces": {"queue": "a{b}"},
    "queue too long": {"queue": "q" * 201},
    "queue with an escape": {"queue": "a\x1b[31m"},
    "queue with a NUL": {"queue": "a\0"},
    "queue with spaces around": {"queue": " a"},
    "queue with the name of rules for all": {"queue": "*"},
    "tags as a text": {"tags": "import"},
    "an empty tag": {"tags": [""]},
    "a tag that is no text": {"tags": [1]},
    "too many tags": {"tags": [f"t{n}" for n in range(33)]},
}
TYPES = {"no type": "", "type with an escape": "a\x1b", "type too long": "t" * 201, "type that is none": None}


async def nothing_written(jobs: JobQueue) -> bool:
    where = await jobs.inspector.conservation()
    return await jobs.store.queues() == {} and where.unfinished == 0


def one_sentence(error: BaseException) -> bool:
    text = str(error)
    return bool(text) and "\n" not in text and len(text) < 500 and text.isprintable()


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
async def test_payloads_that_are_refused(jobs: JobQueue, payload: Any) -> None:
    with pytest.raises(InvalidJob) as caught:
        await jobs.enqueue("resize", payload)
    assert one_sentence(caught.value)
    with pytest.raises(InvalidJob):
        await jobs.enqueue_many("resize", [{"x": 1}, payload, {"x": 2}])
    assert await nothing_written(jobs)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
async def test_options_that_are_refused(jobs: JobQueue, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob) as caught:
        await jobs.enqueue("resize", {"x": 1}, **options)
    assert one_sentence(caught.value)
    assert await nothing_written(jobs)


@pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES.keys())
async def test_types_that_are_refused(jobs: JobQueue, type_: Any) -> None:
    with pytest.raises(InvalidJob) as caught:
        await jobs.enqueue(type_, {})
    assert one_sentence(caught.value)
    assert await nothing_written(jobs)


async def test_a_payload_over_its_limit(jobs: JobQueue) -> None:
    with pytest.raises(TooLarge) as caught:
        await jobs.enqueue("resize", {"x": "ü" * (1 << 19)})
    assert caught.value.limit == 1 << 20
    assert caught.value.size > caught.value.limit
    assert "1,048,576" in str(caught.value)
    assert await nothing_written(jobs)
    exactly = {"x": "a" * ((1 << 20) - len('{"x":""}'))}
    handle = await jobs.enqueue("resize", exactly)
    assert (await jobs.inspector.get(handle.id)).payload == exactly


async def test_arguments_that_do_not_fit(jobs: JobQueue) -> None:
    @jobs.task
    async def resize(path: str, width: int = 200) -> None: ...

    for args, kwargs in (((), {}), (("a", 1, 2), {}), (("a",), {"height": 3}), (("a",), {"path": "b"})):
        with pytest.raises(InvalidJob, match="resize") as caught:
            await resize.enqueue(*args, **kwargs)  # type: ignore[arg-type]
        assert one_sentence(caught.value)
    with pytest.raises(InvalidJob):
        await resize.enqueue_many([{"path": "a"}, {"width": 1}])
    assert await nothing_written(jobs)


async def test_the_handle_says_what_was_stored(jobs: JobQueue) -> None:
    options: dict[str, Any] = {"queue": "images", "priority": 10, "tags": ["x", "y"], "max_retries": 7}
    handle = await jobs.enqueue("resize", {"path": "a.png"}, **options)
    assert (handle.queue, handle.type, handle.created) == ("images", "resize", True)
    job = await jobs.inspector.get(handle.id)
    assert (job.type, job.queue, job.payload) == ("resize", "images", {"path": "a.png"})
    assert (job.priority, job.tags, job.max_retries, job.status) == (10, ("x", "y"), 7, "queued")
    assert await handle.status() == "queued"


async def test_without_options_the_defaults_hold(jobs: JobQueue) -> None:
    job = await jobs.inspector.get((await jobs.enqueue("resize")).id)
    assert (job.queue, job.payload, job.priority, job.max_retries, job.tags) == ("default", {}, 5, 3, ())


async def test_what_the_task_says_holds_for_its_jobs(jobs: JobQueue) -> None:
    @jobs.task(name="images.resize", queue="images", priority=Priority.HIGH, retry=Retry(max_retries=1))
    async def resize(path: str, width: int = 200) -> None: ...

    handles = [
        await resize.enqueue("a.png"),
        await jobs.enqueue("images.resize", {"path": "a.png"}),
        *await resize.enqueue_many([{"path": "a.png"}]),
    ]
    for handle in handles:
        job = await jobs.inspector.get(handle.id)
        assert (job.type, job.queue, job.priority, job.max_retries) == ("images.resize", "images", 10, 1)
        assert job.payload == {"path": "a.png"}


async def test_options_go_before_what_the_task_says(jobs: JobQueue) -> None:
    @jobs.task(queue="images", priority=1)
    async def resize(path: str) -> None: ...

    other = resize.options(priority="urgent", tags=["x"], max_retries=0, queue="else", delay="5m")
    job = await jobs.inspector.get((await other.enqueue("a.png")).id)
    assert (job.queue, job.priority, job.tags, job.max_retries, job.status) == ("else", 20, ("x",), 0, "scheduled")
    plain = await jobs.inspector.get((await resize.enqueue("a.png")).id)
    assert (plain.queue, plain.priority, plain.status) == ("images", 1, "queued")


@pytest.mark.parametrize("delay", [300, "5m", "300s", timedelta(minutes=5)])
async def test_a_delay_in_any_form(jobs: JobQueue, delay: Any) -> None:
    job = await jobs.inspector.get((await jobs.enqueue("resize", delay=delay)).id)
    assert job.status == "scheduled"
    assert (job.run_at - job.created_at).total_seconds() == pytest.approx(300, abs=1)


async def test_a_time_with_its_zone(jobs: JobQueue) -> None:
    at = datetime.now(UTC) + timedelta(hours=2)
    job = await jobs.inspector.get((await jobs.enqueue("resize", run_at=at)).id)
    assert abs((job.run_at - at).total_seconds()) < 0.01
    past = await jobs.inspector.get((await jobs.enqueue("resize", run_at=at - timedelta(days=1))).id)
    assert past.status == "queued"
    # It waits since it was enqueued, not since yesterday.
    assert abs((past.run_at - past.created_at).total_seconds()) < 0.01


async def test_a_type_that_nobody_knows_is_accepted(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("written.elsewhere", {"x": 1})
    assert (await jobs.inspector.overview()).orphaned_types == {"written.elsewhere": 1}
    assert await handle.status() == "queued"


async def test_many_in_order(jobs: JobQueue) -> None:
    handles = await jobs.enqueue_many("resize", [{"n": n} for n in range(1500)], queue="images")
    assert len({handle.id for handle in handles}) == 1500
    first = await jobs.store.list_ready("images", -1, 2000)
    assert [ready.id for ready in first] == [handle.id for handle in handles]
    assert await jobs.enqueue_many("resize", []) == []


async def test_many_callers_at_once(jobs: JobQueue) -> None:
    handles = await asyncio.gather(*(jobs.enqueue("resize", {"n": n}, queue=f"q{n % 3}") for n in range(600)))
    assert len({handle.id for handle in handles}) == 600
    for handle in handles[::97]:
        job = await jobs.inspector.get(handle.id)
        assert job.queue == handle.queue
    assert (await jobs.inspector.conservation()).unfinished == 600


@pytest.mark.parametrize("alike", [False, True], ids=["", "lists"])
async def test_each_of_many_callers_gets_what_it_asked_for(jobs: JobQueue, alike: bool) -> None:
    """Jobs of one, of lists, and of callers that share a batch: each way to the store has to take all of it along."""
    at = datetime.now(UTC) + timedelta(hours=3)
    options: list[dict[str, Any]] = [
        {"queue": "a", "priority": 20, "tags": ("x", "y"), "max_retries": 7, "headers": {"trace": "1"}},
        {"queue": "b", "delay": 600, "priority": -3, "max_retries": 0},
        {"queue": "a", "run_at": at, "tags": ("z",)},
        {"queue": "b", "run_at": at - timedelta(days=2), "headers": {"trace": "2"}},
    ]
    if alike:
        lists = [await jobs.enqueue_many("resize", [{"n": n}, {"n": n + 10}], **one) for n, one in enumerate(options)]
    else:
        calls = [jobs.enqueue("resize", {"n": n}, **one) for n, one in enumerate(options)]
        lists = [[handle] for handle in await asyncio.gather(*calls)]
    for number, (one, handles) in enumerate(zip(options, lists, strict=True)):
        for place, handle in enumerate(handles):
            job = await jobs.inspector.get(handle.id)
            assert (job.queue, job.payload) == (one["queue"], {"n": number + 10 * place})
            assert (job.priority, job.max_retries) == (one.get("priority", 5), one.get("max_retries", 3))
            assert (job.tags, dict(job.headers)) == (one.get("tags", ()), one.get("headers", {}))
            due = max(one.get("run_at", job.created_at), job.created_at) + timedelta(seconds=one.get("delay", 0))
            assert abs((job.run_at - due).total_seconds()) < 0.01
            assert job.status == ("scheduled" if due > job.created_at else "queued")
    tallies = await jobs.inspector.tallies()
    assert sum(tally.count for tally in tallies if tally.outcome == "enqueued") == sum(map(len, lists))


async def test_one_callers_mistake_is_not_the_others(jobs: JobQueue) -> None:
    calls = [jobs.enqueue("resize", {"n": math.nan if n % 2 else n}) for n in range(40)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, InvalidJob) for answer in answers) == 20
    assert (await jobs.inspector.conservation()).unfinished == 20


async def test_tasks_that_cannot_be_registered(jobs: JobQueue) -> None:
    @jobs.task
    async def resize(path: str) -> None: ...

    with pytest.raises(ConfigurationError, match="resize"):
        jobs.task(name="resize")(lambda path: None)
    with pytest.raises(ConfigurationError, match="by name"):
        jobs.task(name="positional")(lambda *paths: None)
    with pytest.raises((ConfigurationError, InvalidJob)):
        jobs.task(name="named", queue="")(lambda: None)
    with pytest.raises((ConfigurationError, InvalidJob)):
        jobs.task(name="hasty", retry=Retry(delay=-5))(lambda: None)


async def test_calling_a_task_runs_it_here(jobs: JobQueue) -> None:
    @jobs.task
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, b=2) == 3
    assert await nothing_written(jobs)


async def test_a_lost_answer_to_jobs_of_one_unique_key_makes_up_no_job(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller learns which job holds the key: one that is acknowledged is there, whichever answer came."""
    name = "insert_new" if isinstance(jobs.store, OfferingStore) else "insert"
    if isinstance(jobs.store, LockingStore):
        name = "insert_soon"
    insert, lost = getattr(jobs.store, name), []

    async def losing(new: Sequence[NewJob], *how: Any) -> Sequence[Inserted]:
        inserted = await insert(new, *how)
        if not lost:
            lost.append(len(new))
            raise StoreUnavailable("store", "the answer got lost")
        return inserted

    monkeypatch.setattr(jobs.store, name, losing)
    handles = await asyncio.gather(*(jobs.enqueue("resize", unique="a.png") for _ in range(3)))
    assert lost == [3]
    assert len({handle.id for handle in handles}) == 1
    assert [handle.created for handle in handles] == [True, False, False]
    assert (await jobs.inspector.get(handles[0].id)).unique_key is not None


async def test_what_fails_beside_a_close_says_why(jobs: JobQueue) -> None:
    async def enqueue_some() -> None:
        for _ in range(5):
            handle = await jobs.enqueue("resize")
            assert (await jobs.get(handle.id)).type == "resize"

    errors: set[tuple[type[BaseException], str]] = set()
    for _ in range(20):
        calls = [*(enqueue_some() for _ in range(5)), jobs.close(), *(enqueue_some() for _ in range(5))]
        found = await asyncio.gather(*calls, return_exceptions=True)
        errors |= {(type(one), str(one)) for one in found if isinstance(one, BaseException)}
    closed = f"{jobs.store.name} cannot be reached: the queue object was closed meanwhile"
    assert errors <= {(StoreUnavailable, closed)}
    assert (await jobs.enqueue("resize")).created
