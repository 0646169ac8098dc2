"""The client for synchronous callers, in every mode."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from queue_core.blocking import BlockingQueue
from queue_core.errors import InvalidJob, JobCancelled, JobNotFound, QueueCoreError, ResultTimeout
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from tests.conformance.making import UNKNOWN


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


def test_results() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task
    async def add(a: int, b: int) -> int:
        return a + b

    with jobs.blocking() as queue:
        handle = queue.enqueue("add", {"a": 1, "b": 2})
        queue._run(jobs.operations.change("cancel", [handle.id]))
        with pytest.raises(JobCancelled):
            handle.result(timeout=5)
