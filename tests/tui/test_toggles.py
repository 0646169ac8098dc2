"""Keys that pause and resume, or take and give up: the second of two acts on what the first has made."""

from __future__ import annotations

import getpass

from jobconsole.tui.sheets.state import StateSheet
from queue_core import JobQueue
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.plans import timetable
from tests.tui.seat import WIDE, Seat

Buried = dict[str, list[str]]


async def at_once(seat: Seat, *keys: str) -> None:
    """Press keys, of which none waits for what the one before has made."""
    await seat.pilot.press(*keys)


async def made(jobs: JobQueue) -> list[str]:
    """Return the verbs of all operations, the oldest first."""
    return [str(one.request.verb) for one in reversed(await jobs.operations.list_operations(20))]


async def test_a_signature_is_taken_and_given_up(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        (signature,) = (row.signature for row in [seat.table("signatures").selection.row] if row is not None)
        await at_once(seat, "A", "A")
        await seat.until("no owner, u undoes it")
        assert not (await jobs.signatures.known(signature))[1].facts.owner
        await at_once(seat, "A", "Z")
        await seat.until("❯ mute")
        assert isinstance(seat.app.screen, StateSheet)
        assert seat.app.screen._before.owner == getpass.getuser()


async def test_a_signature_is_given_up_while_the_screen_is_held(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        (signature,) = (row.signature for row in [seat.table("signatures").selection.row] if row is not None)
        await at_once(seat, "p", "A", "A")
        await seat.until("no owner, u undoes it")
        assert not (await jobs.signatures.known(signature))[1].facts.owner


async def test_a_queue_is_paused_and_resumed(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("2")
        await seat.until(lambda: seat.table("queues").selection.row is not None)
        await at_once(seat, "P", "P")
        await seat.until("is running again, u undoes it")
        await at_once(seat, "p", "P", "P")
        await seat.until(lambda: not seat.app._changing or all(one.is_finished for one in seat.app._changing))
        assert await made(jobs) == ["pause", "resume"] * 2
        assert not any(queue.paused for queue in (await jobs.inspector.overview()).queues)


async def test_a_schedule_is_paused_and_ticks_again(sit: Sit, jobs: JobQueue, world: World) -> None:
    await timetable(jobs, world)
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("5")
        await seat.until(lambda: seat.table("schedules").selection.row is not None)
        before = await made(jobs)
        await at_once(seat, "P", "P")
        await seat.until("nightly is ticking again, u undoes it")
        assert (await made(jobs))[len(before) :] == ["pause", "resume"]


async def at_worker(seat: Seat) -> None:
    """Put the cursor on the only worker."""
    await seat.ready()
    await seat.press("2")
    await seat.until("Workers")
    while seat.view.focused is not seat.table("workers"):
        await seat.press("tab")
    await seat.until(lambda: seat.table("workers").selection.row is not None)


async def test_a_worker_is_quiet_and_claims_again(sit: Sit, jobs: JobQueue, world: World, buried: Buried) -> None:
    """The second key waits until the worker has obeyed, and is shown as what it is then."""
    async with sit(WIDE) as seat:
        await at_worker(seat)
        await at_once(seat, "Q")
        await seat.until("claims no more jobs from its next heartbeat on")
        assert (await world.beat()).command == "quiet"
        await world.beat(quiet=True)
        await at_once(seat, "Q")
        await seat.until("claims jobs again from its next heartbeat on")
        assert await made(jobs) == ["quiet", "resume"]


async def test_a_worker_that_has_not_obeyed_yet_is_not_ordered_the_same_again(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    """Where no order reaches it at once, it asks with its heartbeat: until then, the list has its old state."""
    async with sit(WIDE) as seat:
        await at_worker(seat)
        await at_once(seat, "Q", "Q")
        await seat.until("claims jobs again from its next heartbeat on")
        assert await made(jobs) == ["quiet", "resume"]
        assert (await world.beat()).command == "resume"
