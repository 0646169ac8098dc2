"""Trap 18: ranks of 16 digits and tokens of 19 pass through Lua unharmed. Trap 6: offering again changes nothing."""

from __future__ import annotations

from redis.asyncio import Redis

from queue_core.delivery.redis_dispatcher import RedisDispatcher
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.model.events import Event
from queue_core.model.job import Ready

TOP = 2**53 - 1
RANKS = [TOP - number for number in range(50)] + [(127 << 45) + number for number in range(50)] + [1, 0]


def jobs(ranks: list[int]) -> list[Ready]:
    return [Ready(f"job-{rank}", "work", rank) for rank in ranks]


async def test_trap_18_every_digit_of_a_rank_arrives(
    dispatcher: RedisDispatcher, client: Redis, redis_prefix: str
) -> None:
    await dispatcher.offer(jobs(RANKS))
    stored = await client.zrange(f"{redis_prefix}{{work}}:pending", 0, -1, withscores=True)
    assert [(member, int(score)) for member, score in stored] == [(f"job-{rank}", rank) for rank in sorted(RANKS)]


async def test_trap_18_neighbours_come_out_in_order(dispatcher: RedisDispatcher) -> None:
    await dispatcher.offer(jobs(RANKS))
    taken = await dispatcher.take(["work"], len(RANKS), 1.0)
    assert taken is not None
    assert taken.ids == [f"job-{rank}" for rank in sorted(RANKS)]


async def test_trap_18_can_fail(client: Redis, redis_prefix: str) -> None:
    """A rank that becomes a Lua number comes back with its last digits gone."""
    careless = "return redis.call('ZADD', KEYS[1], tonumber(ARGV[1]) .. '', ARGV[2])"
    key = f"{redis_prefix}{{work}}:pending"
    await client.eval(careless, 1, key, str(TOP), "job")
    assert int(await client.zscore(key, "job")) != TOP


async def test_trap_18_a_token_is_no_lua_number(bus: RedisEventBus, client: Redis, redis_prefix: str) -> None:
    """A token of a late epoch has more digits than any float; it goes through as text inside the message."""
    token = (4_194_303 << 40) | 1_099_511_627_775
    async with client.pubsub() as pubsub:
        await pubsub.subscribe(f"{redis_prefix}events")
        await bus.publish([Event("claimed", "work", "a-job", "task", token)])
        while (message := await pubsub.get_message(timeout=60)) is None or message["type"] != "message":
            pass
    assert f'"token":{token}' in message["data"]


async def test_trap_6_offering_again_changes_nothing(
    dispatcher: RedisDispatcher, client: Redis, redis_prefix: str
) -> None:
    await dispatcher.offer(jobs(RANKS))
    key = f"{redis_prefix}{{work}}:pending"
    before = await client.zrange(key, 0, -1, withscores=True)
    for _ in range(3):
        await dispatcher.offer(jobs(RANKS[::-1]))
    assert await client.zrange(key, 0, -1, withscores=True) == before
    assert len(before) == len(RANKS)
