"""Queue objects in memory whose store can be broken."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queue_core import JobQueue
from tests.worker.breaking import BreakingStore, breaking_queue


@pytest.fixture
def both() -> tuple[JobQueue, BreakingStore]:
    """A queue object and its store."""
    return breaking_queue()


@pytest.fixture
async def jobs(both: tuple[JobQueue, BreakingStore]) -> AsyncIterator[JobQueue]:
    """A queue object in memory."""
    async with both[0] as jobs:
        yield jobs


@pytest.fixture
def store(both: tuple[JobQueue, BreakingStore]) -> BreakingStore:
    """Its store."""
    return both[1]
