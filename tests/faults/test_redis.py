"""Redis is emptied, killed, frozen and filled with rubbish under load: it costs time, never a job nor a second run."""

from __future__ import annotations

import asyncio

import pytest
import redis
from redis.asyncio import Redis

from jobconsole.embedded.servers import EmbeddedServers
from tests.faults.plant import LONG, Plant, now
from tests.waiting import PATIENCE, eventually

ROUNDS = 20 if LONG else 3


async def unharmed(plant: Plant, name: str, since: float) -> None:
    """No fault of Redis is a reason for a second run: the store alone decides."""
    await plant.until_quiet()
    found = await plant.findings(name, since)
    assert found.problems == []
    assert (found.unfinished, found.extra_runs, found.stale_refused) == (0, 0, 0)


async def test_emptied_under_load(plant: Plant) -> None:
    plant.crew.start(2)
    async with plant.load(), Redis.from_url(plant.redis_url) as client:
        for _ in range(ROUNDS):
            await plant.until_ended(len(plant.ledger.ends) + plant.random.randint(1, 100))
            since = now()
            keys = [key async for key in client.scan_iter(f"{plant.prefix}*")]
            await client.delete(*keys)
    await unharmed(plant, "emptied", since)


async def test_flushall_with_a_backlog_behind_it(plant_of_its_own: Plant) -> None:
    """Nobody enqueues any more: all that is left has to come out of the rebuild."""
    plant = plant_of_its_own
    await plant.enqueue_mixed(5000 if LONG else 700)
    plant.crew.start(2)
    await plant.until_ended(50)
    since = now()
    with redis.Redis.from_url(plant.redis_url) as client:
        client.flushall()
    await unharmed(plant, "FLUSHALL with a backlog", since)


async def _deleted(client: Redis, key: str) -> bool:
    return await client.delete(key) == 1


async def test_one_ready_set_deleted(plant: Plant) -> None:
    """The marker is still there, so that nothing looks wrong: the audit finds it by the head of the queue."""
    await plant.enqueue_mixed(200)
    async with Redis.from_url(plant.redis_url) as client:
        # Enqueueing waits for the commit; the offers follow it.
        assert await eventually(lambda: _deleted(client, f"{plant.prefix}{{default}}:pending"))
    plant.crew.start(1)
    await unharmed(plant, "ready set deleted", now())


async def test_killed_and_started_without_its_data(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    plant = plant_of_its_own
    plant.crew.start(2)
    async with plant.load():
        for _ in range(ROUNDS):
            await plant.until_ended(len(plant.ledger.ends) + plant.random.randint(1, 100))
            since = now()
            await asyncio.to_thread(hit_servers.redis.kill)
            await plant.until_ended(len(plant.ledger.ends) + 30)
            await asyncio.to_thread(hit_servers.redis.start)
    await unharmed(plant, "killed, started empty", since)


async def test_frozen_for_longer_than_any_time_limit(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    """Connections stay open and nobody answers: enqueueing stays bounded, and work goes on through the store."""
    plant = plant_of_its_own
    plant.crew.start(2)
    await plant.enqueue_mixed(50)
    await plant.until_ended(20)
    since = now()
    await asyncio.to_thread(hit_servers.redis.pause)
    await asyncio.wait_for(plant.enqueue_mixed(50), PATIENCE)
    await plant.until_ended(100)
    frozen = now() - since
    limit = plant.jobs.settings.redis.timeout
    assert await eventually(lambda: now() - since > 2 * limit)
    await plant.enqueue_mixed(50)
    await asyncio.to_thread(hit_servers.redis.resume)
    await plant.until_ended(150)
    log = plant.crew.log()
    print(f"[faults] frozen: the next 80 jobs ended {frozen:.1f} s later, with a limit of {limit:g} s")  # noqa: T201
    await unharmed(plant, "frozen", since)
    assert log.count("redis lost") <= 2 * 4, "switches are said once, not at every try"


async def test_flapping(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    plant = plant_of_its_own
    plant.crew.start(2)
    async with plant.load():
        for _ in range(ROUNDS):
            since = now()
            await asyncio.to_thread(hit_servers.redis.stop)
            await asyncio.sleep(plant.random.uniform(0, 1))
            await asyncio.to_thread(hit_servers.redis.start)
            await asyncio.sleep(plant.random.uniform(0, 1))
    log = plant.crew.log()
    await unharmed(plant, "flapping", since)
    assert log.count("redis lost") <= 2 * 2, "each worker knows it for flapping from the second loss on"


async def test_away_when_the_workers_start(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    plant = plant_of_its_own
    await asyncio.to_thread(hit_servers.redis.stop)
    await plant.enqueue_mixed(30)
    plant.crew.start(2)
    await plant.until_ended(30)
    since = now()
    await asyncio.to_thread(hit_servers.redis.start)
    await plant.enqueue_mixed(30)
    await unharmed(plant, "away at the start", since)


async def test_out_of_memory(plant_of_its_own: Plant) -> None:
    """Nothing can be written: enqueueing succeeds, and the store hands out what Redis cannot be told."""
    plant = plant_of_its_own
    plant.crew.start(2)
    await plant.enqueue_mixed(30)
    await plant.until_ended(30)
    since = now()
    async with Redis.from_url(plant.redis_url) as client:
        await client.config_set("maxmemory", "1")
        await plant.enqueue_mixed(50)
        await plant.until_ended(80)
        took = now() - since
        await client.config_set("maxmemory", "0")
    await plant.enqueue_mixed(30)
    print(f"[faults] out of memory: 50 jobs took {took:.1f} s")  # noqa: T201
    await unharmed(plant, "out of memory", since)


async def test_busy_in_a_script(plant_of_its_own: Plant) -> None:
    """Somebody's script holds the server for seconds: it answers everybody that it is busy."""
    plant = plant_of_its_own
    plant.crew.start(2)
    async with Redis.from_url(plant.redis_url) as client, Redis.from_url(plant.redis_url) as other:
        await client.config_set("busy-reply-threshold", "100")
        since = now()
        spinning = asyncio.create_task(other.eval("while true do end", 0))
        await asyncio.sleep(0.3)
        await plant.enqueue_mixed(50)
        await plant.until_ended(50)
        await client.script_kill()
        await asyncio.gather(spinning, return_exceptions=True)
    await plant.enqueue_mixed(30)
    await unharmed(plant, "busy in a script", since)


async def test_rubbish_and_repetition_in_the_ready_set(plant: Plant) -> None:
    """Candidates that never were, that ran already, that run now, and that are no ids at all."""
    plant.crew.start(2)
    done = await plant.enqueue_mixed(50)
    await plant.until_ended(50)
    running = await plant.enqueue(5, "waits_for", gate="open")
    await plant.until_started(55)
    pending = f"{plant.prefix}{{default}}:pending"
    rubbish = ["", "no id", "{", "\\", '"', "00000000-0000-0000-0000-000000000000", "x" * 10_000, b"\xff\xfe\x00"]
    async with Redis.from_url(plant.redis_url) as client:
        since = now()
        waiting = await plant.enqueue_mixed(100)
        for ids in (done, running, waiting, rubbish):
            for rank in (-1, 0, 1, 2**53):
                await client.zadd(pending, dict.fromkeys(ids, rank))
        await plant.enqueue_mixed(100)
        await plant.until_ended(250)
        plant.open_gate("open")
        await unharmed(plant, "rubbish in the ready set", since)
    assert "Traceback" not in plant.crew.log()


@pytest.mark.parametrize("name", ["pending", "generation", "event_seq", "waiters"])
async def test_a_key_of_a_wrong_type(plant: Plant, name: str) -> None:
    plant.crew.start(1)
    await plant.enqueue_mixed(20)
    await plant.until_ended(20)
    key = f"{plant.prefix}{{default}}:{name}"
    since = now()
    async with Redis.from_url(plant.redis_url, decode_responses=True) as client:
        await client.delete(key)
        await client.hset(key, "somebody", "else's")
        await plant.enqueue_mixed(50)
        await plant.until_ended(70)
        assert await eventually(lambda: put_right(client, key)), "it is put right without a person"
    await plant.enqueue_mixed(20)
    await unharmed(plant, f"wrong type of {name}", since)


async def put_right(client: Redis, key: str) -> bool:
    return bool(await client.type(key) != "hash")
