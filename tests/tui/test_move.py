"""Move: jobs go to another queue or priority as one operation, and u undoes it."""

from __future__ import annotations

import pytest

from jobconsole.tui.sheets.move import MoveSheet
from queue_core import JobQueue
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE, Seat

Buried = dict[str, list[str]]
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


async def queues(jobs: JobQueue, ids: list[str]) -> set[str]:
    """Return the queues that these jobs are in."""
    return {(await jobs.get(one)).queue for one in ids}


async def moving(seat: Seat) -> None:
    """Press M and wait for the sheet with its jobs counted."""
    await seat.press("M")
    await seat.until(lambda: isinstance(seat.app.screen, MoveSheet))
    await seat.until("exactly" if "marked" in seat.text() or "Error" in seat.text() else "Move 1 job")


async def go(seat: Seat) -> None:
    """Over all fields to the button."""
    await seat.press("enter", "enter", "enter", "enter")


@SIZES
async def test_a_signature_to_a_queue_from_the_list_and_back(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await moving(seat)
        await seat.press("down", "down")
        await seat.until("❯ images")
        await go(seat)
        await seat.until("moved 5 jobs, u undoes it")
        assert await queues(jobs, buried["send_email"]) == {"images"}
        assert {(await jobs.get(one)).status for one in buried["send_email"]} == {Status.DEAD}
        assert await queues(jobs, buried["sync_crm"]) == {"crm"}
        await seat.press("u")
        await seat.until(lambda: "u undoes it" not in seat.text() or "moved 5 jobs" in seat.text())
        for _ in range(200):
            if await queues(jobs, buried["send_email"]) == {"mail"}:
                break
            await seat.pilot.pause(0.1)
        assert await queues(jobs, buried["send_email"]) == {"mail"}


async def test_marked_jobs_to_a_new_queue_with_another_priority_and_a_reason(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("enter")
        await seat.until(lambda: seat.table("jobs").selection.row is not None)
        await seat.press("space", "j", "space")
        marked = list(seat.table("jobs").selection.marks)
        await moving(seat)
        await seat.press(*"slow")
        await seat.until("there is no queue 'slow' yet")
        assert "no live worker of 'slow' runs send_email" in seat.text()
        await seat.press("enter", *"-7")
        await seat.until("A priority change cannot be undone")
        await seat.press("enter", *"too many", "enter", "enter")
        await seat.until("moved 2 jobs")
        assert {(job.queue, job.priority) for job in [await jobs.get(one) for one in marked]} == {("slow", -7)}
        assert await queues(jobs, [one for one in buried["send_email"] if one not in marked]) == {"mail"}
        (operation,) = await jobs.operations.list_for_job(marked[0])
        assert (operation.request.verb, operation.request.why, operation.total) == ("move", "too many", 2)


async def test_everything_that_matches_leaves_out_what_cannot_be_moved(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    running = (await world.running(queue="mail", type="send_email")).id
    async with sit() as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        await seat.press("asterisk", "M")
        await seat.until("Move 17 jobs")
        await seat.press(*"other")
        await go(seat)
        await seat.until("moved 17 jobs")
        assert (await jobs.get(running)).queue == "mail"
        assert (await jobs.count("queue:other"), await jobs.count("status:completed queue:images")) == (17, 1)


async def test_a_paused_queue_is_told(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    await jobs.operations.pause_queue("crm")
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await moving(seat)
        await seat.press(*"cr", "down")
        await seat.until("'crm' is paused: jobs wait there until it is resumed")
        await seat.press("escape")
        await seat.until("Dead letters")
        assert await jobs.operations.list_operations() == []


async def test_what_cannot_be_is_refused_in_the_sheet(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await moving(seat)
        await go(seat)
        await seat.until("name another queue or another priority")
        await seat.press("shift+tab", "shift+tab", *"200")
        await seat.until("priority must be a whole number")
        await seat.press("tab", "tab", "enter")
        assert isinstance(seat.app.screen, MoveSheet)
        assert await jobs.operations.list_operations() == []


async def test_a_finished_job_is_not_moved(sit: Sit, world: World) -> None:
    await world.ended("completed")
    async with sit() as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        await seat.press("M")
        await seat.until("this job is completed; only waiting and dead jobs can be moved")


async def test_what_is_in_the_trash_is_not_moved(sit: Sit, world: World) -> None:
    await world.trashed()
    async with sit() as seat:
        await seat.ready()
        await seat.press("3", "left_square_bracket")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        await seat.press("M")
        await seat.until("jobs in the trash are not moved; B brings them back first")


async def test_without_colour(sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await moving(seat)
        await seat.press("down")
        await seat.until("❯ crm")
        strips = seat.strips()
        assert all(segment.style is not None for strip in strips for segment in strip)
