"""The order of signatures: what is new or back goes on top at once, everything else stays; and that of workers."""

from __future__ import annotations

from dataclasses import replace

from jobconsole.tui.base.messages import Adopted
from queue_core import JobQueue
from queue_core.model.triage.signatures import UNTOUCHED, changed
from tests.conformance.making import failure
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, Seat, seated
from tests.tui.still import show, snapshot, still_app, worker

MANY = 12
"""Signatures: more than fit on a narrow screen."""


async def die(world: World, signature: str, number: int = 1, **given: object) -> None:
    """Let jobs die of a signature."""
    why = failure("out of paper", exception="OSError", signature=signature, title=f"OSError: printer {signature}")
    for _ in range(number):
        claim = await world.claim_job(await world.insert(), **given)
        await world.settle(claim, "dead", failure=why)


async def known(world: World) -> list[str]:
    """Return many signatures that are not new any more, the most frequent first."""
    names = [f"{number:012x}" for number in range(1, MANY + 1)]
    for place, name in enumerate(names):
        await die(world, name, 2 + MANY - place)
        await world.operations.set_facts(name, UNTOUCHED, changed(UNTOUCHED, 1, at=4e9, by="ana"))
    return names


def shown(seat: Seat) -> list[str]:
    """Return the signatures on the screen, from the top."""
    table = seat.table("signatures")
    top = table.selection.top
    return [row.signature for row in table.selection.rows[top : top + table.visible_rows]]


async def test_before_the_first_key_the_cursor_is_on_what_is_new(sit: Sit, world: World) -> None:
    await world.beat()
    names = await known(world)
    async with sit() as seat:
        await seat.ready()
        await seat.until(lambda: shown(seat)[:2] == names[:2])
        await die(world, "feed00000001")
        await seat.until("NEW OSError")
        assert shown(seat)[:2] == ["feed00000001", names[0]]
        assert seat.table("signatures").selection.row.signature == "feed00000001"


async def test_the_message_of_what_is_new_goes_once_someone_has_taken_it(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    """It would be taken for one about what came since."""
    await world.beat()
    async with sit() as seat:
        await seat.ready()
        await die(world, "feed00000001")
        await seat.until(lambda: seat.view.notice.text.startswith("NEW OSError"))
        until = seat.view.notice._until
        await jobs.signatures.own("feed00000001", "ana")
        await seat.until(lambda: not seat.view.notice.text)
        assert seat.view.notice._until > until, "it was taken away, and its time was not over"


async def test_after_a_key_the_cursor_keeps_its_row_and_the_heading_counts(
    sit: Sit, jobs: JobQueue, world: World
) -> None:
    await world.beat()
    names = await known(world)
    async with sit() as seat:
        await seat.ready()
        await seat.until(lambda: shown(seat)[:2] == names[:2])
        # With nothing running, the list takes the lines of that pane.
        await seat.until(lambda: seat.view.has_class("-idle"))
        await seat.press("j")
        before = shown(seat)
        await die(world, "feed00000001")
        await seat.until("1 new above")
        assert shown(seat) == before
        assert seat.table("signatures").selection.row.signature == names[1]
        await die(world, names[-1], 40)
        await die(world, "feed00000002")
        await seat.until("2 new above")
        assert shown(seat) == before
        await seat.press("g")
        await seat.until(lambda: shown(seat)[:3] == ["feed00000002", "feed00000001", names[0]])
        assert "new above" not in seat.text()


async def test_one_that_comes_back_goes_on_top_each_time(sit: Sit, jobs: JobQueue, world: World) -> None:
    await world.beat()
    names = await known(world)
    async with sit() as seat:
        await seat.ready()
        await seat.press("j")
        for release in (1, 2):
            await jobs.signatures.resolve(names[-1], in_=f"r{release}")
            await seat.until(lambda: seat.table("signatures").states[names[-1]].word == "resolved")
            await seat.press("r")
            await seat.until(lambda: seat.table("signatures").in_order)
            await die(world, names[-1], release=await world.store.register_release(f"r{release + 1}"))
            await seat.until(lambda: seat.table("signatures").selection.rows[0].signature == names[-1])
            assert seat.table("signatures").selection.row.signature == names[1]


async def test_a_silenced_one_goes_to_the_end(sit: Sit, jobs: JobQueue, world: World) -> None:
    await world.beat()
    names = await known(world)
    async with sit() as seat:
        await seat.ready()
        await seat.press("j")
        later = replace(UNTOUCHED, state="muted", until=4e9, at=1.0, by="ana")
        await world.operations.set_facts("feed00000001", UNTOUCHED, later)
        await die(world, "feed00000001")
        await seat.until(lambda: len(seat.table("signatures").selection.rows) == MANY + 1)
        assert seat.table("signatures").selection.rows[-1].signature == "feed00000001"
        assert shown(seat)[:2] == names[:2]


async def test_what_a_filter_left_out_takes_its_place_again(sit: Sit, world: World) -> None:
    await world.beat()
    names = await known(world)
    async with sit() as seat:
        await seat.ready()
        await seat.until(lambda: shown(seat)[:2] == names[:2])
        await seat.press("slash", *"sig", "colon", *names[3], "enter")
        await seat.until(lambda: shown(seat) == [names[3]])
        await seat.press("escape")
        rows = seat.table("signatures").selection
        await seat.until(lambda: len(rows.rows) == len(names))
        assert [row.signature for row in rows.rows] == names


async def test_a_lost_worker_is_on_top_of_many() -> None:
    """It was the last of 200, below the end of the screen; then come those with handlers that were given up."""
    many = tuple(worker(number, 1) for number in range(200))
    lost, stuck = worker(200, 1, lost=True), replace(worker(201, 1), stuck=2)
    async with seated(still_app(), NARROW) as seat:
        await show(seat)
        await seat.press("2", "left_square_bracket")
        seat.app.model.adopt(replace(snapshot(), workers=(*many, stuck, lost)))
        seat.app.post(Adopted())
        await seat.until("202 processes")
        assert [one.host for one in seat.table("workers").selection.rows[:3]] == ["web-200", "web-201", "web-0"]
        await seat.press("g")
        await seat.until("web-200:4900")
