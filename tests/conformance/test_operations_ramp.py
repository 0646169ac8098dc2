"""Ramps, first failures, times and outcomes of operations, in every mode."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from queue_core import JobQueue
from queue_core.client.operating import verdict
from queue_core.errors import InvalidArgument, InvalidJob
from queue_core.model.operation import ChangeOptions, Operation, Outcomes, RampStep, Rollout
from queue_core.model.retry import Retry
from tests.conformance.making import worker_beat
from tests.conformance.test_jobs_operations import asked, dead_jobs, ended
from tests.conformance.test_operations import dead, started
from tests.conformance.working import PATIENCE, until, working
from tests.conformance.world import World


async def test_each_step_of_a_ramp_is_a_barrier(world: World) -> None:
    ids = await dead(world, 8)
    operation = await started(world, ids, rollout=Rollout(ramp=(1, 2, 3)))
    number, seen = operation.number, []
    while operation.state == "running":
        step = await world.operations.step(number, 100)
        assert (await world.operations.step(number, 100)).changed.ids == ()
        seen.append((len(step.changed.ids), step.operation.stage.number, step.operation.awaiting_canary))
        passes = [world.operations.pass_barrier(number, step.operation.barrier) for _ in range(3)]
        assert sum(await asyncio.gather(*passes)) == (step.operation.state == "running"), "one of many executors"
        operation = await world.operations.get(number)
    assert seen == [(1, 1, True), (2, 2, True), (3, 3, True), (2, 4, False)]
    assert (operation.state, operation.processed) == ("done", 8)


async def test_a_ramp_of_more_than_all_ends_with_them(world: World) -> None:
    operation = await started(world, await dead(world, 3), rollout=Rollout(ramp=(2, 1, 50)))
    assert (operation.barrier, operation.stage.of) == (2, 1)
    await world.operations.step(operation.number, 10)
    assert await world.operations.pass_barrier(operation.number, 2)
    assert (await world.operations.step(operation.number, 10)).operation.state == "done"


async def test_a_canary_takes_others_in_place_of_those_that_it_skips(world: World) -> None:
    """Its size is what was retried, not what was looked at: the few that are left would decide about all others."""
    operations, ids = world.operations, await dead(world, 8)
    number = (await started(world, ids, rollout=Rollout(canary=3))).number
    await operations.change("retry", ids[:2])
    seen = []
    for _ in range(3):
        step = await operations.step(number, 100)
        one = step.operation
        seen.append((len(step.changed.ids), one.barrier, one.stage.changed, one.stage.size, one.awaiting_canary))
    assert seen == [(1, 5, 1, 3, False), (2, 5, 3, 3, True), (0, 5, 3, 3, True)]
    assert (await verdict.read_outcomes(operations, await operations.get(number))).looked == 3
    assert await operations.pass_barrier(number, 5)
    assert (await operations.step(number, 100)).operation.state == "done"


async def test_a_canary_takes_others_in_place_of_those_that_fail(world: World) -> None:
    number = (await started(world, await dead(world, 5), rollout=Rollout(canary=2))).number
    assert (await world.operations.fail_member(number, "no")).barrier == 3
    operation = (await world.operations.step(number, 100)).operation
    assert (operation.processed, operation.awaiting_canary, operation.stage.size) == (2, True, 2)


async def test_no_member_fails_behind_a_barrier(world: World) -> None:
    number = (await started(world, await dead(world, 3), rollout=Rollout(canary=1))).number
    await world.operations.step(number, 10)
    waits = await world.operations.get(number)
    assert await world.operations.fail_member(number, "it cannot be") == waits


async def test_steps_of_a_ramp_end_later_by_those_that_failed_before(world: World) -> None:
    number = (await started(world, await dead(world, 9), rollout=Rollout(ramp=(1, 2)))).number
    await world.operations.fail_member(number, "it cannot be")
    assert (await world.operations.step(number, 10)).operation.done == 2
    assert await world.operations.pass_barrier(number, 2)
    assert (await world.operations.get(number)).barrier == 4


async def test_a_canary_of_which_too_few_are_left_takes_all(world: World) -> None:
    ids = await dead(world, 4)
    number = (await started(world, ids, rollout=Rollout(canary=3))).number
    await world.operations.change("retry", ids[1:3])
    await world.operations.step(number, 100)
    operation = (await world.operations.step(number, 100)).operation
    assert (operation.state, operation.barrier, operation.processed) == ("done", 4, 2)


async def test_each_step_of_a_ramp_is_judged_by_its_own_jobs(world: World) -> None:
    """Also where other ones were skipped in the step before, and in this one."""
    operations, ids = world.operations, await dead(world, 12)
    number = (await started(world, ids, rollout=Rollout(ramp=(2, 3)))).number
    await operations.change("retry", [ids[0], ids[4]])
    for _ in range(2):
        step = await operations.step(number, 100)
    assert (step.operation.barrier, step.operation.awaiting_canary) == (3, True)
    await operations.pass_barrier(number, 3)
    step = await operations.step(number, 2)
    assert step.operation.stage == RampStep(2, 2, behind=2, size=3, changed=1)
    assert (await verdict.read_outcomes(operations, step.operation)).looked == 1
    operation = (await operations.step(number, 100)).operation
    assert (operation.barrier, operation.awaiting_canary) == (7, True)
    assert operation.stage == RampStep(2, 2, behind=2, size=3, changed=3)
    await world.settle(await world.claim_job(ids[3]), "completed")
    await world.settle(await world.claim_job(ids[1]), "dead")
    assert await verdict.read_outcomes(operations, operation) == Outcomes(3, 1, 0, 2)


async def test_it_waits_for_a_release_paused_or_not(world: World) -> None:
    ids = await dead(world, 3)
    operation = await started(world, ids, rollout=Rollout(canary=1, when_release="r125"))
    number = operation.number
    assert (operation.waits_for, operation.in_canary, operation.barrier) == ("r125", False, 0)
    assert (await world.operations.step(number, 10)).changed.ids == ()
    assert await world.operations.move(number, "paused")
    assert (await world.operations.get(number)).waits_for == "r125"
    assert not await world.operations.pass_barrier(number, 0)
    assert await world.operations.move(number, "running")
    assert await world.operations.pass_barrier(number, 0)
    assert not await world.operations.pass_barrier(number, 0), "or an executor that is late ends its canary"
    operation = (await world.operations.step(number, 10)).operation
    assert (operation.waits_for, operation.awaiting_canary, operation.processed) == ("", True, 1)
    assert await world.operations.move(number, "cancelled")
    assert (await world.operations.get(number)).waits_for == ""


async def test_it_begins_at_a_time(world: World) -> None:
    at = datetime.fromtimestamp(await world.now() + 500, UTC)
    operation = await started(world, await dead(world, 3), rollout=Rollout(begin_at=at))
    step = await world.operations.step(operation.number, 10)
    assert (step.changed.ids, step.operation.request.rollout.begin_at) == ((), at)
    assert 300 < step.wait <= 500
    await world.advance(501)
    assert (await world.operations.step(operation.number, 10)).operation.state == "done"


async def test_the_members_behind_its_steps_are_pending(world: World) -> None:
    ids = await dead(world, 4)
    number = (await started(world, ids)).number
    assert await world.operations.pending(number, 3) == ids[:3]
    await world.operations.step(number, 2)
    assert await world.operations.pending(number, 3) == ids[2:]


async def test_outcomes_know_who_has_failed_since(world: World) -> None:
    ids = await dead(world, 5)
    number = (await started(world, ids)).number
    await world.operations.step(number, 10)
    first, second, third = [await world.claim_job(job_id) for job_id in ids[:3]]
    await world.settle(first, "retrying")
    await world.settle(second, "retrying")
    await world.settle(third, "dead")
    await world.advance(100_000)
    await world.store.promote(10)
    await world.settle(await world.claim_job(ids[1]), "completed")
    assert await world.operations.outcomes(number, 10) == Outcomes(5, 1, 1, 3, retrying=1, recovered=1)
    assert await world.operations.outcomes(number, 10, 0, 1) == Outcomes(1, 0, 0, 1, retrying=1)
    assert await world.operations.outcomes(number, 10, 1, 3) == Outcomes(2, 1, 1, 0, recovered=1)
    assert await world.operations.outcomes(number, 1, 1, 3) == Outcomes(1, 0, 1, 0)
    assert await world.operations.outcomes(number, 10, 5) == Outcomes(0, 0, 0, 0)


async def test_outcomes_are_noted_until_they_are_final(world: World) -> None:
    operations = world.operations
    number = (await started(world, await dead(world, 2))).number
    await started(world, await dead(world, 1), "delete")
    await operations.create(asked("retry"))  # which is being prepared
    assert [(one.number, one.outcomes) for one in await operations.list_uncounted(10)] == [(number, None)]
    some, all_ = Outcomes(2, 1, 0, 1), Outcomes(2, 2, 0, 0)
    await operations.note_outcomes(number, some, False)
    assert (await operations.get(number)).outcomes == some
    await operations.step(number, 10)
    await operations.note_outcomes(number, all_, True)
    assert await operations.list_uncounted(10) == []
    await operations.note_outcomes(number, some, False)
    await operations.note_outcomes(4711, some, False)
    assert (await operations.get(number)).outcomes == all_


async def test_outcomes_are_counted_until_the_last_job_has_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the operation itself has ended, and by a leader that knows nothing of the counts before."""
    for name, value in (
        ("MAX_RECOUNT_SECONDS", 0.0),
        ("FINAL_COUNT_SECONDS", inf),
    ):  # whatever the clock of the store shows
        monkeypatch.setattr(verdict, name, value)
    operations, ids = world.operations, await dead(world, 3)
    number = (await started(world, ids)).number
    assert (await operations.step(number, 10)).operation.state == "done"
    claims = [await world.claim_job(job_id) for job_id in ids]
    counts = verdict.OutcomeCounts(operations, world.inspector)
    seen = []
    for claim in claims:
        await world.settle(claim, "completed")
        await counts.run_once()
        counts = verdict.OutcomeCounts(operations, world.inspector) if claim is claims[1] else counts
        seen.append((await operations.get(number)).outcomes)
    assert seen == [Outcomes(3, 1, 0, 2), Outcomes(3, 2, 0, 1), Outcomes(3, 3, 0, 0)]
    assert await operations.list_uncounted(10) == []


async def test_a_leader_whose_clock_is_ahead_makes_no_outcome_final(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = SimpleNamespace(time=lambda: time.time() + 8 * 86400, monotonic=time.monotonic)
    monkeypatch.setattr(verdict, "time", ahead)
    monkeypatch.setattr(verdict, "MAX_RECOUNT_SECONDS", 0.0)
    operations, ids = world.operations, await dead(world, 1)
    number = (await started(world, ids)).number
    await operations.step(number, 10)
    counts = verdict.OutcomeCounts(operations, world.inspector)
    await counts.run_once()
    await world.settle(await world.claim_job(ids[0]), "completed")
    await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(1, 1, 0, 0)


async def test_what_stopped_an_operation_stays_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may retry its jobs later: "10 completed" beside a canary that had failed read as if it had not."""
    monkeypatch.setattr(verdict, "MAX_RECOUNT_SECONDS", 0.0)
    operations, ids = world.operations, await dead(world, 2)
    number = (await started(world, ids)).number
    await operations.step(number, 1)
    (claim,) = await world.claim(ids=ids)
    await world.settle(claim, "dead")
    await operations.move(number, "stopped", "1 of 1 canary jobs died again")
    counts = verdict.OutcomeCounts(operations, world.inspector)
    await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(1, 0, 1, 0)
    await operations.change("retry", [claim.id])
    await world.settle(await world.claim_job(claim.id), "completed")
    await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(1, 0, 1, 0)
    await operations.move(number, "running", "")
    await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(1, 1, 0, 0)


async def test_a_new_leader_notes_no_fewer_than_the_one_before(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads one part of the members after the other."""
    for name, value in (
        ("MAX_RECOUNT_SECONDS", 0.0),
        ("FINAL_COUNT_SECONDS", inf),
        ("VERDICT_JOBS", 1),
        ("PARTS_PER_ROUND", 1),
    ):
        monkeypatch.setattr(verdict, name, value)
    operations = world.operations
    number = (await started(world, await dead(world, 3))).number
    await operations.step(number, 10)
    counts, later = (
        verdict.OutcomeCounts(operations, world.inspector),
        verdict.OutcomeCounts(operations, world.inspector),
    )
    for _ in range(3):
        await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(3, 0, 0, 3)
    for _ in range(3):
        await later.run_once()
        assert (await operations.get(number)).outcomes == Outcomes(3, 0, 0, 3)


async def test_each_part_is_read_until_its_jobs_have_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the last one alone, behind which members are yet to come."""
    for name, value in (("MAX_RECOUNT_SECONDS", 0.0), ("FINAL_COUNT_SECONDS", inf), ("VERDICT_JOBS", 1)):
        monkeypatch.setattr(verdict, name, value)
    operations, ids = world.operations, await dead(world, 3)
    number = (await started(world, ids)).number
    await operations.step(number, 10)
    counts = verdict.OutcomeCounts(operations, world.inspector)
    await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(3, 0, 0, 3)
    for job_id in ids:
        await world.settle(await world.claim_job(job_id), "completed")
    await counts.run_once()
    assert (await operations.get(number)).outcomes == Outcomes(3, 3, 0, 0)


async def counted(jobs: JobQueue, number: int) -> Operation:
    """Wait until all outcomes of an operation are known and noted with it."""

    async def known() -> bool:
        one = await jobs.operations.get(number)
        return one.outcomes is not None and one.outcomes.looked == one.total and not one.outcomes.unfinished

    await until(known)
    return await jobs.operations.get(number)


async def test_workers_take_a_ramp_to_its_end(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 14)

    @jobs.task
    async def charge(n: int) -> int:
        return n

    pace = Rollout(ramp=(1, 3, 4), stop_percent=20.0)
    number = (await jobs.operations.submit(asked(rollout=pace), ids)).number
    async with working(jobs):
        operation = await counted(jobs, number)
    assert (operation.state, operation.processed, operation.outcomes) == ("done", 14, Outcomes(14, 14, 0, 0))


async def test_a_step_whose_jobs_die_again_stops_a_ramp(jobs: JobQueue) -> None:
    """By the jobs of that step alone: of those of both steps only 22% die."""
    ids = await dead_jobs(jobs, 12)

    @jobs.task(retry=Retry(max_retries=0))
    async def charge(n: int) -> None:
        if n in (4, 5):
            raise OSError("still away")

    async with working(jobs):
        asking = asked(rollout=Rollout(ramp=(4, 5), stop_percent=30.0))
        operation = await ended(jobs, await jobs.operations.submit(asking, ids))
        assert (operation.state, operation.processed) == ("stopped", 9)
        assert operation.note == "2 of 5 jobs of step 2 of the ramp died again"
        assert await jobs.operations.resume(operation.number)
        operation = await counted(jobs, operation.number)
    assert (operation.state, operation.outcomes) == ("done", Outcomes(12, 10, 2, 0))


async def test_a_canary_may_count_first_failures(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 8)

    @jobs.task(retry=Retry(max_retries=3, delay="10m"))
    async def charge(n: int) -> None:
        if n:
            raise OSError("still away")

    # An operator's retry keeps the retries that a job was enqueued with: none.
    for job_id in ids:
        await jobs.operations.change("delete", [job_id])
    ids = [handle.id for handle in await jobs.enqueue_many("charge", [{"n": n} for n in range(8)], max_retries=3)]
    for _ in ids:
        claimed = await jobs.claim_next(types=["charge"], wait=PATIENCE)
        assert claimed is not None
        await claimed.fail(OSError("smtp is away"), retry=False)
    async with working(jobs):
        late = await jobs.operations.submit(asked(rollout=Rollout(canary=3, stop_percent=20.0)), ids[:4])
        early = Rollout(canary=3, stop_percent=50.0, first_failure=True)
        operation = await ended(jobs, await jobs.operations.submit(asked(rollout=early), ids[4:]))
        assert (operation.state, operation.processed) == ("stopped", 3)
        assert "of 3 canary jobs failed at their first attempt (limit 50%)" in operation.note

        async def seen() -> bool:
            found = (await jobs.operations.get(late.number)).outcomes
            return found is not None and found.retrying >= 2

        await until(seen)
    operation = await jobs.operations.get(late.number)
    assert operation.awaiting_canary, "at the end: its jobs have retries left"
    assert operation.outcomes == Outcomes(3, 1, 0, 2, retrying=2)


async def test_what_is_skipped_in_a_step_does_not_hold_up_a_ramp(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 6)
    number = (await jobs.operations.submit(asked(rollout=Rollout(ramp=(2, 3))), ids)).number
    await jobs.operations.change("retry", ids[:4])
    operation = await jobs.operations.run(number)
    assert (operation.state, operation.processed, operation.skipped) == ("done", 2, 4)


async def test_a_canary_whose_first_jobs_changed_waits_for_others(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 6)
    careful = asked(rollout=Rollout(canary=2, stop_percent=20.0))
    number = (await jobs.operations.submit(careful, ids)).number
    await jobs.operations.change("delete", ids[:2])
    executor = jobs.operations.executor()
    for _ in range(3):
        await executor.run_once()
    operation = await jobs.operations.get(number)
    assert (operation.awaiting_canary, operation.processed, operation.skipped) == (True, 2, 2)
    for _ in range(2):
        claimed = await jobs.claim_next(wait=PATIENCE)
        assert claimed is not None
        await claimed.fail(OSError("still away"), retry=False)
    operation = await jobs.operations.run(number)
    assert (operation.state, operation.note) == ("stopped", "2 of 2 canary jobs died again")


async def test_a_canary_whose_jobs_were_cancelled_releases_no_others(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 6)
    number = (await jobs.operations.submit(asked(rollout=Rollout(canary=2, stop_percent=20.0)), ids)).number
    executor = jobs.operations.executor()
    await executor.run_once()
    assert (await jobs.operations.get(number)).awaiting_canary
    assert len((await jobs.operations.change("cancel", ids[:2])).ids) == 2
    operation = await jobs.operations.run(number)
    assert (operation.state, operation.processed) == ("stopped", 2)
    assert operation.note == "none of the 2 canary jobs completed or died: they were cancelled or are gone"


async def test_executors_that_come_and_go_take_each_step_once(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 30)

    @jobs.task
    async def charge(n: int) -> int:
        return n

    number = (await jobs.operations.submit(asked(rollout=Rollout(ramp=(2, 3, 5))), ids)).number
    barriers = set()
    async with working(jobs):
        while not (operation := await jobs.operations.get(number)).ended:
            barriers.add(operation.barrier)
            # Both begin with nothing in memory, as after a kill.
            executors = [jobs.operations.executor(), jobs.operations.executor()]
            await asyncio.gather(*(executor.run_once() for executor in executors))
        operation = await counted(jobs, number)
    assert barriers <= {2, 5, 10, 30}
    assert operation.outcomes == Outcomes(30, 30, 0, 0)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"ramp": (1, 0)}, "a ramp is at most 10 whole numbers"),
        ({"ramp": (1,) * 11}, "a ramp is at most 10 whole numbers"),
        ({"ramp": (100, 10)}, "each step of a ramp has more jobs than the one before"),
        ({"ramp": (1, 10, 10)}, "each step of a ramp has more jobs than the one before"),
        ({"ramp": (1, 10), "canary": 10}, "begins with a canary of its own"),
        ({"first_failure": True, "stop_percent": 20.0}, "give both"),
        ({"first_failure": True, "canary": 10}, "give both"),
        ({"begin_at": datetime(2026, 2, 25) + timedelta(hours=3)}, "time zone"),
        ({"when_release": ""}, "the release"),
    ],
)
async def test_what_cannot_be_is_refused(jobs: JobQueue, wrong: dict[str, Any], why: str) -> None:
    if jobs.store.name != "memory":
        pytest.skip("no store is asked")
    with pytest.raises((InvalidArgument, InvalidJob), match=why):
        await jobs.operations.submit(asked(rollout=Rollout(**wrong)), [])


async def announce(jobs: JobQueue, worker: str, **given: Any) -> None:
    """Let a worker announce itself on release r125."""
    release = await jobs.store.register_release("r125")
    beat = worker_beat(worker=worker, release=release, queues=("default",), lease=60.0, interval=20.0)._replace(**given)
    heart = jobs.store.open_heartbeat()
    await asyncio.to_thread(heart.renew, beat)
    await asyncio.to_thread(heart.close)


async def test_it_begins_when_the_release_is_live_where_its_jobs_go(jobs: JobQueue) -> None:
    asked_there = asked(options=ChangeOptions(queue="elsewhere"), rollout=Rollout(when_release="r125"))
    number = (await jobs.operations.submit(asked_there, await dead_jobs(jobs, 2))).number

    async def waits() -> bool:
        await jobs.operations.executor().run_once()
        return (await jobs.operations.get(number)).waits_for == "r125"

    await announce(jobs, "here", types=("charge",))
    assert await waits(), "its worker takes the queue that they died in"
    await announce(jobs, "there", types=("charge",), queues=("elsewhere",))
    assert not await waits()


async def test_it_begins_when_the_release_is_live_where_its_jobs_run(jobs: JobQueue) -> None:
    ids = await dead_jobs(jobs, 4)
    request = asked(rollout=Rollout(canary=1, when_release="r125"))
    number = (await jobs.operations.submit(request, ids)).number
    ended_one = await jobs.operations.submit(asked(rollout=Rollout(when_release="r126")), ids)

    async def waits() -> bool:
        """Have executors that know nothing look, as after a kill."""
        for executor in (jobs.operations.executor(), jobs.operations.executor()):
            await executor.run_once()
        return (await jobs.operations.get(number)).waits_for == "r125"

    assert await waits(), "no worker has it"
    await announce(jobs, "other", types=("other",))
    assert await waits(), "its worker runs other types"
    await announce(jobs, "elsewhere", types=("charge",), queues=("elsewhere",))
    assert await waits(), "its worker takes other queues"
    await announce(jobs, "leaving", types=("charge",), quiet=True)
    assert await waits(), "its worker claims no more"
    await jobs.operations.pause(number)
    await announce(jobs, "fixed", types=("charge",))
    assert await waits(), "paused"
    await jobs.operations.resume(number)
    assert not await waits()
    for _ in range(2):
        await jobs.operations.executor().run_once()
    operation = await jobs.operations.get(number)
    assert (operation.awaiting_canary, operation.processed) == (True, 1)
    assert await jobs.operations.cancel(ended_one.number), "the other still waits, and can be ended"
    gone = await jobs.operations.get(ended_one.number)
    assert (gone.processed, gone.waits_for) == (0, "")
