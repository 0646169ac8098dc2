"""A queue in memory with a hand on its store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queue_core import JobQueue
from tests.conformance.world import World


async def _nothing(seconds: float) -> None:
    raise NotImplementedError("the memory store of a JobQueue follows the clock of the machine")


@pytest.fixture
async def jobs() -> AsyncIterator[JobQueue]:
    """An empty queue in memory."""
    async with JobQueue(memory=True) as jobs:
        yield jobs


@pytest.fixture
def world(jobs: JobQueue) -> World:
    """Brings jobs of `jobs` into any state."""
    return World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
