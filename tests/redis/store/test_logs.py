"""What stands in Redis of logs and announced types, and that nothing of it is left behind."""

from __future__ import annotations

from redis.asyncio import Redis

from queue_core.model.job import MAX_LOG_LINES, Claim, LogLine
from tests.conformance.making import QUEUE
from tests.conformance.world import World
from tests.redis.store.stored import Look, changes

DAY = 86400.0


def lines(claim: Claim, first: int, last: int) -> list[LogLine]:
    return [LogLine(claim.id, claim.token, claim.queue, n, f"line {n}") for n in range(first, last + 1)]


async def test_a_log_is_a_list_beside_the_job(world: World, look: Look) -> None:
    await world.insert(id="a")
    claim = await world.claim_job("a")
    before = await look()
    assert await world.store.log(lines(claim, 1, 2)) == [True, True]
    after = await look()
    assert list(changes(before, after)) == ["log:a"]
    first, second = (entry.split(" ", 4) for entry in after["log:a"])
    assert (first[:3], first[4]) == (["1", str(claim.token), "1"], "line 1")
    assert (second[:3], second[4]) == (["2", str(claim.token), "2"], "line 2")
    assert await world.store.log(lines(claim, 1, 2)) == [True, True]
    assert await look() == after


async def test_a_stale_line_changes_nothing(world: World, look: Look) -> None:
    await world.insert(id="a")
    claim = await world.claim_job("a")
    await world.settle(claim, "completed")
    before = await look()
    assert await world.store.log(lines(claim, 1, 2)) == [False, False]
    assert await world.store.log(lines(claim._replace(id="nobody"), 1, 1)) == [False]
    assert await look() == before


async def test_a_log_is_bounded(world: World, client: Redis, redis_prefix: str) -> None:
    claim = await world.running()
    for start in range(1, 4 * MAX_LOG_LINES, 700):
        await world.store.log(lines(claim, start, start + 699))
    assert await client.llen(f"{redis_prefix}{{{QUEUE}}}:log:{claim.id}") == MAX_LOG_LINES


async def test_logs_go_with_their_jobs(world: World, client: Redis, redis_prefix: str) -> None:
    async def logs() -> int:
        return len([key async for key in client.scan_iter(f"{redis_prefix}*:log:*", count=1000)])

    for kind in ("completed", "cancelled", "dead", "dead"):
        claim = await world.running()
        await world.store.log(lines(claim, 1, 3))
        await world.settle(claim, kind)
    await world.change("delete", [claim.id])
    assert await logs() == 4
    await world.change("purge", [claim.id])
    assert await logs() == 3
    await world.advance(40 * DAY)
    await world.store.upkeep()
    assert await logs() == 1, "the dead stay"


async def test_what_somebody_else_wrote_into_a_log_is_no_line(world: World, client: Redis, redis_prefix: str) -> None:
    claim = await world.running()
    await world.store.log(lines(claim, 1, 2))
    await client.lpush(f"{redis_prefix}{{{QUEUE}}}:log:{claim.id}", "rubbish", "1 2 x 4 text", "")
    assert [entry.text for entry in (await world.inspector.logs(claim.id)).entries] == ["line 1", "line 2"]
    assert await world.store.log(lines(claim, 3, 3)) == [True]


async def test_what_somebody_else_wrote_among_types_is_no_type(world: World, client: Redis, redis_prefix: str) -> None:
    await world.store.register_types({"task": {"type": "object"}})
    await client.hset(f"{redis_prefix}announced", mapping={"a": "rubbish", "b": "1 [1]", "c": ""})
    assert list(await world.inspector.types()) == ["task"]
    await world.store.register_types({"a": {"type": "object"}})
    assert sorted(await world.inspector.types()) == ["a", "task"]
