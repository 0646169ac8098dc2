"""Operations in the store: frozen members, steps that are taken once, and a record of what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from queue_core.errors import OperationNotFound
from queue_core.model.operation import (
    MOVES,
    UNTHROTTLED,
    Author,
    ChangeOptions,
    Operation,
    OperationRequest,
    OperationState,
    Outcomes,
    Rollout,
)
from tests.conformance.making import UNKNOWN
from tests.conformance.modes import Opener
from tests.conformance.world import World

AUTHOR = Author("ana", "bastion-1")
ACTS_ON = {
    "retry": {"dead", "trashed", "completed"},
    "delete": {"dead"},
    "restore": {"trashed"},
    "purge": {"trashed"},
    "cancel": {"scheduled", "queued", "retrying", "running"},
}
"""The states of `World.job_in` that each verb changes."""
STATES = ("scheduled", "queued", "running", "retrying", "completed", "cancelled", "dead", "trashed")


def asked(verb: str = "retry", **given: Any) -> OperationRequest:
    return OperationRequest(**{"verb": verb, "label": "some jobs", "author": AUTHOR} | given)


async def started(world: World, ids: Sequence[str], verb: str = "retry", **given: Any) -> Operation:
    """Return a running operation on these jobs."""
    operation = await world.operations.create(asked(verb, **given))
    await world.operations.add(operation.number, ids)
    assert await world.operations.move(operation.number, "running")
    return await world.operations.get(operation.number)


async def dead(world: World, count: int, **given: Any) -> list[str]:
    return [(await world.ended("dead", **given)).id for _ in range(count)]


async def tidied(opener: Opener) -> None:
    """Do the upkeep of a process that has just started: one that goes on prunes only now and then."""
    link = await opener()
    await link.store.upkeep()
    await link.close()


def counts(operation: Operation) -> tuple[int, int, int, int, int]:
    return (operation.total, operation.done, operation.processed, operation.skipped, operation.errored)


async def test_everything_that_was_asked_for_is_kept(world: World) -> None:
    wanted = asked(
        why="smtp is back",
        options=ChangeOptions(1.5, 2.5, "other", 9),
        rollout=Rollout(10, 200.0, 20.0),
        signatures=("0123456789ab", "ba9876543210"),
    )
    operation = await world.operations.create(wanted)
    assert operation == await world.operations.get(operation.number)
    assert operation.request == wanted
    assert (operation.state, operation.note, counts(operation)) == ("preparing", "", (0, 0, 0, 0, 0))
    assert (operation.started_at, operation.finished_at) == (None, None)
    assert abs(operation.created_at.timestamp() - await world.now()) < 60
    assert (await world.operations.create(asked())).number > operation.number


async def test_hostile_texts_are_kept_as_they_are(world: World) -> None:
    nasty = "'; drop table operations; -- \x1b[2J \u202e [/b] {0} %s \N{PILE OF POO}"
    operation = await world.operations.create(asked(label=nasty, why=nasty, author=Author(nasty, nasty)))
    found = (await world.operations.get(operation.number)).request
    assert (found.label, found.why, found.author) == (nasty, nasty, Author(nasty, nasty))


async def test_there_is_no_such_operation(world: World) -> None:
    operations = world.operations
    for call in (
        operations.get(7), operations.add(7, []), operations.step(7, 1), operations.fail_member(7, ""),
        operations.pass_barrier(7, 0),
        operations.move(7, "running"), operations.outcomes(7, 1), operations.list_members(7, 0, 1),
    ):  # fmt: skip
        with pytest.raises(OperationNotFound, match="no operation #7"):
            await call
    assert await operations.list_operations(10) == []
    assert await operations.list_for_job(UNKNOWN, 10) == []


@pytest.mark.parametrize("verb", list(ACTS_ON))
async def test_a_verb_changes_what_its_states_allow(world: World, verb: str) -> None:
    jobs = {state: await world.job_in(state) for state in STATES}
    operation = await started(world, list(jobs.values()), verb)
    step = await world.operations.step(operation.number, 100)
    wanted = {jobs[state] for state in ACTS_ON[verb]}
    assert set(step.changed.ids) == wanted
    assert counts(step.operation) == (8, 8, len(wanted), 8 - len(wanted), 0)
    assert step.operation.state == "done"
    assert step.operation.finished_at is not None
    assert {one.id for one in await world.operations.list_members(operation.number, 0, 100)} == wanted


async def test_retried_jobs_are_ready_and_told(world: World) -> None:
    ids = await dead(world, 3)
    operation = await started(world, ids)
    step = await world.operations.step(operation.number, 100)
    assert [one.id for one in step.changed.ready] == list(step.changed.ids)
    assert sorted(step.changed.ids) == sorted(ids)
    assert sorted(await world.claim_ids()) == sorted(ids)
    assert (await world.job(ids[0])).retry_count == 0


async def test_steps_go_on_where_the_last_one_ended(world: World) -> None:
    ids = await dead(world, 5)
    number = (await started(world, ids)).number
    done: list[str] = []
    for expected in (2, 4, 5):
        step = await world.operations.step(number, 2)
        done += step.changed.ids
        assert (step.operation.done, step.operation.processed) == (expected, expected)
        assert step.operation.state == ("done" if expected == 5 else "running")
    assert done == ids
    step = await world.operations.step(number, 2)
    assert (step.changed.ids, step.operation.done) == ((), 5)


async def test_executors_share_the_steps(world: World, opener: Opener) -> None:
    ids = await dead(world, 40)
    other = await opener()
    number = (await started(world, ids)).number
    done: list[str] = []

    async def execute(link: World) -> None:
        while (step := await link.operations.step(number, 3)).operation.state == "running":
            done.extend(step.changed.ids)
        done.extend(step.changed.ids)

    await asyncio.gather(*(execute(link) for link in (world, other, world, other)))
    await other.close()
    assert sorted(done) == sorted(ids)
    assert counts(await world.operations.get(number)) == (40, 40, 40, 0, 0)


async def test_a_job_that_ran_again_meanwhile_is_left_alone(world: World) -> None:
    changed, same = await dead(world, 2)
    operation = await started(world, [changed, same])
    await world.change("retry", [changed])
    await world.settle(await world.claim_job(changed), "dead")
    step = await world.operations.step(operation.number, 10)
    assert step.changed.ids == (same,)
    assert counts(step.operation) == (2, 2, 1, 1, 0)
    assert (await world.job(changed)).status == "dead"


async def test_unknown_and_repeated_ids(world: World) -> None:
    (job_id,) = await dead(world, 1)
    operation = await world.operations.create(asked())
    await world.operations.add(operation.number, [job_id, UNKNOWN, job_id])
    grown = await world.operations.add(operation.number, [job_id, "no id\x00 at all"])
    assert grown.total == 3
    await world.operations.move(operation.number, "running")
    step = await world.operations.step(operation.number, 10)
    assert step.changed.ids == (job_id,)
    assert counts(step.operation) == (3, 3, 1, 2, 0)


async def test_an_operation_on_nothing_is_done_at_once(world: World) -> None:
    operation = await started(world, [])
    assert (operation.state, counts(operation)) == ("done", (0, 0, 0, 0, 0))
    assert operation.finished_at is not None


async def test_nothing_happens_before_it_runs_and_nothing_is_added_after(world: World) -> None:
    first, second = await dead(world, 2)
    operation = await world.operations.create(asked())
    await world.operations.add(operation.number, [first])
    assert (await world.operations.step(operation.number, 10)).changed.ids == ()
    await world.operations.move(operation.number, "running")
    assert (await world.operations.add(operation.number, [second])).total == 1
    assert (await world.operations.step(operation.number, 10)).changed.ids == (first,)


@pytest.mark.parametrize("state", ["paused", "cancelled", "stopped"])
async def test_what_does_not_run_takes_no_steps(world: World, state: OperationState) -> None:
    ids = await dead(world, 2)
    number = (await started(world, ids)).number
    await world.operations.step(number, 1)
    assert await world.operations.move(number, state, "because")
    step = await world.operations.step(number, 1)
    assert (step.changed.ids, step.operation.state, step.operation.note) == ((), state, "because")
    assert (step.operation.finished_at is not None) == (state == "cancelled")
    assert await world.operations.move(number, "running") == (state != "cancelled")
    assert (await world.operations.step(number, 1)).changed.ids == (() if state == "cancelled" else (ids[1],))


PATHS: dict[OperationState, tuple[OperationState, ...]] = {
    "preparing": (),
    "running": ("running",),
    "paused": ("running", "paused"),
    "stopped": ("running", "stopped"),
    "done": ("done",),
    "cancelled": ("cancelled",),
    "failed": ("failed",),
}


@pytest.mark.parametrize("before", list(MOVES))
async def test_only_some_moves_are_possible(world: World, before: OperationState) -> None:
    for after in MOVES:
        number = (await world.operations.create(asked())).number
        await world.operations.add(number, [UNKNOWN])
        for state in PATHS[before]:
            assert await world.operations.move(number, state)
        assert await world.operations.move(number, after, "x") == (after in MOVES[before]), after
        found = await world.operations.get(number)
        assert (found.state == after) == (after in MOVES[before] or after == before)
        assert found.ended == (found.finished_at is not None)


async def test_what_is_done_at_once_keeps_its_jobs(world: World) -> None:
    job_id = await world.insert()
    operation = await world.operations.create(asked("edit", label="this job"))
    await world.operations.add(operation.number, [job_id])
    assert await world.operations.move(operation.number, "done", "a new job")
    (found,) = await world.operations.list_for_job(job_id, 10)
    assert (found.number, found.state, found.note) == (operation.number, "done", "a new job")
    assert counts(found) == (1, 1, 1, 0, 0)
    assert [one.id for one in await world.operations.list_members(operation.number, 0, 10)] == [job_id]
    assert (await world.job(job_id)).status == "queued"


async def test_a_canary_is_a_barrier(world: World) -> None:
    ids = await dead(world, 5)
    operation = await started(world, ids, rollout=Rollout(canary=2))
    number = operation.number
    assert (operation.barrier, operation.in_canary, operation.awaiting_canary) == (2, True, False)
    step = await world.operations.step(number, 10)
    assert (step.changed.ids, step.operation.awaiting_canary) == (tuple(ids[:2]), True)
    assert (await world.operations.step(number, 10)).changed.ids == ()
    assert await world.operations.pass_barrier(number, 2)
    assert not await world.operations.pass_barrier(number, 2)
    step = await world.operations.step(number, 10)
    assert (step.changed.ids, step.operation.state) == (tuple(ids[2:]), "done")


@pytest.mark.parametrize("canary", [0, 3, 4])
async def test_a_canary_of_all_is_none(world: World, canary: int) -> None:
    operation = await started(world, await dead(world, 3), rollout=Rollout(canary=canary))
    assert (operation.barrier, operation.in_canary) == (3, False)


async def test_a_paused_canary_is_not_released(world: World) -> None:
    number = (await started(world, await dead(world, 3), rollout=Rollout(canary=1))).number
    await world.operations.move(number, "paused")
    assert not await world.operations.pass_barrier(number, 1)
    await world.operations.move(number, "running")
    assert (await world.operations.get(number)).barrier == 1


async def test_a_stopped_one_goes_on_without_its_threshold(world: World) -> None:
    ids = await dead(world, 3)
    number = (await started(world, ids, rollout=Rollout(1, 50.0, 20.0))).number
    await world.operations.step(number, 10)
    await world.operations.move(number, "stopped", "1 of 1 canary jobs died again")
    await world.operations.move(number, "running")
    operation = await world.operations.get(number)
    assert (operation.barrier, operation.request.rollout) == (3, Rollout(1, 50.0, None))


async def test_a_rate_puts_the_next_step_off(world: World) -> None:
    ids = await dead(world, 6)
    number = (await started(world, ids, rollout=Rollout(rate=0.01))).number
    step = await world.operations.step(number, 2)
    assert step.changed.ids == tuple(ids[:2])
    assert 100 < step.wait <= 200
    step = await world.operations.step(number, 2)
    assert step.changed.ids == ()
    assert 0 < step.wait <= 200
    await world.advance(201)
    assert (await world.operations.step(number, 2)).changed.ids == tuple(ids[2:4])


async def test_a_rate_counts_no_members_that_were_skipped(world: World) -> None:
    ids = await dead(world, 6)
    number = (await started(world, ids, rollout=Rollout(rate=0.01))).number
    await world.operations.change("retry", ids[:3])
    step = await world.operations.step(number, 2)
    assert (step.operation.skipped, step.wait) == (2, 0)
    step = await world.operations.step(number, 2)
    assert (step.operation.skipped, step.changed.ids) == (3, (ids[3],))
    assert 0 < step.wait <= 100


async def test_time_that_nobody_used_is_not_caught_up(world: World) -> None:
    number = (await started(world, await dead(world, 6), rollout=Rollout(rate=0.01))).number
    await world.operations.step(number, 2)
    await world.advance(100_000)
    assert (await world.operations.step(number, 2)).changed.ids != ()
    assert (await world.operations.step(number, 2)).changed.ids == ()


async def test_without_a_rate_there_is_no_wait(world: World) -> None:
    number = (await started(world, await dead(world, 2), rollout=UNTHROTTLED)).number
    assert (await world.operations.step(number, 1)).wait == 0
    assert (await world.operations.step(number, 1)).wait == 0


async def test_a_delay_schedules(world: World) -> None:
    (job_id,) = await dead(world, 1)
    number = (await started(world, [job_id], options=ChangeOptions(delay=500.0, spread=100.0))).number
    step = await world.operations.step(number, 10)
    assert (step.changed.ids, step.changed.ready) == ((job_id,), ())
    job = await world.job(job_id)
    assert job.status == "scheduled"
    assert 440 < job.run_at.timestamp() - await world.now() < 660
    (queue,) = (await world.inspector.overview()).queues
    assert (queue.depth, queue.queued, queue.scheduled) == ({}, 0, 1)


async def test_one_member_is_errored(world: World) -> None:
    ids = await dead(world, 2)
    number = (await started(world, ids)).number
    operation = await world.operations.fail_member(number, "it cannot be")
    assert (counts(operation), operation.note, operation.state) == ((2, 1, 0, 0, 1), "it cannot be", "running")
    assert (await world.operations.step(number, 10)).changed.ids == (ids[1],)
    assert counts(await world.operations.fail_member(number, "again")) == (2, 2, 1, 0, 1)
    last = (await started(world, ids[:1])).number
    assert (await world.operations.fail_member(last, "no")).state == "done"


async def test_outcomes_of_retried_jobs(world: World) -> None:
    ids = await dead(world, 6)
    number = (await started(world, [*ids, UNKNOWN])).number
    assert await world.operations.outcomes(number, 10) == Outcomes(0, 0, 0, 0)
    await world.operations.step(number, 10)
    assert await world.operations.outcomes(number, 10) == Outcomes(6, 0, 0, 6)
    await world.settle(await world.claim_job(ids[0]), "completed")
    await world.settle(await world.claim_job(ids[1]), "dead")
    await world.settle(await world.claim_job(ids[2]), "dead")
    await world.change("delete", [ids[2]])
    await world.change("cancel", [ids[3]])
    await world.claim_job(ids[4])
    found = await world.operations.outcomes(number, 10)
    assert (found, found.ended) == (Outcomes(6, 1, 2, 2), 4)
    assert await world.operations.outcomes(number, 2) == Outcomes(2, 0, 0, 2)
    assert await world.operations.outcomes(number, 0) == Outcomes(0, 0, 0, 0)
    await world.change("purge", [ids[2]])
    assert await world.operations.outcomes(number, 10) == Outcomes(6, 1, 1, 2)


async def test_they_are_found_newest_first(world: World) -> None:
    first = await started(world, await dead(world, 1), signatures=("0123456789ab",))
    second = await started(world, await dead(world, 1), signatures=("0123456789ab", "aaaaaaaaaaaa"))
    third = await started(world, [])
    numbers = [third.number, second.number, first.number]
    assert [one.number for one in await world.operations.list_operations(10)] == numbers
    assert [one.number for one in await world.operations.list_operations(2)] == numbers[:2]
    assert [one.number for one in await world.operations.list_operations(10, before=third.number)] == numbers[1:]
    assert [one.number for one in await world.operations.list_operations(10, unfinished=True)] == numbers[1:]
    assert [one.number for one in await world.operations.list_operations(10, signature="0123456789ab")] == numbers[1:]
    assert [one.number for one in await world.operations.list_operations(1, signature="0123456789ab")] == numbers[1:2]
    assert [one.number for one in await world.operations.list_operations(10, signature="aaaaaaaaaaaa")] == numbers[1:2]
    assert await world.operations.list_operations(10, signature="bbbbbbbbbbbb") == []
    assert await world.operations.move(first.number, "cancelled")
    left = await world.operations.list_operations(10, unfinished=True, signature="0123456789ab")
    assert [one.number for one in left] == [second.number]
    assert await world.operations.list_operations(0) == []


async def test_the_operations_of_a_job(world: World) -> None:
    one, other = await dead(world, 2)
    for verb in ("delete", "restore", "retry"):
        number = (await started(world, [one], verb)).number
        await world.operations.step(number, 10)
    idle = await started(world, [other], "retry")
    assert [found.request.verb for found in await world.operations.list_for_job(one, 10)] == [
        "retry",
        "restore",
        "delete",
    ]
    assert [found.request.verb for found in await world.operations.list_for_job(one, 2)] == ["retry", "restore"]
    assert await world.operations.list_for_job(other, 10) == [], f"#{idle.number} has not changed it yet"
    await world.change("delete", [other])
    await world.operations.step(idle.number, 10)
    assert await world.operations.list_for_job(other, 10) == [], f"#{idle.number} has skipped it"


async def test_changed_members_come_in_pages(world: World) -> None:
    ids = await dead(world, 4)
    await world.change("delete", ids[1:2])
    number = (await started(world, ids, "delete")).number
    await world.operations.step(number, 10)
    first = await world.operations.list_members(number, 0, 2)
    rest = await world.operations.list_members(number, first[-1].place, 2)
    assert [(one.place, one.id) for one in first + rest] == [(1, ids[0]), (3, ids[2]), (4, ids[3])]
    assert {one.queue for one in first + rest} == {(await world.job(ids[0])).queue}
    assert await world.operations.list_members(number, 4, 2) == []


async def test_old_ones_are_forgotten(world: World, opener: Opener) -> None:
    (job_id,) = await dead(world, 1)
    ended = (await started(world, [job_id])).number
    await world.operations.step(ended, 10)
    going_on = (await started(world, await dead(world, 1))).number
    await world.advance(89 * 86400)
    await tidied(opener)
    assert (await world.operations.get(ended)).state == "done"
    await world.advance(2 * 86400)
    await tidied(opener)
    with pytest.raises(OperationNotFound):
        await world.operations.get(ended)
    assert await world.operations.list_for_job(job_id, 10) == []
    assert (await world.operations.get(going_on)).state == "running"


async def test_one_that_is_preparing_can_be_forgotten(world: World) -> None:
    (job,) = await dead(world, 1)
    kept = await started(world, [job])
    preparing = await world.operations.create(asked(signatures=("0123456789ab",)))
    await world.operations.add(preparing.number, [job])
    await world.operations.forget(preparing.number)
    with pytest.raises(OperationNotFound):
        await world.operations.get(preparing.number)
    await world.operations.forget(preparing.number)
    await world.operations.forget(kept.number)
    assert [one.number for one in await world.operations.list_operations(9)] == [kept.number]
    assert await world.operations.list_operations(9, signature="0123456789ab") == []
    assert await world.operations.list_operations(9, unfinished=True) == [kept]
    await world.operations.step(kept.number, 9)
    assert [one.number for one in await world.operations.list_for_job(job, 9)] == [kept.number]
    assert (await world.operations.create(asked())).number > preparing.number, "its number is not used again"
