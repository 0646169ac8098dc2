"""The cursor holds on to its row wherever one goes, and a key never acts on more than what was under it."""

from __future__ import annotations

import pytest
from textual import events

from queue_core import JobQueue
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import crm, dead, disk, smtp
from tests.tui.seat import NARROW, WIDE, Seat
from tests.tui.test_triage import SIZES, at_jobs_of

Buried = dict[str, list[str]]


async def at_dead_jobs(seat: Seat) -> None:
    """Go to the dead jobs of the third view."""
    await seat.ready()
    await seat.press("3", "right_square_bracket")
    await seat.until("10 jobs")
    await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 10)


@SIZES
async def test_whoever_comes_back_from_a_job_is_on_that_job(
    sit: Sit, world: World, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await at_dead_jobs(seat)
        selection = seat.table("all-jobs").selection
        key = selection.key
        await seat.press("enter")
        await seat.until("attempts     ")
        new = await dead(world, 3, smtp(), type="send_email", queue="mail")
        await seat.until(lambda: selection.rows[0].id == new[0])
        await seat.press("escape")
        await seat.until(lambda: seat.view.focused is seat.table("all-jobs"))
        assert selection.key == key


@SIZES
async def test_a_flood_takes_nobody_off_the_job_that_was_opened(
    sit: Sit, world: World, buried: Buried, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobconsole.core.listing.PAGE_ROWS", 10)
    async with sit(size) as seat:
        await at_jobs_of(seat, "OSError")
        selection = seat.table("jobs").selection
        key = selection.key
        await seat.press("enter")
        await seat.until("attempts     ")
        await dead(world, 25, disk(), type="resize_image", queue="images")
        await seat.until(lambda: seat.table("jobs").window.behind)
        await seat.press("escape")
        await seat.until(lambda: seat.view.focused is seat.table("jobs"))
        assert selection.key == key


async def test_a_list_that_a_flood_has_cut_off_does_not_count_its_rows_as_all(
    sit: Sit, world: World, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobconsole.core.listing.PAGE_ROWS", 30)
    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.press("3")
        window = seat.table("all-jobs").window
        await seat.until(lambda: window.complete)
        held = len(window.rows)
        await seat.until(f"{held} jobs")
        # Held meanwhile: a list that is read within the flood follows it page by page.
        await seat.press("p")
        await seat.until("FROZEN")
        await dead(world, 31, disk(), type="resize_image", queue="images")
        await seat.press("p")
        await seat.until("many newer, g shows them")
        await seat.until(f"{held}+ jobs")


async def test_a_queue_stays_chosen_while_one_looks_at_another_pane(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("2", "j", "j")
        await seat.until(lambda: seat.table("queues").selection.row is not None)
        key = seat.table("queues").selection.key
        await seat.press("tab")
        for _ in range(2):
            snapshot = seat.app.model.snapshot
            seat.app.refresher.resync()
            await seat.until(lambda snapshot=snapshot: seat.app.model.snapshot is not snapshot)
        await seat.press("shift+tab")
        assert seat.table("queues").selection.key == key


@SIZES
async def test_enter_on_a_job_that_is_gone_opens_nothing_wider(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await at_jobs_of(seat, "OSError")
        await seat.until(lambda: len(seat.table("jobs").selection.rows) == 3)
        await jobs.operations.change("delete", buried["resize_image"][:1])
        await seat.until(lambda: seat.table("jobs").selection.adrift)
        for key in ("enter", "f"):
            await seat.press(key)
            await seat.until("that row is gone; select another")
            assert seat.view.focused is seat.table("jobs")
            await seat.press("R")
            await seat.until("that row is gone")
        assert {(await jobs.inspector.get(one)).status for one in buried["resize_image"]} == {Status.DEAD}


@SIZES
async def test_enter_twice_before_the_jobs_are_read_opens_nothing_wider(
    sit: Sit, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        table = seat.table("jobs")
        table.read = lambda: None  # type: ignore[attr-defined]
        await seat.press("j", "enter", "enter")
        await seat.until("the jobs are still being read")
        await seat.press("R")
        await seat.until("the jobs are still being read")
        assert "Retry dead jobs" not in seat.text()


@SIZES
async def test_enter_with_nothing_running_opens_nothing_wider(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        # As a click does: the Tab key does not come to a pane that has been idle.
        seat.table("running").focus()
        await seat.until(lambda: seat.view.focused is seat.table("running"))
        await seat.press("enter")
        await seat.until("nothing selected")
        assert seat.view.focused is seat.table("running")


@SIZES
async def test_everything_that_matches_is_retried_whatever_became_of_the_row(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("slash", *"type:sync_crm", "enter")
        await seat.until("1 signature ·")
        await seat.press("asterisk")
        await seat.until("all 1 marked")
        await seat.press("R")
        await seat.until("Retry 2 jobs")
        await seat.press("enter")
        await seat.until("retried 2 jobs")
        assert not seat.table("signatures").selection.everything, "the next verb takes what is chosen then"
        assert {(await jobs.inspector.get(one)).status for one in buried["send_email"]} == {Status.DEAD}


@SIZES
async def test_everything_is_marked_before_the_filter_has_taken_hold(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("p", "slash", *"queue:images", "enter")
        await seat.until(lambda: seat.table("signatures").where.terms)
        assert "TimeoutError" in seat.text(), "the screen is held"
        await seat.press("R")
        await seat.until("the filter applies once p resumes")
        await seat.press("asterisk", "R")
        await seat.until("Retry 3 jobs")
        await seat.press("enter")
        await seat.until("retried 3 jobs")
        left = {status for kind in ("send_email", "sync_crm") for status in await statuses(jobs, buried[kind])}
        assert left == {Status.DEAD}


async def statuses(jobs: JobQueue, ids: list[str]) -> list[Status]:
    """Return the states of jobs."""
    return [(await jobs.inspector.get(one)).status for one in ids]


@SIZES
async def test_a_filter_without_the_row_seats_the_cursor_on_the_first(
    sit: Sit, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        table = seat.table("signatures")
        # Which one is the first depends on when they died.
        while table.selection.row is None or "TimeoutError" not in table.selection.row.title:
            await seat.press("j")
        # At once, as a paste: letter by letter `!t` is a word that rows must not have, and seats the cursor on others.
        await seat.press("slash")
        seat.app.post_message(events.Paste("!type:send_email"))
        await seat.press("enter")
        await seat.until("2 signatures ·")
        assert table.selection.key == table.selection.rows[0].signature
        await seat.press("j")
        key = table.selection.key
        await seat.press("escape")
        await seat.until("3 signatures ·")
        assert table.selection.key == key, "a row that is still there keeps the cursor"


async def test_a_group_that_goes_by_itself_still_leaves_the_cursor_on_nothing(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await jobs.operations.change("retry", buried["send_email"])
        await seat.until("2 signatures ·")
        await seat.press("enter")
        await seat.until("that row is gone")


async def test_a_filter_that_is_cleared_marks_no_old_row_as_new(sit: Sit, world: World, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("3 signatures ·")
        table = seat.table("signatures")
        await seat.press("slash", *"type:sync_crm", "enter")
        await seat.until("1 signature ·")
        await seat.press("escape")
        await seat.until("3 signatures ·")
        assert not any(table.is_new(row) for row in table.selection.rows)
        await dead(world, 1, crm()._replace(signature="aaaaaaaaaaaa"), type="sync_crm", queue="crm")
        await seat.until("4 signatures ·")
        assert [table.is_new(row) for row in table.selection.rows].count(True) == 1
