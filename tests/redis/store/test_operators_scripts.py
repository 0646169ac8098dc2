"""The scripts behind an operator's verbs change what their headers say and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from queue_core.model.filters import parse
from queue_core.model.operation import Author, OperationRequest
from queue_core.redis.scripts import Call
from queue_core.stores.redis.session import RedisLink
from tests.conformance.world import STATES, World
from tests.redis.store.inserting import claimed, inserted
from tests.redis.store.stored import Look, changes


async def test_delete_and_restore(world: World, look: Look) -> None:
    await world.settle(await claimed(world), "dead")
    dead = await look()
    await world.change("delete", ["a"])
    trashed = await look()
    assert changes(dead, trashed) == {
        "job:a": {"trashed_at": "t4", "updated_at": "t4", "token": "token2"},
        "dlq": None,
        "trash": {"a": "t4"},
    }
    await world.change("delete", ["a"])
    assert changes(trashed, await look()) == {}
    await world.change("restore", ["a"])
    assert changes(dead, await look()) == {"job:a": {"token": "token2"}}


async def test_purge_leaves_only_totals(world: World, look: Look) -> None:
    await world.settle(await claimed(world), "dead")
    await world.change("delete", ["a"])
    await world.change("purge", ["a"])
    left = await look()
    assert sorted(left) == [
        "deaths", "last_seen", "minutes", "queues", "schema", "seq", "signature_releases", "signatures", "tallies",
        "token", "type_releases",
    ]  # fmt: skip
    assert left["tallies"]["purged:n:task"] == "1"


async def test_retry_by_an_operator(world: World, look: Look) -> None:
    await inserted(world)
    fresh = await look()
    await world.settle(await world.claim_job("a"), "completed", result="1")
    await world.change("retry", ["a"])
    found = changes(fresh, await look())
    assert found == {
        "job:a": {
            "updated_at": "t2",
            "run_at": "t2",
            "rank": "5/2",
            "retry_count": "0",
            "token": "token2",
            "ended": "token1c",
        },
        "pending": {"a": "5/2"},
        "unfinished": {"a": "t2"},
        "seq": "2",
        "token": "some",
        "tallies": found["tallies"],
        "minutes": {"completed": 1},
        "type_releases": {"task": "0:1:0:t"},
    }
    assert found["tallies"]["retried_by_operator:n:task"] == "1"
    before = await look()
    assert (await world.change("retry", ["a"])).ids == ()
    assert changes(before, await look()) == {}


async def test_a_retry_leaves_nothing_of_a_death(world: World, look: Look) -> None:
    await inserted(world)
    fresh = await look()
    await world.settle(await world.claim_job("a"), "dead")
    await world.change("retry", ["a"])
    after = await look()
    assert {"dlq", "errors", "trash"} & after.keys() == set()
    assert after["unfinished"].keys() == fresh["unfinished"].keys()


async def test_cancel_a_waiting_job(world: World, look: Look) -> None:
    await inserted(world)
    before = await look()
    await world.change("cancel", ["a"])
    after = await look()
    assert changes(before, after) == {
        "job:a": {"status": "cancelled", "updated_at": "t2", "completed_at": "t2"},
        "pending": None,
        "unfinished": None,
        "cancelled": {"a": "t2"},
        "types": None,
        "depths": None,
        "tallies": {"cancelled:n:task": "1"},
    }
    await world.change("cancel", ["a"])
    assert changes(after, await look()) == {}


async def test_pause_and_resume(world: World, look: Look) -> None:
    await inserted(world)
    before = await look()
    await world.operations.pause("work")
    paused = await look()
    assert changes(before, paused) == {"paused": "1"}
    assert await world.claim() == []
    assert changes(paused, await look()) == {}
    await world.operations.resume("work")
    assert changes(before, await look()) == {}


async def test_reads_change_nothing(world: World, look: Look) -> None:
    ids = [await world.job_in(state) for state in STATES]
    await world.beat()
    before = await look()
    inspector, store = world.inspector, world.store
    await inspector.overview()
    for text in ("", "trash:yes", "type:task", "status:running", "payload.x:1", f"id:{ids[0]}"):
        where = parse(text)
        await inspector.jobs(where, 100)
        await inspector.count(where)
        await inspector.ids(where, 100)
        await inspector.signatures(where, 3600, 4, 10)
    await inspector.get(ids[0])
    await inspector.attempts(ids[0])
    await inspector.tallies()
    await inspector.series(10)
    await inspector.conservation()
    await inspector.facts()
    await store.results(ids)
    await store.list_claimable("work", 100)
    await store.filter_claimable("work", ids)
    await store.list_ready("work", -1, 100)
    await store.next_due()
    await store.queues()
    assert changes(before, await look()) == {}


@pytest.mark.parametrize(("queues", "more"), [(60, 0), (240, 0), (240, 300)])
async def test_jobs_of_many_queues_are_looked_for_where_they_may_be(
    world: World, monkeypatch: pytest.MonkeyPatch, queues: int, more: int
) -> None:
    """Not each in every queue: to write an operation down took the square of the queues."""
    ids = [await world.job_in(("dead", "queued", "trashed")[n % 3], queue=f"q{n}") for n in range(queues)]
    large = await world.insert_many(more, queue="large")
    run_many, asked, read = RedisLink.run_many, [0], [0]

    async def counted(self: RedisLink, calls: Sequence[Call], together: bool = False) -> list[Any]:
        asked[0] += sum(call.name == "members" for call in calls)
        read[0] += sum(len(call.keys) for call in calls if call.name == "read")
        return await run_many(self, calls, together)

    monkeypatch.setattr(RedisLink, "run_many", counted)
    request = OperationRequest("delete", "some", Author("ana", "here"))
    number = (await world.operations.create(request)).number
    wanted = [*ids, *large[:10]]
    assert (await world.operations.add(number, wanted)).total == len(wanted)
    # A queue with more jobs than are looked for is asked for each of them.
    assert (asked[0], read[0]) == (queues + bool(more), queues + (len(wanted) if more else 0))
    assert await world.operations.move(number, "running")
    step = await world.operations.step(number, 1000)
    assert sorted(step.changed.ids) == sorted(ids[::3])
    assert read[0] <= 3 * len(wanted)
