"""Live, Jobs, and what all views share: moving, pausing, freezing, cancelling, help, commands, the mouse."""

from __future__ import annotations

import pytest

from jobconsole.tui.base.bindings import ACTIONS, CONSOLE
from jobconsole.tui.screens.jobs import JobsView
from jobconsole.tui.screens.live import LiveView
from jobconsole.tui.screens.triage import TriageView
from jobconsole.tui.views import VIEWS
from jobconsole.tui.widgets.pane import Pane
from queue_core import JobQueue
from queue_core.model.events import Event
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, smtp
from tests.tui.seat import NARROW, TINY, WIDE, Seat

Buried = dict[str, list[str]]
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


async def go(seat: Seat, key: str, *words: str) -> None:
    """Go to a view and wait for its words."""
    await seat.ready()
    await seat.press(key)
    for word in words:
        await seat.until(word)


@SIZES
async def test_views_are_changed_with_numbers(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        for key, view in (("2", LiveView), ("3", JobsView), ("1", TriageView)):
            await go(seat, key)
            await seat.until(lambda view=view: isinstance(seat.app.view, view))  # type: ignore[misc]


@SIZES
async def test_live_shows_depth_by_priority(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await go(seat, "2", "Queues", "HIGH", "Running", "Throughput")
        rows = {row.name: row for row in seat.table("queues").selection.rows}
        assert (rows["mail"].high, rows["images"].low, rows["crm"].scheduled) == (4, 2, 1)
        assert {name: row.dead for name, row in rows.items()} == {"crm": 2, "images": 3, "mail": 5}


async def test_live_shows_workers_where_there_is_room(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await go(seat, "2", "Workers", "host-1:4711")


@SIZES
async def test_a_queue_is_paused_resumed_and_undone(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await go(seat, "2", "crm")
        await seat.until(lambda: seat.table("queues").selection.key == "crm")
        await seat.press("P")
        await seat.until("crm is paused")
        await seat.until("‖ crm")
        assert (await jobs.store.queues())["crm"]
        await seat.press("P")
        await seat.until("crm is running again")
        await seat.press("u")
        await seat.until("crm is paused")
        assert (await jobs.store.queues())["crm"]


async def test_a_queue_opens_its_jobs(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await go(seat, "2", "images")
        await seat.press("j", "enter")
        await seat.until(lambda: isinstance(seat.app.view, JobsView))
        await seat.until('/queue:"images"')
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 6)


@SIZES
async def test_a_running_job_shows_its_progress_as_it_comes(
    sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        claim = await world.running(type="archive", queue="files")
        claimed = Event("claimed", "files", claim.id, "archive", claim.token, {"worker": "w-1", "priority": 5})
        await jobs.bus.publish([claimed])
        await seat.until("archive")
        half = Event("progress", "files", claim.id, "archive", claim.token, {"progress": 50, "message": "half way"})
        await jobs.bus.publish([half])
        await seat.until("━━━━━━──────  50%")
        await seat.until("half way")
        await world.settle(claim, "completed")
        await jobs.bus.publish([Event("completed", "files", claim.id, "archive", claim.token, {"ms": 1})])
        await seat.until("✓ completed")
        await seat.until("Running", but="archive")


async def test_a_running_job_is_found_without_events(sit: Sit, world: World) -> None:
    async with sit() as seat:
        await seat.ready()
        await world.running(type="archive", queue="files")
        await seat.until("archive")


async def test_a_running_job_is_asked_to_stop(sit: Sit, jobs: JobQueue, world: World) -> None:
    claim = await world.running(type="archive", queue="files")
    async with sit() as seat:
        await go(seat, "2", "archive")
        await seat.press("tab", "X")
        await seat.until("Cancel 1 job")
        await seat.press("enter")
        await seat.until("Live")
        assert not (await jobs.inspector.get(claim.id)).cancel_requested, "the first button changes nothing"
        await seat.press("X")
        await seat.until("Cancel 1 job")
        await seat.press("shift+tab", "enter")
        await seat.until("cancelled 1 job")
        assert (await jobs.inspector.get(claim.id)).cancel_requested


async def test_waiting_jobs_are_cancelled(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await go(seat, "3", "send_email")
        await seat.press(*["right_square_bracket"] * 3)
        await seat.until("[queued 6]")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 6)
        key = seat.table("all-jobs").selection.key
        assert key is not None
        await seat.press("X")
        await seat.until("Cancel 1 job")
        await seat.press("shift+tab", "enter")
        await seat.until("cancelled 1 job")
        assert (await jobs.inspector.get(key)).status is Status.CANCELLED


@SIZES
async def test_all_jobs_by_state(sit: Sit, buried: Buried, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await go(seat, "3", "[all]")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 18)
        await seat.press("right_square_bracket")
        await seat.until("[dead")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 10)
        await seat.press("left_square_bracket", "left_square_bracket")
        await seat.until("[trash")
        await seat.until("the trash is empty")
        await seat.press("left_square_bracket")
        await seat.until("[cancelled]")
        await seat.until("no cancelled jobs", but="nothing matches")
        await seat.press("slash", *"type:nosuch", "enter")
        await seat.until("nothing matches; Esc clears the filter", but="no cancelled jobs")


async def test_a_dead_job_is_retried_from_the_list_and_a_queued_one_is_not(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await go(seat, "3", "send_email")
        await seat.press(*["right_square_bracket"] * 3)
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 6)
        await seat.press("R")
        await seat.until("this job is queued; only completed and dead jobs can be retried")
        await seat.press("left_square_bracket", "left_square_bracket")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 10)
        await seat.press("R", "enter")
        await seat.until("retried 1 job")


async def test_everything_that_matches_is_acted_on_not_the_page(sit: Sit, jobs: JobQueue, world: World) -> None:
    await dead(world, 230, smtp(), type="send_email", queue="mail")
    async with sit() as seat:
        await go(seat, "3", "send_email")
        await seat.press("right_square_bracket", "slash", *"type:send_email", "enter")
        await seat.until("/type:send_email")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 200)
        await seat.press("asterisk", "D")
        await seat.until("Delete 230 jobs")
        await seat.press("enter")
        await seat.until("deleted 230 jobs")
        assert (await jobs.inspector.overview()).queues[0].dead == 0


async def test_a_long_list_is_read_as_one_comes_to_it(sit: Sit, world: World) -> None:
    await dead(world, 450, smtp(), type="send_email", queue="mail")
    async with sit() as seat:
        await go(seat, "3", "send_email")
        selection = seat.table("all-jobs").selection
        await seat.until(lambda: len(selection.rows) == 200)
        await seat.press("G")
        await seat.until(lambda: len(selection.rows) == 400)
        await seat.press("G")
        await seat.until(lambda: len(selection.rows) == 450)
        await seat.press("G")
        assert selection.place == 449
        await seat.press("g")
        assert (selection.place, selection.top) == (0, 0)


async def test_moving(sit: Sit, world: World) -> None:
    await dead(world, 60, smtp(), type="send_email", queue="mail")
    async with sit() as seat:
        await go(seat, "3", "send_email")
        selection = seat.table("all-jobs").selection
        height = seat.table("all-jobs").visible_rows
        await seat.until(lambda: len(selection.rows) == 60)
        for keys, place in (
            ("j down", 2), ("k up", 0), ("pagedown", height - 1), ("pageup", 0), ("ctrl+d", height // 2), ("ctrl+u", 0),
            ("G", 59), ("g", 0), ("end", 59), ("home", 0), ("up", 0),
        ):  # fmt: skip
            await seat.press(*keys.split())
            assert selection.place == place, keys


async def test_the_id_is_copied(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("y")
        await seat.until("copied the signature's id 9f31c2aaaaaa")
        assert seat.app.clipboard == "9f31c2aaaaaa"


async def test_a_frozen_picture_holds_still(sit: Sit, world: World, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("10 jobs")
        await seat.press("p")
        await seat.until("FROZEN")
        await dead(world, 3, smtp(), type="send_email", queue="mail")
        await seat.until(lambda: seat.app.model.snapshot is not None and seat.app.model.snapshot.totals.dead == 13)
        assert "3 signatures · 10 jobs" in seat.text()
        await seat.press("p")
        await seat.until("3 signatures · 13 jobs")


async def test_resync_reads_at_once(sit: Sit, world: World, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        before = seat.app.model.snapshot
        await seat.press("r")
        await seat.until("reading everything again")
        await seat.until(lambda: seat.app.model.snapshot is not before)


@SIZES
async def test_tab_goes_through_the_panes(sit: Sit, world: World, buried: Buried, size: tuple[int, int]) -> None:
    await world.running(type="send_email", queue="mail")
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.until(lambda: seat.table("running").reachable)
        shown = [pane.id for pane in seat.view.shown()]
        assert shown[0] == "signatures"
        assert set(shown) >= ({"signatures", "running"} if size == NARROW else {"jobs", "detail", "queues"})
        for expected in [*shown[1:], shown[0]]:
            await seat.press("tab")
            await seat.until(lambda expected=expected: seat.view.focused.id == expected)  # type: ignore[misc, union-attr]
        await seat.press("shift+tab")
        assert seat.view.focused is not None
        assert seat.view.focused.id == shown[-1]


@SIZES
@pytest.mark.parametrize("view", ["1", "2", "3"])
async def test_help_teaches_the_keys_of_the_view(sit: Sit, buried: Buried, size: tuple[int, int], view: str) -> None:
    async with sit(size) as seat:
        await go(seat, view)
        await seat.press("question_mark")
        await seat.until("Esc goes back")
        assert "Change" in seat.text()
        await seat.press("end")
        await seat.until("Words")
        await seat.press("escape")
        await seat.until("Triage", but="Esc goes back")


async def test_every_possible_action_is_in_the_commands(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("colon")
        await seat.until("find an action")
        await seat.press(*"retry")
        await seat.until("retry (R)")
        await seat.press("enter")
        await seat.until("Retry dead jobs")


async def test_nothing_to_undo_is_said(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.press("u")
        await seat.until("nothing to undo")


async def test_read_only_changes_nothing_and_says_why(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(read_only=True, context="prod") as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        assert " PROD  READ-ONLY " in seat.text()
        assert "retry" not in seat.text()
        for key, label in (("R", "retry"), ("D", "delete"), ("u", "undo")):
            await seat.press(key)
            await seat.until(f"{label} is disabled: this console is read-only")
        await go(seat, "2", "Queues")
        await seat.press("P")
        await seat.until("pause is disabled")
        assert not any((await jobs.store.queues()).values())


async def test_a_window_that_is_too_small_says_so_and_keys_wait(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(TINY) as seat:
        await seat.until("This window is too small")
        assert "39×9; needs 40×10" in seat.text()
        await seat.press("R", "enter")
        assert (await jobs.inspector.get(buried["send_email"][0])).status is Status.DEAD
        await seat.pilot.resize_terminal(*NARROW)
        await seat.until("Dead letters", but="This window")
        await seat.pilot.resize_terminal(*TINY)
        await seat.until("This window is too small")
        await seat.press("q")
    assert seat.app.return_code == 0


async def test_resizing_keeps_the_place(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("OSError")
        await seat.press("j", "enter")
        await seat.until(lambda: seat.view.focused is seat.table("jobs"))
        await seat.press("j")
        key = seat.table("jobs").selection.key
        await seat.pilot.resize_terminal(*NARROW)
        await seat.until("Jobs", but="Dead letters")
        assert seat.table("jobs").selection.key == key
        await seat.pilot.resize_terminal(*WIDE)
        await seat.until("Dead letters")
        assert seat.table("jobs").selection.key == key


async def test_the_mouse_chooses_opens_and_scrolls(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("OSError")
        table = seat.table("signatures")
        await seat.pilot.click("#signatures", offset=(10, 3))
        await seat.until(lambda: table.selection.place == 1)
        await seat.pilot.click("#signatures", offset=(10, 3), times=2)
        await seat.until(lambda: seat.view.focused is seat.table("jobs"))
        await seat.pilot.click("#header", offset=(15, 0))
        await seat.until(lambda: isinstance(seat.app.view, LiveView))
        await seat.pilot.click("#keys", offset=(3, 0))
        await seat.until("u undoes it")


async def test_the_cursor_goes_to_the_newest_by_itself_where_nobody_looks(
    sit: Sit, world: World, buried: Buried
) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until(lambda: seat.table("jobs").selection.key == buried["send_email"][0])
        (newest,) = await dead(world, 1, smtp(), type="send_email", queue="mail")
        await seat.until(lambda: seat.table("jobs").selection.key == newest)


async def test_what_is_no_job_cannot_be_compared(sit: Sit, world: World, buried: Buried) -> None:
    """Not even after a job was open: its payload would be taken for an answer about the row."""
    await world.running()
    async with sit() as seat:
        await seat.ready()
        await seat.press("2")
        await seat.until(lambda: isinstance(seat.view, LiveView) and seat.table("running").selection.rows)
        await seat.press("tab", "enter")
        await seat.until("Traceback")
        await seat.press("escape", "shift+tab", "c")
        await seat.until("choose a job, not a queue")
        assert seat.view.stage == "home"
        for view, reason in (("4", "nothing selected"), ("5", "nothing selected"), ("6", "open the job first (Enter)")):
            await seat.press(view, "c")
            await seat.until(reason)
            assert seat.view.stage == "home"


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("X", "this job is completed; only unfinished jobs can be cancelled"),
        ("B", "only jobs in the trash can be brought back: it is the last tab of 3"),
        ("backspace", "nothing is marked"),
    ],
)
async def test_a_key_that_is_off_is_answered_whole(sit: Sit, buried: Buried, key: str, sentence: str) -> None:
    async with sit() as seat:
        await seat.press("3")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        await seat.press(key)
        await seat.until(sentence)


EVERYWHERE = tuple(
    action.id
    for action in ACTIONS
    if action.group == CONSOLE or action.id in {"back", "next_pane", "previous_pane", "copy_link", "resync", "freeze"}
)
"""Actions that need no row: no pane keeps one who has none."""


async def test_no_pane_without_rows_refuses_to_be_left(sit: Sit) -> None:
    async with sit() as seat:
        await seat.ready()
        seen = set()
        for digit, view in enumerate(VIEWS, 1):
            await seat.press(str(digit))
            await seat.until(lambda view=view: seat.app.place == view.action and seat.view.complete)
            for pane in seat.view.query(Pane):
                seen.add(pane.id)
                refused = {one: pane.refuses(one) or pane.NEVER.get(one, "") for one in EVERYWHERE}
                assert not any(refused.values()), (view.name, pane.id, refused)
        assert {"facts", "members", "operations"} <= seen
