"""Filters by owner and text on the screen, searches that go on, and filters saved by name."""

from __future__ import annotations

import asyncio

import pytest

from jobconsole.tui.base.refresher import Refresher
from queue_core import JobQueue
from queue_core.client.finding import search
from queue_core.client.finding.search import SearchProgress
from queue_core.model.filters import Filter, SavedFilter
from tests.conformance.making import failure
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.seat import COMPACT, LOW, NARROW, PATIENCE, WIDE, Seat

Buried = dict[str, list[str]]


async def write(seat: Seat, text: str) -> None:
    """Write a filter, and confirm it."""
    await seat.press("slash", *({" ": "space", ":": "colon", "_": "underscore"}.get(one, one) for one in text))
    await seat.press("enter")


async def write_over(seat: Seat, text: str) -> None:
    """Write another filter in the place of the one that holds."""
    await seat.press("slash", "ctrl+u")
    await seat.press("escape")
    await write(seat, text)


async def test_a_text_is_searched_with_enter(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("slash", *"text", "colon", *"timed")
        await seat.until("Enter searches")
        assert "searched" not in seat.text()
        await seat.press("enter")
        await seat.until("searched all 10 dead jobs, ")
        await seat.until("1 signature ")
        assert "/text:timed  as of " in seat.text()


async def test_a_search_goes_on_with_enter_and_a_verb_means_what_was_found(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MIN_PAGE", 2)
    monkeypatch.setattr(search, "MAX_PAGE", 2)
    monkeypatch.setattr("jobconsole.tui.base.refresher.SEARCH_STEP", 1e-9)
    monkeypatch.setattr("jobconsole.tui.screens.filter_actions.SEARCH_SECONDS", 0.0)
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("10 jobs")
        await write(seat, "text:e")
        await seat.until("searched 2 of 10 dead jobs, 2 found; / Enter goes on")
        await seat.until(" 2 jobs")
        await seat.press("asterisk", "R")
        await seat.until("found in the 2 of 10 that were searched")
        await seat.press("escape", "slash", "enter")
        await seat.until("searched 4 of 10 dead jobs, 4 found")
        await seat.until("/text:e  in 4 of 10")


async def test_later_deaths_are_found_by_searching_again(
    sit: Sit, jobs: JobQueue, buried: Buried, world: World
) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await write(seat, "text:timed")
        await seat.until("searched all 10 dead jobs, ")
        await world.ended("dead", {"failure": failure("timed out", signature="9f31c2aaaaaa")})
        await seat.press("slash", "enter")
        await seat.until("searched all 11 dead jobs, ")
        await world.ended("dead", {"failure": failure("timed out", signature="9f31c2aaaaaa")})
        await seat.press("r")
        await seat.until("searched all 12 dead jobs, ")


async def test_saved_filters(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("b")
        await seat.until("none is saved yet")
        await seat.press(*"x", "enter")
        await seat.until("no filter holds that could be saved")
        await seat.press("escape")
        await write(seat, "type:send_email")
        await seat.until("1 signature ")
        await seat.press("b", *"mine", "space", "2")
        await seat.until("the name of a saved filter is one word", but="Enter saves")
        await seat.press("ctrl+u", *"mail")
        await seat.until("Enter saves the present filter as mail")
        await seat.press("enter")
        await seat.until("saved as mail, u undoes it")
        assert [(one.name, one.text) for one in await jobs.filters.list()] == [("mail", "type:send_email")]
        await jobs.filters.save("a", "queue:nowhere")
        await seat.press("slash", "escape")
        await seat.until("3 signatures")
        await seat.press("b")
        await seat.until("queue:nowhere")
        await seat.press("down", "enter")
        await seat.until("/type:send_email")
        await seat.until("1 signature ")
        await seat.press("u")
        await seat.until("undone: the saving of filter mail")
        assert [one.name for one in await jobs.filters.list()] == ["a"]


async def test_the_fields_that_distinguish_most_are_columns_where_there_is_room(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    for number in range(12):
        await world.ended("completed", {}, payload=f'{{"region": "us", "n": {number}}}', type="send_email")
    failing = {"failure": failure(signature="a" * 12)}
    for number in range(12):
        payload = f'{{"region": "eu\\u001b[31m", "n": {number}}}'
        await world.ended("dead", failing, payload=payload, type="send_email")
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("region")
        columns = [column.title for column in seat.table("jobs").columns]
        assert columns.index("region") == columns.index("ERROR") - 1
        await seat.until(lambda: seat.table("jobs").selection.rows[0].fields == ("eu\u241b[31m",))
        assert "eu\u241b[31m" in seat.text()
    async with sit(NARROW) as seat:
        await seat.ready()
        assert "region" not in [column.title for column in seat.table("jobs").columns]


async def test_too_many_signatures_have_a_sentence(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_core.client.finding.inspector.MAX_SIGNATURES", 2)
    async with sit(NARROW) as seat:
        await seat.ready()
        await write(seat, "owner:me")
        await seat.until("more than 2 error signatures have dead jobs")


@pytest.mark.parametrize(
    ("size", "text", "seen"),
    [
        (NARROW, "sig:9f31 !owner:bo queue:mail", "/sig:9f31 !owner"),
        (NARROW, "type:send_email !owner:bo", "/type:send_email !owne"),
        (COMPACT, "type:send_email !owner:bo", "/type:send_email"),
        (LOW, "type:send_email !owner:bo", "/type:send"),
    ],
)
async def test_a_filter_that_does_not_fit_is_cut(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int], text: str, seen: str
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await write(seat, text)
        await seat.until("1 signature")
        heading = next(line for line in seat.text().splitlines() if "1 signature" in line)
        assert seen in heading


async def test_marks_do_not_hide_the_filter(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await write(seat, "type:send_email")
        await seat.until("1 signature")
        await seat.press("space")
        await seat.until("/type:send_email  1 marked")


async def test_a_list_whose_filter_hides_everything_does_not_claim_to_be_empty(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await write(seat, "type:none_such")
        await seat.until("nothing matches; Esc clears the filter", but="no dead letters")
        await seat.press("escape")
        await seat.until("3 signatures")
        await seat.press("3")
        await seat.until("18 jobs")
        await write(seat, "type:none_such")
        await seat.until("nothing matches; Esc clears the filter")


async def test_no_jobs_are_counted_of_a_signature_that_a_filter_hides(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("Jobs  5 jobs")
        await write(seat, "err:nothing")
        await seat.until(lambda: seat.table("signatures").selection.row is None)
        await seat.until(lambda: "jobs" not in "".join(text for text, _ in seat.table("jobs").heading()))
        await seat.press("slash", *["backspace"] * 11, "enter")
        await seat.until("Jobs  5 jobs")


async def test_a_search_that_has_found_nothing_yet_says_so(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MIN_PAGE", 2)
    monkeypatch.setattr(search, "MAX_PAGE", 2)
    monkeypatch.setattr("jobconsole.tui.base.refresher.SEARCH_STEP", 1e-9)
    monkeypatch.setattr("jobconsole.tui.screens.filter_actions.SEARCH_SECONDS", 0.0)
    async with sit(NARROW) as seat:
        await seat.ready()
        await write(seat, "text:none_such")
        await seat.until("nothing found in 2 of 10", but="nothing matches")


async def test_the_name_of_a_saved_filter_is_refused_in_the_filter_line(
    sit: Sit, jobs: JobQueue, buried: Buried, world: World
) -> None:
    stored = SavedFilter("loop", "!@mail", changes=((9, "", "x"),))
    assert await world.operations.set_filter("loop", 0, stored)
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("slash", "at", *"mail")
        await seat.until("'@mail' names a saved filter")
        await seat.press("home", "exclamation_mark")
        await seat.until("a saved filter cannot be turned round")
        await seat.press("escape", "b")
        await seat.until("loop")
        await seat.press("enter")
        await seat.until("cannot be turned round")
        await seat.until("3 signatures")


async def test_a_search_that_ends_after_the_next_filter_says_nothing_about_that(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, search_on = asyncio.Event(), Refresher.search
    monkeypatch.setattr("jobconsole.tui.base.refresher.READ_LIMIT_SECONDS", PATIENCE)

    async def late(self: Refresher, where: Filter, again: bool) -> SearchProgress | None:
        found = await search_on(self, where, again)
        await held.wait()
        return found

    async with sit(NARROW) as seat:
        await seat.ready()
        monkeypatch.setattr(Refresher, "search", late)
        await write(seat, "text:timed")
        await seat.until("/text:timed")
        await write_over(seat, "type:sync_crm")
        await seat.until("/type:sync_crm")
        (searching,) = [one for one in seat.view.workers if one.group == "search"]
        held.set()
        await searching.wait()
        await seat.pilot.pause()
        assert "searched" not in seat.text()
        assert "as of" not in seat.text()


async def test_sorting_shows_no_rows_of_the_filter_before(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sit(NARROW) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        monkeypatch.setattr(seat.app.refresher, "narrow", lambda where: None)
        await write(seat, "type:sync_crm")
        table = seat.table("signatures")
        await seat.until(lambda: table.unread)
        await seat.press("s")
        await seat.until("by count")
        assert table.unread, "the rows are still those of before"
