"""Worlds for the exporter: the reference store, and the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.modes import memory, postgres
from tests.conformance.world import World


@pytest.fixture(params=["memory", "postgres"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """An empty store."""
    if request.param == "memory":
        opened = await memory(None)()
    else:
        opened = await postgres(request.getfixturevalue("empty_store_url"))()
        # A leader raises the epoch that claims need.
        await opened.store.acquire_leadership("upkeep", "leader", 60.0)
    yield opened
    await opened.close()


@pytest.fixture
async def remembered() -> AsyncIterator[World]:
    """An empty store in memory."""
    opened = await memory(None)()
    yield opened
    await opened.close()
