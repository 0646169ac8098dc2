"""Events, workers and types: the tail that one holds still, orders to workers, run times."""

from __future__ import annotations

import dataclasses

import pytest

from jobconsole.core.connection import Connection
from jobconsole.tui.base import refresher
from jobconsole.tui.screens.events import EventsView
from jobconsole.tui.widgets import events
from queue_core import JobQueue
from queue_core.model.events import Event, EventBatch
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, smtp
from tests.tui.seat import NARROW, WIDE, Seat

Buried = dict[str, list[str]]
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


def hear(seat: Seat, *events: Event) -> None:
    """Have the console hear events."""
    seat.app.model.apply(EventBatch("mail", "g", 1, 1_767_225_600.0, events))


def created(number: int) -> Event:
    return Event("created", "mail", f"0197b3c2-5a1e-7c88-9b3e-{number:012d}", "send_email", 0, {"priority": 5})


class TestTail:
    @SIZES
    async def test_it_follows_until_somebody_moves_down(self, sit: Sit, size: tuple[int, int]) -> None:
        async with sit(size) as seat:
            await seat.ready()
            await seat.press("6")
            await seat.until("no events since")
            assert isinstance(seat.view, EventsView)
            hear(seat, *(created(number) for number in range(30)))
            await seat.until("30 events since ")
            await seat.until("following")
            assert size == NARROW or "the list follows what happens: move its cursor" in seat.text()
            selection = seat.table("events").selection
            assert selection.row.number == 30
            await seat.press("j", "j")
            key = selection.key
            hear(seat, *(created(number) for number in range(5)))
            await seat.until("held, 5 pending")
            assert selection.key == key
            await seat.press("g")
            await seat.until("following")
            assert selection.row.number == 35

    @SIZES
    async def test_without_any_it_names_since_when_and_what_to_do(self, sit: Sit, size: tuple[int, int]) -> None:
        async with sit(size) as seat:
            await seat.ready()
            await seat.press("6")
            since = f"{seat.app.model.heard_since:%H:%M:%S}"
            await seat.until(f"no events since {since} UTC, when this console connected")
            await seat.until("an event comes when a job is enqueued, starts or ends, and is not stored")
            await seat.until(f"0 events since {since}")
            hear(seat, *(created(number) for number in range(3)))
            await seat.press("slash", *"queue:nosuch", "enter")
            await seat.until("nothing among the last 3 events matches; Esc clears the filter")
            await seat.press("escape")
            await seat.until("following", but="nothing among")

    @SIZES
    async def test_without_any_it_names_what_keeps_them_away(
        self, sit: Sit, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with sit(size) as seat:
            await seat.ready()
            await seat.press("6")
            await seat.until("no events since")
            monkeypatch.setattr(Connection, "deaf", "behind a pooler")
            await seat.until("no event comes, for notifications do not arrive: behind a pooler")
            await seat.until("3 lists the jobs, 2 shows queues and workers", but="no events since")

    async def test_an_event_of_the_store_leads_to_its_job(self, sit: Sit, jobs: JobQueue, buried: Buried) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.press("6")
            await seat.until("following")
            while not seat.app.model.event_tail.total:
                # Who has just begun to listen may miss the first.
                await jobs.enqueue("send_email", {}, queue="mail")
                await seat.pilot.pause(0.2)
            await seat.until("created")
            row = seat.table("events").selection.row
            await seat.press("enter")
            await seat.until("queue        mail")
            assert (await jobs.inspector.get(row.id)).type == row.type
            await seat.press("escape")
            await seat.until(lambda: seat.view.focused is seat.table("events"))

    async def test_it_is_narrowed(self, sit: Sit) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.press("6")
            hear(seat, created(1), Event("dead", "mail", created(2).id, "sync_crm", 3, {"error": "KeyError"}))
            await seat.until("sync_crm")
            await seat.press("slash", *"type:send_email", "enter")
            await seat.until("/type:send_email", but="sync_crm")
            await seat.press("escape")
            await seat.until("sync_crm")
            assert [row.type for row in seat.table("events").selection.rows] == ["sync_crm", "send_email"]
            await seat.press("slash", *"age:<1h", "enter")
            await seat.until("events have no 'age'")

    async def test_a_flood_is_not_drawn_more_than_can_be_read(self, sit: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.press("6")
            hear(seat, *(created(number) for number in range(1_000)))
            table = seat.table("events")
            await seat.until(lambda: table.selection.row is not None)
            monkeypatch.setattr(events, "CELLS_A_SECOND", 0)
            await seat.press("g")
            shown = table.selection.row.number
            hear(seat, created(1_001))
            table.flush()
            assert table.selection.row.number == shown
            monkeypatch.undo()
            await seat.until(lambda: table.selection.row.number == 1_001)

    async def test_an_event_about_no_job(self, sit: Sit) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.press("6")
            hear(seat, Event("queue", "mail", "mail", extra={"state": "paused"}))
            await seat.until("paused")
            await seat.press("X")
            await seat.until("this event is about no job")
            assert isinstance(seat.app.screen, EventsView), "no sheet came up"

    async def test_a_waiting_job_is_cancelled_from_its_event(self, sit: Sit, jobs: JobQueue) -> None:
        job = await jobs.enqueue("send_email", {}, queue="mail")
        async with sit() as seat:
            await seat.ready()
            await seat.press("6")
            hear(seat, Event("created", "mail", job.id, "send_email"))
            await seat.until("send_email")
            await seat.press("X")
            await seat.until("Cancel 1 job")
            await seat.press("shift+tab", "enter")
            await seat.until("cancelled 1 job")
            assert (await jobs.inspector.get(job.id)).status is Status.CANCELLED


async def at_workers(seat: Seat) -> None:
    """Go to the workers, also where there is room for one list only."""
    await seat.ready()
    await seat.press("2")
    await seat.until("Queues")
    if "Workers" not in seat.text():
        await seat.press("left_square_bracket")
    await seat.until("Workers")
    while seat.view.focused is not seat.table("workers"):
        await seat.press("tab")
    await seat.until(lambda: seat.table("workers").selection.row is not None)


class TestWorkers:
    @SIZES
    async def test_quiet_and_back(self, sit: Sit, world: World, buried: Buried, size: tuple[int, int]) -> None:
        async with sit(size) as seat:
            await at_workers(seat)
            await seat.press("Q")
            await seat.until("claims no more jobs from its next heartbeat on")
            assert (await world.beat(quiet=True)).command == "quiet"
            await seat.until("‖ quiet")
            await seat.press("Q")
            await seat.until("claims jobs again from its next heartbeat on")
            assert (await world.beat()).command == "resume"
            await seat.until("Workers", but="‖ quiet")

    async def test_stop_asks_and_no_has_the_focus(self, sit: Sit, world: World, buried: Buried) -> None:
        async with sit(WIDE) as seat:
            await at_workers(seat)
            await seat.press("S")
            await seat.until("Stop a worker")
            await seat.press("enter")
            await seat.until("Workers", but="Stop a worker")
            assert (await world.beat()).command == ""
            await seat.press("S")
            await seat.until("Stop a worker")
            await seat.press("left", "enter")
            await seat.until("finishes its jobs and ends from its next heartbeat on")
            assert (await world.beat()).command == "stop"

    async def test_read_only_gives_no_orders(self, sit: Sit, world: World, buried: Buried) -> None:
        async with sit(WIDE, read_only=True) as seat:
            await at_workers(seat)
            for key, label in (("Q", "quiet"), ("S", "stop")):
                await seat.press(key)
                await seat.until(f"{label} is disabled: this console is read-only")
            assert (await world.beat()).command == ""

    async def test_a_lost_worker_hears_nothing(self, sit: Sit, world: World, buried: Buried) -> None:
        async with sit(WIDE) as seat:
            await at_workers(seat)
            table = seat.table("workers")
            table.selection.rows = [dataclasses.replace(table.selection.row, lost=True)]
            await seat.press("Q")
            await seat.until("it hears no orders")
            assert (await world.beat()).command == ""


async def test_run_times_and_failures_by_type(
    sit: Sit, world: World, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher, "COUNT_SECONDS", 0.2)
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("2")
        await seat.until("run time, all time")
        await seat.until("3 types")
        await seat.until("100.0%")
        await dead(world, 3, smtp(), type="send_email", queue="mail")
        await seat.until("run time, last")
        await seat.until("1 type")

        def line() -> list[tuple[str, int, float]]:
            return [(row.type, row.ended, row.ratio) for row in seat.table("types").selection.rows]

        # The count between two deaths is shown, too, where a read comes between them.
        await seat.until(lambda: line() == [("send_email", 3, 1.0)])
