"""The log of a job: its last lines beside traceback and payload, made harmless, and true while it is shown."""

from __future__ import annotations

import pytest

from queue_core.model.job import MAX_LOG_LINES, Claim, LogLine
from queue_core.model.text import storable
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE, Seat
from tests.tui.test_hostile import EVIL, assert_harmless

SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


async def write(world: World, claim: Claim, first: int, *texts: str) -> None:
    """Write lines of the attempt that runs."""
    lines = [LogLine(claim.id, claim.token, claim.queue, number, text) for number, text in enumerate(texts, first)]
    assert all(await world.store.log(lines))


async def open_logs(seat: Seat) -> None:
    """Go to the only job and its log."""
    await seat.ready()
    await seat.press("3")
    await seat.until("archive")
    await seat.press("enter")
    await seat.until("[Traceback]")
    await seat.press(*["right_square_bracket"] * 3)
    await seat.until("[Logs]")


@SIZES
async def test_lines_appear_as_they_are_written(sit: Sit, world: World, size: tuple[int, int]) -> None:
    claim = await world.running(type="archive", queue="files")
    async with sit(size) as seat:
        await open_logs(seat)
        await seat.until("the handler wrote no lines")
        await write(world, claim, 1, "file 1 of 4,400")
        await seat.until("file 1 of 4,400", but="no lines")
        await write(world, claim, 2, "file 2 of 4,400")
        await seat.until("file 2 of 4,400")


async def test_the_newest_line_stays_in_view_until_one_goes_up(sit: Sit, world: World) -> None:
    claim = await world.running(type="archive", queue="files")
    await write(world, claim, 1, *(f"line {number}" for number in range(1, MAX_LOG_LINES + 101)))
    async with sit() as seat:
        await open_logs(seat)
        await seat.until("line 1100")
        await write(world, claim, MAX_LOG_LINES + 101, "line 1101")
        await seat.until("line 1101")
        await seat.press("g")
        await seat.until("901 earlier lines", but="line 1101")
        await write(world, claim, MAX_LOG_LINES + 102, "line 1102")
        await seat.press("right_square_bracket", "left_square_bracket")
        await seat.until("line 1102")


async def test_lines_of_another_attempt(sit: Sit, world: World) -> None:
    first = await world.running(type="archive", queue="files")
    await write(world, first, 1, "reading", "failing")
    await world.settle(first, "released")
    second = await world.claim_job(first.id, queue="files", types=("archive",))
    await write(world, second, 1, "reading again")
    async with sit(WIDE) as seat:
        await open_logs(seat)
        await seat.until("reading again")
        text = seat.text()
        assert text.index("failing") < text.index("next attempt") < text.index("reading again")


@SIZES
async def test_hostile_lines(sit: Sit, world: World, size: tuple[int, int]) -> None:
    claim = await world.running(type="archive", queue="files")
    texts = (EVIL, f"first\r\n\t{EVIL}\n\n", "\n" * 4000, "x" * 4000, "the last")
    await write(world, claim, 1, *map(storable, texts))
    async with sit(size) as seat:
        await open_logs(seat)
        await seat.until("the last")
        for key in ("pageup", "pageup", "pageup", "g"):
            await seat.press(key)
            assert_harmless(seat)
        await seat.until("boom [/foo]")
