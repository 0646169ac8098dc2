"""Traces of the model, done on every store."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import redis_address, sqlite_path  # noqa: F401
from tests.conformance.modes import OPENERS, empty
from tests.model.model import Jobs
from tests.model.replay import Replay, Walker

TRACES = 100
PARTS = range(5)
TOGETHER = 20
"""Traces of one store, which is empty before: what a store holds makes time pass slowly for it."""
STEPS = 18
PAIRS = 450
CRASHES = frozenset({"crash", "crash, commits lost"})
"""In the model alone: memory goes with its process, SQLite has no server, those of the others die in tests/faults."""
KINDS_OF_JOBS = [
    Jobs(fails, waits)
    for fails in ((False, False), (True, False), (True, True))
    for waits in ((False, False), (True, False))
]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", list(OPENERS))
async def test_the_store_does_what_the_model_does(mode: str, part: int, request: pytest.FixtureRequest) -> None:
    fixture, opener = OPENERS[mode]
    address: str | None = request.getfixturevalue(fixture) if fixture else None
    walker = Walker(part, without=CRASHES)
    for first in range(0, TRACES, TOGETHER):
        if address is not None and first:
            empty(address)
        world = await opener(address)()
        try:
            for number in range(first, first + TOGETHER):
                replay = Replay(world, f"trace-{number}", KINDS_OF_JOBS[number % len(KINDS_OF_JOBS)])
                await replay.run(walker, STEPS)
            where = await world.inspector.conservation()
            assert (where.unfinished, where.completed + where.dead + where.cancelled) == (0, 2 * TOGETHER)
        finally:
            await world.close()
    assert len(walker.pairs) > PAIRS
