"""Jobs claimed one by one, without a Worker: the same protocol, the same fence."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_core import (
    InvalidArgument,
    InvalidJob,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobQueue,
    Retry,
    RetryLater,
    StaleLease,
    Status,
)
from queue_core.errors import FilterError
from queue_core.model.job import Ready, new_id
from queue_core.model.operation import Author, MemberVerb, OperationRequest
from queue_core.worker.manual import ClaimedJob
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE, until, working


async def claimed(jobs: JobQueue, queue: str = "default", **given: Any) -> ClaimedJob:
    job = await jobs.claim_next(queue, wait=PATIENCE, **given)
    assert job is not None
    return job


async def test_from_claim_to_result(jobs: JobQueue) -> None:
    handle = await jobs.enqueue(
        "resize", {"path": "a.png"}, queue="images", tags=["x"], priority=9, max_retries=2, ordering_key="k"
    )
    waiting = asyncio.create_task(handle.result(PATIENCE))
    job = await claimed(jobs, "images")
    assert (job.id, job.queue, job.type, job.payload) == (handle.id, "images", "resize", {"path": "a.png"})
    assert (job.tags, job.priority, job.attempt, job.max_retries, job.ordering_key) == (("x",), 9, 1, 2, "k")
    assert datetime.now(UTC) - job.created_at < timedelta(minutes=5)
    assert (await jobs.get(handle.id)).status is Status.RUNNING
    assert await jobs.claim_next("images") is None
    await job.complete({"ok": True})
    assert await waiting == {"ok": True}
    await job.complete({"ok": True})  # the answer might have got lost
    with pytest.raises(StaleLease):
        await job.release()
    assert (await jobs.get(handle.id)).result == {"ok": True}


async def test_best_rank_first_and_only_these_types(jobs: JobQueue) -> None:
    low = await jobs.enqueue("a", priority="low")
    high = await jobs.enqueue("b", priority="high")
    assert (await claimed(jobs, types=["a", "c"])).id == low.id
    assert await jobs.claim_next(types=["a"]) is None
    assert await jobs.claim_next(types=[]) is None
    assert await jobs.claim_next("elsewhere") is None
    assert (await claimed(jobs)).id == high.id


async def test_a_paused_queue_gives_nothing(jobs: JobQueue) -> None:
    await jobs.enqueue("a")
    await jobs.operations.pause_queue("default")
    assert await jobs.claim_next() is None
    await jobs.operations.resume_queue("default")
    await claimed(jobs)


async def test_failures_go_by_the_policy(jobs: JobQueue) -> None:
    @jobs.task(retry=Retry(max_retries=1, delay=0))
    async def known() -> None: ...

    handle = await known.enqueue()
    job = await claimed(jobs)
    assert await job.fail(ValueError("first")) is Status.RETRYING
    again = await claimed(jobs)
    assert (again.id, again.attempt) == (handle.id, 2)
    assert [(one.kind, one.number) for one in await jobs.attempts(handle.id)] == [("error", 1), ("running", 2)]
    assert again.token > job.token
    assert await again.fail("second") is Status.DEAD
    with pytest.raises(JobFailed, match="second"):
        await handle.result(PATIENCE)
    assert [attempt.message for attempt in await jobs.attempts(handle.id)] == ["first", "second"]
    with pytest.raises(StaleLease):
        await job.complete()


async def test_a_failure_without_retry_and_one_for_later(jobs: JobQueue) -> None:
    first, second = await jobs.enqueue("a"), await jobs.enqueue("a")
    assert await (await claimed(jobs)).fail(OSError("no"), retry=False) is Status.DEAD
    assert await (await claimed(jobs)).fail(RetryLater(delay="1h")) is Status.RETRYING
    assert (await jobs.get(first.id)).error == "OSError: no"
    job = await jobs.get(second.id)
    assert (job.run_at - job.updated_at).total_seconds() == pytest.approx(3600, abs=5)


async def test_release_goes_back_to_its_place_without_using_an_attempt(jobs: JobQueue) -> None:
    first, second = await jobs.enqueue("a"), await jobs.enqueue("a")
    job = await claimed(jobs)
    assert await job.release() is Status.QUEUED
    again = await claimed(jobs)
    assert (again.id, again.attempt) == (first.id, 1)
    assert await again.reschedule() is Status.QUEUED
    last = await claimed(jobs)
    assert last.id == second.id
    assert await last.reschedule(delay=60) is Status.SCHEDULED
    assert (await jobs.get(second.id)).status is Status.SCHEDULED


async def test_workers_hear_of_what_a_program_claims_and_gives_back(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would look for a job that is taken, and learn of one that is ready from the audit."""
    assert jobs.dispatcher is not None
    told: list[tuple[str, list[str]]] = []
    offer, forget = jobs.dispatcher.offer, jobs.dispatcher.forget

    async def offering(ready: Sequence[Ready]) -> None:
        told.append(("offered", [one.id for one in ready]))
        await offer(ready)

    async def forgetting(queue: str, ids: Sequence[str]) -> None:
        told.append((f"forgotten in {queue}", list(ids)))
        await forget(queue, ids)

    monkeypatch.setattr(jobs.dispatcher, "offer", offering)
    monkeypatch.setattr(jobs.dispatcher, "forget", forgetting)
    handle = await jobs.enqueue("any")
    job = await claimed(jobs)
    assert ("forgotten in default", [handle.id]) in told
    told.clear()
    await job.release()
    assert ("offered", [handle.id]) in told


async def test_refresh_prolongs_the_lease_and_tells_progress(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("a")
    job = await claimed(jobs, lease="10s")
    await job.refresh(progress=40, message="decoded")
    first = await jobs.get(handle.id)
    assert (first.progress, first.progress_message) == (40, "decoded")
    assert first.lease_expires_at is not None
    assert first.started_at is not None
    assert 9 < (first.lease_expires_at - first.started_at).total_seconds() < 40
    await job.refresh("1h")
    second = await jobs.get(handle.id)
    assert second.lease_expires_at is not None
    assert (second.lease_expires_at - first.lease_expires_at).total_seconds() > 3000
    assert not job.cancel_requested
    await job.complete()
    with pytest.raises(StaleLease):
        await job.refresh()


@pytest.mark.parametrize("lease", [1e18, 101 * 366 * 86400.0, 0, -1, "soon", float("nan"), True])
async def test_lengths_that_no_lease_has(jobs: JobQueue, lease: Any) -> None:
    await jobs.enqueue("a")
    with pytest.raises(InvalidArgument, match="lease"):
        await jobs.claim_next(lease=lease)
    job = await claimed(jobs)
    with pytest.raises(InvalidArgument, match="lease"):
        await job.refresh(lease)
    await job.complete()


@pytest.mark.parametrize("error", [5, None, ValueError, ["x"]])
async def test_a_job_fails_with_an_exception_or_a_text(jobs: JobQueue, error: Any) -> None:
    await jobs.enqueue("a")
    job = await claimed(jobs)
    for retry in (True, False):
        with pytest.raises(InvalidArgument, match="a job fails with an exception or a text"):
            await job.fail(error, retry=retry)
    await job.complete()


async def test_a_lease_that_is_over(jobs: JobQueue) -> None:
    """The consumer's own duties take the job back, and every later write of the first attempt is refused."""
    handle = await jobs.enqueue("a")
    stale = await claimed(jobs, lease=0.2)
    again = await claimed(jobs)
    assert (again.id, again.attempt) == (handle.id, 2)
    for write in (stale.complete, stale.release, stale.refresh, stale.reschedule):
        with pytest.raises(StaleLease):
            await write()
    with pytest.raises(StaleLease):
        await stale.fail("late")
    await again.complete("second")
    assert await handle.result(PATIENCE) == "second"
    assert (await jobs.get(handle.id)).losses == 1


async def test_delayed_jobs_come_without_a_worker(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("a", delay=1.0)
    assert await jobs.claim_next() is None
    assert (await claimed(jobs)).id == handle.id


async def test_a_cancelled_one(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("a")
    job = await claimed(jobs)
    assert await jobs.cancel(handle.id)
    await job.refresh()
    assert job.cancel_requested
    assert await job.release() is Status.CANCELLED
    with pytest.raises(JobCancelled):
        await handle.result(PATIENCE)
    assert not await jobs.cancel(handle.id)


async def test_cancel_by_id(jobs: JobQueue) -> None:
    handle = await jobs.enqueue("a")
    assert await jobs.cancel(handle.id)
    assert await handle.status() is Status.CANCELLED
    assert not await jobs.cancel(handle.id)
    with pytest.raises(JobNotFound):
        await jobs.cancel(new_id())


async def test_many_consumers_share(jobs: JobQueue) -> None:
    handles = await jobs.enqueue_many("a", [{}] * 40)

    async def consume() -> list[str]:
        done = []
        while job := await jobs.claim_next():
            done.append(job.id)
            await job.complete()
        return done

    done = await asyncio.gather(*(consume() for _ in range(5)))
    assert sorted(job_id for some in done for job_id in some) == sorted(handle.id for handle in handles)


async def test_beside_a_worker(jobs: JobQueue) -> None:
    @jobs.task
    async def known() -> str:
        return "worker"

    async with working(jobs):
        strange = await jobs.enqueue("strange")
        job = await claimed(jobs, types=["strange"])
        await job.refresh()
        handles = [await known.enqueue() for _ in range(20)]
        assert {await handle.result(PATIENCE) for handle in handles} == {"worker"}
        await job.complete("by hand")
        assert await strange.result(PATIENCE) == "by hand"


async def test_what_cannot_be_read_is_buried_and_the_next_one_comes(jobs: JobQueue) -> None:
    broken = new_job(queue="default", type="a", payload='"no object"')
    await jobs.open()
    await jobs.store.insert([broken])
    handle = await jobs.enqueue("a")
    assert (await claimed(jobs)).id == handle.id
    job = await jobs.get(broken.id)
    assert (job.status, job.failure_kind) == (Status.DEAD, "invalid_payload")


async def test_closing_leaves_no_entry_and_the_object_can_be_used_again(jobs: JobQueue) -> None:
    await jobs.enqueue("a")
    job = await claimed(jobs)
    await job.refresh()

    async def entries() -> int:
        return len((await jobs.inspector.overview()).workers)

    assert await entries() == 1
    await job.complete()
    if jobs.settings.mode == "memory":
        return  # its jobs go with the object
    await jobs.close()
    handle = await jobs.enqueue("a")

    async def nobody() -> bool:
        return await entries() == 0

    await until(nobody)
    assert (await claimed(jobs)).id == handle.id


async def test_looking(jobs: JobQueue) -> None:
    handles = [await jobs.enqueue("a", queue="images") for _ in range(3)] + [await jobs.enqueue("b")]
    page = await jobs.list("queue:images", limit=2)
    rest = await jobs.list("queue:images", limit=2, cursor=page.cursor)
    assert {job.id for job in (*page.jobs, *rest.jobs)} == {handle.id for handle in handles[:3]}
    assert [job.type for job in (await jobs.list("type:b")).jobs] == ["b"]
    assert len((await jobs.list()).jobs) == await jobs.count() == 4
    assert await jobs.count("status:dead") == 0
    oldest = (await jobs.list(order="oldest")).jobs[0]
    assert oldest.id == handles[0].id
    assert (await jobs.get(handles[3].id)).type == "b"
    with pytest.raises(JobNotFound):
        await jobs.get(new_id())
    with pytest.raises(JobNotFound):
        await jobs.get("rubbish")
    with pytest.raises(FilterError):
        await jobs.list("stauts:dead")


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("retry", [7]),
        ("retry", "abc"),
        ("cancel", [None]),
        ("delete", 5),
        ("restore", {"x": 1}),
        ("purge", ["a", b"b"]),
        ("pause_queue", 7),
        ("resume_queue", None),
    ],
)
async def test_what_an_operator_cannot_ask_for(jobs: JobQueue, verb: str, given: Any) -> None:
    with pytest.raises(InvalidArgument):
        await (getattr(jobs.operations, verb)(given) if "_" in verb else jobs.operations.change(verb, given))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        await jobs.operations.command("worker", "fly")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("get", {"job_id": 7}),
        ("cancel", {"job_id": None}),
        ("attempts", {"job_id": b"x"}),
        ("list", {"limit": 0}),
        ("list", {"limit": 1001}),
        ("list", {"limit": True}),
        ("list", {"limit": "5"}),
        ("list", {"order": "sideways"}),
        ("list", {"where": 7}),
        ("list", {"cursor": "rubbish"}),
        ("list", {"cursor": 7}),
        ("count", {"where": None}),
        ("count", {"at_most": -1}),
        ("count", {"at_most": "5"}),
        ("claim_next", {"queue": ""}),
        ("claim_next", {"queue": 7}),
        ("claim_next", {"types": "a"}),
        ("claim_next", {"types": 7}),
        ("result", {"job_id": 7}),
        ("status_of", {"job_id": 7}),
        ("wait_for", {"queue": "default", "job_id": "x", "timeout": "soon"}),
        ("enqueue", {"type_": "a", "bogus": 1}),
        ("enqueue_many", {"type_": "a", "payloads": 5}),
        ("enqueue_many", {"type_": "a", "payloads": {"x": 1}}),
        ("claim_next", {"types": [""]}),
        ("claim_next", {"lease": 0}),
        ("claim_next", {"lease": "soon"}),
        ("claim_next", {"wait": -1}),
    ],
)
async def test_what_cannot_be_asked_for(jobs: JobQueue, verb: str, given: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgument, InvalidJob, FilterError)):
        await getattr(jobs, verb)(**given)


@pytest.mark.parametrize("job_id", ["\ud800", "é", "\x00", "0197b3c2-5a1e-7c88-9b3e-56e26719422\udfff"])
async def test_an_id_that_no_job_can_have(jobs: JobQueue, job_id: str) -> None:
    """It is one that is not there, also where it is no text that can be sent."""
    one, other = [(await jobs.enqueue("a", {})).id for _ in range(2)]
    asked: list[Callable[[str], Awaitable[object]]] = [
        jobs.get, jobs.attempts, jobs.cancel, jobs.compare, jobs.result, jobs.status_of, jobs.inspector.logs,
    ]  # fmt: skip
    for verb in asked:
        with pytest.raises(JobNotFound) as caught:
            await verb(job_id)
        assert caught.value.job_id == job_id
    with pytest.raises(JobNotFound):
        await jobs.wait_for("default", job_id, 1.0)
    with pytest.raises(JobNotFound):
        await anext(jobs.events_of(job_id))
    assert await jobs.operations.list_for_job(job_id) == []
    assert await jobs.operations.stacks(job_id) == []
    assert await jobs.operations.ask_stack(job_id, 0.1) is None
    verbs: list[MemberVerb] = ["retry", "cancel", "delete", "restore", "purge"]
    for change in verbs:
        assert (await jobs.operations.change(change, [job_id])).ids == ()
    assert (await jobs.operations.change("cancel", [job_id, one])).ids == (one,)
    request = OperationRequest("cancel", "some jobs", Author("ana", "bastion-1"))
    operation = await jobs.operations.submit(request, [job_id, other])
    operation = await jobs.operations.run(operation.number)
    assert (operation.state, operation.total, operation.processed, operation.skipped) == ("done", 2, 1, 1)
