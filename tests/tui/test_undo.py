"""`u` is about the last change that was asked for, also while that is still saving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jobconsole.core.connection import Connection
from jobconsole.tui.base import undo
from queue_core import JobQueue
from queue_core.client.operating import submission
from queue_core.client.operations import Operations
from queue_core.model.filters import parse
from queue_core.model.operation import Operation
from tests.conformance.working import until
from tests.conformance.world import World
from tests.tui.asking import crowd, in_state
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, disk
from tests.tui.seat import WIDE, Seat
from tests.tui.test_triage import SIZES

Buried = dict[str, list[str]]


class Gate:
    """Lets calls of a method through, until it is shut."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.waiting = asyncio.Event()

    def before(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, within: Callable[..., bool]) -> None:
        """Have calls wait here that are `within`."""
        method = getattr(owner, name)

        async def held(*args: Any, **given: Any) -> Any:
            if within(*args) and not self.opened.is_set():
                self.waiting.set()
                await self.opened.wait()
            return await method(*args, **given)

        monkeypatch.setattr(owner, name, held)


@pytest.fixture
def slow_writes(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A gate before the members of an operation are written, from the third on."""
    monkeypatch.setattr(submission, "MEMBERS_PER_WRITE", 2)
    gate, written = Gate(), dict[int, int]()

    def later(_store: object, number: int, ids: Sequence[str], _ended: float | None) -> bool:
        written[number] = written.get(number, 0) + len(ids)
        return written[number] > 2

    gate.before(monkeypatch, type(jobs.operations._store), "add", later)
    return gate


async def delete(seat: Any, number: int) -> None:
    """Delete the group under the cursor."""
    await seat.press("D")
    await seat.until(f"Delete {number} jobs")
    await seat.press("enter")


async def in_trash(jobs: JobQueue) -> int:
    """Return how many jobs are in the trash."""
    return await jobs.inspector.count(parse("trash:yes"))


async def cancelled(jobs: JobQueue, number: int) -> bool:
    """Tell whether an operation was cancelled."""
    return (await jobs.operations.get(number)).state == "cancelled"


@SIZES
async def test_undo_means_the_delete_that_is_being_written_and_not_the_one_before(
    sit: Sit, jobs: JobQueue, world: World, slow_writes: Gate, size: tuple[int, int]
) -> None:
    await dead(world, 3, disk(), type="resize_image", queue="images")
    await crowd(world, 6)
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("KeyError")
        while "OSError" not in seat.table("signatures").selection.row.title:
            await seat.press("j")
        await delete(seat, 3)
        await seat.until("deleted 3 jobs, u undoes it")
        slow_writes.opened.clear()
        await seat.until("1 signature ·")
        await delete(seat, 6)
        await asyncio.wait_for(slow_writes.waiting.wait(), 30)
        await seat.press("u")
        await until(lambda: cancelled(jobs, 2))
        slow_writes.opened.set()
        await seat.until("delete #2 was cancelled while it was being written: nothing was deleted")
        assert (await in_trash(jobs), await in_state(jobs, "dead")) == (3, 6)
        await seat.press("u")
        await seat.until("restored 3 jobs")
        assert (await in_trash(jobs), await in_state(jobs, "dead")) == (0, 9)


async def test_undo_waits_for_the_number_of_an_operation(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    gate.before(monkeypatch, type(jobs.operations._store), "create", lambda store, asked: asked.verb == "delete")
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        gate.opened.clear()
        await delete(seat, 5)
        await asyncio.wait_for(gate.waiting.wait(), 30)
        await seat.press("u")
        gate.opened.set()
        # It is one step: where that was quicker than the cancel, its jobs are brought back.
        await seat.until(lambda: any(words in seat.text() for words in ("was cancelled", "restored 5 jobs")))
        await seat.until(lambda: not seat.app.operator.undoable)
        assert await in_trash(jobs) == 0


async def test_undo_means_the_pause_that_is_not_answered_yet(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    gate.before(monkeypatch, Operations, "pause_queue", lambda operations, queue: True)
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await delete(seat, 5)
        await seat.until("deleted 5 jobs")
        gate.opened.clear()
        await seat.press("2")
        await seat.until("mail")
        while seat.table("queues").selection.row.name != "mail":
            await seat.press("j")
        await seat.press("P")
        await asyncio.wait_for(gate.waiting.wait(), 30)
        await seat.press("u")
        gate.opened.set()
        await seat.until("mail is running again")
        assert await in_trash(jobs) == 5
        await seat.press("u")
        await seat.until("restored 5 jobs")


async def delete_two(seat: Seat) -> None:
    """Delete the jobs of one signature, and then those of another."""
    await seat.ready()
    await seat.until("TimeoutError")
    for number, left in ((5, "2 signatures ·"), (3, "1 signature ·")):
        await delete(seat, number)
        await seat.until(f"deleted {number} jobs")
        await seat.until(left)


async def test_a_second_undo_during_the_first_is_refused_and_said(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    gate.before(monkeypatch, Operations, "undo", lambda operations, number, author: True)
    async with sit() as seat:
        await delete_two(seat)
        gate.opened.clear()
        await seat.press("u")
        await asyncio.wait_for(gate.waiting.wait(), 30)
        await seat.press("u")
        await seat.until("delete #2 is still being undone: press u again when that is done")
        gate.opened.set()
        await seat.until("restored 3 jobs")
        assert await in_trash(jobs) == 5


async def test_two_quick_undos_undo_two_changes(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    gate.before(monkeypatch, Operations, "undo", lambda operations, number, author: True)
    async with sit() as seat:
        await delete_two(seat)
        monkeypatch.setattr(undo, "SOON", 60.0)
        gate.opened.clear()
        await seat.press("u", "u")
        await asyncio.wait_for(gate.waiting.wait(), 30)
        assert await in_trash(jobs) == 8
        gate.opened.set()
        await seat.until(lambda: not seat.app.operator.undoable)

        async def back() -> bool:
            return await in_trash(jobs) == 0

        await until(back)


async def test_an_operation_that_is_left_while_it_is_written_is_cancelled(
    sit: Sit, jobs: JobQueue, buried: Buried, slow_writes: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the store takes its time for that."""
    late, closed = Gate(), Connection.close

    async def close(connection: Connection) -> None:
        assert await cancelled(jobs, 1), "the connection is closed behind it"
        await closed(connection)

    monkeypatch.setattr(Connection, "close", close)
    late.before(monkeypatch, type(jobs.operations._store), "move", lambda store, number, state, why="": True)
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        slow_writes.opened.clear()
        await delete(seat, 5)
        await asyncio.wait_for(slow_writes.waiting.wait(), 30)
        await seat.press("q")
        await seat.until("q again abandons it")
        late.opened.clear()
        asyncio.get_running_loop().call_later(0.5, late.opened.set)
        await seat.press("q")
    assert await cancelled(jobs, 1)
    assert await in_trash(jobs) == 0


async def test_an_operation_that_could_not_be_written_is_not_undone(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> Operation:
        raise ValueError("no room")

    monkeypatch.setattr(type(jobs.operations._store), "create", refuse)
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await delete(seat, 5)
        await seat.until("nothing was deleted: ValueError: no room")
        await seat.press("u")
        await seat.until("nothing to undo")


async def test_nothing_was_changed_yet(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.press("u")
        await seat.until("nothing to undo; a retry that has finished cannot be undone")


@SIZES
async def test_a_sentence_about_the_change_before_goes_when_another_is_asked_for(
    sit: Sit, buried: Buried, slow_writes: Gate, size: tuple[int, int]
) -> None:
    """It said that nothing was deleted while the next delete was being written."""
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        slow_writes.opened.clear()
        await delete(seat, 5)
        await asyncio.wait_for(slow_writes.waiting.wait(), 30)
        await seat.press("u")
        slow_writes.opened.set()
        await seat.until("nothing was deleted")
        slow_writes.opened.clear()
        slow_writes.waiting.clear()
        await delete(seat, 5)
        await asyncio.wait_for(slow_writes.waiting.wait(), 30)
        await seat.until("being written: 2 of 5", but="nothing was deleted")
        slow_writes.opened.set()
        await seat.until("deleted 5 jobs")


@SIZES
async def test_what_is_being_taken_back_is_said(
    sit: Sit, jobs: JobQueue, buried: Buried, slow_writes: Gate, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await delete(seat, 5)
        await seat.until("deleted 5 jobs")
        slow_writes.opened.clear()
        await seat.press("u")
        await asyncio.wait_for(slow_writes.waiting.wait(), 30)
        await seat.until("undoing delete #1", but="deleted 5 jobs")
        slow_writes.opened.set()
        await seat.until("restored 5 jobs")


@pytest.mark.parametrize("later", ["a worker is made quiet", "a retry ends"])
async def test_what_was_done_before_a_change_that_stays_is_undone_at_the_second_press(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried, later: str
) -> None:
    """One that is pressed for the last change must not bring back what was deleted long before."""
    await world.job_in("running")
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await delete(seat, 5)
        await seat.until("deleted 5 jobs")
        if later == "a retry ends":
            await seat.press("R")
            await seat.until("Enter")
            await seat.press("enter", "enter")
            await seat.until("retried 3 jobs")
            what = "retry #2, which has ended, cannot be undone"
        else:
            await seat.press("2")
            while seat.view.focused is not seat.table("workers"):
                await seat.press("tab")
            await seat.until(lambda: seat.table("workers").selection.row is not None)
            await seat.press("Q")
            await seat.until("claims no more jobs")
            what = "the quiet of"
        await seat.press("u")
        await seat.until("cannot be undone; u again undoes delete #1")
        assert what in seat.text()
        assert await in_trash(jobs) == 5
        await seat.press("u")
        await seat.until("restored 5 jobs")
