"""What is marked as new has come in a moment ago: rows that one scrolls to were there before."""

from __future__ import annotations

import pytest

from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, disk
from tests.tui.seat import Seat
from tests.tui.test_triage import SIZES

Buried = dict[str, list[str]]


def new(seat: Seat) -> list[str]:
    """Return the ids of the rows that are marked as new."""
    table = seat.table("all-jobs")
    return [row.id for row in table.selection.rows if table.is_new(row)]


async def at_first_page(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to the jobs, of which the first ten are read."""
    monkeypatch.setattr("jobconsole.core.listing.PAGE_ROWS", 10)
    monkeypatch.setattr("jobconsole.core.listing.ROWS_AHEAD", 0)
    # A slow machine must not miss what is marked.
    monkeypatch.setattr("jobconsole.tui.widgets.jobs.NEW_SECONDS", 60.0)
    await seat.ready()
    await seat.press("3")
    await seat.until(lambda: len(seat.table("all-jobs").selection.rows) >= 10)


async def to_the_end(seat: Seat, rows: int) -> None:
    """Go to the last row there is."""
    while len(seat.table("all-jobs").selection.rows) < rows:
        before = len(seat.table("all-jobs").selection.rows)
        await seat.press("G")
        await seat.until(lambda before=before: len(seat.table("all-jobs").selection.rows) > before)


@SIZES
async def test_rows_that_one_scrolls_to_are_not_new(
    sit: Sit, world: World, buried: Buried, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sit(size) as seat:
        await at_first_page(seat, monkeypatch)
        await to_the_end(seat, 18)
        assert new(seat) == []


async def test_rows_that_one_scrolls_to_in_the_other_order_are_not_new(
    sit: Sit, world: World, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sit() as seat:
        await at_first_page(seat, monkeypatch)
        await seat.press("s")
        await seat.until("oldest first")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) >= 10)
        await to_the_end(seat, 18)
        assert new(seat) == []


@SIZES
async def test_rows_that_come_in_are_new(
    sit: Sit, world: World, buried: Buried, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sit(size) as seat:
        await at_first_page(seat, monkeypatch)
        await to_the_end(seat, 18)
        came = await dead(world, 2, disk(), type="resize_image", queue="images")
        await seat.until(lambda: set(new(seat)) == set(came))


async def test_the_first_row_of_an_empty_list_is_new(sit: Sit, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobconsole.tui.widgets.jobs.NEW_SECONDS", 60.0)
    await world.beat()
    async with sit() as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until("no jobs")
        came = await dead(world, 1, disk(), type="resize_image", queue="images")
        await seat.until(lambda: new(seat) == came)
