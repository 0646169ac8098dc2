"""The console over every store: what it shows, and that two keys retry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobconsole.tui.app import ConsoleApp
from queue_core import JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.scenes import night
from tests.tui.seat import seated

MODES = ("memory", "sqlite", "postgres", "redis")


@pytest.fixture(params=MODES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> JobsSettings:
    """The settings of a mode that delivers without a second server."""
    mode = str(request.param)
    parts: dict[str, Any] = {}
    if mode == "sqlite":
        parts["sqlite"] = {"path": str(tmp_path / "jobs.db")}
    if mode == "postgres":
        parts["postgres"] = {"url": request.getfixturevalue("postgres_url")}
    if mode == "redis":
        parts["redis"] = {
            "url": request.getfixturevalue("redis_url"),
            "prefix": request.getfixturevalue("redis_prefix"),
        }
    return JobsSettings.model_validate({"queue_backend": mode, **parts})


async def _nothing(seconds: float) -> None:
    raise NotImplementedError


async def test_two_keys_retry_over_every_store(settings: JobsSettings) -> None:
    async with JobQueue(settings=settings) as jobs:
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        buried = await night(world)
        async with seated(ConsoleApp(jobs)) as seat:
            await seat.ready()
            await seat.until("3 signatures · 10 jobs")
            await seat.until("mail.py:88")
            await seat.press("R", "enter")
            await seat.until("retried 5 jobs")
            states = {(await jobs.inspector.get(one)).status for one in buried["send_email"]}
            assert states == {Status.QUEUED}
            await seat.press("2")
            await seat.until("Throughput")
            await seat.press("4")
            await seat.until("✓ done")
            await seat.until("5 of 5 jobs")
            assert seat.app.operator.problem == ""
            assert seat.app.refresher.problem == ""
        await world.close()


async def test_states_over_every_store(settings: JobsSettings) -> None:
    async with JobQueue(settings=settings) as jobs:
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        await night(world)
        async with seated(ConsoleApp(jobs)) as seat:
            await seat.ready()
            await seat.until("NEW")
            signature = seat.table("signatures").selection.row.signature
            await seat.press("W", *"mx-7", "enter")
            await seat.until("note kept, u undoes it")
            await seat.press("V", *"r9", "enter")
            await seat.until("resolved in r9, u undoes it")
            _, state = await jobs.signatures.get(signature)
            assert (state.word, state.facts.release, state.facts.note) == ("resolved", "r9", "mx-7")
            await seat.press("u")
            await seat.until("undone: the resolution of")
            _, state = await jobs.signatures.get(signature)
            assert (state.word, state.facts.note) == ("known", "mx-7")
            assert seat.app.refresher.problem == ""
        await world.close()
