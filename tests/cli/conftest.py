"""The command line over real servers, and stores in which something has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import Cli
from tests.conformance.modes import postgres
from tests.conformance.world import World

Scene = Callable[[World], Awaitable[None]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder: no configuration file of this machine is found."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def alone() -> Cli:
    """The command line without any server."""
    return Cli({})


@pytest.fixture
def cli(postgres_url: str, redis_url: str, redis_prefix: str) -> Iterator[Cli]:
    """The command line with an empty database and an empty prefix."""
    cli = Cli(
        {
            "JOBCONSOLE_JOBS__POSTGRES__URL": postgres_url,
            "JOBCONSOLE_JOBS__REDIS__URL": redis_url,
            "JOBCONSOLE_JOBS__REDIS__PREFIX": redis_prefix,
        }
    )
    yield cli
    cli.close()


@pytest.fixture
def play(postgres_url: str) -> Callable[[Scene], None]:
    """Let something happen in the store of `cli`."""

    async def played(scene: Scene) -> None:
        world = await postgres(postgres_url)()
        try:
            # A leader raises the epoch that claims need.
            await world.store.lead("upkeep", "leader", 60.0)
            await scene(world)
        finally:
            await world.close()

    return lambda scene: asyncio.run(played(scene))
