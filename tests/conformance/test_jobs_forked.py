"""A queue object in the child of a fork, and in another event loop than its own, in every mode."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from queue_core.errors import QueueCoreError
from queue_core.model.job import new_id
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue

PATIENCE = 60


def in_child(work: Callable[[], str]) -> str:
    """Return what a function returns in the child of a fork, or the error that it raises there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)  # a child that hangs ends
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        with suppress(OSError):
            os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def mode(mode_settings: JobsSettings) -> str:
    return mode_settings.mode


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that nobody runs while it is not asked for something."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_a_blocking_client_works_in_parent_and_child(mode_settings: JobsSettings, mode: str) -> None:
    with JobQueue(settings=mode_settings).blocking() as queue:
        queue.enqueue("task")
        said = in_child(lambda: queue.enqueue("task").id)
        handles = [queue.enqueue("task") for _ in range(3)]
        assert {handle.status() for handle in handles} == {"queued"}
        if mode == "memory":
            assert (
                said
                == "QueueCoreError: a queue in memory belongs to the process that has opened it, not to its children"
            )
        else:
            assert queue.status(said) == "queued"


def test_what_a_child_enqueues_outlives_the_client_of_its_parent(mode_settings: JobsSettings, mode: str) -> None:
    """As in a server whose first process ends before the others."""
    if mode == "memory":
        pytest.skip("a store in memory has one process")
    with JobQueue(settings=mode_settings).blocking() as queue:
        queue.enqueue("task")
        reading, go = os.pipe()

        def work() -> str:
            ids = [queue.enqueue("task").id]
            os.write(writing, b"first")
            os.close(go)
            os.read(reading, 1)  # until the parent has closed its client
            return " ".join([*ids, *(queue.enqueue("task").id for _ in range(3))])

        first, writing = os.pipe()
        with ThreadPoolExecutor(1) as threads:
            said = threads.submit(in_child, work)
            assert os.read(first, 5) == b"first"
            queue.close()
            os.close(go)
            ids = said.result().split()
    for descriptor in (first, writing, reading):
        os.close(descriptor)
    assert len(ids) == 4, ids
    with JobQueue(settings=mode_settings).blocking() as after:
        assert [after.status(job_id) for job_id in ids] == ["queued"] * 4


def test_children_of_a_client_that_was_not_used_yet(mode_settings: JobsSettings, mode: str) -> None:
    """As in a server that loads the application and forks then."""
    queue = JobQueue(settings=mode_settings).blocking()
    children = [in_child(lambda: queue.enqueue("task").id) for _ in range(2)]
    with queue:
        if mode != "memory":
            assert {queue.status(job_id) for job_id in children} == {"queued"}


def test_an_async_object_connects_anew_in_the_child(
    mode_settings: JobsSettings, mode: str, loop: asyncio.AbstractEventLoop
) -> None:
    """The child's sockets are its own: what it says and closes is not the parent's."""
    jobs = JobQueue(settings=mode_settings)

    async def enqueue() -> str:
        return (await jobs.enqueue("task")).id

    async def enqueue_and_close() -> str:
        job_id = await enqueue()
        await jobs.close()
        return job_id

    loop.run_until_complete(enqueue())
    said = in_child(lambda: asyncio.run(enqueue_and_close()))
    for _ in range(3):
        assert loop.run_until_complete(jobs.status_of(loop.run_until_complete(enqueue()))) == "queued"
    if mode == "memory":
        assert "belongs to the process" in said
    else:
        assert loop.run_until_complete(jobs.status_of(said)) == "queued"
    loop.run_until_complete(jobs.close())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_of_its_own_after_one_that_has_ended(mode_settings: JobsSettings) -> None:
    """Nothing was closed in the loop that has ended, of which Python warns."""
    jobs = JobQueue(settings=mode_settings)
    ids = [asyncio.run(_enqueue(jobs)) for _ in range(3)]

    async def statuses() -> set[str]:
        try:
            return {await jobs.status_of(job_id) for job_id in ids}
        finally:
            await jobs.close()

    assert asyncio.run(statuses()) == {"queued"}
    gc.collect()


async def _enqueue(jobs: JobQueue) -> str:
    return (await jobs.enqueue("task")).id


def test_an_object_that_is_open_elsewhere_is_refused_before_anything_is_written(
    mode_settings: JobsSettings, loop: asyncio.AbstractEventLoop
) -> None:
    jobs = JobQueue(settings=mode_settings)
    queue = f"queue-{new_id()}"
    loop.run_until_complete(jobs.open())
    client = jobs.blocking()
    with pytest.raises(QueueCoreError, match="opened in another event loop"):
        client.enqueue("task", queue=queue)
    with pytest.raises(QueueCoreError, match="opened in another event loop"), jobs.blocking():
        pass
    with suppress(QueueCoreError):
        client.close()
    assert queue not in loop.run_until_complete(jobs.store.queues())
    loop.run_until_complete(jobs.close())
    with jobs.blocking() as after:
        assert after.enqueue("task", queue=queue).status() == "queued"
