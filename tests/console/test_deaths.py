"""The deaths of the header are the sum of the growth of all errors, wherever the window begins within a minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobconsole.actions.plan import Target, breakdown, dead_of
from jobconsole.core.snapshot import SnapshotNeeds, read_snapshot
from jobconsole.format.humanize import moment_of
from queue_core.model.filters import Filter
from tests.conformance.making import failure
from tests.conformance.modes import Opener, memory, sqlite
from tests.emptying import new_file


@pytest.mark.parametrize("mode", [memory, sqlite])
async def test_the_times_of_death_before_a_change_are_those_of_its_jobs(
    mode: Callable[[str | None], Opener], tmp_path: Path
) -> None:
    """The first death of the signature is another's: that job was deleted."""
    new_file(tmp_path / "jobs.db")
    world = await mode(str(tmp_path / "jobs.db"))()
    names = ("aaaaaaaaaaaa", "bbbbbbbbbbbb")
    fields = [{"failure": failure(signature=name)} for name in names]
    try:
        await world.trashed(fields=fields[0])
        await world.advance(3600)
        died = []
        for one in (fields[0], fields[1], fields[0], fields[1]):
            died.append((await world.job((await world.ended("dead", one)).id)).updated_at)
            await world.advance(60)
        for chosen, first, last in ((names[:1], 0, 2), (names, 0, 3), (names[1:], 1, 3)):
            wheres = tuple(dead_of(name, Filter()) for name in chosen)
            target = Target("some", wheres=wheres, signatures=chosen, facts=(("types", "t 2"), ("died", "until then")))
            found = dict(await breakdown(world.inspector, target))
            times = [moment_of(died[number], died[last]) for number in (first, last)]
            assert found["died"] == f"from {times[0]} to {times[1]}"
            counts = [(await world.inspector.dead_counts(name)).first for name in chosen]
            assert min(one for one in counts if one) == died[first]
    finally:
        await world.close()


@pytest.mark.parametrize("mode", [memory, sqlite])
async def test_a_deletion_is_no_death(mode: Callable[[str | None], Opener], tmp_path: Path) -> None:
    """Jobs of a filter before they are removed for good: the time of their last change was shown as that of death."""
    new_file(tmp_path / "jobs.db")
    world = await mode(str(tmp_path / "jobs.db"))()
    try:
        dead = await world.ended("dead", {})
        died = (await world.job(dead.id)).completed_at
        await world.advance(60)
        await world.change("delete", [dead.id])
        trashed = await world.job(dead.id)
        assert died is not None
        assert trashed.trashed_at == trashed.updated_at > died
        found = dict(await breakdown(world.inspector, Target("some", wheres=(Filter(trash=True),))))
        assert found["died"] == moment_of(died, trashed.updated_at)
        assert found["deleted"] == moment_of(trashed.trashed_at, trashed.updated_at)
    finally:
        await world.close()


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
