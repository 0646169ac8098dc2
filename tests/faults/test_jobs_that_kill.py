"""Jobs that take their process with them: buried as poison once a worker saw it, and nobody beside them is blamed."""

from __future__ import annotations

from queue_core.model.states import Status
from tests.faults.plant import Plant, now
from tests.waiting import eventually


async def test_the_third_time_alone_is_poison_and_neighbours_are_fine(plant: Plant) -> None:
    """A service replaces the dead; neighbours that ran in the same processes complete."""
    plant.crew.start(1)
    await plant.enqueue(3, "waits_for", gate="open")
    await plant.until_started(3)
    (poison,) = await plant.enqueue(1, "kills_its_process")
    behind = await plant.enqueue(30, "work", ms=5)
    since = now()

    async def buried() -> bool:
        if not plant.crew.alive:
            plant.crew.start(1)
        return (await plant.jobs.inspector.get(poison)).status is Status.DEAD

    assert await eventually(buried), plant.crew.log()[-4000:]
    plant.open_gate("open")
    await plant.until_quiet(dead=1)
    job = await plant.jobs.inspector.get(poison)
    assert (job.failure_kind, job.losses, job.crashes) == ("poison", 2, 1)
    assert len(await plant.jobs.inspector.attempts(poison)) == 3
    assert {(await plant.jobs.inspector.get(one)).status for one in behind} == {Status.COMPLETED}
    found = await plant.findings("poison", since)
    assert found.problems == []
    assert found.jobs == 34
    killed = sum(plant.crew.code(pid) == -9 for pid in plant.crew.pids)
    assert killed == 2, "the third time it ran alone in a process of its own"


async def test_the_process_of_a_suspect_ends_with_its_worker(plant: Plant) -> None:
    """What runs alone in a process must not run on when the worker, which would have stored its outcome, is gone."""
    (first,) = plant.crew.start(1)
    (job_id,) = await plant.enqueue(1, "waits_for", gate="never")
    for number in (1, 2):
        await plant.until_started(number)
        plant.crew.kill(plant.crew.alive[0])
        plant.crew.start(1)
    await plant.until_started(3)
    alone = plant.ledger.starts_of(job_id)[-1].pid
    worker = plant.crew.alive[0]
    assert alone not in {first, worker}
    plant.crew.kill(worker)
    assert await eventually(lambda: not plant.crew.exists(alone)), "the child outlives its worker"
    plant.open_gate("never")
    plant.crew.start(1)
    await plant.until_quiet()
    job = await plant.jobs.inspector.get(job_id)
    assert (job.status, job.losses, job.crashes) == (Status.COMPLETED, 3, 0)
    assert (await plant.findings("suspect's worker killed")).problems == []


async def test_sleeping_jobs_outlive_any_number_of_kills(plant: Plant) -> None:
    """Whoever kills the workers, jobs that only wait are to blame for nothing."""
    jobs = await plant.enqueue(4, "waits_for", gate="open")
    for number in range(5):
        (worker,) = plant.crew.start(1)
        await plant.until_started(4 * (number + 1))
        plant.crew.kill(worker)
    plant.crew.start(1)
    plant.open_gate("open")
    await plant.until_quiet()
    found = [await plant.jobs.inspector.get(job_id) for job_id in jobs]
    assert {(job.status, job.losses, job.crashes) for job in found} == {(Status.COMPLETED, 5, 0)}
    assert (await plant.findings("sleepers, workers killed")).problems == []
