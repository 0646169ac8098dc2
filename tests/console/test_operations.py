"""Bulk verbs act on what was frozen, say what they did, and a delete can be taken back exactly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobconsole.core import operations
from jobconsole.core.operations import Report, Target, apply, dead_of, plan, undo_of, unfinished_only
from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.filters import Filter, parse
from queue_core.inspection import Changed
from tests.conformance.making import failure
from tests.conformance.world import World


async def bury(world: World, number: int, signature: str = "aaaaaaaaaaaa", **given: str) -> list[str]:
    """Return the ids of so many new dead jobs of a signature."""
    fields = {"failure": failure(signature=signature)}
    return [(await world.ended("dead", fields, **given)).id for _ in range(number)]


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
    where = dead_of("aaaaaaaaaaaa", parse("queue:mail"))
    assert (await plan(jobs.inspector, "retry", Target("group", wheres=(where,)))).ids == (other,)


async def test_a_retry_of_many_is_spread_over_time(jobs: JobQueue) -> None:
    few = await plan(
        jobs.inspector, "retry", Target("few", ids=tuple(f"id-{n}" for n in range(operations.GENTLE_FROM)))
    )
    many = await plan(jobs.inspector, "retry", Target("many", ids=tuple(f"id-{n}" for n in range(1_000))))
    gone = await plan(jobs.inspector, "delete", Target("many", ids=tuple(f"id-{n}" for n in range(1_000))))
    assert (few.spread, many.spread, gone.spread) == (0.0, 5.0, 0.0)


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
    await jobs.control.retry(dead[:2])
    report = await apply(jobs.control, frozen)
    assert (report.processed, report.skipped, report.errored, report.finished) == (3, 2, 0, True)
    assert sorted(report.changed) == sorted(dead[2:])
    assert {await world.status(one) for one in dead} == {"queued"}


async def test_chunks_report_their_progress(jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "CHUNK", 2)
    dead = await bury(world, 5)
    heard: list[Report] = []
    await apply(jobs.control, await plan(jobs.inspector, "delete", Target("five", ids=tuple(dead))), heard.append)
    assert [report.done for report in heard] == [2, 4, 5]


async def test_undo_restores_exactly_what_was_deleted(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 4)
    await jobs.control.delete(dead[:1])
    report = await apply(jobs.control, await plan(jobs.inspector, "delete", Target("four", ids=tuple(dead))))
    back = undo_of(report)
    assert back is not None
    undone = await apply(jobs.control, back)
    assert undone.processed == 3
    assert [(await world.job(one)).trashed_at is None for one in dead] == [False, True, True, True]


async def test_a_retry_cannot_be_undone(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 1)
    assert (
        undo_of(await apply(jobs.control, await plan(jobs.inspector, "retry", Target("one", ids=tuple(dead))))) is None
    )


async def test_cancelling_everything_leaves_finished_jobs_alone(jobs: JobQueue, world: World) -> None:
    states = {state: await world.job_in(state) for state in ("queued", "scheduled", "retrying", "completed", "dead")}
    report = await apply(
        jobs.control, await plan(jobs.inspector, "cancel", Target("all", wheres=(unfinished_only(Filter()),)))
    )
    assert (report.processed, report.skipped) == (3, 0)
    assert await world.status(states["dead"]) == "dead"
    assert await world.status(states["queued"]) == "cancelled"


class Failing:
    """A control whose store goes away after some chunks."""

    def __init__(self, after: int) -> None:
        self._left = after

    async def delete(self, ids: Sequence[str]) -> Changed:
        self._left -= 1
        if self._left < 0:
            raise StoreUnavailable("postgres", "the connection was closed")
        return Changed(tuple(ids))


async def test_a_store_that_goes_away_ends_the_operation_with_what_was_done(
    jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "CHUNK", 2)
    frozen = await plan(jobs.inspector, "delete", Target("five", ids=tuple("abcde")))
    report = await apply(Failing(1), frozen)  # type: ignore[arg-type]
    assert (report.processed, report.errored, report.changed) == (2, 3, ("a", "b"))
    assert "connection was closed" in report.problem
