"""Screens look as they looked when somebody found them good. Everything in them stands still."""

from __future__ import annotations

import pytest

from jobconsole.tui.base.themes import DAY
from tests.tui.golden import assert_golden
from tests.tui.seat import COMPACT, LOW, NARROW, TINY, WIDE, seated
from tests.tui.still import show, still_app

MEDIUM = (120, 36)
SIZES = pytest.mark.parametrize("size", [NARROW, MEDIUM, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")


async def pictured(name: str, size: tuple[int, int], *keys: str, operating: bool = False) -> None:
    """Compare the screen that these keys lead to."""
    async with seated(still_app(), size) as seat:
        await show(seat, operating)
        for key in keys:
            await seat.press(key)
            await show(seat, operating)
        assert_golden(seat, f"{name}-{size[0]}x{size[1]}")


@SIZES
class TestTriage:
    async def test_home(self, size: tuple[int, int]) -> None:
        """What is breaking stands first, with where in the code and how to repair it."""
        await pictured("triage", size)

    async def test_jobs_of_a_signature(self, size: tuple[int, int]) -> None:
        """Enter leads to the jobs."""
        await pictured("signature", size, "enter", "j", "space")

    async def test_job(self, size: tuple[int, int]) -> None:
        """Enter again leads to the job, with the frame of the application first."""
        await pictured("job", size, "enter", "enter")


@SIZES
async def test_breakdown(size: tuple[int, int]) -> None:
    """Where the jobs of a signature died, and the fields of payloads that distinguish them best."""
    await pictured("breakdown", size, "f", "j", "j")


@SIZES
async def test_compare(size: tuple[int, int]) -> None:
    """The newest payload of a signature beside the last one that succeeded."""
    await pictured("compare", size, "c", "n")


ENDS = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


@ENDS
async def test_edit(size: tuple[int, int]) -> None:
    """The payload with a mistake in it, where it is, and what is changed."""
    async with seated(still_app(), size) as seat:
        await show(seat)
        await seat.press("E")
        await seat.until("nothing is changed")
        await seat.press("down", "end", "left", *"1,")
        # Beside the payload are the changes; what they show of a pause between the two keys is not the end.
        panes = 1 if size == NARROW else 2
        await seat.until(lambda: "line 2 column" in seat.text() and seat.text().count('"1,,') == panes)
        assert_golden(seat, f"edit-{size[0]}x{size[1]}")


async def test_changes_of_an_edit() -> None:
    """What is changed in place of the payload, where there is no room for both."""
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        await seat.press("enter", "E")
        await seat.until("nothing is changed")
        await seat.press("down", "end", "left", "left", *"1", "ctrl+t")
        await seat.until("+   ")
        assert_golden(seat, "edit-changes-80x24")


@ENDS
async def test_move(size: tuple[int, int]) -> None:
    """To a paused queue whose workers do not run the type."""
    async with seated(still_app(), size) as seat:
        await show(seat)
        await seat.press("enter")
        await show(seat)
        await seat.press("space", "M", "down", "tab", "right")
        await seat.until("is paused")
        assert_golden(seat, f"move-{size[0]}x{size[1]}")


@SIZES
async def test_live(size: tuple[int, int]) -> None:
    """Depth by priority, progress, workers, throughput."""
    await pictured("live", size, "2")


@SIZES
async def test_jobs(size: tuple[int, int]) -> None:
    """All jobs, with tabs for their states."""
    await pictured("jobs", size, "3")


@SIZES
async def test_operations(size: tuple[int, int]) -> None:
    """What people did, the newest first; what goes on, with its rate and what is left."""
    await pictured("operations", size, "4", operating=True)


@SIZES
async def test_operation(size: tuple[int, int]) -> None:
    """One operation: everything that was asked and what came of it."""
    await pictured("operation", size, "4", "enter", "tab", "j", operating=True)


@SIZES
async def test_operations_at_home(size: tuple[int, int]) -> None:
    """What is under way stands below everything else, above what was stopped."""
    await pictured("operating", size, operating=True)


@SIZES
async def test_retry_sheet(size: tuple[int, int]) -> None:
    """Everything that one wants to know before 38,902 jobs are retried, without scrolling."""
    await pictured("retry", size, "R")


async def test_retry_sheet_with_a_field() -> None:
    """The field with the focus says what it means."""
    await pictured("retry-field", NARROW, "R", "tab", "tab", "tab", "2", "5")


@pytest.mark.parametrize("size", [NARROW, WIDE, COMPACT], ids=["80x24", "200x50", "60x20"])
async def test_state_sheet(size: tuple[int, int]) -> None:
    """What is set of a signature that came back, and what the release with the cursor would mean."""
    await pictured("state", size, "j", "V")


async def test_state_sheet_of_many() -> None:
    """Marked ones stay as they are but for what is chosen."""
    await pictured("state-marked", NARROW, "space", "space", "Z")


@SIZES
async def test_schedules(size: tuple[int, int]) -> None:
    """When which job comes: the next ticks by the store's clock and by the schedule's own zone."""
    await pictured("schedules", size, "5", "j")


@SIZES
async def test_schedule(size: tuple[int, int]) -> None:
    """One schedule, with what became of its last ticks."""
    await pictured("schedule", size, "5", "j", "j", "enter", "tab", "j")


@SIZES
async def test_events(size: tuple[int, int]) -> None:
    """What happens, the newest first, held still by moving down."""
    await pictured("events", size, "6", "j")


async def test_workers_on_a_small_screen() -> None:
    """One list at a time, the others are tabs."""
    await pictured("workers", NARROW, "2", "left_square_bracket")


async def test_types_on_a_small_screen() -> None:
    """Run times and failures by type."""
    await pictured("types", NARROW, "2", "right_square_bracket")


async def test_payload() -> None:
    """The payload as a tree."""
    await pictured("payload", NARROW, "enter", "enter", *["right_square_bracket"] * 2)


async def test_logs() -> None:
    """The last lines of the handlers, the newest in view."""
    await pictured("logs", NARROW, "enter", "enter", *["right_square_bracket"] * 3)


async def test_timeline() -> None:
    """What happened before, an operator's retry included."""
    await pictured(
        "timeline", NARROW, "enter", "enter", "left_square_bracket", "left_square_bracket", "left_square_bracket"
    )


async def test_difference() -> None:
    """What was the same in two attempts stands once, what differs below each other."""
    await pictured("diff", NARROW, "enter", "enter", "left_square_bracket", "left_square_bracket", "n")


async def test_full_screen() -> None:
    """The signature under the cursor with all that is known of it, also where there is little room."""
    await pictured("full", NARROW, "f")


async def test_too_small() -> None:
    """One sentence, and no key that could do harm."""
    await pictured("small", TINY)


@pytest.mark.parametrize("size", [COMPACT, LOW], ids=["60x20", "40x10"])
async def test_a_list_where_there_is_little_room(size: tuple[int, int]) -> None:
    """The signatures with their count and growth; what is under the cursor where there are lines for it."""
    await pictured("triage", size)


async def test_light() -> None:
    """The light theme."""
    async with seated(still_app(), NARROW) as seat:
        seat.app.set_theme(DAY.name)
        await show(seat)
        assert_golden(seat, "light-80x24")
