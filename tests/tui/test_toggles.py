"""Keys and clicks that pause and resume, or take and give up: the second of two acts on what the first has made."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Callable

import pytest
from textual import events

from jobconsole.tui.base.bindings import BY_ID
from jobconsole.tui.sheets.state import StateSheet
from jobconsole.tui.widgets.footer import KeyBar
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


def click(seat: Seat, action: str) -> None:
    """Click on an action of the key bar; nothing waits for what comes of it."""
    bar = seat.view.query_one(KeyBar)
    end = next(end for end, shown in bar._spots if shown == action)
    at = events.Click(bar, x=end - 1, y=0, delta_x=0, delta_y=0, button=1, shift=False, meta=False, ctrl=False)
    bar.call_later(bar.on_click, at)


def choose(seat: Seat, action: str) -> None:
    """Choose an action of the command palette; nothing waits for what comes of it."""
    label = f"{BY_ID[action].label} ("
    command = next(one for one in seat.app.get_system_commands(seat.view) if one.title.startswith(label))
    seat.app.call_later(command.callback)


@pytest.mark.parametrize("by", [click, choose], ids=["click", "palette"])
async def test_what_is_clicked_or_chosen_waits_for_the_change_before_as_a_key_does(
    sit: Sit, jobs: JobQueue, buried: Buried, by: Callable[[Seat, str], None]
) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        (signature,) = (row.signature for row in [seat.table("signatures").selection.row] if row is not None)
        by(seat, "own")
        by(seat, "own")
        await seat.until("no owner, u undoes it")
        assert not (await jobs.signatures.known(signature))[1].facts.owner
        await seat.press("2")
        await seat.until(lambda: seat.table("queues").selection.row is not None)
        before = await made(jobs)
        by(seat, "pause")
        by(seat, "pause")
        await seat.until("is running again, u undoes it")
        assert (await made(jobs))[len(before) :] == ["pause", "resume"]


async def test_a_click_on_the_key_bar_is_nothing_for_the_sheet_that_a_key_has_opened(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        seat.app.post_message(events.Key("R", "R"))
        click(seat, "own")
        click(seat, "delete")
        await seat.until("Retry 5 jobs")
        await seat.until(lambda: not seat.app._taking_turns)
        assert [type(screen).__name__ for screen in seat.app.screen_stack[1:]] == ["ChangeSheet"]


async def test_a_click_on_back_gives_a_sheet_up_that_is_still_read(
    sit: Sit, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.press("enter")
        await seat.until(lambda: seat.table("jobs").selection.row is not None)

        async def never(job_id: str) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(seat.app.refresher, "original", never)
        seat.app.post_message(events.Key("E", "E"))
        await seat.until(lambda: seat.app._opening is not None)
        click(seat, "back")
        await seat.until("given up")
