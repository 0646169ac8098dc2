"""What the titles of lists tell: which rows are hidden, and that a job has ended."""

from __future__ import annotations

from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import crm, dead
from tests.tui.seat import NARROW, WIDE, seated
from tests.tui.still import show, still_app
from tests.tui.test_triage import SIZES
from tests.tui.test_undo_switches import at_queue

Buried = dict[str, list[str]]


@SIZES
async def test_all_queues_are_shown_where_there_is_room(
    sit: Sit, world: World, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await at_queue(seat, "mail")
        table = seat.table("queues")
        await dead(world, 1, crm(), type="sync_crm", queue="a-first")
        await seat.until(lambda: len(table.selection.rows) == 4)
        await seat.until("a-first", but="above")
        assert table.selection.key == "mail"


async def test_queues_that_are_hidden_are_counted(sit: Sit, world: World, buried: Buried) -> None:
    for number in range(12):
        await dead(world, 1, crm(), type="sync_crm", queue=f"queue-{number:02}")
    async with sit(NARROW) as seat:
        await at_queue(seat, "crm")
        shown = seat.table("queues").visible_rows
        await seat.until(f"15 queues, {15 - shown} more below")
        await seat.press("G")
        await seat.until(f"15 queues, ↑ {15 - shown} above", but="below")


async def test_a_running_job_that_ends_is_no_alarm() -> None:
    async with seated(still_app(), WIDE) as seat:
        await show(seat)
        await seat.press("2")
        table = seat.table("running")
        table.focus()
        await seat.until(lambda: table.has_focus and table.selection.row is not None)
        table.selection.key = None
        table.repaint()
        await seat.until("job ended", but="row gone")
        assert "▲ job ended" not in seat.text()


async def test_help_has_no_heading_without_keys(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE, read_only=True) as seat:
        await seat.ready()
        await seat.press("6", "question_mark")
        await seat.until("Esc goes back")
        assert "Change" not in [line.strip("│ ") for line in seat.text().splitlines()]


@SIZES
async def test_a_filter_narrows_each_list_by_what_its_rows_have(size: tuple[int, int]) -> None:
    async with seated(still_app(), size) as seat:
        await show(seat)
        await seat.press("2", "slash", *"queue:crm")
        await seat.until(lambda: [row.key for row in seat.table("queues").selection.rows] == ["crm"])
        assert seat.app.is_running, "a letter of the filter is no key"
        assert len(seat.table("workers").selection.rows) == 4, "each works on this queue"
        assert seat.table("types").selection.rows, "a type has no queue"
        assert not seat.table("running").selection.rows
        narrowed = [seat.table(name).filter_text for name in ("queues", "running", "workers", "types")]
        assert narrowed == ["queue:crm"] * 3 + [""]
        await seat.press("enter")
        await seat.until("queue:crm")
        await seat.press("slash", *(["backspace"] * 9), *"resize", "enter")
        await seat.until(lambda: [row.type for row in seat.table("running").selection.rows] == ["resize_image"])
        assert [row.type for row in seat.table("types").selection.rows] == ["resize_image"]
        assert not seat.table("queues").selection.rows
        await seat.until("nothing matches; Esc clears the filter")
        await seat.press("slash", *(["backspace"] * 6), *"age:<1h", "enter")
        await seat.until("nothing here has 'age'")
        await seat.press("escape")
        await seat.until(lambda: len(seat.table("queues").selection.rows) == 3)
