"""View 3 and the detail of a job show how far it is as its events tell, before the store is read again."""

from __future__ import annotations

from queue_core import JobQueue
from queue_core.model.events import Event
from tests.conformance.making import held
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.seat import Seat
from tests.tui.test_triage import SIZES


async def tell(jobs: JobQueue, seat: Seat, progress: int, message: str) -> None:
    """Tell how far the only running job is, by an event and not by a heartbeat."""
    (row,) = seat.table("all-jobs").selection.rows
    extra = {"progress": progress, "message": message}
    await jobs.bus.publish([Event("progress", row.queue, row.id, row.type, row.token, extra)])


@SIZES
async def test_the_list_shows_progress_as_it_comes(
    sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]
) -> None:
    await world.running(type="archive", queue="files")
    async with sit(size) as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 1)
        await tell(jobs, seat, 50, "half")
        await seat.until("50%")
        await seat.until("half")
        assert seat.table("all-jobs").selection.rows[0].progress == 0, "the store was told nothing"


@SIZES
async def test_a_job_that_was_opened_shows_progress_as_it_comes(
    sit: Sit, jobs: JobQueue, world: World, size: tuple[int, int]
) -> None:
    await world.running(type="archive", queue="files")
    async with sit(size) as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 1)
        await seat.press("enter")
        await seat.until("attempts     ")
        await tell(jobs, seat, 50, "half")
        await seat.until("50% half")


async def test_what_the_store_knows_better_is_shown(sit: Sit, jobs: JobQueue, world: World) -> None:
    """Where events are lost, the heartbeat brings it."""
    claim = await world.running(type="archive", queue="files")
    async with sit() as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until(lambda: len(seat.table("all-jobs").selection.rows) == 1)
        await tell(jobs, seat, 50, "half")
        await seat.until("50%")
        await world.beat(held(claim, 75, "most"))
        await seat.until("75%")
        await seat.until("most")
