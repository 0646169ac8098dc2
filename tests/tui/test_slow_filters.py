"""A filter that takes long, as values in the payloads of 50,000 jobs do, holds up nothing but its own list."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from jobconsole.actions.plan import dead_only
from jobconsole.core import snapshot
from jobconsole.core.snapshot import DEAD, GroupReader, Groups, SnapshotNeeds
from queue_core import JobQueue
from queue_core.errors import QueueCoreError, StoreRefused, StoreUnavailable
from queue_core.model.filters import Filter, parse
from queue_core.model.report import SignatureInfo
from queue_core.model.triage.rules import NO_BOOK
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE
from tests.waiting import PATIENCE

Buried = dict[str, list[str]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "NARROWING_SECONDS", 0.0)


class Slow:
    """Reads of signatures that are counted, and take as long as a test wants."""

    def __init__(self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found = asyncio.Event()
        self.reads = 0
        self._read = jobs.inspector.signatures
        monkeypatch.setattr(jobs.inspector, "signatures", self.signatures)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        if where != DEAD:
            self.reads += 1
            await self.found.wait()
        return await self._read(where, window, slices, limit)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])
async def test_what_else_is_counted_goes_on(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """The whole picture grew old, under a heading that showed the sums of all jobs beside the filter."""
    slow = Slow(jobs, monkeypatch)
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("slash", *"queue:mail", "enter")
        await seat.until("searching, ", but="signatures ·")

        def queued() -> int:
            assert seat.app.model.snapshot is not None
            return seat.app.model.snapshot.totals.queued

        before = queued()
        await jobs.enqueue("send_email", queue="elsewhere")
        await seat.until(lambda: queued() == before + 1)
        await seat.press("R")
        await seat.until("the list is still being narrowed")
        slow.found.set()
        await seat.until("1 signature ·", but="searching")


@pytest.mark.parametrize(
    "error", [StoreUnavailable("memory", "no answer within 10 s"), StoreRefused("memory", "too many values")]
)
async def test_one_that_fails_takes_no_server_away(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch, error: QueueCoreError
) -> None:
    read = jobs.inspector.signatures

    async def failing(where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        if where != DEAD:
            raise error
        return await read(where, window, slices, limit)

    monkeypatch.setattr(jobs.inspector, "signatures", failing)
    async with sit() as seat:
        await seat.ready()
        await seat.until("3 signatures")
        await seat.press("slash", *"queue:mail", "enter")
        await seat.until(f"cannot be narrowed: {error.reason}", but="LOST")
        await seat.press("escape")
        await seat.until("3 signatures", but="LOST")


async def test_the_store_rests_after_a_read_that_took_long(jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a console would keep it as busy with one filter as it can be."""
    slow, ready = Slow(jobs, monkeypatch), asyncio.Event()
    reader, needs = GroupReader(ready.set), SnapshotNeeds(where=dead_only(parse("queue:mail")))

    async def read() -> Groups:
        return await reader.read(jobs.inspector, needs, NO_BOOK)

    await reader.read(jobs.inspector, SnapshotNeeds(), NO_BOOK)
    for _ in range(2):
        assert (await read()).behind.startswith("searching, ")
    slow.found.set()
    await asyncio.wait_for(ready.wait(), PATIENCE)
    monkeypatch.setattr(snapshot, "RESTS", 1e9)
    assert ((await read()).needs, slow.reads) == (needs, 1)
    for _ in range(3):
        assert ((await read()).needs, slow.reads) == (needs, 1)
    monkeypatch.setattr(snapshot, "OLD_SECONDS", -1.0)
    assert (await read()).behind == "as of 0s ago"
    reader.hurry()
    assert ((await read()).needs, slow.reads) == (needs, 2)
    other = replace(needs, window=60.0)
    await reader.read(jobs.inspector, other, NO_BOOK)
    assert slow.reads == 3, "what one asks for is not put off"
    await reader.close()
