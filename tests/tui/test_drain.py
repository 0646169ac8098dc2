"""`O` closes a queue and drains it, after a look; P and u open it."""

from __future__ import annotations

from typing import Any

import pytest

from jobconsole.tui.widgets.fields import QueueChoice
from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.operation import Author, Operation
from tests.conformance.working import until
from tests.tui.conftest import Sit
from tests.tui.test_triage import SIZES
from tests.tui.test_undo_switches import Buried, at_queue


async def closed(jobs: JobQueue, name: str) -> bool:
    return next(one.closed for one in (await jobs.inspector.overview()).queues if one.name == name)


@SIZES
async def test_it_is_closed_and_opened(sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]) -> None:
    await jobs.enqueue("sync", queue="crm")
    async with sit(size) as seat:
        await at_queue(seat, "crm")
        await seat.press("O")
        await seat.until("Drain a queue")
        await seat.until("It takes no new jobs: producers are refused.")
        await seat.press("escape", "O")
        await seat.until("Drain a queue")
        assert not await closed(jobs, "crm")
        await seat.press("enter")
        await seat.until("crm is closed: #1 drains 2 jobs; P or u opens it")
        await seat.until("crm draining")
        assert await closed(jobs, "crm")
        await seat.press("O")
        await seat.until("crm is closed already: P opens it")
        await seat.press("P")
        await seat.until("crm takes new jobs again")
        assert not await closed(jobs, "crm")


async def test_undo_opens_it_and_brings_back_what_was_moved(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    handle = await jobs.enqueue("sync", queue="crm")
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("O")
        await seat.until("Drain a queue")
        await seat.press("shift+tab", "shift+tab", *"slow")
        await seat.until("there is no queue 'slow' yet: the first moved job makes it")
        await seat.press("ctrl+y")
        await seat.until("copied as a command")
        await seat.press("tab", "tab", "enter")
        await seat.until("crm is closed: #1 drains 2 jobs")
        await seat.until("crm closed")
        assert (await jobs.get(handle.id)).queue == "slow"
        await seat.press("4")
        await seat.until("drain")
        await seat.press("j", "u")
        await seat.until("undone by #")
        assert not await closed(jobs, "crm")

        async def back() -> bool:
            return (await jobs.get(handle.id)).queue == "crm"

        await until(back)


async def test_the_sheet_says_what_becomes_of_the_jobs(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("O")
        await seat.until("What is in it runs until")
        await seat.until("1 waits, 0 running")
        await jobs.enqueue("sync", queue="crm")
        await seat.until("2 wait, 0 running")
        await seat.press("shift+tab", "shift+tab", *"slow")
        await seat.until("What waits moves to", but="What is in it runs")
        await seat.until("u opens it and moves that back.")


async def test_a_queue_that_was_drained_again_stays_closed(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    await jobs.enqueue("sync", queue="crm")
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("O")
        await seat.until("Drain a queue")
        await seat.press("enter")
        await seat.until("crm is closed: #1 drains 2 jobs; P or u opens it")
        await jobs.operations.resume_queue("crm")
        await jobs.operations.drain_queue("crm", author=Author("bob", "bastion-2"))
        await seat.press("u")
        await seat.until("drain #1 is not undone: queue crm is open, or was drained again since")
        assert await closed(jobs, "crm")


async def test_the_queue_itself_is_not_offered(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await at_queue(seat, "crm")
        await seat.press("O")
        await seat.until("Drain a queue")
        await seat.press("shift+tab", "shift+tab")
        offered = [queue.name for queue in seat.app.screen.query_one(QueueChoice)._field.offered]
        assert "mail" in offered
        assert "crm" not in offered


async def test_one_that_lost_its_store_is_undone_with_the_same_key(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, note, away = type(jobs.operations._store), type(jobs.operations._store).note_drain, [True]

    async def lost(*given: Any) -> Operation:
        if away:
            away.clear()
            raise StoreUnavailable("postgres", f"connection to server at 127.0.0.1 failed: {'refused, ' * 20}")
        return await note(*given)

    monkeypatch.setattr(stores, "note_drain", lost)
    async with sit((80, 24)) as seat:
        await at_queue(seat, "crm")
        await seat.press("P")
        await seat.until("crm is paused, u undoes it")
        await seat.press("O")
        await seat.until("Drain a queue")
        await seat.press("enter")
        await seat.until("postgres cannot be reached: #2 may have begun; 4 shows it")
        assert await closed(jobs, "crm")
        await seat.press("u")
        await seat.until("queue crm takes new jobs again")
        assert not await closed(jobs, "crm")
        assert (await jobs.operations.get(2)).state == "cancelled"
