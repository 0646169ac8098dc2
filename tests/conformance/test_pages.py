"""Keyset pages: in the order of the last change, each job once, whatever happens between two pages."""

from math import isfinite

import pytest

from queue_core.errors import FilterError
from queue_core.model.filters import Filter, parse
from queue_core.model.report import Order
from tests.conformance.world import World


async def pages(world: World, limit: int, order: Order = "newest", where: Filter = Filter()) -> list[str]:  # noqa: B008
    ids: list[str] = []
    cursor = None
    while True:
        page = await world.inspector.jobs(where, limit, cursor, order)
        assert len(page.jobs) <= limit
        ids += [job.id for job in page.jobs]
        if page.cursor is None:
            return ids
        assert len(page.jobs) == limit
        cursor = page.cursor


@pytest.fixture
async def changed(world: World) -> list[str]:
    """Jobs of all kinds in the order of their last change."""
    ids = []
    for state in ("queued", "dead", "completed", "scheduled", "cancelled", "dead", "running", "retrying", "queued"):
        await world.advance(2)
        ids.append(await world.job_in(state))
    return ids


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9, 50])
async def test_each_job_once_newest_first(world: World, changed: list[str], limit: int) -> None:
    assert await pages(world, limit) == changed[::-1]


@pytest.mark.parametrize("limit", [1, 4, 50])
async def test_each_job_once_oldest_first(world: World, changed: list[str], limit: int) -> None:
    assert await pages(world, limit, "oldest") == changed


async def test_of_those_that_match(world: World, changed: list[str]) -> None:
    assert await pages(world, 1, where=parse("status:dead")) == [changed[5], changed[1]]
    assert await pages(world, 2, "oldest", parse("!status:dead")) == [
        job_id for job_id in changed if job_id not in {changed[1], changed[5]}
    ]


async def test_jobs_of_the_same_moment(world: World) -> None:
    ids = await world.insert_many(25)
    found = await pages(world, 4)
    assert len(found) == 25
    assert set(found) == set(ids)
    assert await pages(world, 4, "oldest") == found[::-1]


async def test_no_page_after_the_last(world: World) -> None:
    assert (await world.inspector.jobs(Filter(), 10)).cursor is None
    await world.insert_many(4)
    first = await world.inspector.jobs(Filter(), 2)
    second = await world.inspector.jobs(Filter(), 2, first.cursor)
    assert (len(second.jobs), second.cursor) == (2, None)


async def test_a_change_brings_a_job_to_the_top(world: World, changed: list[str]) -> None:
    await world.advance(2)
    await world.change("retry", [changed[1]])
    assert (await pages(world, 3))[0] == changed[1]


async def test_what_has_become_due_comes_to_the_top(world: World, changed: list[str]) -> None:
    await world.advance(4000)
    await world.store.promote(10)
    due = {changed[3], changed[7]}
    assert set((await pages(world, 3))[:2]) == due
    assert (await pages(world, 3))[2:] == [job_id for job_id in changed[::-1] if job_id not in due]


async def test_what_changes_between_two_pages(world: World, changed: list[str]) -> None:
    """What was not changed is neither skipped nor shown twice."""
    first = await world.inspector.jobs(Filter(), 3)
    newer = await world.insert()
    await world.change("retry", [changed[1]])
    await world.change("delete", [changed[5]])
    shown = [job.id for job in first.jobs]
    cursor = first.cursor
    while cursor is not None:
        page = await world.inspector.jobs(Filter(), 2, cursor)
        shown += [job.id for job in page.jobs]
        cursor = page.cursor
    untouched = [job_id for job_id in changed[::-1] if job_id not in {changed[1], changed[5]}]
    assert [job_id for job_id in shown if job_id in untouched] == untouched
    assert newer not in shown


async def test_pages_of_the_trash(world: World) -> None:
    claims = [await world.ended("dead") for _ in range(5)]
    for claim in reversed(claims):
        await world.advance(2)
        await world.change("delete", [claim.id])
    assert await pages(world, 2, where=Filter(trash=True)) == [claim.id for claim in claims]


BEHIND = [
    "", ".0197b3c2-5a1e-7c88-9b3e-56e26719422c", " x", ". x", " \ud800", ".\ud800", " " + "9" * 19, ".\x00",
]  # fmt: skip
"""What may follow the time in a cursor."""


@pytest.mark.parametrize("place", [
    "", " ", ".", "rubbish", "2026-01-01", "' --", "\x00", "é", "\ud800", "1", "1.", "1 ", ".1", "-1", "1e999", "nan",
    "inf", "9" * 18, "9" * 400, "9" * 5000, "-" + "9" * 400,
])  # fmt: skip
async def test_a_cursor_that_is_none(world: World, place: str) -> None:
    """One error in every mode; the place of one may be a time in another one."""
    await world.insert()
    for cursor in (place + behind for behind in BEHIND):
        for read in (world.inspector.jobs, world.inspector.search):
            refused: FilterError | None = None
            try:
                await read(Filter(), 10, cursor)
            except FilterError as error:
                refused = error
            if refused is None:
                assert isfinite(float(place)), "no page gave this cursor"
            else:
                assert refused.reason == "this is no cursor that a page gave"
                assert (refused.text, refused.position) == (cursor, 0)
