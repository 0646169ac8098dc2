"""Screens look as they looked when somebody found them good. Everything in them stands still."""

from __future__ import annotations

import pytest

from jobconsole.tui.themes import DAY
from tests.tui.golden import assert_golden
from tests.tui.seat import NARROW, TINY, WIDE, seated
from tests.tui.still import show, still_app

MEDIUM = (120, 36)
SIZES = pytest.mark.parametrize("size", [NARROW, MEDIUM, WIDE], ids=lambda size: f"{size[0]}x{size[1]}")


async def pictured(name: str, size: tuple[int, int], *keys: str) -> None:
    """Compare the screen that these keys lead to."""
    async with seated(still_app(), size) as seat:
        await show(seat)
        for key in keys:
            await seat.press(key)
            await show(seat)
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
async def test_live(size: tuple[int, int]) -> None:
    """Depth by priority, progress, workers, throughput."""
    await pictured("live", size, "2")


@SIZES
async def test_jobs(size: tuple[int, int]) -> None:
    """All jobs, with tabs for their states."""
    await pictured("jobs", size, "3")


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
    await pictured("payload", NARROW, "enter", "enter", "right_square_bracket")


async def test_logs() -> None:
    """The last lines of the handlers, the newest in view."""
    await pictured("logs", NARROW, "enter", "enter", "right_square_bracket", "right_square_bracket")


async def test_timeline() -> None:
    """What happened before, an operator's retry included."""
    await pictured("timeline", NARROW, "enter", "enter", "left_square_bracket", "left_square_bracket")


async def test_difference() -> None:
    """What was the same in two attempts stands once, what differs below each other."""
    await pictured("diff", NARROW, "enter", "enter", "left_square_bracket", "n")


async def test_full_screen() -> None:
    """The signature under the cursor with all that is known of it, also where there is little room."""
    await pictured("full", NARROW, "f")


async def test_too_small() -> None:
    """One sentence, and no key that could do harm."""
    await pictured("small", TINY)


async def test_light() -> None:
    """The light theme."""
    async with seated(still_app(), NARROW) as seat:
        seat.app.set_theme(DAY.name)
        await show(seat)
        assert_golden(seat, "light-80x24")
