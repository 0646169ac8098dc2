"""The modes that the suite runs over: a new one is an entry in modes.py, and the tests do not know which they see."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings
from queue_core.queue import JobQueue
from tests.conformance.making import QUEUE
from tests.conformance.modes import MODES, OPENERS, Opener, settings_of
from tests.conformance.world import World
from tests.emptying import new_file


@pytest.fixture
def sqlite_path(tmp_path: Path) -> str:
    """The path of a file with nothing but the schema."""
    new_file(tmp_path / "jobs.db")
    return str(tmp_path / "jobs.db")


@pytest.fixture
def redis_address(redis_url: str, redis_prefix: str) -> str:
    """The address of a Redis and a prefix under which there is nothing."""
    return f"{redis_url} {redis_prefix}"


@pytest.fixture(params=list(OPENERS))
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens the store and the inspector of a mode, empty; opened again, it is another link to the same store."""
    fixture, opener = OPENERS[request.param]
    address: str | None = request.getfixturevalue(fixture) if fixture else None
    return opener(address)


@pytest.fixture
async def world(opener: Opener) -> AsyncIterator[World]:
    """An empty store of the mode under test."""
    world = await opener()
    yield world
    await world.close()


Ruled = Callable[..., Awaitable[World]]
"""Opens the store again with these rules for the tests' queue, as keyword arguments of `QueueRules`."""


@pytest.fixture
async def ruled(opener: Opener) -> AsyncIterator[Ruled]:
    """Opens the store with rules for the queue that tests use; each call is another link to the same store."""
    worlds: list[World] = []

    async def opened(queue: str = QUEUE, **rules: Any) -> World:
        worlds.append(await opener({queue: QueueRules(**rules)}))
        return worlds[-1]

    yield opened
    for world in worlds:
        await world.close()


@pytest.fixture(params=MODES)
def mode_settings(request: pytest.FixtureRequest) -> JobsSettings:
    """Settings of the mode under test."""
    return settings_of(request.param, request)


@pytest.fixture
async def jobs(mode_settings: JobsSettings) -> AsyncIterator[JobQueue]:
    """An open queue object of the mode under test, with its delivery, and nothing in it."""
    before = set(threading.enumerate())
    async with JobQueue(settings=mode_settings) as jobs:
        yield jobs
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name == "heartbeat"]
    assert left == [], "a worker has ended and its heartbeat goes on"
