"""A sheet says what it acts on, and everything that matches is never more than what the list shows."""

from __future__ import annotations

import pytest

from queue_core import JobQueue
from queue_core.model.filters import parse
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.asking import ask, crowd, end_ready, in_state
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, disk
from tests.tui.seat import WIDE, Seat
from tests.tui.test_triage import SIZES

Buried = dict[str, list[str]]


async def at_tab(seat: Seat, tab: str) -> None:
    """Go to the jobs of a state."""
    await seat.ready()
    await seat.press("3")
    await seat.until("[all")
    while f"[{tab}" not in seat.text():
        await seat.press("right_square_bracket")
    await seat.until(lambda: seat.table("all-jobs").selection.row is not None)


@SIZES
async def test_a_retry_of_a_completed_job_says_that_it_runs_again(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await at_tab(seat, "completed")
        await seat.press("R")
        await seat.until("Retry 1 job")
        assert "Run completed jobs again" in seat.text()
        assert "dead jobs" not in seat.text()
        await seat.press("enter")
        await seat.until("retried 1 job")
        assert (await in_state(jobs, "completed"), await in_state(jobs, "dead")) == (0, 10)


async def test_a_retry_from_the_detail_and_of_marked_jobs_says_what_they_are(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await at_tab(seat, "completed")
        await seat.press("enter")
        await seat.until("completed")
        await seat.until("[Traceback]")
        await seat.press("R")
        await seat.until("Run completed jobs again")
        await seat.press("escape", "escape", "left_square_bracket")
        while "[all" not in seat.text():
            await seat.press("left_square_bracket")
        table = seat.table("all-jobs")
        await seat.until(lambda: len(table.selection.rows) == 18)
        for status in (Status.COMPLETED, Status.DEAD):
            place = next(place for place, row in enumerate(table.selection.rows) if row.status is status)
            table.move_to(place)
            await seat.press("space")
        await seat.press("R")
        await seat.until("Retry dead and completed jobs")


@pytest.mark.parametrize(
    ("tab", "keys", "said"),
    [("queued", "R", "all that match are queued; only completed and dead jobs can be retried"),
     ("queued", "D", "all that match are queued; only dead jobs can be deleted"),
     ("completed", "X", "all that match are completed; only")],
)  # fmt: skip
@SIZES
async def test_everything_of_a_tab_is_never_another_tab(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int], tab: str, keys: str, said: str
) -> None:
    async with sit(size) as seat:
        await at_tab(seat, tab)
        await seat.press("asterisk", keys)
        await seat.until(said[: size[0] - 4])
        assert await in_state(jobs, "dead") == 10


async def test_everything_completed_is_run_again_and_nothing_else(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_tab(seat, "completed")
        await seat.press("asterisk", "R")
        await seat.until("Run completed jobs again")
        await seat.until("Retry 1 job")
        await seat.press("enter")
        await seat.until("retried 1 job")
        assert (await in_state(jobs, "completed"), await in_state(jobs, "dead")) == (0, 10)


async def test_everything_of_all_states_is_what_is_dead(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_tab(seat, "all")
        await seat.press("asterisk", "R")
        await seat.until("Retry 10 jobs")
        assert "Retry dead jobs" in seat.text()


async def test_every_group_is_retried_also_those_beyond_the_screen(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    """The store is asked for the groups that grew most only."""
    async with sit() as seat:
        await seat.ready()
        await seat.until("3 signatures ·")
        selection = seat.table("signatures").selection
        selection.rows = selection.rows[:1]
        await seat.press("asterisk", "R")
        await seat.until("Retry 10 jobs")
        late = await dead(world, 1, disk(), type="resize_image", queue="images")
        await seat.press("enter")
        await seat.until("retried 10 jobs")
        assert await jobs.inspector.ids(parse("status:dead"), 20) == late


async def test_marked_jobs_that_others_have_retried_since_do_not_run_once_more(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    await crowd(world, 4)
    async with sit(WIDE) as seat:
        await at_tab(seat, "dead")
        await seat.press("space", "space", "space")
        await seat.until(lambda: len(seat.table("all-jobs").selection.marks) == 3)
        gone = list(seat.table("all-jobs").selection.marks)[:2]
        await jobs.operations.run((await ask(jobs, gone)).number)
        await end_ready(jobs, world, "completed", 2)
        await seat.press("R")
        await seat.until("Retry 1 job ")
        await seat.press("enter")
        await seat.until("retried 1 job")
        assert await in_state(jobs, "completed") == 2
