"""A sheet in a window that is made smaller while it is open: it is drawn, and what Enter would press is seen."""

from __future__ import annotations

from itertools import count

import pytest

from jobconsole.tui.widgets.table import Table
from tests.tui.seat import NARROW, WIDE, seated
from tests.tui.still import show, still_app

SMALLER = ((60, 24), (44, 24), (40, 10), (39, 9))


@pytest.mark.parametrize("keys", ["R", "D", "M", "V", "W", "e", "2 O"])
async def test_what_has_the_focus_is_seen_at_every_size(keys: str) -> None:
    async with seated(still_app(), NARROW, drawn=True) as seat:
        await show(seat)
        await seat.press(*keys.split(" "))
        for size in SMALLER:
            await seat.pilot.resize_terminal(*size)
            await seat.until("❯")
        await seat.pilot.resize_terminal(*NARROW)
        await seat.until("Go back")


async def test_fields_beside_each_other_are_below_each_other_where_it_is_narrow() -> None:
    """The verdict's values had no room; at 44 columns looking for some never ended."""
    async with seated(still_app(), (44, 24), drawn=True) as seat:
        await show(seat)
        await seat.press("R")
        await seat.until("Go back")
        assert "[at the end]" in seat.text()
        await seat.pilot.resize_terminal(*NARROW)
        await seat.until("verdict   first failure [at the end]")


async def test_the_text_of_a_question_is_broken_for_its_width() -> None:
    """It had the lines that it has on a wide screen, and lost its end."""
    async with seated(still_app(), NARROW, drawn=True) as seat:
        await show(seat)
        await seat.press("e")
        await seat.until("also writes tracebacks")
        await seat.pilot.resize_terminal(44, 20)
        await seat.until("tracebacks.")


async def test_a_window_is_drawn_anew_although_the_process_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's timer for that left out what it was late for, and no later size was ever drawn."""
    looks = count()
    async with seated(still_app(), NARROW, drawn=True) as seat:
        await show(seat)
        # a second between any two looks at the clock
        monkeypatch.setattr("textual.timer._time.get_time", lambda: float(next(looks)))
        await seat.pilot.resize_terminal(*WIDE)
        await seat.until(lambda: len(seat.strips()) == WIDE[1])


@pytest.mark.parametrize("pane", ["queues", "running"])
@pytest.mark.parametrize("sheet", ["", "e"], ids=["view", "below a sheet"])
async def test_a_pane_that_a_small_window_hides_has_the_focus_again_in_a_larger_one(pane: str, sheet: str) -> None:
    async with seated(still_app(), WIDE, drawn=True) as seat:
        await show(seat)
        seat.table(pane).focus()
        await seat.until(lambda: seat.table(pane).has_focus)
        below = seat.view
        if sheet:
            seat.table("signatures").focus()
            await seat.until(lambda: seat.table("signatures").has_focus)
            await seat.press(sheet)
            await seat.until("Export jobs")
            below.query_one(f"#{pane}", Table).focus()
        for size in ((60, 24), (44, 20)):
            await seat.pilot.resize_terminal(*size)
            await seat.until(lambda: not below.query_one(f"#{pane}", Table).has_focus)
        await seat.pilot.resize_terminal(*WIDE)
        await seat.until(lambda: below.query_one(f"#{pane}", Table).has_focus)


async def test_what_has_the_focus_is_seen_in_a_sheet_that_opens_in_a_low_window() -> None:
    """The room for its text came after the look, and the buttons were below the edge."""
    async with seated(still_app(), (40, 10), drawn=True) as seat:
        await show(seat)
        await seat.press("e")
        await seat.until("❯ CSV")


async def test_a_sheet_names_what_it_is_about_where_it_is_narrow() -> None:
    """The field that is below another one there took the line of the name, which was scrolled away."""
    async with seated(still_app(), (44, 18), drawn=True) as seat:
        await show(seat)
        for key in "RD":
            await seat.press(key)
            await seat.until("38,902 jobs  ")
            assert "TimeoutError: smtp <host>:<n>" in seat.text()
            assert "38,902, exactly these" in seat.text()
            await seat.press("escape")
