"""A window shows what the store would show, page by page, and finds rows by their ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from jobconsole.core import listing
from jobconsole.core.listing import Window
from jobconsole.core.snapshot import DEAD
from queue_core import JobQueue
from queue_core.model.filters import Filter
from queue_core.model.report import Page
from queue_core.model.states import Status
from queue_core.ports.inspector import Inspector
from tests.conformance.world import World

PAGE = 10


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_ROWS", PAGE)
    monkeypatch.setattr(listing, "ROWS_AHEAD", 3)


async def bury(world: World, number: int) -> list[str]:
    """Return the ids of so many new dead jobs, newest first."""
    return [(await world.ended("dead")).id for _ in range(number)][::-1]


async def read_all(window: Window, jobs: JobQueue) -> None:
    """Read every page."""
    await window.refresh(jobs.inspector)
    while not window.complete:
        await window.read_more(jobs.inspector)


def ids(window: Window) -> list[str]:
    """Return the ids in order."""
    return [row.id for row in window.rows]


async def test_pages_follow_each_other(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 25)
    window = Window(DEAD)
    await window.refresh(jobs.inspector)
    assert ids(window) == dead[:PAGE]
    assert not window.wants(2)
    assert window.wants(8)
    await read_all(window, jobs)
    assert ids(window) == dead
    assert not window.wants(24)


async def test_new_rows_come_in_above_without_touching_what_is_below(jobs: JobQueue, world: World) -> None:
    old = await bury(world, 25)
    window = Window(DEAD)
    await read_all(window, jobs)
    new = await bury(world, 4)
    await window.refresh(jobs.inspector)
    assert ids(window) == new + old
    assert window.complete


async def test_rows_that_are_gone_leave_the_page_that_is_read_again(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 25)
    window = Window(DEAD)
    await read_all(window, jobs)
    await jobs.operations.change("delete", [dead[2], dead[14]])
    await window.refresh(jobs.inspector, shown=range(12, 17))
    assert ids(window) == [one for one in dead if one not in {dead[2], dead[14]}]


async def test_a_flood_above_starts_the_list_anew(jobs: JobQueue, world: World) -> None:
    await bury(world, 25)
    window = Window(DEAD)
    await read_all(window, jobs)
    new = await bury(world, PAGE + 5)
    await window.refresh(jobs.inspector)
    assert ids(window) == new[:PAGE]
    await read_all(window, jobs)
    assert len(ids(window)) == 25 + PAGE + 5


async def test_a_flood_leaves_rows_that_somebody_looks_at(jobs: JobQueue, world: World) -> None:
    old = await bury(world, 25)
    window = Window(DEAD)
    await window.refresh(jobs.inspector)
    new = await bury(world, PAGE + 5)
    await window.refresh(jobs.inspector, hold=True)
    assert (ids(window), window.behind) == (old[:PAGE], True)
    window.restart()
    await window.refresh(jobs.inspector, hold=True)
    assert (ids(window), window.behind) == (new[:PAGE], False)


async def test_an_emptied_list_is_empty(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 12)
    window = Window(DEAD)
    await read_all(window, jobs)
    await jobs.operations.change("delete", dead)
    await window.refresh(jobs.inspector)
    assert (ids(window), window.complete) == ([], True)


async def test_a_job_that_moved_up_stands_there_once(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 25)
    window = Window(Filter())
    await read_all(window, jobs)
    await jobs.operations.change("retry", [dead[20]])
    await window.refresh(jobs.inspector)
    assert ids(window) == [dead[20], *(one for one in dead if one != dead[20])]


async def test_jobs_that_moved_up_take_no_row_away_that_they_stood_below(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 25)
    window = Window(Filter())
    await read_all(window, jobs)
    # The last row of a page: the page after it does not begin where the row is now.
    moved = [dead[2 * PAGE - 1], dead[PAGE - 1]]
    for one in moved:
        await jobs.operations.change("retry", [one])
    new = await bury(world, 5)
    left = [one for one in dead if one not in moved]
    await window.refresh(jobs.inspector, range(2, 4), hold=True)
    assert (ids(window), window.behind) == ([*new, *moved[::-1], *left], False)
    await window.refresh(jobs.inspector, range(15, 20), hold=True)
    assert ids(window) == [*new, *moved[::-1], *left]


async def test_a_flood_with_jobs_of_the_list_in_it_leaves_the_rows_that_are_shown(jobs: JobQueue, world: World) -> None:
    """Such as the list of all jobs: what waited or ran is on top again when it has ended."""
    claim = await world.running()
    old = await bury(world, 6)
    window = Window(Filter())
    await window.refresh(jobs.inspector)
    new = await bury(world, PAGE + 5)
    await world.settle(claim, "completed")
    await window.refresh(jobs.inspector, range(5), hold=True)
    assert (ids(window), window.behind) == ([*old, claim.id], True)
    # Read alone, it has changed, and is still where the page had put it.
    await window.refresh(jobs.inspector, range(7), hold=True)
    assert (ids(window), window.behind) == ([*old, claim.id], True)
    window.restart()
    await window.refresh(jobs.inspector, hold=True)
    assert ids(window) == [claim.id, *new[: PAGE - 1]]


async def test_what_one_removed_is_forgotten_at_once(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 15)
    window = Window(DEAD)
    await read_all(window, jobs)
    window.forget({dead[0], dead[9]})
    assert ids(window) == [one for one in dead if one not in {dead[0], dead[9]}]
    await window.read_more(jobs.inspector)
    assert len(ids(window)) == len(set(ids(window)))


async def test_a_window_holds_so_many_rows_and_says_so(
    jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_ROWS", 20)
    await bury(world, 35)
    window = Window(DEAD)
    await window.refresh(jobs.inspector)
    await window.read_more(jobs.inspector)
    assert window.full
    assert not window.wants(19)


async def test_rows_that_a_flood_has_cut_off_are_told_as_they_are(jobs: JobQueue, world: World) -> None:
    """A list of everything: what ran when it was read has ended, is gone, or goes on."""
    claims = [await world.running() for _ in range(4)]
    window = Window(Filter())
    await window.refresh(jobs.inspector)
    first = ids(window)
    assert {row.status for row in window.rows} == {Status.RUNNING}
    await bury(world, PAGE + 5)
    await world.settle(claims[0], "completed")
    await world.settle(claims[1], "dead")
    await jobs.operations.change("delete", [claims[1].id])
    await bury(world, PAGE + 5)
    await window.refresh(jobs.inspector, range(4), hold=True)
    assert window.behind
    assert ids(window) == [one for one in first if one != claims[1].id]
    assert {row.id: row.status for row in window.rows}[claims[0].id] is Status.COMPLETED


async def test_rows_on_both_sides_of_a_page_are_read_again(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 3 * PAGE)
    window = Window(DEAD)
    await read_all(window, jobs)
    gone = [dead[PAGE - 1], dead[PAGE + 1], dead[2 * PAGE - 1], dead[2 * PAGE]]
    await jobs.operations.change("delete", gone)
    await window.refresh(jobs.inspector, range(PAGE - 2, 2 * PAGE + 2))
    assert ids(window) == [one for one in dead if one not in gone]


async def test_pages_of_which_nothing_is_left_go_from_under_the_screen(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 3 * PAGE)
    window = Window(DEAD)
    await read_all(window, jobs)
    await jobs.operations.change("delete", dead[2 * PAGE :])
    await window.refresh(jobs.inspector, range(2 * PAGE + 3, 3 * PAGE))
    assert ids(window) == dead[: 2 * PAGE]


class Slow:
    """An inspector whose next page comes only once something else was done."""

    def __init__(self, jobs: JobQueue, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._inspector, self._meanwhile = jobs.inspector, meanwhile

    async def jobs(self, *asked: Any) -> Page:
        page = await self._inspector.jobs(*asked)
        await self._meanwhile()
        return page


async def test_a_page_after_a_row_that_went_meanwhile_takes_the_place_of_none(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 3 * PAGE)
    window = Window(DEAD)
    await window.refresh(jobs.inspector)

    async def lose_the_last() -> None:
        await jobs.operations.change("delete", [dead[PAGE - 1]])
        window.forget({dead[PAGE - 1]})

    await window.read_more(cast(Inspector, Slow(jobs, lose_the_last)))
    assert ids(window)[: PAGE - 1] == dead[: PAGE - 1]
    await read_all(window, jobs)
    assert ids(window) == [one for one in dead if one != dead[PAGE - 1]]


async def test_a_page_of_before_a_restart_is_not_shown_as_the_first(jobs: JobQueue, world: World) -> None:
    dead = await bury(world, 3 * PAGE)
    window = Window(DEAD)
    await window.refresh(jobs.inspector)

    async def restart() -> None:
        window.restart()

    await window.read_more(cast(Inspector, Slow(jobs, restart)))
    assert (ids(window), window.loaded) == ([], False)
    await window.refresh(jobs.inspector)
    assert ids(window) == dead[:PAGE]
