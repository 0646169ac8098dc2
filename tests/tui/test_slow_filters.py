"""A filter that takes long, as values in the payloads of 50,000 jobs do, holds up nothing but its own list."""

from __future__ import annotations

import asyncio

import pytest

from jobconsole.core import snapshot
from jobconsole.core.snapshot import DEAD
from queue_core import JobQueue
from queue_core.errors import QueueCoreError, StoreRefused, StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.report import SignatureInfo
from tests.tui.conftest import Sit
from tests.tui.seat import NARROW, WIDE

Buried = dict[str, list[str]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "NARROWING_SECONDS", 0.0)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])
async def test_what_else_is_counted_goes_on(
    sit: Sit, jobs: JobQueue, buried: Buried, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    """The whole picture grew old, under a heading that showed the sums of all jobs beside the filter."""
    found, read = asyncio.Event(), jobs.inspector.signatures

    async def slowly(where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        if where != DEAD:
            await found.wait()
        return await read(where, window, slices, limit)

    monkeypatch.setattr(jobs.inspector, "signatures", slowly)
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
        found.set()
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
