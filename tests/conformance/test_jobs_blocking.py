"""The client for synchronous callers, in every mode."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from queue_core import BlockingQueue, Task, Worker
from queue_core.blocking.parts import BlockingClaim, BlockingOperations, BlockingSchedules, BlockingSignatures
from queue_core.client.health import Stats
from queue_core.client.operating.signatures import Signatures
from queue_core.client.operations import Operations
from queue_core.client.schedules import Schedules
from queue_core.client.verbs import JobVerbs
from queue_core.errors import InvalidArgument, InvalidJob, JobCancelled, JobNotFound, QueueCoreError, ResultTimeout
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from queue_core.worker.manual import ClaimedJob
from tests.conformance.making import UNKNOWN
from tests.conformance.working import PATIENCE


@pytest.fixture
def queue(mode_settings: JobsSettings) -> Iterator[BlockingQueue]:
    with JobQueue(settings=mode_settings).blocking() as queue:
        yield queue


def test_enqueue_and_status(queue: BlockingQueue) -> None:
    handle = queue.enqueue("resize", {"path": "a.png"}, queue="images", priority="high", delay="1h", tags=["x"])
    assert (handle.type, handle.queue, handle.created, handle.status()) == ("resize", "images", True, "scheduled")
    many = queue.enqueue_many("resize", [{"n": 1}, {"n": 2}], queue="images")
    assert [one.status() for one in many] == ["queued", "queued"]


def test_errors_are_those_of_the_queue(queue: BlockingQueue) -> None:
    with pytest.raises(InvalidJob):
        queue.enqueue("resize", {"x": object()})
    with pytest.raises(JobNotFound):
        queue.result(UNKNOWN)
    with pytest.raises(InvalidArgument, match=r"^call runs asynchronous methods, and <built-in function len> is none"):
        queue.call(len, "x")  # type: ignore[arg-type]
    with pytest.raises(ResultTimeout):
        queue.enqueue("resize").result(timeout=0.05)


def test_many_threads_at_once(queue: BlockingQueue) -> None:
    with ThreadPoolExecutor(8) as threads:
        handles = list(threads.map(lambda n: queue.enqueue("resize", {"n": n}), range(40)))
    assert len({handle.id for handle in handles}) == 40
    assert {handle.status() for handle in handles} == {"queued"}


def test_close_ends_the_thread_and_what_comes_after(mode_settings: JobsSettings) -> None:
    queue = JobQueue(settings=mode_settings).blocking()
    queue.enqueue("resize")  # opens by itself
    queue.close()
    queue.close()
    assert "jobs-blocking" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(QueueCoreError, match="closed"):
        queue.enqueue("resize")


def test_it_can_be_closed_at_the_end_of_the_interpreter(
    mode_settings: JobsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `atexit`: from Python 3.12 on no thread can be started then."""
    failures: list[object] = []
    queue = JobQueue(settings=mode_settings).blocking()
    queue.enqueue("resize")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as end:
        end.setattr(threading, "excepthook", failures.append)
        end.setattr(threading.Thread, "start", refuse)
        queue.close()
    assert not failures


def test_threads_that_outlive_the_main_thread(mode_settings: JobsSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread pools take no calls after its end: neither the store's may be one, nor that of the client's event loop."""
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    with JobQueue(settings=mode_settings).blocking() as queue:
        assert queue.enqueue("resize").status() == "queued"

        async def look_up() -> None:
            assert await asyncio.get_running_loop().getaddrinfo("localhost", 1)

        queue.call(look_up)
        claim = queue.claim_next(wait=30)
        assert claim is not None
        claim.refresh()
        claim.complete()


def test_two_event_loops_and_a_client_that_open_it_at_the_same_moment(mode_settings: JobsSettings) -> None:
    """One opens it; the others work in its event loop or are refused, and none waits for ever."""
    jobs = JobQueue(settings=mode_settings)
    queue = jobs.blocking()
    start, used, done = threading.Barrier(3), threading.Barrier(3), threading.Barrier(3)

    async def serve() -> str:
        start.wait(PATIENCE)
        try:
            return await (await jobs.enqueue("resize")).status()
        finally:
            # What is open stays so until all have tried, and the client's calls run here.
            for barrier in (used, done):
                await asyncio.to_thread(barrier.wait, PATIENCE)
            if jobs.home is asyncio.get_running_loop():
                await jobs.close()

    def call() -> str:
        start.wait(PATIENCE)
        try:
            return queue.enqueue("resize").status()
        finally:
            used.wait(PATIENCE)
            queue.close()
            done.wait(PATIENCE)

    with ThreadPoolExecutor(3) as threads:
        for _ in range(3):
            futures = [threads.submit(call), *(threads.submit(asyncio.run, serve()) for _ in range(2))]
            errors = [error for one in futures if (error := one.exception(2 * PATIENCE)) is not None]
            assert len(errors) <= 2
            assert all("in another event loop" in str(error) for error in errors), errors
            assert jobs.home is None
            queue = jobs.blocking()
    queue.close()


def test_what_is_closed_during_a_call_ends_it(mode_settings: JobsSettings) -> None:
    waits = threading.Event()

    async def wait() -> None:
        waits.set()
        await asyncio.sleep(2 * PATIENCE)

    queue = JobQueue(settings=mode_settings).blocking()
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(queue.call, wait)
        assert waits.wait(PATIENCE)
        queue.close()
        with pytest.raises(QueueCoreError, match="this client was closed during this call"):
            call.result(PATIENCE)


def test_an_event_loop_that_ends_during_a_call_ends_it() -> None:
    jobs = JobQueue(memory=True)
    begin, waits = threading.Event(), threading.Event()

    async def wait() -> None:
        waits.set()
        await asyncio.sleep(2 * PATIENCE)

    async def serve() -> None:
        await jobs.open()
        begin.set()
        assert await asyncio.to_thread(waits.wait, PATIENCE)

    with ThreadPoolExecutor(2) as threads:
        serving = threads.submit(asyncio.run, serve())
        assert begin.wait(PATIENCE)
        with pytest.raises(QueueCoreError, match="event loop in which the queue object was open was closed"):
            jobs.blocking().call(wait)
        serving.result(PATIENCE)


def test_one_event_loop_after_the_other_with_many_calls(mode_settings: JobsSettings) -> None:
    """What calls wait for while one of them opens belongs to an event loop."""
    jobs = JobQueue(settings=mode_settings)

    async def enqueue() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(jobs.enqueue("resize")) for _ in range(3)]
        await jobs.close()
        return len({task.result().id for task in tasks})

    assert [asyncio.run(enqueue()) for _ in range(2)] == [3, 3]


def test_results() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    async def add(a: int, b: int) -> int:
        return a + b

    with jobs.blocking() as queue:
        handle = queue.enqueue("add", {"a": 1, "b": 2})
        queue.operations.change("cancel", [handle.id])
        with pytest.raises(JobCancelled):
            handle.result(timeout=5)


def test_tasks_are_enqueued_with_their_arguments(mode_settings: JobsSettings) -> None:
    jobs = JobQueue(settings=mode_settings)

    @jobs.task(queue="images")
    async def resize(path: str, width: int = 200) -> dict[str, int]:
        return {"width": width}

    with jobs.blocking() as queue:
        handle = queue.enqueue(resize.options(priority="high", tags=["x"]), "a.png", width=3)
        job = queue.get(handle.id)
        assert (job.queue, job.payload, job.priority, job.tags) == ("images", {"path": "a.png", "width": 3}, 10, ("x",))
        assert queue.count("type:resize") == 1
        assert [one.id for one in queue.list("type:resize").jobs] == [handle.id]
        assert queue.stats().total_pending == 1
        assert queue.health().healthy
        assert len(queue.enqueue_many(resize, [{"path": "b.png"}])) == 1
        with pytest.raises(InvalidJob, match="missing a required argument"):
            queue.enqueue(resize)  # type: ignore[call-arg]
        with pytest.raises(InvalidArgument, match=r"resize\.options\(delay='5m'\)"):
            queue.enqueue_many(resize, [], delay="5m")  # type: ignore[call-overload]
        with pytest.raises(InvalidArgument, match="another queue object"):
            queue.enqueue(JobQueue(memory=True).task(resize.definition.function), "a.png")
        assert queue.cancel(handle.id)
        queue.operations.pause_queue("images")
        assert queue.call(jobs.store.queues) == {"images": True}
        jobs.schedule("nightly", "0 3 * * *", "resize", {"path": "n.png"})
        queue.schedules.announce()
        assert queue.schedules.get("nightly").schedule.cron == "0 3 * * *"
        assert queue.schedules.trigger("nightly").status() == "queued"
        queue.operations.resume_queue("images")
        claim = queue.claim_next("images", wait=30)
        assert claim is not None
        claim.complete({"width": 1})
        assert queue.result(claim.job.id) == {"width": 1}
        ended = queue.enqueue(resize, "c.png")
        assert queue.cancel(ended.id)
        assert [event.id for event in ended.events()] == [ended.id]


async def test_a_plain_handler_of_a_worker_uses_it(jobs: JobQueue) -> None:
    queue = jobs.blocking()

    @jobs.task
    def first(n: int) -> int:
        return queue.enqueue(second, n).result(timeout=60)

    @jobs.task
    async def second(n: int) -> int:
        return n + 1

    worker = Worker(jobs)
    running = asyncio.create_task(worker.run())
    assert await (await first.enqueue(1)).result(timeout=60) == 2
    with pytest.raises(QueueCoreError, match=r"await jobs\.enqueue"):
        queue.enqueue(second, 1)
    worker.stop()
    await running
    queue.close()
    assert jobs.home is asyncio.get_running_loop(), "it belongs to the worker's loop"


async def test_beside_a_running_event_loop_of_the_same_thread() -> None:
    """As in a cell of a notebook."""
    jobs = JobQueue(memory=True)
    task = jobs.task(double)
    with jobs.blocking() as queue:
        assert queue.enqueue(task, 1).status() == "queued"
        handle = await task.options(delay="5m").enqueue(2)
        assert await handle.status() == "scheduled"
        assert (await jobs.get(handle.id)).payload == {"n": 2}
        assert jobs.home is not asyncio.get_running_loop(), "it went on in the client's loop"


async def test_what_belongs_to_one_event_loop_is_refused_in_another() -> None:
    jobs = JobQueue(memory=True)
    task = jobs.task(double)
    with jobs.blocking() as queue:
        queue.enqueue(task, 1)
        refused = r": the queue object is open in another event loop.*, or queue\."
        with pytest.raises(QueueCoreError, match=rf"^double\.enqueue\(…\){refused}enqueue\(double, …\)"):
            task.options(connection=object()).enqueue(1)
        with pytest.raises(QueueCoreError, match=rf"^jobs\.claim_next\(…\){refused}claim_next"):
            jobs.claim_next()


async def test_plain_and_asynchronous_views_share_an_object_whichever_came_first(mode_settings: JobsSettings) -> None:
    jobs = JobQueue(settings=mode_settings)
    task = jobs.task(double)
    queue = jobs.blocking()
    await asyncio.to_thread(queue.enqueue, task, 1)

    async def view(n: int) -> tuple[str, int]:
        handle = await task.enqueue(n)
        return handle.id, len((await jobs.list(limit=100)).jobs)

    # Each call of a server without an event loop of its own has one, which then ends.
    found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, view(n)) for n in range(4)), view(5))
    assert len({id_ for id_, _ in found}) == 5
    assert await jobs.count() == 6
    await asyncio.to_thread(queue.close)


async def test_a_loop_that_is_closed_ends_what_another_one_awaits_there() -> None:
    began = threading.Event()

    class Endless(JobQueue):
        async def stats(self) -> Stats:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

    jobs = Endless(memory=True)
    queue = jobs.blocking()
    await asyncio.to_thread(queue.enqueue, "task")
    waiting = asyncio.ensure_future(jobs.stats())
    assert await asyncio.to_thread(began.wait, PATIENCE)
    await asyncio.to_thread(queue.close)
    with pytest.raises(QueueCoreError, match="was closed during this call"):
        await waiting


def double(n: int) -> int:
    return 2 * n


def test_the_async_form_is_refused_by_name() -> None:
    jobs = JobQueue(memory=True)
    early = jobs.task(double)
    queue = jobs.blocking()
    late = jobs.task(name="late")(double)
    for task in (early, early.options(delay=1), late, late.options(tags=["x"]).options(delay=1)):
        with pytest.raises(QueueCoreError, match=rf"here it is queue\.enqueue\({task.name}, …\)"):
            task.enqueue(1)
    with pytest.raises(QueueCoreError, match=r"jobs\.get\(…\) is for async code; here it is queue\.get\(…\)"):
        jobs.get("x")
    assert asyncio.run(_enqueued(early)) == "queued"
    queue.close()


async def _enqueued(task: Task[[int], int]) -> str:
    return await (await task.enqueue(1)).status()


def test_it_has_every_method() -> None:
    def public(kind: type) -> set[str]:
        return {name for name, value in vars(kind).items() if inspect.iscoroutinefunction(value) and name[0] != "_"}

    own = {"wait_for", "status_of", "backend", "enqueue_payloads", "prepare_payloads"}
    assert public(JobQueue) | public(JobVerbs) <= own | set(dir(BlockingQueue))
    assert public(Schedules) <= set(dir(BlockingSchedules))
    assert public(Operations) <= set(dir(BlockingOperations))
    assert public(Signatures) <= set(dir(BlockingSignatures))
    assert public(ClaimedJob) <= set(dir(BlockingClaim))
