"""`u` takes back only what this console has switched, and only while nobody has switched it since."""

from __future__ import annotations

import pytest

from queue_core import JobQueue
from queue_core.client.operations import Operations
from queue_core.model.operation import Author, OperationRequest
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.plans import timetable
from tests.tui.seat import Seat
from tests.tui.test_schedules import at_schedules
from tests.tui.test_triage import SIZES

Buried = dict[str, list[str]]
SAYS = ", u undoes it"


async def at_queue(seat: Seat, name: str) -> None:
    """Put the cursor on a queue."""
    await seat.ready()
    await seat.press("2")
    await seat.until(name)
    while seat.table("queues").selection.row.name != name:
        await seat.press("j")


async def paused(jobs: JobQueue, name: str) -> bool:
    """Tell whether a queue is paused."""
    return (await jobs.store.queues())[name]


async def others(operations: Operations, verb: str, jobs: JobQueue, name: str, user: str = "bob") -> None:
    """Switch a queue as somebody else does, with a note."""
    act = jobs.operations.pause_queue if verb == "pause" else jobs.operations.resume_queue

    async def said() -> str:
        return "" if await act(name) else f"it was {verb}d already"

    await operations.record(OperationRequest(verb, f"queue {name}", Author(user, "bastion-2")), said)


async def test_a_pause_of_a_queue_that_was_paused_already_is_not_undone(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await others(jobs.operations, "pause", jobs, "crm")
        # As the key does where the console has not yet read of the other one's pause.
        assert await seat.app.operator.toggle_pause("crm", paused=False) == "crm was paused already"
        assert seat.app.operator.undoable is None
        await seat.press("u")
        await seat.until("nothing to undo")
        assert await paused(jobs, "crm")


@SIZES
async def test_what_somebody_else_has_switched_since_is_not_undone(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await at_queue(seat, "crm")
        await seat.press("P")
        await seat.until("crm is paused, u undoes it")
        await others(jobs.operations, "resume", jobs, "crm")
        await others(jobs.operations, "pause", jobs, "crm")
        await seat.press("u")
        await seat.until("not undone: bob has paused crm since (#3)")
        assert await paused(jobs, "crm")


async def test_whoever_found_it_so_already_has_switched_nothing(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("P")
        await seat.until("crm is paused, u undoes it")
        await others(jobs.operations, "pause", jobs, "crm")
        await others(jobs.operations, "pause", jobs, "mail")
        await seat.press("u")
        await seat.until("crm is running again")
        assert not await paused(jobs, "crm")


async def test_one_s_own_switches_are_taken_back_one_after_the_other(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("P")
        await seat.until("crm is paused, u undoes it")
        await seat.until("‖ crm")
        await seat.press("P")
        await seat.until("crm is running again, u undoes it")
        for words, state in (("crm is paused", True), ("crm is running again", False)):
            await seat.press("u")
            await seat.until(words, but=SAYS)
            assert await paused(jobs, "crm") is state
        await seat.press("u")
        await seat.until("nothing to undo")


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_schedule_that_was_so_already_is_not_undone(sit: Sit, jobs: JobQueue, world: World, verb: str) -> None:
    await timetable(jobs, world)
    if verb == "resume":
        await jobs.schedules.pause("nightly")
    async with sit() as seat:
        await at_schedules(seat)
        await seat.press("p")
        await seat.until("FROZEN")
        await (jobs.schedules.pause if verb == "pause" else jobs.schedules.resume)("nightly")
        await seat.press("P")
        state = "paused" if verb == "pause" else "ticking again"
        await seat.until(f"nightly was {state} already", but=SAYS)
        assert seat.app.operator.undoable is None


async def test_a_pause_is_not_undone_where_another_operator_drains_the_queue(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("P")
        await seat.until("crm is paused, u undoes it")
        await jobs.operations.drain_queue("crm", author=Author("bob", "bastion-2"))
        await seat.press("u")
        await seat.until("not undone: bob has closed crm since (#2)")
        assert await paused(jobs, "crm")


async def test_a_pause_and_a_drain_of_one_console_are_undone_one_after_the_other(
    sit: Sit, jobs: JobQueue, buried: Buried
) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("P")
        await seat.until("crm is paused, u undoes it")
        await seat.press("O")
        await seat.until("Drain a queue")
        await seat.press("enter")
        await seat.until("crm is closed: ")
        await seat.press("u")
        await seat.until("takes new jobs again")
        await seat.press("u")
        await seat.until("crm is running again")
        assert not await paused(jobs, "crm")
