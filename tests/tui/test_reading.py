"""A list is read to its end, however slowly the store answers, and says so when its picture is old."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jobconsole.core.listing import Window
from jobconsole.present.job import DetailData
from jobconsole.tui.base import refresher
from jobconsole.tui.widgets.detail import Detail
from queue_core import JobQueue
from queue_core.model.states import Status
from queue_core.ports.inspector import Inspector
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.test_triage import SIZES


@SIZES
async def test_a_page_that_takes_longer_than_a_snapshot_is_shown_all_the_same(
    sit: Sit, jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    claim = await world.running()
    monkeypatch.setattr(refresher, "RESYNC_SECONDS", 0.05)
    monkeypatch.setattr(refresher, "COMPARE_SECONDS", 0.05)
    read, looks = Window.refresh, list[str]()

    async def slowly(self: Window, *given: Any) -> None:
        looks.append("begun")
        await asyncio.sleep(1.0)
        await read(self, *given)

    async with sit(size) as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until("running")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        monkeypatch.setattr(Window, "refresh", slowly)
        await world.settle(claim, "completed")
        await seat.until(lambda: seat.table("all-jobs").selection.row.status is Status.COMPLETED)
        assert len(looks) < 20, "one read at a time"


@SIZES
async def test_a_job_that_is_read_slowly_is_shown_all_the_same(
    sit: Sit, jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    claim = await world.running()
    monkeypatch.setattr(refresher, "RESYNC_SECONDS", 0.05)
    monkeypatch.setattr(refresher, "COMPARE_SECONDS", 0.05)
    # the store's, behind the one that understands all filters
    inspector: type[Inspector] = type(getattr(jobs.inspector, "inspector"))  # noqa: B009
    read = inspector.attempts

    async def slowly(self: Inspector, job_id: str) -> Any:
        await asyncio.sleep(1.0)
        return await read(self, job_id)

    async with sit(size) as seat:
        await seat.ready()
        await seat.press("3")
        await seat.until(lambda: seat.table("all-jobs").selection.row is not None)
        await seat.press("enter")
        await seat.until("[Traceback]")
        monkeypatch.setattr(inspector, "attempts", slowly)
        await world.settle(claim, "completed")
        await seat.until("completed")


@pytest.mark.usefixtures("buried")
async def test_a_list_that_is_being_read_is_not_called_empty(sit: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    """'nothing here' was on the screen until the first jobs came."""
    answered, read = asyncio.Event(), Window.refresh

    async def slowly(self: Window, *given: Any) -> None:
        await answered.wait()
        await read(self, *given)

    monkeypatch.setattr(Window, "refresh", slowly)
    async with sit() as seat:
        await seat.ready()
        await seat.pilot.press("3")
        await seat.until("Jobs  reading ...")
        assert "nothing here" not in seat.text()
        answered.set()
        await seat.until("❯")


async def test_a_detail_draws_the_job_as_it_was_read_last(sit: Sit, buried: dict[str, list[str]]) -> None:
    """Also where that has the place in memory of one that was drawn before."""
    async with sit() as seat:
        await seat.ready()
        await seat.press("enter", "enter")
        detail = seat.view.query_one(Detail)
        await seat.until(lambda: detail._loaded is not None)
        assert detail._loaded is not None
        job = detail._loaded.job
        detail._loaded = DetailData(replace(job, traceback="", error="the first"))
        assert "the first" in str(detail.content(60))
        place, others = id(detail._loaded), list[DetailData]()
        detail._loaded = None
        for _ in range(1000):
            others.append(DetailData(replace(job, traceback="", error="the second")))
            if id(others[-1]) == place:
                break
        detail._loaded = others[-1]
        assert "the second" in str(detail.content(60))
