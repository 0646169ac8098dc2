"""Titles of error signatures go with the last dead job that has them; those of jobs in the trash stay."""

from __future__ import annotations

import pytest

from queue_core.model.filters import Filter
from queue_core.model.triage.signatures import NOW, UNTOUCHED, SignatureFacts
from queue_core.stores.postgres.statistics import totals
from queue_core.stores.sqlite import upkeep
from tests.conformance.making import failure
from tests.conformance.modes import OPENERS, Opener
from tests.conformance.test_operations import tidied
from tests.conformance.world import World

DAY = 86400.0
GONE, TRASHED, DEAD, FRESH = (letter * 12 for letter in "abcd")
pytestmark = pytest.mark.parametrize("opener", [mode for mode in OPENERS if mode != "redis"], indirect=True)
"""Mode redis keeps the 10,000 that were seen last."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks begin with each round, and take small steps."""
    monkeypatch.setattr(totals, "FIRST_WALK_AFTER", 0.0)
    monkeypatch.setattr(totals, "WALK_INTERVAL", 0.0)
    monkeypatch.setattr(totals, "SIGNATURES_PER_STATEMENT", 2)
    monkeypatch.setattr(totals, "TRASH_PER_STATEMENT", 1)
    monkeypatch.setattr(upkeep, "TITLES_REST", 0.0)


async def died(world: World, signature: str) -> str:
    return (await world.ended("dead", {"failure": failure(signature=signature, title=f"Title {signature}")})).id


async def seen(world: World, trash: bool = False) -> dict[str, tuple[str, float]]:
    """Return the title of each signature, and how many days ago it was first seen."""
    now = (await world.inspector.overview()).now
    found = await world.inspector.signatures(Filter(trash=trash), 60.0, 1, 100)
    return {one.signature: (one.title, round((now - one.first_seen).total_seconds() / DAY)) for one in found}


async def test_they_go_with_the_last_dead_job(world: World, opener: Opener) -> None:
    gone, trashed = await died(world, GONE), await died(world, TRASHED)
    await died(world, DEAD)
    await world.change("delete", [gone, trashed])
    await world.change("purge", [gone])
    await world.advance(3 * DAY)
    await died(world, FRESH)
    for _ in range(3):
        await tidied(opener)
    await died(world, GONE)
    assert await seen(world) == {
        DEAD: (f"Title {DEAD}", 3), FRESH: (f"Title {FRESH}", 0), GONE: (f"Title {GONE}", 0),
    }  # fmt: skip
    assert await seen(world, trash=True) == {TRASHED: (f"Title {TRASHED}", 3)}


async def test_they_stay_for_two_days_from_the_first_death(world: World, opener: Opener) -> None:
    job_id = await died(world, GONE)
    await world.change("delete", [job_id])
    await world.change("purge", [job_id])
    await world.advance(1.5 * DAY)
    for _ in range(3):
        await tidied(opener)
    await died(world, GONE)
    assert await seen(world) == {GONE: (f"Title {GONE}", 2)}


async def test_what_was_kept_since_it_was_resolved_goes_with_them(world: World, opener: Opener) -> None:
    resolved = SignatureFacts("resolved", await world.now(), release=NOW, changes=((1, {}, {}),))
    for signature in (GONE, DEAD):
        assert await world.operations.set_facts(signature, UNTOUCHED, resolved)
    gone = [await died(world, GONE)]
    await died(world, DEAD)
    await world.upkeep()
    assert all([one.back_at for one in await world.inspector.signature_deaths([GONE, DEAD])])
    await world.change("delete", gone)
    await world.change("purge", gone)
    await world.advance(3 * DAY)
    for _ in range(3):
        await tidied(opener)
    assert await world.inspector.signature_deaths([GONE]) == []
    await died(world, GONE)
    await world.upkeep()
    found = await world.inspector.signature_deaths([GONE, DEAD])
    assert {one.signature: bool(one.back_at) for one in found} == {GONE: False, DEAD: True}
