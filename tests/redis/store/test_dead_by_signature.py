"""Dead jobs by signature: Redis leaves the others out and counts groups, in parts of any size, in the lists' order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from queue_core.model.filters import Filter, parse, set_of
from queue_core.model.report import Order
from queue_core.redis.scripts import Call, Scripts
from queue_core.stores.redis.statistics import cursors, groups
from tests.conformance.making import QUEUE
from tests.conformance.test_finding import die, inspector_of, signatures_of
from tests.conformance.world import World

NAMES = [f"{number:012x}" for number in range(1, 5)]


@pytest.fixture(params=[1, 2, 3, 7, 4_000], autouse=True)
def part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many jobs a script reads."""
    monkeypatch.setattr(cursors, "MAX_PAGE", request.param)
    monkeypatch.setattr(groups, "JOBS_PER_SCRIPT", request.param)
    return int(request.param)


async def crowd(world: World) -> dict[str, str]:
    """Return the signatures of dead jobs of two queues by their ids, the oldest first."""
    found = {}
    for number in range(24):
        kind = (1, 2, 1, 3, 1)[number % 5] if number < 20 else 4
        queue, type_ = (QUEUE, "other")[number % 3 % 2], ("odd", "even")[number % 2]
        found[await die(world, kind, queue=queue, type=type_)] = NAMES[kind - 1]
    return found


async def pages(world: World, where: Filter, limit: int, order: Order) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await world.inspector.jobs(where, limit, cursor, order)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("chosen", [NAMES[:1], NAMES[1:3], NAMES[3:], NAMES[:3], ["f" * 12], []])
async def test_lists_are_sifted_in_order(world: World, chosen: list[str]) -> None:
    dead = await crowd(world)
    expected = [job_id for job_id, name in dead.items() if name in chosen]
    where = Filter((set_of("signatures", chosen),))
    assert await world.inspector.ids(where, 100) == expected[::-1]
    assert await world.inspector.count(where) == len(expected)
    for limit in (2, 100):
        assert await pages(world, where, limit, "newest") == expected[::-1]
        assert await pages(world, where, limit, "oldest") == expected
    narrow = where.having(*parse("queue:other").terms)
    assert set(await world.inspector.ids(narrow, 100)) == {
        one for one in expected if (await world.job(one)).queue == "other"
    }
    assert await world.inspector.count(where.having(*parse("priority:9").terms)) == 0


async def test_groups_are_counted(world: World) -> None:
    dead = await crowd(world)
    found = {one.signature: one for one in await world.inspector.signatures(Filter(), 900.0, 4, 10)}
    assert {name: one.count for name, one in found.items()} == Counter(dead.values())
    for name, one in found.items():
        jobs = [await world.job(job_id) for job_id, other in dead.items() if other == name]
        assert one.sample_id == jobs[-1].id
        assert one.last_seen == jobs[-1].completed_at
        assert dict(one.types) == Counter(job.type for job in jobs)
        assert one.queues == tuple(sorted({job.queue for job in jobs}))
        assert one.grown == len(jobs)


async def test_owners_and_states_need_no_look_at_the_dead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = await crowd(world)
    await signatures_of(world).own(NAMES[3], "ana")
    inspector, looked = inspector_of(world), list[str]()
    run_many = Scripts.run_many

    async def noted(self: Scripts, calls: list[Call], *given: Any) -> list[Any]:
        looked.extend(call.name for call in calls if call.name in {"page", "group", "sift"})
        return await run_many(self, calls, *given)

    monkeypatch.setattr(Scripts, "run_many", noted)
    monkeypatch.setattr(cursors, "MAX_PAGE", 4_000)
    page = await inspector.jobs(parse("owner:ana"), 10)
    assert {job.id for job in page.jobs} == {job_id for job_id, name in dead.items() if name == NAMES[3]}
    # one part of each queue, of the jobs themselves
    assert looked == ["sift", "sift"]
    looked.clear()
    assert await inspector.count(parse("owner:nobody-has-this")) == 0
    assert await inspector.signatures(parse("owner:nobody-has-this"), 900.0, 4, 10) == []
    assert looked == []


async def test_with_more_signatures_than_are_kept_the_dead_are_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await crowd(world)
    monkeypatch.setattr(groups, "MAX_KNOWN", 2)
    await signatures_of(world).own(NAMES[3], "ana")
    assert set(await inspector_of(world).ids(parse("owner:none"), 100)) == {
        job_id for job_id, name in dead.items() if name != NAMES[3]
    }
