"""Hints spare the leader from asking each queue; whatever is lost of them, a repair finds, and jobs are never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import ClusterCrossSlotError, ResponseError

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.errors import StoreRefused, StoreUnavailable
from queue_core.model.operation import Author, ChangeOptions, OperationRequest
from queue_core.model.schedule import Announcement, Schedule
from queue_core.model.settings import RedisSettings
from queue_core.stores.redis import hints, settle, upkeep
from queue_core.stores.redis.hints import DueHints, Presence
from queue_core.stores.redis.session import RedisLink
from queue_core.stores.redis.store import RedisStore
from queue_core.stores.redis.upkeep import SETS_PER_ROUND
from tests.conformance.making import LEASE, QUEUE, new_job, outcome
from tests.conformance.working import until
from tests.conformance.world import World
from tests.waiting import eventually

SOON = 3600.0


async def hint(client: Redis, prefix: str, name: str, queue: str = QUEUE) -> float | None:
    return await client.zscore(f"{prefix}hints:{{{name}}}", queue)


async def first(client: Redis, prefix: str, name: str, queue: str = QUEUE) -> float | None:
    entries = await client.zrange(f"{prefix}{{{queue}}}:{name}", 0, 0, withscores=True)
    return entries[0][1] if entries else None


async def lose(client: Redis, prefix: str) -> None:
    await client.delete(*(f"{prefix}hints:{{{name}}}" for name in ("due", "leases")))


async def test_ready_jobs_write_no_hints(world: World, client: Redis, redis_prefix: str) -> None:
    await world.insert_many(5)
    assert await hint(client, redis_prefix, "due") is None
    claims = await world.claim()
    await world.store.settle([outcome(claim, "completed") for claim in claims])
    assert await hint(client, redis_prefix, "due") is None


async def test_a_process_notes_its_leases_once_for_most_of_a_lease(
    world: World, client: Redis, redis_prefix: str
) -> None:
    await world.insert_many(5)
    await world.claim(1)
    noted = await hint(client, redis_prefix, "leases")
    assert noted is not None
    assert noted <= (await first(client, redis_prefix, "running") or 0), "a lease never ends before its hint"
    await lose(client, redis_prefix)
    await world.claim(1)
    assert await hint(client, redis_prefix, "leases") is None, "not noted again"
    await world.claim(1, lease=LEASE / 2)
    assert await hint(client, redis_prefix, "leases") is not None, "a shorter lease is"


async def test_a_process_relies_on_a_hint_until_it_is_looked_at(world: World, client: Redis, redis_prefix: str) -> None:
    """Another one's shorter lease brings the look forward; it finds nothing that runs, and removes the hint."""
    await world.insert_many(3)
    await client.zadd(f"{redis_prefix}hints:{{leases}}", {QUEUE: 1.0})  # long ago
    (claim,) = await world.claim(1)
    await world.settle(claim, "completed")
    assert await world.store.reclaim(10) == []
    await world.store._hints.settled()
    assert await hint(client, redis_prefix, "leases") is None, "nothing runs"
    await world.claim(1)
    assert await hint(client, redis_prefix, "leases") is not None, "else nobody looks when this lease ends"


async def test_each_way_to_be_put_off_is_noted(world: World, client: Redis, redis_prefix: str) -> None:
    """The hint is the time of the first that is due, or before that."""

    async def noted(name: str, queue: str = QUEUE) -> None:
        at = await hint(client, redis_prefix, "due", queue)
        assert at == await first(client, redis_prefix, name, queue), name
        assert at is not None
        await lose(client, redis_prefix)

    async def over(kind: str, **fields: Any) -> None:
        claim = await world.running(type="over")
        await world.settle(claim, kind, **fields)

    await world.insert(delay=SOON)
    await noted("scheduled")
    await over("retrying", delay=SOON / 2)
    await noted("retrying")
    await over("released", delay=SOON / 4, to_back=True)
    await noted("scheduled")
    dead = await world.ended("dead", type="over")
    await world.change("retry", [dead.id], ChangeOptions(spread=SOON / 8))
    await noted("scheduled")
    operation = OperationRequest("move", "", Author("", ""), "", ChangeOptions(queue="other"))
    number = (await world.operations.create(operation)).number
    await world.operations.add(number, [dead.id])
    await world.operations.move(number, "running")
    assert (await world.operations.step(number, 10)).changed.ids == (dead.id,)
    await noted("scheduled", "other")


async def test_a_retry_by_an_operation_that_puts_jobs_off_is_noted(
    world: World, client: Redis, redis_prefix: str
) -> None:
    dead = await world.ended("dead")
    operation = OperationRequest("retry", "", Author("", ""), "", ChangeOptions(delay=SOON))
    number = (await world.operations.create(operation)).number
    await world.operations.add(number, [dead.id])
    await world.operations.move(number, "running")
    await world.operations.step(number, 10)
    assert await hint(client, redis_prefix, "due") == await first(client, redis_prefix, "scheduled")


async def test_after_a_promotion_the_next_one_is_noted(world: World, client: Redis, redis_prefix: str) -> None:
    ids = [await world.insert(delay=delay) for delay in (10, 20, SOON)]
    await world.advance(15)
    assert [one.id for one in await world.store.promote(10)] == ids[:1]
    await world.store.next_due()  # waits until it is noted
    assert await hint(client, redis_prefix, "due") == await first(client, redis_prefix, "scheduled")
    await world.advance(15)
    assert [one.id for one in await world.store.promote(10)] == ids[1:2]
    await world.change("cancel", ids)
    await world.advance(2 * SOON)
    assert await world.store.promote(10) == []
    assert await world.store.next_due() is None, "a queue without any has no hint"
    assert await hint(client, redis_prefix, "due") is None


async def test_what_is_noted_while_a_queue_is_looked_at_stays(
    world: World, client: Redis, redis_prefix: str, settings: RedisSettings
) -> None:
    """The leader has read the queue, and another process enqueues before the leader puts the queue back."""
    await world.insert(delay=10)
    await world.advance(11)
    other = RedisStore(settings)
    store: Any = world.store
    async with store._hints.due_now() as (_, queues):
        assert queues == [QUEUE]
        assert await world.store.next_due() is None
        await other.insert([new_job(delay=60)])
        assert 50 < (await world.store.next_due() or 0) <= 60
    await store._hints.settled()
    left = await world.store.next_due()
    assert left is not None
    assert left < 0, "and what was there before is not forgotten"
    await other.close()


# -- what is lost


async def test_hints_that_somebody_deleted_come_back(world: World, client: Redis, redis_prefix: str) -> None:
    late = await world.insert(delay=10)
    running = await world.running()
    await world.insert(queue="q2", delay=SOON)
    await lose(client, redis_prefix)
    await world.advance(LEASE + 1)
    assert await world.store.promote(10) == []
    assert await world.store.reclaim(10) == []
    store: Any = world.store
    await store.next_work()
    assert [one.id for one in await world.store.promote(10)] == [late]
    assert [one.id for one in await world.store.reclaim(10)] == [running.id]
    assert await hint(client, redis_prefix, "due", "q2") == await first(client, redis_prefix, "scheduled", "q2")


async def test_a_crash_between_a_change_and_its_hint_loses_nothing(
    world: World, client: Redis, redis_prefix: str, settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a queue that has a hint, of something that is due later."""
    monkeypatch.setattr(hints, "REPAIR_INTERVAL", 0.0)
    await world.insert(delay=SOON)
    leader = RedisStore(settings)
    assert await leader.acquire_leadership("sweep", "leader", 60)
    await leader.next_work()
    with monkeypatch.context() as killed:

        async def nothing(*_: object) -> bool:
            return False

        killed.setattr(DueHints, "_note", nothing)
        await world.insert(delay=30)
        await world.insert(queue="new", delay=20)
        running = await world.running()
    assert ((await leader.next_work()).due or 0) > SOON / 2
    await leader.upkeep()
    look = await leader.next_work()
    assert look.due is not None
    assert look.lease is not None
    assert look.due < 25
    for queue in (QUEUE, "new"):
        assert await hint(client, redis_prefix, "due", queue) == await first(client, redis_prefix, "scheduled", queue)
    assert await hint(client, redis_prefix, "leases") == await first(client, redis_prefix, "running")
    assert running
    await leader.close()


async def test_a_leader_that_was_killed_with_queues_in_its_hand_is_followed_by_one_that_looks_at_all(
    world: World, settings: RedisSettings
) -> None:
    job_id = await world.insert(delay=10)
    await world.advance(11)
    killed, next_one = RedisStore(settings), RedisStore(settings)
    for store, worker in ((next_one, "w2"), (killed, "w1")):  # both have led and looked at all before
        assert await store.acquire_leadership("sweep", worker, 0.001)
        await store.next_work()
        await asyncio.sleep(0.01)
    await killed._link.run("hints_take", [killed._link.keys.hints("due")], [10])
    await asyncio.sleep(0.01)
    assert await next_one.acquire_leadership("sweep", "w2", 60)
    assert (await next_one.next_work()).due is not None
    assert [one.id for one in await next_one.promote(10)] == [job_id]
    for store in (killed, next_one):
        await store.close()


@pytest.mark.parametrize(
    "reason", [StoreUnavailable("redis", "gone"), asyncio.CancelledError()], ids=["away", "cancelled"]
)
async def test_a_leader_that_failed_in_the_middle_looks_again(
    world: World, monkeypatch: pytest.MonkeyPatch, reason: BaseException
) -> None:
    job_id = await world.insert(delay=10)
    await world.advance(11)
    store: Any = world.store
    await store.next_work()  # from here on nothing is doubtful

    async def fails(*_: object) -> None:
        raise reason

    with monkeypatch.context() as broken:
        broken.setattr(settle, "_until_now", fails)
        with pytest.raises(type(reason)):
            await store.promote(10)
    assert await store.promote(10) == []
    await store.next_work()
    assert [one.id for one in await store.promote(10)] == [job_id]


async def test_a_leader_that_could_not_put_hints_back_looks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has made ready what was due then; what is due later would wait for the next look at all queues."""
    ids = [await world.insert(delay=delay) for delay in (10, 20)]
    await world.advance(11)
    store: Any = world.store
    await store.next_work()

    async def fails(*_: object) -> None:
        raise StoreUnavailable("redis", "gone")

    with monkeypatch.context() as broken:
        broken.setattr(DueHints, "_note_next", fails)
        assert [one.id for one in await store.promote(10)] == ids[:1]
        await store._hints.settled()
    assert (await store.next_work()).due is not None


async def test_what_is_no_set_of_hints_is_removed(world: World, client: Redis, redis_prefix: str) -> None:
    job_id = await world.insert(delay=10)
    await world.advance(11)
    for name in ("due", "leases"):
        await client.set(f"{redis_prefix}hints:{{{name}}}", "rubbish")
    await world.insert(delay=60)  # nobody who enqueues is kept from it
    store: Any = world.store
    with pytest.raises(StoreUnavailable):
        await store.next_due()
    await store.next_work()
    assert [one.id for one in await store.promote(10)] == [job_id]


# -- how many commands


async def commands(client: Redis) -> int:
    return int((await client.info("stats"))["total_commands_processed"])


@pytest.mark.parametrize("cluster", [False, True])
async def test_presence_finds_those_that_are_there(
    client: Redis, redis_prefix: str, settings: RedisSettings, monkeypatch: pytest.MonkeyPatch, cluster: bool
) -> None:
    monkeypatch.setattr(hints, "KEYS_PER_COMMAND", 64)
    link = RedisLink(settings)
    names = [f"q{number}" for number in range(300)]
    some = {"q0", "q77", *names[100:164], "q299"}
    for name in some:
        await client.set(link.keys.of(name, "thing"), 1)
    found = Presence(link, "thing")
    found._apart = cluster
    assert await found.find(names, whole=True) == some
    assert await found.find(names[:50], whole=True) == {"q0"}
    pages: Sequence[set[str]] = [await found.find(names) for _ in range(8)]
    assert set().union(*pages) == some
    assert await found.any(names)
    for name in some:
        await client.delete(link.keys.of(name, "thing"))
    assert not await found.any(names)
    assert await found.find(names) == set()
    await link.close()


@pytest.mark.parametrize(
    "refusal",
    [
        ClusterCrossSlotError("Keys in request don't hash to the same slot"),
        ResponseError("CROSSSLOT Keys in request don't hash to the same slot"),
    ],
)
@pytest.mark.parametrize("look", ["any", "find"])
async def test_a_cluster_is_known_by_its_refusal(
    settings: RedisSettings, monkeypatch: pytest.MonkeyPatch, refusal: Exception, look: str
) -> None:
    """Older versions of the client have no class for it outside of their own client of a cluster."""
    link = RedisLink(settings)
    send = link.send

    async def refuse_several(commands: Pipeline) -> list[Any]:
        if any(len(args) > 2 for args, _ in commands.command_stack):
            raise StoreRefused("redis", str(refusal)) from refusal
        return await send(commands)

    monkeypatch.setattr(link, "send", refuse_several)
    found = Presence(link, "thing")
    assert not await getattr(found, look)(["a", "b", "c"])
    assert found._apart
    await link.close()


async def test_looks_of_a_leader_cost_about_the_same_for_a_thousand_queues_as_for_one(
    own_servers: EmbeddedServers,
) -> None:
    """39,000 commands a second, when each queue was asked."""
    store = RedisStore(RedisSettings.model_validate({"url": own_servers.redis_url, "timeout": 30}))
    own_client = Redis.from_url(own_servers.redis_url, decode_responses=True)
    spent = []
    for names in (["q0"], [f"q{number}" for number in range(1000)]):
        await own_client.sadd("jobs:queues", *names)
        assert await store.acquire_leadership("sweep", "leader", 60)
        await store.next_work()
        await store.upkeep()
        before = await commands(own_client)
        for _ in range(10):
            await store.next_work()
            assert await store.ready_queues() == []
        await store.upkeep()
        spent.append(await commands(own_client) - before)
    await store.close()
    await own_client.aclose()
    assert spent[1] <= 2 * spent[0] + SETS_PER_ROUND, spent  # of the sets that keep what has ended, a page


# -- the leader hears


async def test_the_leader_hears_of_what_is_due_before_all_else(
    world: World, settings: RedisSettings, client: Redis
) -> None:
    """Only of that: what is due later than what it waits for wakes nobody."""
    leader = RedisStore(settings)

    async def leads() -> bool:
        await leader.acquire_leadership("sweep", "leader", 60)
        return leader.hears()

    assert await eventually(leads)
    heard: list[str] = []
    hear = leader._signals._hear
    leader._signals._hear = lambda text: (heard.append(text), hear(text))[1]  # type: ignore[method-assign, func-returns-value]

    async def told(*expected: str) -> None:
        await client.publish(leader._link.keys.notifications, "mark")  # what was told before this was heard by then
        assert await eventually(lambda: heard[-1:] == ["mark"])
        assert [text for text in heard if text != "leader leader"] == [*expected, "mark"]
        heard.clear()

    await told()
    await world.insert(delay=100)
    await told("due")
    await world.insert(delay=200)
    await world.insert(queue="other", delay=300)
    await world.insert()
    await told()
    claim = await world.running()
    await world.settle(claim, "retrying", delay=50.0)
    await told("due")
    dead = await world.ended("dead")
    await world.change("retry", [dead.id], ChangeOptions(spread=1.0))
    await told("due")
    waiting = asyncio.create_task(leader.committed(60))
    await asyncio.sleep(0)
    await world.insert(delay=0.001)
    await asyncio.wait_for(waiting, 30)
    await leader.close()


async def test_a_leader_learns_of_a_tick_that_another_process_announces(
    world: World, settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has read of ticks holds while it hears of changes."""
    monkeypatch.setattr(upkeep, "TICKS_KNOWN", 1e9)
    leader = RedisStore(settings)
    signals = leader._leading.signals

    async def heard() -> bool:
        await leader.acquire_leadership("sweep", "leader", 60)
        return signals.hears()

    await until(heard)
    assert (await leader.next_work()).tick is None
    assert not signals.ticks_changed
    nightly = Schedule("nightly", "0 3 * * *", "UTC", "task", "{}", QUEUE)
    await world.schedules.announce([Announcement(nightly, await world.now() + SOON)])
    assert await eventually(lambda: signals.ticks_changed)
    tick = (await leader.next_work()).tick
    assert tick == pytest.approx(SOON, abs=60)
    await leader.close()
