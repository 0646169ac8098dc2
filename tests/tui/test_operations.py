"""Operations in the console: carried out beside everything else, followed, stopped, cancelled, left to workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from jobconsole.actions.plan import Plan
from jobconsole.tui.base import operator
from jobconsole.tui.base.operations import OperationDetail, OperationReader
from queue_core import JobQueue
from queue_core.client.operating.executor import Executor
from queue_core.client.operations import Operations
from queue_core.errors import QueueNotFound, StoreUnavailable
from queue_core.model.filters import parse
from queue_core.model.operation import Operation, OperationRequest, Rollout
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.console.making import operation as made
from tests.tui.asking import ANA, CAREFUL, SYNC, ask, crowd, end_ready, in_state
from tests.tui.conftest import Sit
from tests.tui.scenes import crm, dead, disk
from tests.tui.seat import WIDE, Seat
from tests.tui.test_triage import SIZES

Buried = dict[str, list[str]]


async def retry_with_canary(seat: Seat, number: int) -> None:
    """Retry the group under the cursor with a canary of two, at once behind it."""
    await seat.ready()
    await seat.until("KeyError")
    await seat.press("R")
    await seat.until(f"Retry {number} jobs")
    while "❯ canary" not in seat.text():
        await seat.press("up")
    await seat.press("2", "down", "down", "down", "0", "backspace", "left", "left", "left", "down", "5", "0", "enter")
    await seat.until("2 jobs first")
    await seat.press("enter")


@SIZES
async def test_a_canary_goes_first_and_the_others_follow_when_it_ended_well(
    sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]
) -> None:
    await crowd(world, 6)
    async with sit(size) as seat:
        await retry_with_canary(seat, 6)
        await seat.until("canary 2 of 2: 2 not ended")
        assert "#1 retry 77aa00" in seat.text()
        assert await in_state(jobs, "queued") == 2
        await end_ready(jobs, world, "completed", 2)
        await seat.until("retried 6 jobs")
        await seat.until("2 of 2 completed, 4 not ended")
        assert await in_state(jobs, "dead") == 0


async def test_a_canary_that_dies_stops_the_rest_and_says_what_to_do(sit: Sit, jobs: JobQueue, world: World) -> None:
    await crowd(world, 6)
    async with sit(WIDE) as seat:
        await retry_with_canary(seat, 6)
        await seat.until("canary 2 of 2: 2 not ended")
        await end_ready(jobs, world, "dead", 2)
        await seat.until("retry #1 stopped: 2 of 2 canary jobs died again; (4) P resumes, X ends it")
        await seat.until("▲ stopped")
        assert await in_state(jobs, "dead") == 6
        await seat.press("r")
        await seat.until("canary of 2: 2 failed again")
        await seat.press("R")
        await seat.until("before")
        await seat.until("canary of 2: 2 failed again")
        await seat.press("escape", "4")
        await seat.until("without the threshold")
        await seat.press("P")
        await seat.until("Resume an operation")
        await seat.press("left", "enter")
        await seat.until("✓ done")
        assert await in_state(jobs, "dead") == 2


async def test_nothing_waits_behind_a_canary(sit: Sit, jobs: JobQueue, world: World) -> None:
    await crowd(world, 6)
    await dead(world, 3, disk(), type="resize_image", queue="images")
    await ask(jobs, await jobs.inspector.ids(parse("type:sync_crm status:dead"), 10), pace=CAREFUL)
    async with sit() as seat:
        await seat.until("canary 2 of 2: 2 not ended")
        while "OSError" not in seat.table("signatures").selection.row.title:
            await seat.press("j")
        await seat.press("D")
        await seat.until("Delete 3 jobs")
        await seat.press("enter")
        await seat.until("deleted 3 jobs, u undoes it")
        assert "canary 2 of 2" in seat.text()


async def test_undo_cancels_a_retry_that_runs_and_says_so(sit: Sit, jobs: JobQueue, world: World) -> None:
    await crowd(world, 6)
    async with sit() as seat:
        await retry_with_canary(seat, 6)
        await seat.until("canary 2 of 2")
        await seat.press("u")
        await seat.until("retry #1 was cancelled: retried 2 jobs, left 4 jobs as they are")
        assert await in_state(jobs, "dead") == 4
        await seat.press("u")
        await seat.until("nothing to undo")


async def test_a_console_carries_out_what_others_asked_for(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 3)
    async with sit() as seat:
        await seat.ready()
        asked = await ask(jobs, ids)
        await seat.until("no dead letters")
        assert (await jobs.operations.get(asked.number)).processed == 3


async def test_a_read_only_console_carries_out_nothing(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 3)
    asked = await ask(jobs, ids)
    async with sit(read_only=True) as seat:
        await seat.until("#1 retry 77aa00")
        await seat.press("4")
        await seat.until("▶ running")
        for key, said in (
            ("P", "pause is disabled"),
            ("X", "cancel is disabled"),
            ("u", "undo is disabled"),
            ("B", "bring back is disabled"),
        ):
            await seat.press(key)
            await seat.until(f"{said}: this console is read-only")
        assert (await jobs.operations.get(asked.number)).processed == 0


async def test_leaving_asks_and_leaves_what_runs_to_the_workers(sit: Sit, jobs: JobQueue, world: World) -> None:
    await crowd(world, 6)
    async with sit() as seat:
        await retry_with_canary(seat, 6)
        await seat.until("canary 2 of 2")
        await seat.press("q")
        await seat.until("q again leaves #1 to the workers")
        # The answer to another key is not a confirmation: it is asked again.
        await seat.press("w")
        await seat.until("growth is counted over")
        await seat.press("q")
        await seat.until("q again leaves #1 to the workers")
        await seat.press("q")
        assert seat.app.return_code == 0
    assert (await jobs.operations.get(1)).state == "running"
    await end_ready(jobs, world, "completed", 2)
    assert (await jobs.operations.run(1)).processed == 6


async def test_leaving_without_a_worker_says_that_it_waits(sit: Sit, jobs: JobQueue, world: World) -> None:
    await dead(world, 6, crm(), **SYNC)
    async with sit() as seat:
        await retry_with_canary(seat, 6)
        await seat.until("canary 2 of 2")
        await seat.press("q")
        await seat.until("q again leaves #1 waiting for a worker or a console: no worker is alive")
        await seat.press("4", "enter")
        await seat.until("no worker is alive: it continues once")


async def test_pauses_and_orders_are_noted_with_who_did_it(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("2")
        await seat.until("Workers")
        while seat.table("queues").selection.row.name != "mail":
            await seat.press("j")
        await seat.press("P")
        await seat.until("mail is paused, u undoes it")
        await seat.press("u")
        await seat.until("mail is running again")
        while seat.view.focused is not seat.table("workers"):
            await seat.press("tab")
        await seat.press("Q")
        await seat.until("claims no more jobs")
        await seat.press("4")
        await seat.until("3 kept")
        rows = seat.table("operations").selection.rows
        assert [(row.verb, row.operation.state) for row in rows] == [
            ("quiet", "done"), ("resume", "done"), ("pause", "done"),
        ]  # fmt: skip
        assert [row.label for row in rows[1:]] == ["queue mail", "queue mail"]
        assert rows[1].why == "takes it back"


async def test_what_fails_is_noted_as_failed_and_what_is_refused_is_not(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async def fail() -> str:
        raise StoreUnavailable("postgres", "no answer within 1 s")

    async with sit(WIDE) as seat:
        await seat.ready()
        with pytest.raises(QueueNotFound):
            await seat.app.operator.toggle_pause("nosuch", paused=False)
        with pytest.raises(StoreUnavailable):
            await jobs.operations.record(OperationRequest("pause", "queue mail", ANA), fail)
        await seat.press("4")
        await seat.until("✖ failed")
        (row,) = seat.table("operations").selection.rows
        assert (row.label, "no answer" in row.note) == ("queue mail", True)


async def test_an_operation_that_another_console_finishes_is_told_all_the_same(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    await crowd(world, 6)
    async with sit() as seat:
        await retry_with_canary(seat, 6)
        await seat.until("canary 2 of 2")
        other = asyncio.ensure_future(jobs.operations.run(1))
        await end_ready(jobs, world, "completed", 2)
        await other
        await seat.until("retried 6 jobs")


async def test_a_rate_is_kept_and_shown(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 12)
    async with sit(WIDE) as seat:
        await seat.ready()
        await ask(jobs, ids, pace=Rollout(rate=4.0))
        await seat.until("/s  ETA")
        await seat.press("4")
        await seat.until("✓ done")
        assert (await jobs.operations.get(1)).processed == 12


async def test_a_plan_that_is_being_written_says_how_far_it_is(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, submit = asyncio.Event(), Operations.submit

    async def slowly(
        self: Operations,
        asked: OperationRequest,
        ids: Sequence[str],
        progress: Callable[[Operation], None],
        chosen: float | None,
    ) -> Operation:
        progress(made(1, state="preparing", total=3))
        await hold.wait()
        return await submit(self, asked, ids, progress, chosen)

    monkeypatch.setattr(Operations, "submit", slowly)
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("D")
        await seat.until("Delete 5 jobs")
        await seat.press("enter")
        await seat.until("being written: 3 of 5")
        await seat.press("q")
        await seat.until("delete is still saving (3 of 5 jobs); q again abandons it")
        hold.set()
        await seat.until("deleted 5 jobs")


async def test_undo_of_a_delete_that_still_runs_ends_it_and_brings_all_back(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    ids = await crowd(world, 6)
    async with sit() as seat:
        await seat.ready()
        await seat.until("KeyError")
        plan = Plan("delete", "six", tuple(ids), rollout=Rollout(rate=2.0))
        seat.app.run_plan(plan)
        await seat.until("#1 delete")
        await seat.until(
            lambda: seat.app.model.active_operations.lines and seat.app.model.active_operations.lines[0].operation.done
        )
        await seat.press("u")
        await seat.until("restored")
        assert (await jobs.operations.get(1)).state == "cancelled"
        assert await jobs.inspector.count(parse("trash:yes")) == 0
        assert await in_state(jobs, "dead") == 6


async def test_a_store_that_is_away_for_a_while_delays_and_loses_nothing(
    sit: Sit, jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await crowd(world, 4)
    run_once, away = Executor.run_once, [3]

    async def at_times(self: Executor) -> float:
        if away[0]:
            away[0] -= 1
            raise StoreUnavailable("postgres", "the connection was closed")
        return await run_once(self)

    monkeypatch.setattr(Executor, "run_once", at_times)
    monkeypatch.setattr(operator, "POLL_SECONDS", 0.1)
    async with sit() as seat:
        await seat.ready()
        await seat.until("KeyError")
        await seat.press("R")
        await seat.until("Retry 4 jobs")
        await seat.press("enter")
        await seat.until("retried 4 jobs")
        assert {(await jobs.inspector.get(one)).status for one in ids} == {Status.QUEUED}
        assert seat.app.operator.problem == ""


async def test_the_jobs_of_an_operation_are_not_said_to_be_none_before_they_are_read(
    sit: Sit, jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await crowd(world, 2)
    for one in (first, second):
        await jobs.operations.run((await ask(jobs, [one], "delete")).number)
    read, may_read = OperationReader.detail, asyncio.Event()

    async def late(self: OperationReader, number: int) -> OperationDetail:
        await may_read.wait()
        return await read(self, number)

    async with sit(WIDE) as seat:
        monkeypatch.setattr(OperationReader, "detail", late)
        await seat.ready()
        await seat.press("4")
        await seat.until("not loaded yet", but="it has changed no jobs")
        may_read.set()
        await seat.until(f"{first[:8]}…{second[-4:]}", but="not loaded yet")
        may_read.clear()
        await seat.press("j")
        await seat.until("not loaded yet", but=f"…{second[-4:]}")
        may_read.set()
        await seat.until(f"…{first[-4:]}", but="not loaded yet")
