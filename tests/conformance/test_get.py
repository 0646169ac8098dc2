"""Get and attempts: one job, or the error that says that there is none."""

import pytest

from queue_core.errors import JobNotFound
from queue_core.model.filters import Filter
from queue_core.model.job import Job
from tests.conformance.making import UNKNOWN
from tests.conformance.world import FINISHED, STATES, UNFINISHED, World

NOBODY = [UNKNOWN, "", "rubbish", "00000000", "' OR true --", "\x00", "\ud800"]


@pytest.mark.parametrize("job_id", NOBODY)
@pytest.mark.parametrize("verb", ["get", "attempts"])
async def test_a_job_that_is_not_there(world: World, verb: str, job_id: str) -> None:
    await world.insert()
    with pytest.raises(JobNotFound) as caught:
        await getattr(world.inspector, verb)(job_id)
    assert caught.value.job_id == job_id


@pytest.mark.parametrize("state", STATES)
async def test_what_must_fit_together(world: World, state: str) -> None:
    job = await world.job(await world.job_in(state))
    assert job.status == ("dead" if state == "trashed" else state)
    assert (job.lease_expires_at is not None) == (state == "running")
    assert (job.completed_at is not None) == (state in FINISHED)
    assert (job.trashed_at is not None) == (state == "trashed")
    assert (job.started_at is not None) == (state not in {"scheduled", "queued", "retrying"})
    assert (job.worker is not None) == (job.started_at is not None)
    assert (job.token > 0) == (state not in {"scheduled", "queued"})
    assert (job.error is not None) == (state in {"retrying", "dead", "trashed"})
    assert (job.failure_kind is None) == (job.error is None)
    assert job.created_at <= job.updated_at
    assert all(at.tzinfo is not None for at in (job.created_at, job.updated_at, job.run_at))


@pytest.mark.parametrize("state", UNFINISHED)
async def test_it_has_no_result_before_its_end(world: World, state: str) -> None:
    job = await world.job(await world.job_in(state))
    assert job.result is None


async def test_the_list_shows_what_get_shows(world: World) -> None:
    """Apart from the traceback, which lists leave out, and what only the last failure tells."""
    ids = [await world.job_in(state) for state in STATES]
    pages = [await world.inspector.jobs(Filter(trash=trash), 50) for trash in (False, True)]
    shown = {job.id: _listed(job) for page in pages for job in page.jobs}
    assert shown == {job_id: _listed(await world.job(job_id)) for job_id in ids}


def _listed(job: Job) -> dict[str, object]:
    left_out = {"traceback", "signature", "failure_kind"}
    return {name: getattr(job, name) for name in Job.__slots__ if name not in left_out}


async def test_a_dead_job_shows_its_signature_in_lists(world: World) -> None:
    claim = await world.ended("dead")
    (job,) = (await world.inspector.jobs(Filter(), 10)).jobs
    assert (job.id, job.signature, job.failure_kind) == (claim.id, "0123456789ab", "error")
