"""Schedules in the console: when which job comes, what became of the last ticks, pause, resume, trigger."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobconsole.core.connection import Connection
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.links import Link
from jobconsole.tui.screens.schedules import SchedulesView
from queue_core import JobQueue
from queue_core.model.filters import Filter, Term
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.plans import SYNC, announce, planned, tick, timetable
from tests.tui.seat import NARROW, WIDE, Seat, seated

SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


@pytest.fixture
async def brought(jobs: JobQueue, world: World) -> list[str]:
    """The jobs of a schedule's ticks, beside two other schedules."""
    return await timetable(jobs, world)


async def at_schedules(seat: Seat, name: str = "nightly") -> None:
    """Go to a schedule."""
    await seat.ready()
    await seat.press("5")
    await seat.until(lambda: seat.table("schedules").selection.rows)
    table = seat.table("schedules")
    await seat.press("g")
    while table.selection.row.name != name:
        await seat.press("j")


async def reports(jobs: JobQueue) -> list[str]:
    return await jobs.inspector.ids(Filter((Term("type", "=", "report"),)), 10)


class TestLooking:
    @SIZES
    async def test_the_list(self, sit: Sit, brought: list[str], size: tuple[int, int]) -> None:
        async with sit(size) as seat:
            await at_schedules(seat)
            assert isinstance(seat.view, SchedulesView)
            await seat.until("3 schedules")
            text = seat.text()
            lines = {
                name: next(line for line in text.splitlines() if f" {name} " in line and cron in line)
                for name, cron in (("nightly", "0 3 * * *"), ("sync", "*/5 * * * *"))
            }
            assert "● open" in lines["nightly"]
            assert "▲ late" in lines["sync"]
            assert "‖ paused" in text
            assert "▲ 1 late" in text
            assert ("Europe/Paris" in lines["nightly"]) is (size == WIDE)

    @SIZES
    async def test_the_next_ticks_payload_and_options(
        self, sit: Sit, brought: list[str], size: tuple[int, int]
    ) -> None:
        async with sit(size) as seat:
            await at_schedules(seat)
            await seat.press("enter")
            await seat.until("retries      2")
            # Whether or not the clocks of Paris are changed in these days, they say three o'clock.
            ticks = [line for line in seat.text().splitlines() if " 03:00 CE" in line]
            assert len(ticks) == 4, "the first tick is where the store has it, the others come from the expression"
            await seat.press("down", "pagedown", "pagedown", "end")
            await seat.until('"n": 7')

    @SIZES
    async def test_what_became_of_the_last_ticks(
        self, sit: Sit, jobs: JobQueue, brought: list[str], size: tuple[int, int]
    ) -> None:
        await tick(jobs, with_job=False)
        async with sit(size) as seat:
            await at_schedules(seat)
            await seat.press("enter", "enter")
            await seat.until(lambda: len(seat.table("ticks").selection.rows) == 3)
            await seat.until("✓ completed")
            rows = seat.table("ticks").selection.rows
            assert [row.tick.job_id for row in rows] == [None, *brought[::-1]]
            assert "no job" in seat.text()
            await seat.press("enter")
            await seat.until("this tick brought no job")
            await seat.press("j", "enter")
            await seat.until("✖ dead")
            await seat.until("attempts     ")
            await seat.press("R", "enter")
            await seat.until("retried 1 job")
            assert (await jobs.inspector.get(brought[1])).status is Status.QUEUED
            await seat.press("escape")
            await seat.until("○ queued")
            await seat.press("escape")
            await seat.until(lambda: seat.view.focused is seat.table("schedules"))

    async def test_a_tick_that_passes_is_seen(self, sit: Sit, jobs: JobQueue, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            await seat.until(lambda: len(seat.table("ticks").selection.rows) == 2)
            new = await tick(jobs)
            await seat.until(lambda: seat.table("ticks").selection.rows[0].tick.job_id == new)
            await seat.until("○ queued")

    @SIZES
    async def test_without_schedules_it_says_where_they_come_from(self, sit: Sit, size: tuple[int, int]) -> None:
        async with sit(size) as seat:
            await seat.ready()
            await seat.press("5")
            await seat.until("no schedules: workers write those that jobs.schedule(")
            for key, said in (("P", "nothing selected"), ("T", "nothing selected"), ("enter", "nothing selected")):
                await seat.press("r")
                await seat.until("reading everything again")
                await seat.press(key)
                await seat.until(said)

    async def test_it_is_narrowed(self, sit: Sit, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            table = seat.table("schedules")
            for text, names in (
                ("paused", ["weekly"]),
                ("!paused", ["nightly", "sync"]),
                ("type:sync_crm", ["sync"]),
                ("queue:~REPORT", ["nightly"]),
                ("priority:>5", ["nightly"]),
                ("retries:3", ["sync", "weekly"]),
                ("payload.user.id=3", ["sync"]),
                ("paris", ["nightly"]),
                ("nosuch", []),
            ):
                await seat.press("slash", *text, "enter")
                await seat.until(lambda names=names: [row.name for row in table.selection.rows] == names)
                assert [table.selection.row.name] == names[:1] if names else table.selection.row is None
                await seat.press("escape")
                await seat.until(lambda: len(table.selection.rows) == 3)
            await seat.press("slash", *"age:<1h", "enter")
            await seat.until("schedules have no 'age'")

    async def test_it_is_sorted(self, sit: Sit, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            table = seat.table("schedules")
            assert [row.name for row in table.selection.rows] == ["nightly", "sync", "weekly"]
            await seat.press("s")
            await seat.until("by next tick")
            assert [row.name for row in table.selection.rows] == ["sync", "nightly", "weekly"]
            assert table.selection.row.name == "nightly", "the cursor stays on its schedule"
            await seat.press("s")
            await seat.until("by last tick")
            assert table.selection.rows[0].name == "nightly"

    async def test_one_that_is_removed_under_the_cursor(self, sit: Sit, jobs: JobQueue, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            await jobs.schedules.remove("nightly")
            await seat.until("2 schedules")
            await seat.press("P")
            await seat.until("that row is gone")
            assert not (await planned(jobs, "sync")).paused

    async def test_verbs_of_jobs_say_where_jobs_are(self, sit: Sit, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            for key in ("R", "D", "X", "e"):
                await seat.press("r", key)
                await seat.until("choose a tick's job, not a schedule")

    async def test_help_and_the_full_screen(self, sit: Sit, brought: list[str]) -> None:
        async with sit() as seat:
            await at_schedules(seat)
            await seat.press("question_mark")
            await seat.until("Enqueue the job of this schedule now")
            await seat.press("escape", "f")
            await seat.until("Last ticks  nightly")
            await seat.press("tab", "f")
            await seat.until("attempts     ")
            await seat.press("f")
            await seat.until("Last ticks  nightly")


class TestChanging:
    @SIZES
    async def test_pause_resume_and_undo(
        self, sit: Sit, jobs: JobQueue, brought: list[str], size: tuple[int, int]
    ) -> None:
        async with sit(size) as seat:
            await at_schedules(seat)
            await seat.press("P")
            await seat.until("nightly is paused, u undoes it")
            assert (await planned(jobs, "nightly")).paused
            await seat.until("2 paused")
            await seat.press("u")
            await seat.until("nightly is ticking again")
            assert not (await planned(jobs, "nightly")).paused
            while seat.table("schedules").selection.row.name != "weekly":
                await seat.press("j")
            await seat.until("if resumed")
            await seat.press("P")
            await seat.until("weekly is ticking again, u undoes it")
            assert (await planned(jobs, "weekly")).next_at > (await jobs.schedules.list()).now
            await seat.press("u")
            await seat.until("weekly is paused")
            assert (await planned(jobs, "weekly")).paused
            await seat.press("u")
            await seat.until("nothing to undo")

    async def test_another_operator_was_faster(self, sit: Sit, jobs: JobQueue, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            seat.app.do_freeze()
            await jobs.schedules.pause("nightly")
            await seat.press("P")
            await seat.until("nightly was paused already")
            assert (await planned(jobs, "nightly")).paused

    @SIZES
    async def test_trigger_brings_its_job_and_moves_no_tick(
        self, sit: Sit, jobs: JobQueue, brought: list[str], size: tuple[int, int]
    ) -> None:
        before = await planned(jobs, "nightly")
        async with sit(size) as seat:
            await at_schedules(seat)
            await seat.press("T")
            await seat.until("nightly brings one job report to queue reports now")
            await seat.press("escape")
            await seat.until("Schedules", but="brings one job")
            assert await reports(jobs) == brought[::-1]
            await seat.press("T", "enter")
            await seat.until("nightly was triggered: enqueued job")
            (new,) = set(await reports(jobs)) - set(brought)
            job = await jobs.inspector.get(new)
            assert (job.queue, job.priority, job.max_retries, job.payload) == ("reports", 10, 2, {"n": 7})
            assert await planned(jobs, "nightly") == before

    async def test_a_paused_schedule_is_triggered_too(self, sit: Sit, jobs: JobQueue, brought: list[str]) -> None:
        async with sit() as seat:
            await at_schedules(seat, "weekly")
            await seat.press("T", "enter")
            await seat.until("weekly was triggered: enqueued job")
            assert (await planned(jobs, "weekly")).paused

    async def test_one_that_is_gone_cannot_be_triggered(self, sit: Sit, jobs: JobQueue, brought: list[str]) -> None:
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            await seat.press("T")
            await seat.until("nightly brings one job")
            await jobs.schedules.remove("nightly")
            await seat.press("enter")
            await seat.until("no schedule")
            assert await reports(jobs) == brought[::-1]

    async def test_a_closed_queue_refuses_it_and_nothing_is_recorded(
        self, sit: Sit, jobs: JobQueue, brought: list[str]
    ) -> None:
        await (await jobs.backend()).operations.set_closed("reports", True)
        async with sit(WIDE) as seat:
            await at_schedules(seat)
            await seat.press("T", "enter")
            await seat.until("queue 'reports' is closed")
        assert await reports(jobs) == brought[::-1]
        assert await jobs.operations.list_operations() == []

    @SIZES
    async def test_read_only_changes_nothing(
        self, sit: Sit, jobs: JobQueue, brought: list[str], size: tuple[int, int]
    ) -> None:
        async with sit(size, read_only=True) as seat:
            await at_schedules(seat)
            for key, label in (("P", "pause"), ("T", "trigger"), ("u", "undo")):
                await seat.press(key)
                await seat.until(f"{label} is disabled: this console is read-only")
        assert not (await planned(jobs, "nightly")).paused
        assert await reports(jobs) == brought[::-1]

    async def test_a_read_only_connection_holds_past_the_screen(self, jobs: JobQueue, brought: list[str]) -> None:
        async with seated(ConsoleApp(Connection(jobs, read_only=True)), WIDE) as seat:
            # Even where the screen and the operator forget it.
            seat.app.operator.read_only = False
            await at_schedules(seat)
            await seat.press("P")
            await seat.until("was refused: this connection is read-only")
            await seat.press("T", "enter")
            await seat.until("was refused: this connection is read-only")
        assert not (await planned(jobs, "nightly")).paused


class TestPlaces:
    async def test_its_name_and_its_link_are_copied(self, sit: Sit, brought: list[str], state: Path) -> None:
        async with sit(WIDE, context="prod") as seat:
            await at_schedules(seat)
            await seat.press("y")
            assert seat.app.clipboard == "nightly"
            await seat.press("Y")
            assert seat.app.clipboard == "jobconsole open jobconsole://prod/schedule/nightly"
            await seat.until(lambda: len(seat.table("ticks").selection.rows) == 2)
            await seat.press("enter", "y", "enter", "y")
            assert seat.app.clipboard == brought[1]
            await seat.press("Y")
            assert seat.app.clipboard.endswith(f"/job/{brought[1]}")

    @SIZES
    async def test_a_link_leads_to_a_schedule(self, jobs: JobQueue, brought: list[str], size: tuple[int, int]) -> None:
        app = ConsoleApp(jobs)
        app.link = Link("schedule", "weekly")
        async with seated(app, size) as seat:
            await seat.until("type         archive")
            await seat.press("P")
            await seat.until("weekly is ticking again")

    async def test_a_link_to_one_that_is_gone_says_so(self, jobs: JobQueue, brought: list[str]) -> None:
        app = ConsoleApp(jobs)
        app.link = Link("schedule", "nosuch")
        async with seated(app) as seat:
            await seat.until("no schedule named 'nosuch'")

    async def test_a_link_leads_to_a_filter(self, jobs: JobQueue, brought: list[str]) -> None:
        app = ConsoleApp(jobs)
        app.link = Link("schedules", "type:archive")
        async with seated(app) as seat:
            await seat.until("1 schedule ")
            assert "/type:archive" in seat.text()


async def test_the_mouse_opens_a_schedule(sit: Sit, brought: list[str]) -> None:
    async with sit(WIDE) as seat:
        await at_schedules(seat)
        table = seat.table("schedules")
        await seat.pilot.click(table, offset=(10, 3))
        await seat.until(lambda: table.selection.row.name == "sync")
        await seat.pilot.click(table, offset=(10, 2), times=2)
        await seat.until(lambda: seat.view.stage == "schedule")
        assert table.selection.row.name == "nightly"


async def test_a_schedule_whose_zone_is_not_known_here(sit: Sit, jobs: JobQueue) -> None:
    await announce(jobs, SYNC._replace(tz="Mars/Olympus"), 60)
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("5")
        await seat.until("there is no time zone 'Mars/Olympus'")
        await seat.press("T", "enter")
        await seat.until("sync was triggered: enqueued job")
        await seat.press("P")
        await seat.until("sync is paused")
        await seat.until("‖ paused")
        await seat.press("P")
        await seat.until("there is no time zone 'Mars/Olympus'")
