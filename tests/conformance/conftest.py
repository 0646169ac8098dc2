"""The modes that the suite runs over. A new mode is one more entry here; the tests do not know which one they see."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.modes import OPENERS, Opener
from tests.conformance.world import World


@pytest.fixture(params=list(OPENERS))
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens the store and the inspector of a mode, empty."""
    fixture, opener = OPENERS[request.param]
    address: str | None = request.getfixturevalue(fixture) if fixture else None
    return opener(address)


@pytest.fixture
async def world(opener: Opener) -> AsyncIterator[World]:
    """An empty store of the mode under test."""
    world = await opener()
    yield world
    await world.close()
