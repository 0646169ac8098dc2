"""Consoles over the real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base import refresher
from queue_core import JobQueue
from tests.conformance.world import World
from tests.tui.scenes import night
from tests.tui.seat import NARROW, Seat, seated

Sit = Callable[..., AbstractAsyncContextManager[Seat]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does to the store without an event is seen sooner."""
    monkeypatch.setattr(refresher, "COMPARE_SECONDS", 0.5)


@pytest.fixture(autouse=True)
def in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the test run says."""
    monkeypatch.delenv("NO_COLOR", raising=False)


async def _nothing(seconds: float) -> None:
    raise NotImplementedError("the real store has its own clock")


@pytest.fixture
def postgres_url(empty_workers_url: str) -> str:
    """A database with nothing in it; no test here changes its schema."""
    return empty_workers_url


@pytest.fixture
async def jobs(postgres_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[JobQueue]:
    """An empty queue on PostgreSQL and Redis."""
    async with JobQueue(postgres=postgres_url, redis=redis_url, prefix=redis_prefix) as jobs:
        # A leader raises the epoch that claims need.
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        yield jobs


@pytest.fixture
async def world(jobs: JobQueue) -> AsyncIterator[World]:
    """Brings jobs of the queue into any state."""
    world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
    yield world
    await world.close()


@pytest.fixture
async def buried(world: World) -> dict[str, list[str]]:
    """The dead jobs of a night by their type, newest first."""
    return await night(world)


@pytest.fixture
def sit(jobs: JobQueue) -> Sit:
    """Sit down at a console over the queue."""

    def sitting(
        size: tuple[int, int] = NARROW, drawn: bool = False, **options: object
    ) -> AbstractAsyncContextManager[Seat]:
        return seated(ConsoleApp(jobs, **options), size, drawn)  # type: ignore[arg-type]

    return sitting


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a console of a test keeps what outlives it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path
