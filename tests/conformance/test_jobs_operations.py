"""Operations through the queue object, in every mode: carried out by any executor, watched, stopped, taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.client.operating import submission
from queue_core.client.operating.executor import Executor
from queue_core.errors import (
    InvalidArgument,
    InvalidJob,
    OperationNotFound,
    QueueClosed,
    QueueCoreError,
    QueueFull,
    ScheduleNotFound,
)
from queue_core.model.operation import Author, ChangeOptions, Operation, OperationRequest, Rollout
from queue_core.model.retry import Retry
from queue_core.ports.operations import OperationStore
from tests.conformance.working import PATIENCE, until, working

AUTHOR = Author("ana", "bastion-1")


def asked(verb: str = "retry", **given: Any) -> OperationRequest:
    return OperationRequest(**{"verb": verb, "label": "some jobs", "author": AUTHOR} | given)


async def dead_jobs(jobs: JobQueue, count: int, type_: str = "charge") -> list[str]:
    """Return the ids of jobs that died, enqueued and buried by hand."""
    handles = await jobs.enqueue_many(type_, [{"n": n} for n in range(count)], max_retries=0)
    for _ in handles:
        claimed = await jobs.claim_next(types=[type_], wait=PATIENCE)
        assert claimed is not None
        await claimed.fail(OSError("smtp is away"))
    return [handle.id for handle in handles]


async def ended(jobs: JobQueue, operation: Operation) -> Operation:
    """Wait until others have carried an operation out."""

    async def over() -> bool:
        return (await jobs.operations.get(operation.number)).state not in {"preparing", "running"}

    await until(over)
    return await jobs.operations.get(operation.number)


async def statuses(jobs: JobQueue, ids: Sequence[str]) -> Counter[str]:
    return Counter([str((await jobs.get(job_id)).status) for job_id in ids])


async def test_it_is_carried_out_here(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 3)
    told: list[tuple[str, int]] = []
    operation = await jobs.operations.submit(asked(), ids, lambda one: told.append((one.state, one.total)))
    assert (operation.state, operation.total) == ("running", 3)
    assert told == [("preparing", 0), ("preparing", 3)]
    operation = await jobs.operations.run(operation.number)
    assert (operation.state, operation.processed) == ("done", 3)
    assert await statuses(jobs, ids) == {"queued": 3}


async def test_one_that_is_cancelled_while_it_is_written_never_runs(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await dead_jobs(jobs, 6)
    monkeypatch.setattr(submission, "MEMBERS_PER_WRITE", 2)
    store = jobs.operations._store
    add = type(store).add

    async def add_and_cancel(self: OperationStore, number: int, some: Sequence[str], ended: float | None) -> Operation:
        await add(store, number, some, ended)
        await jobs.operations.cancel(number)
        return await jobs.operations.get(number)

    monkeypatch.setattr(type(store), "add", add_and_cancel)
    operation = await jobs.operations.submit(asked(), ids)
    assert (operation.state, operation.total, operation.processed) == ("cancelled", 2, 0)
    assert await statuses(jobs, ids) == {"dead": 6}


async def test_a_worker_carries_it_out(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 3)

    @jobs.task
    async def charge(n: int) -> int:
        return n

    async with working(jobs):
        await ended(jobs, await jobs.operations.submit(asked(), ids))
        await until(lambda: _all(jobs, ids, "completed"))


async def test_a_canary_that_completes_lets_the_rest_through(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 8)
    ran: list[int] = []

    @jobs.task
    async def charge(n: int) -> None:
        ran.append(n)

    pace = Rollout(canary=2, stop_percent=20.0)
    operation = await jobs.operations.submit(asked(rollout=pace), ids)
    executor = jobs.operations.executor()
    await executor.run_once()
    operation = await jobs.operations.get(operation.number)
    assert (operation.awaiting_canary, operation.processed) == (True, 2)
    await executor.run_once()
    assert await statuses(jobs, ids) == {"queued": 2, "dead": 6}
    async with working(jobs):
        assert (await ended(jobs, operation)).processed == 8
        await until(lambda: _all(jobs, ids, "completed"))
    assert len(ran) == 8


async def test_a_canary_that_dies_again_stops_it(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 8)

    @jobs.task(retry=Retry(max_retries=0))
    async def charge(n: int) -> None:
        raise OSError("smtp is still away")

    pace = Rollout(canary=3, stop_percent=20.0)
    async with working(jobs):
        operation = await ended(jobs, await jobs.operations.submit(asked(rollout=pace), ids))
    assert (operation.state, operation.processed) == ("stopped", 3)
    assert "canary jobs died again" in operation.note
    assert (await jobs.operations.outcomes(operation.number)).dead == 3
    assert await statuses(jobs, ids) == {"dead": 8}


async def test_a_stopped_one_can_be_resumed(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 30)
    number = (await jobs.operations.submit(asked(rollout=Rollout(canary=1, stop_percent=0.0)), ids)).number
    executor = jobs.operations.executor()
    await executor.run_once()
    claimed = await jobs.claim_next(wait=PATIENCE)
    assert claimed is not None
    await claimed.fail(OSError("still away"), retry=False)
    await until(lambda: _in_state(jobs, executor, number, "stopped"))
    assert await jobs.operations.resume(number)
    operation = await jobs.operations.run(number)
    assert (operation.state, operation.processed) == ("done", 30)


async def test_it_is_stopped_when_too_many_die_behind_the_canary(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 150)
    # What is left takes longer than the time between two looks at what became of the jobs.
    number = (await jobs.operations.submit(asked(rollout=Rollout(rate=80.0, stop_percent=50.0)), ids)).number
    executor = jobs.operations.executor()
    await executor.run_once()
    await jobs.operations.pause(number)
    done = (await jobs.operations.get(number)).processed
    assert 20 <= done < 150
    for _ in range(done):
        claimed = await jobs.claim_next(wait=PATIENCE)
        assert claimed is not None
        await claimed.fail(OSError("still away"), retry=False)
    await jobs.operations.resume(number)
    await until(lambda: _in_state(jobs, executor, number, "stopped"))
    operation = await jobs.operations.get(number)
    assert operation.processed < 150
    assert f"{done} of {done}" in operation.note


async def test_paused_and_resumed_and_cancelled(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 3)
    number = (await jobs.operations.submit(asked(), ids)).number
    assert await jobs.operations.pause(number)
    assert not await jobs.operations.pause(number)
    assert (await jobs.operations.run(number)).state == "paused"
    assert await statuses(jobs, ids) == {"dead": 3}
    assert await jobs.operations.resume(number)
    assert await jobs.operations.cancel(number)
    assert not await jobs.operations.resume(number)
    assert (await jobs.operations.run(number)).state == "cancelled"
    assert await statuses(jobs, ids) == {"dead": 3}


async def test_one_that_is_being_written_is_not_resumed(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 1)
    store = (await jobs.backend()).operations
    preparing = await store.create(asked())
    await store.add(preparing.number, ids)
    assert not await jobs.operations.resume(preparing.number)
    assert (await jobs.operations.get(preparing.number)).state == "preparing"
    assert await jobs.operations.cancel(preparing.number)


async def test_a_delete_is_taken_back_exactly(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 4)
    await jobs.operations.change("delete", ids[:1])
    number = (await jobs.operations.submit(asked("delete"), ids)).number
    assert (await jobs.operations.run(number)).processed == 3
    assert await jobs.operations.changed_ids(number) == ids[1:]
    assert await jobs.operations.changed_ids(number, 2) == ids[1:3]
    (back,) = await jobs.operations.undo(number, AUTHOR)
    assert (await jobs.operations.run(back.number)).processed == 3
    assert [(await jobs.get(job_id)).trashed_at is None for job_id in ids] == [False, True, True, True]


async def test_a_move_is_taken_back_to_each_queue(jobs: JobQueue) -> None:
    first, second = await jobs.enqueue("charge", queue="a"), await jobs.enqueue("charge", queue="b")
    number = (
        await jobs.operations.submit(asked("move", options=ChangeOptions(queue="c")), [first.id, second.id])
    ).number
    await jobs.operations.run(number)
    assert {(await jobs.get(one.id)).queue for one in (first, second)} == {"c"}
    for back in await jobs.operations.undo(number, AUTHOR):
        await jobs.operations.run(back.number)
    assert [(await jobs.get(one.id)).queue for one in (first, second)] == ["a", "b"]


async def test_a_retry_is_not_taken_back(jobs: JobQueue) -> None:
    number = (await jobs.operations.submit(asked(), await dead_jobs(jobs, 1))).number
    await jobs.operations.run(number)
    assert await jobs.operations.undo(number, AUTHOR) == []


async def test_what_is_done_at_once_is_noted(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("charge")

    async def act() -> str:
        return "it is done"

    async def fail() -> str:
        raise OSError("it cannot be done")

    assert await jobs.operations.record(asked("edit", why="a typo"), act, [handle.id]) == "it is done"
    with pytest.raises(OSError, match="cannot"):
        await jobs.operations.record(asked("pause"), fail)
    second, first = await jobs.operations.list_operations()
    assert (second.request.verb, second.state, second.note) == ("pause", "failed", "it cannot be done")
    assert (first.request.verb, first.state, first.note, first.request.why) == ("edit", "done", "it is done", "a typo")
    assert await jobs.operations.list_for_job(handle.id) == [first]


@pytest.mark.parametrize(
    "refusal",
    [QueueFull("mail", 10), QueueClosed("mail"), InvalidJob("no"), ScheduleNotFound("nosuch"), InvalidArgument("no")],
    ids=lambda refusal: type(refusal).__name__,
)
async def test_what_is_refused_at_once_leaves_no_note(jobs: JobQueue, refusal: QueueCoreError) -> None:
    handle = await jobs.enqueue("charge")

    async def act() -> str:
        raise refusal

    with pytest.raises(type(refusal)):
        await jobs.operations.record(asked("trigger"), act, [handle.id])
    assert await jobs.operations.list_operations() == []
    assert await jobs.operations.list_for_job(handle.id) == []


async def test_a_moved_job_wakes_the_workers_there(jobs: JobQueue) -> None:
    @jobs.task(queue="fast")
    async def charge() -> str:
        return "done"

    handle = await charge.options(queue="slow").enqueue()
    async with working(jobs, queues=["fast"]):
        number = (await jobs.operations.submit(asked("move", options=ChangeOptions(queue="fast")), [handle.id])).number
        await ended(jobs, await jobs.operations.get(number))
        assert await handle.result(PATIENCE) == "done"


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "explode"},
        {"verb": "move"},
        {"verb": "move", "options": ChangeOptions(queue="")},
        {"options": ChangeOptions(priority=1000)},
        {"options": ChangeOptions(delay=-1.0)},
        {"rollout": Rollout(canary=-1)},
        {"rollout": Rollout(rate=0.0)},
        {"rollout": Rollout(rate=float("nan"))},
        {"rollout": Rollout(stop_percent=101.0)},
    ],
)
async def test_what_cannot_be_is_refused(jobs: JobQueue, wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgument, InvalidJob)):
        await jobs.operations.submit(asked(**wrong), [])
    assert await jobs.operations.list_operations() == []


async def test_only_a_retry_waits_for_outcomes(jobs: JobQueue) -> None:
    """Jobs that are deleted have none: the other verbs take a rate and a time alone."""
    ids = await dead_jobs(jobs, 3)
    careful = Rollout(canary=1, rate=100.0, stop_percent=20.0, when_release="r125")
    operation = await jobs.operations.submit(asked("delete", rollout=careful), ids)
    assert operation.request.rollout == Rollout(rate=100.0)
    operation = await jobs.operations.run(operation.number)
    assert (operation.state, operation.processed) == ("done", 3)


async def test_there_is_none_of_this_number(jobs: JobQueue) -> None:
    for call in (jobs.operations.run(5), jobs.operations.pause(5), jobs.operations.undo(5, AUTHOR)):
        with pytest.raises(OperationNotFound):
            await call


async def test_long_texts_are_cut(jobs: JobQueue) -> None:
    operation = await jobs.operations.submit(asked(label="x" * 5000, why="y\x00" * 5000), [])
    assert (len(operation.request.label), len(operation.request.why)) == (500, 500)


async def _all(jobs: JobQueue, ids: Sequence[str], status: str) -> bool:
    return await statuses(jobs, ids) == {status: len(ids)}


async def _in_state(jobs: JobQueue, executor: Executor, number: int, state: str) -> bool:
    await executor.run_once()
    return (await jobs.operations.get(number)).state == state
