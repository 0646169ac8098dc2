"""Looking at many jobs: small sets are read at once, large ones are walked in pages, and every look has its bound."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from queue_core.model.filters import Filter, parse
from queue_core.model.report import Order
from queue_core.stores.redis import read, search
from queue_core.stores.redis.claim import claim
from queue_core.stores.redis.statistics import cursors
from tests.conformance.making import QUEUE, TYPE, new_job, outcome
from tests.conformance.world import World


async def pages(world: World, text: str, limit: int, order: Order = "newest") -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await world.inspector.jobs(parse(text), limit, cursor, order)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.fixture(params=[5000, 3])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Up to how many members a set is read at once; few go with short pages."""
    monkeypatch.setattr(search, "SMALL_SET", request.param)
    monkeypatch.setattr(cursors, "FIRST_PAGE", min(request.param, cursors.FIRST_PAGE))
    return int(request.param)


TEXTS = [
    "", "type:odd", "type:odd status:queued", "status:queued", "status:running", "!status:completed", "status:dead",
    "queue:other", "type:even queue:other", "status:scheduled", "priority:7", "payload.n:3", "three",
    "trash:yes", "trash:yes type:odd", "age:<1h status:queued",
]  # fmt: skip


async def crowd(world: World) -> list[str]:
    """Return the ids of jobs of all kinds in the order of their last changes."""
    ids = []
    for number in range(40):
        state = ("queued", "scheduled", "running", "retrying", "completed", "cancelled", "dead", "trashed")[number % 8]
        given = {"type": ("odd", "even")[number % 2], "queue": (QUEUE, "other")[number % 3 % 2], "priority": number % 9}
        payload = f'{{"n": {number % 5}, "text": "{("one", "three")[number % 2]}"}}'
        ids.append(await world.job_in(state, **given, payload=payload))
    return ids


@pytest.mark.parametrize("limit", [3, 100])
async def test_small_sets_or_large_ones_are_the_same(world: World, small: int, limit: int) -> None:
    ids = await crowd(world)
    jobs = {job_id: await world.job(job_id) for job_id in ids}
    order = {job_id: (jobs[job_id].updated_at, job_id) for job_id in ids}
    for text in TEXTS:
        expected = await world.inspector.ids(parse(text), 1000)
        assert expected == sorted(expected, key=lambda job_id: order[job_id], reverse=True), text
        assert await pages(world, text, limit) == expected, text
        assert await pages(world, text, limit, "oldest") == expected[::-1], text
        assert await world.inspector.count(parse(text)) == len(expected), text


async def test_a_page_that_found_nothing_yet_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SCAN_PAGE", 10)
    monkeypatch.setattr(cursors, "FIRST_PAGE", 100)
    wanted = await world.insert(tags=("needle",))
    await world.insert_many(2000)
    page = await world.inspector.jobs(parse("tag:needle"), 10)
    assert page.jobs == ()
    assert page.cursor is not None
    assert await pages(world, "tag:needle", 10) == [wanted]


async def test_many_of_one_moment(world: World) -> None:
    """One script writes one time; its jobs are told apart by their ids, over all pages."""
    ids = await world.insert_many(1300)
    assert sorted(await pages(world, "", 450)) == sorted(ids)
    assert await pages(world, "", 450, "oldest") == (await pages(world, "", 700))[::-1]


async def test_counts_that_read_no_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.insert_many(30)
    await world.ended("dead")

    async def read(*_: object) -> None:
        raise AssertionError("a job was read")

    monkeypatch.setattr(search.FilterScan, "_matching", read)
    for text, count in (("", 31), ("status:queued", 30), ("status:dead", 1), (f"queue:{QUEUE}", 31), ("age:<1h", 31)):
        assert await world.inspector.count(parse(text)) == count, text
    assert len(await world.inspector.ids(Filter(), 100)) == 31
    assert len(await world.inspector.signatures(Filter(), 3600, 4, 10)) == 1


async def test_a_large_payload_is_cut_in_lists_and_searched_whole(world: World) -> None:
    payload = '{"text": "' + "ü" * 5000 + '", "last": "needle"}'
    job_id = await world.insert(payload=payload)
    await world.insert()
    (job,) = (await world.inspector.jobs(parse("needle"), 10)).jobs
    assert (job.id, job.payload, len(job.payload_text) < 4100) == (job_id, None, True)
    assert (await world.inspector.jobs(parse("payload.last:needle"), 10)).jobs[0].id == job_id
    assert (await world.job(job_id)).payload_text == payload


async def heads(world: World, times: int) -> Sequence[str]:
    found: list[str] = []
    for _ in range(times):
        found += [ready.id for ready in await world.store.list_claimable(QUEUE, 500)]
    return found


async def test_a_head_behind_many_that_nobody_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is bounded and goes on where the last one stopped, so that nothing is overlooked for ever."""
    monkeypatch.setattr(claim, "MAX_SCANNED", 500)
    await world.beat()
    await world.store.insert([new_job(type="strange", priority=9) for _ in range(2600)])
    job_id = await world.insert()
    assert await heads(world, 1) == []
    assert job_id in await heads(world, 10)
    urgent = await world.insert(priority=10)
    assert urgent in await heads(world, 1)


async def test_nobody_runs_anything_of_it(world: World) -> None:
    await world.store.insert([new_job(type="strange") for _ in range(20)])
    await world.beat()
    assert await world.store.list_claimable(QUEUE, 10) == []
    assert await world.claim() == []
    assert (await world.inspector.overview()).orphaned_types == {"strange": 20}


async def test_waiting_types_are_counted_through_everything(world: World) -> None:
    ids = await world.insert_many(10)
    await world.store.insert([new_job(delay=60) for _ in range(3)])
    claims = await world.claim(6)
    kinds = ("completed", "retrying", "dead", "released", "cancelled")
    await world.store.settle([outcome(claim, kind) for claim, kind in zip(claims, kinds, strict=False)])
    await world.change("cancel", [ids[9], claims[5].id])
    await world.change("retry", [claims[2].id])
    assert (await world.inspector.overview()).orphaned_types == {TYPE: 3 + 3 + 1 + 1 + 1}
    await world.advance(3600)
    await world.store.promote(100)
    await world.store.reclaim(100)
    assert (await world.inspector.overview()).orphaned_types == {TYPE: 9}
    await world.claim(100)
    assert (await world.inspector.overview()).orphaned_types == {}
