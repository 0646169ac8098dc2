"""Two versions of a worker: a payload that one cannot take waits for the other, and is buried in the end."""

from __future__ import annotations

import pytest

from queue_core import JobFailed, JobQueue, Retry
from queue_core.model import outcome
from tests.conformance.making import new_job
from tests.conformance.working import PATIENCE, until, working

AT_ONCE = Retry(delay=0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit comes again soon."""
    monkeypatch.setattr(outcome, "MISFIT_SECONDS", 0.2)


def version_1(jobs: JobQueue) -> None:
    """Register the first handler; another version was other code and is gone."""
    jobs.tasks._definitions.clear()

    @jobs.task(name="resize", retry=AT_ONCE)
    async def resize(path: str) -> str:
        if path == "broken":
            raise OSError(path)
        return path


def version_2(jobs: JobQueue) -> None:
    jobs.tasks._definitions.clear()

    @jobs.task(name="resize", retry=AT_ONCE)
    async def resize(path: str, width: int) -> str:
        return f"{path}@{width}"


async def one_attempt(jobs: JobQueue, job_id: str) -> None:
    """Run the job once, in a worker that runs no other."""
    before = len(await jobs.inspector.attempts(job_id))

    async def failed() -> bool:
        return len(await jobs.inspector.attempts(job_id)) > before

    async with working(jobs) as worker:
        worker.limit_jobs(1)
        await until(failed)


async def inserted(jobs: JobQueue, payload: str, max_retries: int = 3) -> str:
    """Enqueue as a producer does that does not know the handler."""
    job = new_job(type="resize", queue="default", payload=payload, max_retries=max_retries)
    await jobs.store.insert([job])
    return job.id


async def kinds(jobs: JobQueue, job_id: str) -> list[str]:
    return [attempt.kind for attempt in await jobs.inspector.attempts(job_id)]


@pytest.mark.parametrize("max_retries", [0, 3])
async def test_a_payload_of_the_next_version_waits_for_it(jobs: JobQueue, max_retries: int) -> None:
    """However few retries the job has; the worker of the first version does not get it back at once."""
    job_id = await inserted(jobs, '{"path":"a.png","width":2}', max_retries)
    version_1(jobs)
    await one_attempt(jobs, job_id)
    found = await jobs.inspector.get(job_id)
    # on a slow machine its time has come
    assert (found.status in {"retrying", "queued"}, found.retry_count) == (True, 1)
    assert "width" in str(found.error)
    (attempt,) = await jobs.inspector.attempts(job_id)
    assert (found.run_at - attempt.finished_at).total_seconds() > 0.1, "its policy says at once"
    version_2(jobs)
    async with working(jobs):
        assert await jobs.result(job_id, PATIENCE) == "a.png@2"
    first, *others = await jobs.inspector.attempts(job_id)
    assert (first.kind, others) == ("invalid_payload", [])


@pytest.mark.parametrize("payload", ['{"width":1}', '{"path":7,"width":1}', '{"path":"a","width":1,"more":1}'])
@pytest.mark.parametrize("max_retries", [0, 2])
async def test_a_payload_that_fits_no_version_is_buried(jobs: JobQueue, payload: str, max_retries: int) -> None:
    bad, after = await inserted(jobs, payload, max_retries), await inserted(jobs, '{"path":"a","width":1}')
    version_2(jobs)
    async with working(jobs):
        with pytest.raises(JobFailed):
            await jobs.result(bad, PATIENCE)
        assert await jobs.result(after, PATIENCE) == "a@1"
    found = await jobs.inspector.get(bad)
    assert (found.status, found.failure_kind, found.retry_count) == ("dead", "invalid_payload", max_retries + 1)
    assert await kinds(jobs, bad) == ["invalid_payload"] * (max_retries + 2)


async def test_retries_that_failures_have_used_up_do_not_bury_what_does_not_fit(jobs: JobQueue) -> None:
    job_id = await inserted(jobs, '{"path":"broken"}', 1)
    version_1(jobs)
    await one_attempt(jobs, job_id)
    version_2(jobs)
    await one_attempt(jobs, job_id)
    assert await kinds(jobs, job_id) == ["error", "invalid_payload"]
    assert await jobs.status_of(job_id) == "retrying"
    version_1(jobs)
    await one_attempt(jobs, job_id)
    assert await kinds(jobs, job_id) == ["error", "invalid_payload", "error"]
    assert await jobs.status_of(job_id) == "dead"
