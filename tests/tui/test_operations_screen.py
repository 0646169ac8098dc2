"""The screen of operations: who did what, when and why, how far it is, what came of it; paused and cancelled there."""

from __future__ import annotations

import pytest

from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base import operations as reader
from jobconsole.tui.base.links import Link
from jobconsole.tui.screens.operations import OperationsView
from jobconsole.tui.widgets import operations
from queue_core import JobQueue
from queue_core.model.operation import UNTHROTTLED, ChangeOptions, OperationRequest, Rollout
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.asking import ANA, CAREFUL, ask, crowd, end_ready
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE, Seat, seated
from tests.tui.test_triage import SIZES


async def at_operations(seat: Seat, number: int) -> None:
    """Go to the list, as soon as it has so many operations."""
    await seat.ready()
    await seat.press("4")
    assert isinstance(seat.view, OperationsView)
    await seat.until(lambda: len(seat.table("operations").selection.rows) == number)


async def note_some(jobs: JobQueue, number: int) -> None:
    """Note so many things that were done at once."""

    async def nothing() -> None:
        return None

    for place in range(number):
        await jobs.operations.record(OperationRequest("pause", f"queue q{place}", ANA), nothing)


@SIZES
async def test_the_list_has_the_newest_first(sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]) -> None:
    ids = await crowd(world, 4)
    await jobs.operations.run((await ask(jobs, ids[:1], "delete", why="never works")).number)
    await ask(jobs, ids[1:], pace=CAREFUL, label="KeyError: <str>")
    async with sit(size) as seat:
        await at_operations(seat, 2)
        await seat.until("▶ canary")
        rows = seat.table("operations").selection.rows
        assert [(row.number, row.verb, row.user) for row in rows] == [(2, "retry", "ana"), (1, "delete", "ana")]
        for part in ("WHO", "STATE", "✓ done", "KeyError: <str>", "canary", "2 not ended"):
            await seat.until(part)


@SIZES
async def test_one_operation_in_detail_with_its_jobs(
    sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]
) -> None:
    ids = await crowd(world, 3)
    way = ChangeOptions(queue="crm", priority=20)
    asked = OperationRequest("retry", "KeyError: <str>", ANA, "the field is back", way, UNTHROTTLED, ("77aa00cccccc",))
    await jobs.operations.run((await jobs.operations.submit(asked, ids)).number)
    await end_ready(jobs, world, "completed", 1)
    async with sit(size) as seat:
        await at_operations(seat, 1)
        await seat.press("enter")
        for part in (
            "ana@desk-7", "the field is back", "into queue crm, with priority 20", "77aa00cccccc", "3 of 3 jobs",
            "changed      3", "1 of 1 completed, 2 not ended", "Jobs it changed", "✓ completed",
        ):  # fmt: skip
            await seat.until(part)
        await seat.press("enter", "enter")
        await seat.until("attempts     ")
        await seat.press("escape", "escape", "escape")
        await seat.until(lambda: seat.view.focused is seat.table("operations"))


async def test_an_operation_of_one_job_is_no_several(sit: Sit, jobs: JobQueue, world: World) -> None:
    await ask(jobs, await crowd(world, 1), pace=Rollout(when_release="r9"))
    async with sit() as seat:
        await at_operations(seat, 1)
        await seat.press("X")
        await seat.until("0 of 1 job is done")


async def test_it_is_paused_goes_on_and_is_cancelled(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 5)
    asked = await ask(jobs, ids, pace=CAREFUL)
    async with sit() as seat:
        await at_operations(seat, 1)
        await seat.until("2 not ended")
        await seat.press("P")
        await seat.until("#1 is paused")
        await seat.until("‖ paused")
        assert (await jobs.operations.get(asked.number)).state == "paused"
        await seat.until(lambda: seat.table("operations").selection.row.operation.state == "paused")
        await seat.press("P")
        await seat.until("#1 is running again")
        await seat.press("X")
        await seat.until("2 of 5 jobs are done")
        await seat.press("escape")
        assert (await jobs.operations.get(asked.number)).state == "running"
        await seat.press("X", "enter")
        await seat.until("#1 is cancelled")
        await seat.until("⊘ cancelled")
        assert (await jobs.operations.get(asked.number)).state == "cancelled"
        await seat.press("G")
        assert seat.table("operations").selection.row.number == asked.number
        for key in ("P", "X"):
            await seat.press("r")
            await seat.until("reading everything again")
            await seat.press(key)
            await seat.until("#1 has ended: it is cancelled")
        verbs = [one.request.verb for one in await jobs.operations.list_operations()]
        assert verbs == ["cancel", "resume", "pause", "retry"], "who steered it is noted"


async def test_what_goes_on_is_followed_without_moving_the_cursor(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 12)
    await note_some(jobs, 1)
    async with sit(WIDE) as seat:
        await at_operations(seat, 1)
        table = seat.table("operations")
        asked = await ask(jobs, ids, pace=Rollout(rate=2.0))
        await seat.until(lambda: len(table.selection.rows) == 2)
        assert table.selection.row.number == 1, "the cursor stays where it was"
        seen = set()
        while table.pages.lines[asked.number].operation.state in {"preparing", "running"}:
            seen.add(table.pages.lines[asked.number].operation.done)
            await seat.pilot.pause(0.05)
        assert len(seen) > 2
        await seat.until("✓ done")
        assert table.pages.lines[asked.number].operation.processed == 12


async def test_older_ones_are_read_as_one_comes_to_them(
    sit: Sit, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reader, operations):
        monkeypatch.setattr(module, "PAGE_OPERATIONS", 40)
    await note_some(jobs, 170)
    async with sit() as seat:
        await seat.ready()
        await seat.press("4")
        table = seat.table("operations")
        await seat.until(lambda: table.selection.rows)
        assert len(table.selection.rows) < 170
        await seat.until("+ kept")
        while len(table.selection.rows) < 170:
            await seat.press("G")
        await seat.press("G")
        assert table.selection.row.number == 1
        assert [row.number for row in table.selection.rows] == list(range(170, 0, -1))


async def test_it_is_narrowed_by_words_and_signatures(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 2)
    await note_some(jobs, 2)
    await ask(jobs, ids[:1], "delete", why="never works")
    async with sit(WIDE) as seat:
        await at_operations(seat, 3)
        table = seat.table("operations")
        for text, numbers in (
            ("delete", [3]), ("never", [3]), ("q1", [2]), ("!pause", [3]), ("sig:77aa", [3]), ("ANA", [3, 2, 1]),
            ("nosuch", []),
        ):  # fmt: skip
            await seat.press("slash", *text, "enter")
            await seat.until(lambda numbers=numbers: [row.number for row in table.selection.rows] == numbers)
            await seat.press("escape")
            await seat.until(lambda: len(table.selection.rows) == 3)
        await seat.press("slash", *"queue:mail", "enter")
        await seat.until("operations have no 'queue'; they have sig: and words")


@SIZES
async def test_without_operations_it_says_what_comes_here(sit: Sit, size: tuple[int, int]) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.press("4")
        await seat.until("every change is kept here")
        for key in ("P", "X", "enter"):
            await seat.press("r")
            await seat.until("reading everything again")
            await seat.press(key)
            await seat.until("nothing selected")


async def test_a_job_is_chosen_not_an_operation(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 2)
    await jobs.operations.run((await ask(jobs, ids, "delete")).number)
    async with sit() as seat:
        await at_operations(seat, 1)
        await seat.press("R")
        await seat.until("choose a job, not an operation")
        await seat.press("enter", "enter")
        await seat.until(lambda: seat.table("members").selection.row is not None)
        await seat.press("R")
        await seat.until("Retry 1 job")
        await seat.press("enter")
        await seat.until("retried 1 job")
        statuses = {(await jobs.inspector.get(one)).status for one in ids}
        assert statuses == {Status.DEAD, Status.QUEUED}


async def test_links_lead_to_an_operation_and_are_copied(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await note_some(jobs, 3)
    app = ConsoleApp(jobs)
    app.link = Link("operation", "2")
    copied: list[str] = []
    async with seated(app, NARROW) as seat:
        monkeypatch.setattr(seat.app, "copy_to_clipboard", copied.append)
        await seat.until("Operation  #2")
        await seat.press("Y")
        await seat.until("operation/2")
        await seat.press("escape", "y")
        assert copied == ["jobconsole open jobconsole:///operation/2", "2"]
        seat.app.navigation.go(Link("operation", "99"))
        await seat.until("there is no operation #99")
        await seat.press("escape")
        await seat.until("3 kept")


@SIZES
async def test_what_was_done_last_is_seen_without_moving_the_cursor(
    sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]
) -> None:
    await note_some(jobs, 5)
    async with sit(size) as seat:
        await at_operations(seat, 5)
        table = seat.table("operations")
        await seat.press("j")
        key = table.selection.key
        await note_some(jobs, 2)
        await seat.until("7 kept")
        assert (table.selection.top, table.selection.key) == (0, key)
        await seat.until("    7  ")
        await note_some(jobs, 60)
        await seat.until("newer, g shows them")
        assert table.selection.key == key
        await seat.until("67 kept")  # what comes after g is newer again
        await seat.press("g")
        await seat.until("67 ", but="newer")


async def test_a_short_strip_shows_what_goes_on(sit: Sit, jobs: JobQueue, world: World) -> None:
    ids = await crowd(world, 8)
    old = await ask(jobs, ids[:4], pace=CAREFUL)
    assert await jobs.operations._store.move(old.number, "stopped", "2 of 2 canary jobs died again")
    async with sit() as seat:
        await seat.until("#1 retry")
        await ask(jobs, ids[4:], pace=CAREFUL)
        await seat.until("#2 retry", but="#1 retry")
        assert "1 stopped  1 running" in seat.text()
