"""The deaths of the header are the sum of the growth of all errors, wherever the window begins within a minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobconsole.core.snapshot import SnapshotNeeds, read_snapshot
from tests.conformance.modes import Opener, memory, sqlite
from tests.emptying import new_file


@pytest.mark.parametrize("window", [900.0, 3_600.0])
@pytest.mark.parametrize("mode", [memory, sqlite])
async def test_header_and_rows_count_the_same_deaths(
    mode: Callable[[str | None], Opener], window: float, tmp_path: Path
) -> None:
    new_file(tmp_path / "jobs.db")
    world = await mode(str(tmp_path / "jobs.db"))()
    seen = []
    try:
        await world.ended("dead", {})
        await world.advance(window - 65)
        for _ in range(14):
            read = await read_snapshot(world.inspector, SnapshotNeeds(window=window))
            seen.append(read.deaths)
            assert read.deaths == sum(group.grown for group in read.signatures)
            await world.advance(10)
    finally:
        await world.close()
    assert (seen[0], seen[-1]) == (1, 0)
