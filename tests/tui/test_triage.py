"""Triage: from what is breaking to retried in two keys, at both sizes."""

from __future__ import annotations

import pytest
from textual import events

from jobconsole.tui.screens import triage
from queue_core import JobQueue
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import crm, dead, disk, smtp
from tests.tui.seat import NARROW, WIDE, Seat

Buried = dict[str, list[str]]
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


async def statuses(jobs: JobQueue, ids: list[str]) -> set[Status]:
    """Return the states that these jobs are in."""
    return {(await jobs.inspector.get(one)).status for one in ids}


async def at_jobs_of(seat: Seat, error: str) -> None:
    """Go to the jobs of a signature."""
    await seat.ready()
    await seat.until(error)
    while error not in seat.table("signatures").selection.row.title:
        await seat.press("j")
    await seat.press("enter")
    await seat.until(lambda: seat.table("jobs").selection.row is not None and seat.view.focused is seat.table("jobs"))


@SIZES
async def test_the_first_screen(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        text = seat.text()
        for part in ("Dead letters", "3 signatures · 10 jobs", "QUEUED 6", "DEAD 10", "Running", "OSError", "KeyError"):
            assert part in text
        await seat.until("mail.py:88")


async def test_the_wide_screen_shows_queues_jobs_and_traceback_at_once(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("smtp mx-7:25 timed out after 10s")
        text = seat.text()
        for part in ("Queues", "HIGH", "Throughput", "Jobs", "[Traceback]", "send_email", "images"):
            assert part in text


@SIZES
async def test_two_keys_retry_the_group_under_the_cursor(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        assert "TimeoutError" in seat.table("signatures").selection.row.title, "newest growth is under the cursor"
        await seat.press("R", "enter")
        await seat.until("retried 5 jobs")
        assert await statuses(jobs, buried["send_email"]) == {Status.QUEUED}
        assert await statuses(jobs, buried["resize_image"] + buried["sync_crm"]) == {Status.DEAD}
        await seat.until("2 signatures · 5 jobs")
        assert "OSError" in seat.table("signatures").selection.row.title, "the cursor goes on to the next group"


async def test_a_sheet_says_what_it_is_about_and_changes_nothing_when_left(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R")
        await seat.until("Retry 5 jobs")
        for part in ("Retry dead jobs", "TimeoutError: smtp", "all send_email", "mail", "[at once]"):
            assert part in seat.text()
        await seat.press("escape")
        await seat.until("Dead letters")
        assert await statuses(jobs, buried["send_email"]) == {Status.DEAD}


async def test_jobs_that_die_after_the_sheet_opened_are_not_retried(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R")
        await seat.until("Retry 5 jobs")
        late = await dead(world, 2, smtp(), type="send_email", queue="mail")
        await seat.press("enter")
        await seat.until("retried 5 jobs")
        assert await statuses(jobs, late) == {Status.DEAD}


async def test_what_changed_meanwhile_is_skipped_and_said(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R")
        await seat.until("Retry 5 jobs")
        await jobs.operations.change("delete", buried["send_email"][:1])
        await jobs.operations.change("purge", buried["send_email"][:1])
        await seat.press("enter")
        await seat.until("retried 4 jobs, skipped 1 that had changed meanwhile")
        assert await statuses(jobs, buried["send_email"][1:]) == {Status.QUEUED}


@SIZES
async def test_delete_goes_to_the_trash_and_comes_back(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("D")
        await seat.until("Delete 5 jobs")
        await seat.press("enter")
        await seat.until("deleted 5 jobs, u undoes it")
        assert all([(await jobs.inspector.get(one)).trashed_at for one in buried["send_email"]])
        await seat.press("u")
        await seat.until("restored 5 jobs")
        assert not any([(await jobs.inspector.get(one)).trashed_at for one in buried["send_email"]])
        await seat.until("3 signatures · 10 jobs")


@SIZES
async def test_drill_down_and_back(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await at_jobs_of(seat, "OSError")
        await seat.until("3 jobs")
        await seat.press("enter")
        await seat.until("attempts     ")
        await seat.until("images.py:12")
        await seat.press("escape")
        await seat.until(lambda: seat.view.focused is seat.table("jobs"))
        assert seat.table("jobs").selection.key == buried["resize_image"][0]
        await seat.press("escape")
        await seat.until(lambda: seat.view.focused is seat.table("signatures"))
        assert "OSError" in seat.table("signatures").selection.row.title


async def test_one_job_is_retried_and_the_cursor_goes_to_the_next(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_jobs_of(seat, "OSError")
        await seat.until(lambda: len(seat.table("jobs").selection.rows) == 3)
        first, second, _ = buried["resize_image"]
        assert seat.table("jobs").selection.key == first
        await seat.press("R", "enter")
        await seat.until("retried 1 job")
        await seat.until(lambda: seat.table("jobs").selection.key == second)
        assert await statuses(jobs, [first]) == {Status.QUEUED}


async def test_marked_jobs_are_deleted_together(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_jobs_of(seat, "OSError")
        await seat.until(lambda: len(seat.table("jobs").selection.rows) == 3)
        await seat.press("space", "space")
        await seat.until("2 marked")
        await seat.press("D")
        await seat.until("Delete 2 jobs")
        await seat.press("enter")
        await seat.until("deleted 2 jobs")
        states = [(await jobs.inspector.get(one)).trashed_at is not None for one in buried["resize_image"]]
        assert states == [True, True, False]


async def test_marks_are_taken_away(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await at_jobs_of(seat, "OSError")
        await seat.press("space")
        await seat.until("1 marked")
        await seat.press("backspace")
        await seat.until("Jobs", but="marked")
        selection = seat.table("jobs").selection
        assert not selection.marks
        await seat.press("asterisk")
        await seat.until("all that match are marked")
        assert selection.everything
        await seat.press("escape")
        await seat.until("Jobs", but="marked")
        assert (selection.marks, selection.everything) == ({}, False)
        assert seat.view.focused is seat.table("jobs"), "the marks went first, not the list"


async def test_marked_signatures_are_retried_together(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("KeyError")
        await seat.press("space", "space", "R")
        await seat.until("Retry 8 jobs")
        await seat.press("enter")
        await seat.until("retried 8 jobs")
        assert await statuses(jobs, buried["sync_crm"]) == {Status.DEAD}


async def test_new_dead_jobs_do_not_move_the_row_under_the_cursor(sit: Sit, world: World, buried: Buried) -> None:
    async with sit() as seat:
        await at_jobs_of(seat, "OSError")
        await seat.until(lambda: len(seat.table("jobs").selection.rows) == 3)
        chosen = seat.table("jobs").selection
        await seat.press("j")
        key, line = chosen.key, chosen.place - chosen.top
        await dead(world, 30, disk(), type="resize_image", queue="images")
        await seat.until(lambda: len(chosen.rows) == 33)
        assert (chosen.key, chosen.place - chosen.top) == (key, line)
        await seat.until("30 newer")


async def test_a_row_that_vanishes_under_the_cursor_leaves_it_on_nothing(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await at_jobs_of(seat, "OSError")
        await seat.until(lambda: len(seat.table("jobs").selection.rows) == 3)
        await jobs.operations.change("delete", buried["resize_image"][:1])
        await seat.until(lambda: seat.table("jobs").selection.adrift)
        await seat.press("R")
        await seat.until("that row is gone")
        assert await statuses(jobs, buried["resize_image"][1:]) == {Status.DEAD}
        await seat.press("j", "R")
        await seat.until("Retry dead jobs")


async def test_a_filter_narrows_as_one_types_and_stays_after_an_action(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("slash", *"queue:mail")
        await seat.until("1 signature ·", but="OSError")
        await seat.press("enter", "R")
        await seat.until("Retry 5 jobs")
        await seat.press("enter")
        await seat.until("retried 5 jobs")
        assert "/queue:mail" in seat.text()
        assert await statuses(jobs, buried["resize_image"]) == {Status.DEAD}
        await seat.press("escape")
        await seat.until("2 signatures · 5 jobs")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("colour:red", "no field 'colour'; put quotes around words to search for them"),
        (":", "no field before ':'; put quotes around words to search for them"),
        ("payload.=1", "no field 'payload.'; did you mean 'payload.<path>'?"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_explained_and_the_list_stays(
    sit: Sit, buried: Buried, written: str, reason: str
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("slash")
        # At once, as a paste: what is typed letter by letter is a word to look for until its colon.
        seat.app.post_message(events.Paste(written))
        await seat.until(reason)
        assert "3 signatures" in seat.text()
        await seat.press("escape")
        await seat.until(lambda: not seat.view.filter_line.is_open)
        assert seat.view.filter_line.text == ""


async def test_letters_in_the_filter_are_no_keys(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.press("slash", *"RDXqP")
        await seat.until("RDXqP")
        assert seat.view.filter_line.is_open
        assert await statuses(jobs, [one for ids in buried.values() for one in ids]) == {Status.DEAD}


async def test_frames_of_libraries_are_shown_and_folded(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("1 library frame folded")
        await seat.press("t")
        await seat.until("smtplib.py:398", but="frame folded")
        await seat.until("frames of libraries are shown")
        await seat.press("t")
        await seat.until("frames of libraries are folded")
        await seat.until("1 library frame folded")
        assert "smtplib.py:398" not in seat.text()


async def test_tabs_show_payload_log_and_timeline(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("mail.py:88")
        await seat.press(*["right_square_bracket"] * 3)
        await seat.until('"a@example.org"')
        await seat.press("right_square_bracket")
        await seat.until("the handler wrote no lines")
        await seat.press("right_square_bracket")
        await seat.until("attempt 1 failed")
        await seat.press(*["left_square_bracket"] * 5)
        await seat.until("[Traceback]")
        assert "mail.py:88" in seat.text()
        assert "attempt 1 failed" not in seat.text()


async def test_hints_stand_with_their_signature_and_in_the_help(sit: Sit, buried: Buried) -> None:
    hints = ["resize_image: rm /data/*.tmp", "read the runbook first"]
    async with sit(WIDE, hints=hints) as seat:
        await seat.ready()
        await seat.until("OSError")
        assert "rm /data" not in seat.text()
        await seat.press("j")
        await seat.until("rm /data/*.tmp")
        await seat.press("question_mark", "end")
        await seat.until("How to repair what fails here")
        assert "read the runbook first" in seat.text()


async def test_the_order_of_signatures_stays_until_it_is_made_anew(sit: Sit, world: World, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("KeyError")
        titles = [row.title for row in seat.table("signatures").selection.rows]
        await dead(world, 20, crm(), type="sync_crm", queue="crm")
        await seat.until("3 signatures · 30 jobs")
        assert [row.title for row in seat.table("signatures").selection.rows] == titles
        await seat.press("r")
        await seat.until(lambda: seat.table("signatures").selection.rows[0].title.startswith("KeyError"))


async def test_an_order_that_nobody_looks_at_is_made_anew(
    sit: Sit, world: World, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triage, "IDLE_SECONDS", 0.0)
    async with sit() as seat:
        await seat.ready()
        await seat.until("KeyError")
        await seat.press("j")
        key = seat.table("signatures").selection.key
        await dead(world, 20, crm(), type="sync_crm", queue="crm")
        await seat.until(lambda: seat.table("signatures").selection.rows[0].title.startswith("KeyError"))
        assert seat.table("signatures").selection.key == key
        assert seat.table("signatures").selection.top == 0
