"""Bulk verbs act on what was frozen, say what they did, and a delete can be taken back exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobconsole.actions import plan as operations
from jobconsole.actions.plan import (
    CAREFUL_FROM,  # fmt: skip
    Plan,  # fmt: skip
    Report,  # fmt: skip
    Target,  # fmt: skip
    Verb,  # fmt: skip
    apply,  # fmt: skip
    changeable_only,  # fmt: skip
    dead_of,  # fmt: skip
    default_rollout,  # fmt: skip
    plan,  # fmt: skip
    submit,  # fmt: skip
)
from jobconsole.actions.verbs import sentence
from queue_core import JobQueue
from queue_core.client.operating import executor, submission
from queue_core.client.operations import Operations
from queue_core.errors import InvalidArgument, StoreUnavailable
from queue_core.model.filters import Filter, parse
from queue_core.model.operation import UNTHROTTLED, Author, ChangeOptions, OperationRequest, Rollout
from queue_core.ports.operations import OperationStore
from queue_core.stores.memory.operations import MemoryOperations
from tests.conformance.making import failure, outcome
from tests.conformance.world import World
from tests.console.making import operation

ANA = Author("ana", "desk-7")


async def bury(world: World, number: int, signature: str = "aaaaaaaaaaaa", **given: str) -> list[str]:
    """Return the ids of so many new dead jobs of a signature."""
    fields = {"failure": failure(signature=signature)}
    return [(await world.ended("dead", fields, **given)).id for _ in range(number)]


async def test_a_second_sheet_of_the_same_jobs_does_not_run_again_what_the_first_one_has(
    jobs: JobQueue, world: World
) -> None:
    dead = await bury(world, 3)
    target = Target("group", wheres=(dead_of("aaaaaaaaaaaa", Filter()),))
    first, second = [await plan(jobs.inspector, "retry", target) for _ in range(2)]
    assert (await apply(jobs.operations, first, ANA)).processed == 3
    claims = await world.claim(ids=dead)
    assert all(await world.settle_all([outcome(claim, "completed") for claim in claims]))
    report = await apply(jobs.operations, second, ANA)
    assert (report.processed, report.skipped) == (0, 3)
    assert {(await world.job(job_id)).status for job_id in dead} == {"completed"}


@pytest.mark.parametrize("verb", ["retry", "delete"])
async def test_what_others_do_while_the_ids_are_read_is_not_done_again(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch, verb: Verb
) -> None:
    """With 50,000 jobs that takes seconds: jobs of another retry ran twice, and deleted ones came back."""
    dead = await bury(world, 3)
    target = Target("group", wheres=(dead_of("aaaaaaaaaaaa", Filter()),))
    other = await plan(jobs.inspector, verb, target)
    read = jobs.inspector.ids

    async def slowly(where: Filter, limit: int) -> list[str]:
        ids = await read(where, limit)
        assert (await apply(jobs.operations, other, ANA)).processed == 3
        if verb == "retry":
            assert all(await world.settle_all([outcome(one, "completed") for one in await world.claim(ids=dead)]))
        return ids

    monkeypatch.setattr(jobs.inspector, "ids", slowly)
    report = await apply(jobs.operations, await plan(jobs.inspector, "retry", target), ANA)
    assert (report.processed, report.skipped) == (0, 3)


async def test_a_plan_freezes_what_matches_now(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 3)
    await bury(world, 2, "bbbbbbbbbbbb")
    frozen = await plan(jobs.inspector, "retry", Target("group", wheres=(dead_of("aaaaaaaaaaaa", Filter()),)))
    await bury(world, 4)
    assert sorted(frozen.ids) == sorted(dead)


async def test_several_groups_become_one_plan_without_doubles(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 3) + await bury(world, 2, "bbbbbbbbbbbb")
    wheres = (dead_of("aaaaaaaaaaaa", Filter()), dead_of("bbbbbbbbbbbb", Filter()), parse("status:dead"))
    frozen = await plan(jobs.inspector, "delete", Target("all", wheres=wheres))
    assert sorted(frozen.ids) == sorted(dead)


async def test_a_group_is_narrowed_by_the_filter_of_the_screen(jobs: JobQueue, world: World) -> None:
    await bury(world, 3)
    (other,) = await bury(world, 1, queue="mail")
    where = dead_of("aaaaaaaaaaaa", parse("queue:mail status:retrying"))
    assert (await plan(jobs.inspector, "retry", Target("group", wheres=(where,)))).ids == (other,)


async def test_a_retry_of_many_goes_carefully_by_itself(jobs: JobQueue) -> None:
    for verb, number, pace in (
        ("retry", CAREFUL_FROM, UNTHROTTLED),
        ("retry", CAREFUL_FROM + 1, Rollout(10, 200.0, 20.0)),
        ("delete", 1_000, UNTHROTTLED),
    ):
        frozen = await plan(jobs.inspector, verb, Target("many", ids=tuple(f"id-{n}" for n in range(number))))  # type: ignore[arg-type]
        assert (frozen.rollout, default_rollout(verb, number)) == (pace, pace)  # type: ignore[arg-type]


async def test_more_than_one_operation_takes_is_said(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "FREEZE_LIMIT", 2)
    await bury(world, 3)
    frozen = await plan(jobs.inspector, "delete", Target("all", wheres=(parse("status:dead"),)))
    assert (len(frozen.ids), frozen.capped) == (2, True)


async def test_a_retry_puts_jobs_back_and_counts_what_changed_meanwhile(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 5)
    frozen = await plan(jobs.inspector, "retry", Target("five", ids=tuple(dead)))
    await jobs.operations.change("retry", dead[:2])
    report = await apply(jobs.operations, frozen, ANA)
    assert (report.processed, report.skipped, report.errored, report.finished) == (3, 2, 0, True)
    assert sorted(report.changed) == sorted(dead[2:])
    assert {await world.status(one) for one in dead} == {"queued"}


async def test_a_plan_is_kept_with_who_why_and_how(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 2)
    frozen = await plan(jobs.inspector, "retry", Target("two", ids=tuple(dead), signatures=("aaaaaaaaaaaa",)))
    careful = replace(
        frozen, why="the field is back", options=ChangeOptions(queue="bulk"), rollout=Rollout(1, 5.0, 10.0)
    )
    report = await submit(jobs.operations, careful, ANA)
    assert report.operation is not None
    asked = (await jobs.operations.get(report.operation.number)).request
    assert asked == OperationRequest(
        "retry", "two", ANA, careful.why, careful.options, careful.rollout, ("aaaaaaaaaaaa",)
    )


async def test_writing_and_steps_report_their_progress(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "STEP_MEMBERS", 2)
    monkeypatch.setattr(submission, "MEMBERS_PER_WRITE", 3)
    dead = await bury(world, 5)
    heard: list[Report] = []
    await apply(
        jobs.operations, await plan(jobs.inspector, "delete", Target("five", ids=tuple(dead))), ANA, heard.append
    )
    assert [report.written for report in heard if report.operation is None] == [0, 3, 5]
    assert [report.done for report in heard if report.operation is not None] == [0, 2, 4, 5]


async def test_undo_restores_exactly_what_was_deleted(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 4)
    await jobs.operations.change("delete", dead[:1])
    report = await apply(jobs.operations, await plan(jobs.inspector, "delete", Target("four", ids=tuple(dead))), ANA)
    assert report.operation is not None
    (back,) = await jobs.operations.undo(report.operation.number, ANA)
    assert (await jobs.operations.run(back.number)).processed == 3
    assert [(await world.job(one)).trashed_at is None for one in dead] == [False, True, True, True]


async def test_cancelling_everything_leaves_finished_jobs_alone(jobs: JobQueue, world: World) -> None:
    states = {state: await world.job_in(state) for state in ("queued", "scheduled", "retrying", "completed", "dead")}
    frozen = await plan(jobs.inspector, "cancel", Target("all", wheres=(changeable_only("cancel", Filter()),)))
    report = await apply(jobs.operations, frozen, ANA)
    assert (report.processed, report.skipped) == (3, 0)
    assert await world.status(states["dead"]) == "dead"
    assert await world.status(states["queued"]) == "cancelled"


async def test_what_cannot_be_is_refused_and_nothing_is_written(jobs: JobQueue, world: World) -> None:
    frozen = await plan(jobs.inspector, "retry", Target("one", ids=tuple(await bury(world, 1))))
    with pytest.raises(InvalidArgument):
        await apply(jobs.operations, replace(frozen, rollout=Rollout(rate=0.0)), ANA)
    assert await jobs.operations.list_operations() == []


async def test_a_store_that_goes_away_ends_with_what_is_known(jobs: JobQueue, world: World) -> None:
    frozen = await plan(jobs.inspector, "delete", Target("three", ids=tuple(await bury(world, 3))))
    effects = jobs.operations._effects
    gone = Operations(Leaving(MemoryOperations(jobs.store), "add"), effects, jobs.store, jobs.inspector)  # type: ignore[arg-type]
    report = await apply(gone, frozen, ANA)
    assert (report.processed, report.errored, report.finished) == (0, 3, True)
    assert "connection was closed" in sentence(report)
    assert sentence(report).startswith("nothing was deleted: ")
    watched = await apply(
        Operations(Leaving(MemoryOperations(jobs.store), "step"), effects, jobs.store, jobs.inspector), frozen, ANA
    )  # type: ignore[arg-type]
    assert watched.operation is not None
    assert (watched.operation.state, "connection was closed" in watched.problem) == ("running", True)


class Leaving:
    """A store of operations that goes away at one of its methods."""

    def __init__(self, store: OperationStore, method: str) -> None:
        self._store, self._method = store, method

    def __getattr__(self, name: str) -> Any:
        return self._gone if name == self._method else getattr(self._store, name)

    async def _gone(self, *args: object) -> None:
        raise StoreUnavailable("postgres", "the connection was closed")


SAID = [
    ({"state": "done", "processed": 3, "done": 3}, "retried 3 jobs"),
    ({"state": "done", "processed": 1, "skipped": 2, "done": 3}, "retried 1 job, skipped 2 that had changed meanwhile"),
    ({"state": "done", "errored": 3, "done": 3, "note": "boom\x1b[2J"}, "retried 0 jobs, 3 not done: boom␛[2J"),
    (
        {"state": "cancelled", "processed": 1, "done": 1},
        "retry #7 was cancelled: retried 1 job, left 2 jobs as they are",
    ),
    (
        {"state": "stopped", "processed": 1, "done": 1, "note": "1 of 1 canary jobs died again"},
        "retry #7 stopped: 1 of 1 canary jobs died again; (4) P resumes, X ends it",
    ),
    ({"state": "failed", "note": "full"}, "retry #7 failed: full"),
]


@pytest.mark.parametrize(("given", "said"), SAID)
def test_what_an_operation_came_to_is_one_sentence(given: dict[str, Any], said: str) -> None:
    report = Report(Plan("retry", "x", ("a", "b", "c")), operation(7, total=3, **given))
    assert sentence(report) == said


def test_a_delete_says_how_it_is_taken_back() -> None:
    one, two = (Report(Plan("delete", "x", ()), operation(7, state="done", processed=n, total=n)) for n in (1, 2))
    assert sentence(one) == "deleted 1 job, u undoes it"
    assert sentence(two) == "deleted 2 jobs, u undoes it"
