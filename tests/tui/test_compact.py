"""Small screens: a list instead of a refusal, and lines for signatures while nothing runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from jobconsole.tui.widgets import live
from jobconsole.tui.widgets.scroll import TextPane
from queue_core import JobQueue
from queue_core.model.report import SignatureInfo
from queue_core.model.states import Status
from tests.conformance.making import failure
from tests.conformance.world import World
from tests.tui import still
from tests.tui.conftest import Sit
from tests.tui.scenes import crm, dead
from tests.tui.seat import COMPACT, LOW, NARROW, Seat, seated
from tests.tui.still import show, still_app

TITLES = (
    "SyntaxError: invalid non-printable character (U+<n>) in <path> at line <n>",
    "SyntaxError: invalid non-printable character (U+<n>) in <path> of the tree",
)


def groups(number: int, *types: str) -> tuple[SignatureInfo, ...]:
    """Return so many signatures; the first ones have titles that differ at their ends, and these types."""
    made = []
    for place in range(number):
        title = TITLES[place] if place < len(TITLES) else f"ErrorOf{place}: broke"
        type_ = types[place] if place < len(types) else "parse"
        one = still.group(f"{place:012x}", title, "send_email", 1_000 - place, (0, place), 60.0 + place)
        made.append(replace(one, types=((type_, one.count),)))
    return tuple(made)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs."""
    whole = still.snapshot
    monkeypatch.setattr(still, "running", list)
    totals = replace(whole().totals, running=0)
    monkeypatch.setattr(still, "snapshot", lambda: replace(whole(), totals=totals, signatures=groups(14), states={}))


def rows(seat: Seat) -> list[str]:
    """Return the lines of the screen that show a signature."""
    return [
        line for line in seat.text().splitlines() if "Error" in line and "ERROR" not in line and "<host>" not in line
    ]


@pytest.mark.usefixtures("idle")
async def test_eleven_signatures_fit_while_nothing_runs() -> None:
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        assert seat.table("signatures").visible_rows == 11
        assert "Running  nothing runs · 96 slots are free" in seat.text()
        await seat.press("tab")
        assert seat.view.focused is not seat.table("running"), "there is nothing to go to"


@pytest.mark.parametrize(
    ("running", "slots", "shown"),
    [(0, 0, "nothing runs · no worker is alive"), (10, 8, "Running  10 running"), (7, 8, "Running  7 of 8 slots busy")],
)
async def test_slots_are_named_only_where_there_are_so_many(
    monkeypatch: pytest.MonkeyPatch, running: int, slots: int, shown: str
) -> None:
    whole = still.snapshot
    if not running:
        monkeypatch.setattr(still, "running", list)
    totals = replace(whole().totals, running=running, slots=slots)
    monkeypatch.setattr(still, "snapshot", lambda: replace(whole(), totals=totals))
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        assert shown in seat.text()


@pytest.mark.usefixtures("idle")
async def test_titles_that_differ_at_their_ends_are_cut_in_the_middle() -> None:
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        assert "at line <n>" in seat.text()
        assert "of the tree" in seat.text()


@pytest.mark.usefixtures("idle")
async def test_a_type_of_nearly_all_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        assert "most: type parse" in seat.text()
        assert "TYPE" not in seat.text()
        some = replace(still.snapshot(), signatures=groups(14, "index"))
        monkeypatch.setattr(still, "snapshot", lambda: some)
        await show(seat)
        assert "index SyntaxErr" in seat.text(), "one of another type says so"
        mixed = replace(some, signatures=groups(14, *["index"] * 7))
        monkeypatch.setattr(still, "snapshot", lambda: mixed)
        await show(seat)
        assert "TYPE" in seat.text()
        assert "most: type" not in seat.text()


async def test_running_jobs_have_their_lines_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """And keep them for a while after the last one ended."""
    events = still.running
    monkeypatch.setattr(still, "running", list)
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        running = seat.table("running")
        assert running.size.height == 1
        monkeypatch.setattr(still, "running", events)
        await show(seat)
        await seat.until(lambda: running.size.height == 6)
        assert "archive" in seat.text()
        seat.app.model.running.live.clear()
        seat.table("running")._stable_rows.lines.clear()  # type: ignore[attr-defined]
        await seat.pilot.pause()
        seat.view.flush()
        assert not seat.view.has_class("-idle")
        monkeypatch.setattr(live, "IDLE_SECONDS", 0.0)
        await seat.until(lambda: (seat.view.flush(), running.size.height == 1)[1])


VIEWS = (("1", "signatures"), ("2", "Running"), ("3", "Jobs"), ("4", "Operations"), ("5", "Schedules"), ("6", "Events"))


@pytest.mark.parametrize("size", [COMPACT, LOW], ids=["60x20", "40x10"])
async def test_every_view_has_a_list(size: tuple[int, int]) -> None:
    async with seated(still_app(), size) as seat:
        for key, title in VIEWS:
            await seat.press(key)
            await show(seat)
            lines = seat.text().splitlines()
            assert any(title in line for line in lines)
            assert all(len(line) <= size[0] for line in lines)
            assert "too small" not in seat.text()
        await seat.press("1", "enter", "enter")
        await show(seat)
        assert "smtp mx-7:25 timed out" in " ".join(seat.text().split())
        await seat.press("escape", "escape")
        await show(seat)
        assert seat.view.focused is seat.table("signatures")


@pytest.mark.parametrize("size", [COMPACT, LOW], ids=["60x20", "40x10"])
async def test_help_cuts_no_word(size: tuple[int, int]) -> None:
    async with seated(still_app(), size) as seat:
        await show(seat)
        await seat.press("question_mark")
        pane = seat.app.screen.query_one(TextPane)
        width = pane.inner_width
        lines = ["".join(text for text, _ in line) for line in seat.app.screen.text(width)]  # type: ignore[attr-defined]
        assert max(map(cell_len, lines)) <= width
        whole = " ".join(" ".join(lines).split())
        assert "verbs then act on all marked ones" in whole
        assert "type:send_email also queue:, tag:," in whole


async def test_queues_are_one_of_the_lists_of_the_smallest_screen() -> None:
    async with seated(still_app(), LOW) as seat:
        await seat.press("2")
        await show(seat)
        for title in ("Types", "Workers", "Queues", "Running"):
            await seat.press("right_square_bracket")
            await show(seat)
            assert f"── {title}" in seat.text()


async def test_a_verb_needs_room_for_its_sheet(sit: Sit, jobs: JobQueue, buried: dict[str, list[str]]) -> None:
    async with sit(LOW) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R", "enter")
        await seat.until("the sheet needs 18 lines; there are 10")
        assert (await jobs.inspector.get(buried["send_email"][0])).status is Status.DEAD
    async with sit(COMPACT) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R", "enter")
        await seat.until("retried 5 jobs")


async def test_the_heading_promises_only_the_order_that_there_is(
    sit: Sit, world: World, buried: dict[str, list[str]]
) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("by growth ")
        await dead(world, 20, crm(), type="sync_crm", queue="crm")
        await seat.until("r sorts by growth")
        await seat.press("r")
        await seat.until(" by growth", but="r sorts")
        other = failure("gone", exception="OtherError", signature="00ff00ff00ff", title="OtherError: gone")
        await dead(world, 1, other, type="sync_crm", queue="crm")
        await seat.until("OtherError")
        await seat.until("r sorts by growth")


async def test_a_cursor_without_a_row_is_plain_to_see(sit: Sit, jobs: JobQueue, buried: dict[str, list[str]]) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.press("enter")
        table: Any = seat.table("jobs")
        await seat.until(lambda: len(table.selection.rows) == 5)
        await jobs.operations.change("delete", buried["send_email"][:1])
        await seat.until("▲ row gone")
        await seat.press("j")
        await seat.until(lambda: not table.selection.adrift)
        assert "row gone" not in seat.text()


async def test_a_reason_is_not_cut_while_cells_are_blank(sit: Sit) -> None:
    async with sit(COMPACT) as seat:
        await seat.ready()
        await seat.press("slash", *"colour:red")
        await seat.until("put quotes around words to")
        assert "put quotes around words to search for them" in " ".join(seat.text().split())


@pytest.mark.parametrize("width", [60, 71, 72, 73, 80])
async def test_no_choice_of_a_retry_is_cut(width: int) -> None:
    async with seated(still_app(), (width, 24)) as seat:
        await show(seat)
        await seat.press("R")
        await seat.until("Retry 38,902 jobs")
        await seat.until("first failure [at the end]")
