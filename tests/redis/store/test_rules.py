"""Rules of queues in Redis: what their keys hold, what lost answers and forgotten scripts do, what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core.errors import QueueFull, StoreUnavailable
from queue_core.model.filters import parse
from queue_core.model.job import NewJob
from queue_core.model.operation import UNCHANGED, ChangeOptions, MemberVerb
from queue_core.model.rules import QueueRules, aged_rank
from queue_core.model.settings import RedisSettings, RetentionSettings
from queue_core.ports.store import ClaimRequest
from queue_core.redis import keys as documentation
from queue_core.stores.redis import search
from queue_core.stores.redis.statistics import cursors
from queue_core.stores.redis.store import RedisStore
from queue_core.stores.redis.upkeep import RedisUpkeep
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job, outcome
from tests.conformance.modes import redis as opener
from tests.conformance.test_schedules import announce, fire, planned, tick_of
from tests.conformance.world import WAITING, World
from tests.redis.store.stored import Look, changes
from tests.redis.store.test_leaks import _NAME, LASTING, names
from tests.redis.store.test_traps import losing_answers

KEY = "customer-1"
DAY = 86400.0


async def ruled(redis_url: str, redis_prefix: str, **rules: Any) -> World:
    return await opener(f"{redis_url} {redis_prefix}")({QUEUE: QueueRules(**rules)})


def claim_of(ids: Sequence[str], limit: int = 10) -> ClaimRequest:
    return ClaimRequest(QUEUE, "w", (TYPE,), limit, LEASE, ids)


async def test_ordering_keys_stand_in_three_sets(world: World, look: Look) -> None:
    await world.insert(id="a", ordering_key=KEY)
    before = await look()
    await world.insert(id="b", ordering_key=KEY, priority=9)
    rank = (127 - 9) * 2**45 + 2
    found = changes(before, await look())
    assert found["order_wait"] == {f"10:{KEY}:{2:016}:{rank}:b": 0}
    assert found["blocked"] == {"b": "t2"}
    assert "pending" not in found
    assert before["admitted"] == {f"10:{KEY}:a": 0}
    await world.settle(await world.claim_job("a"), "completed")
    after = await look()
    assert (after["admitted"], after.get("order_wait"), after.get("blocked")) == ({f"10:{KEY}:b": 0}, None, None)
    assert after["pending"] == {"b": "9/2"}


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "a:b"), ("a", "ab"), ("1:a", "a"), ("é", "é:é"), ("a", "a\x00b"), ("10:x", "10"), (":", "::")],
)
async def test_no_key_is_taken_for_another(world: World, one: str, other: str) -> None:
    """Whatever characters they have: both stand in the same sets."""
    firsts = [await world.insert(ordering_key=key) for key in (one, other)]
    seconds = [await world.insert(ordering_key=key) for key in (one, other)]
    claims = await world.claim()
    assert {claim.id for claim in claims} == set(firsts)
    by_id = {claim.id: claim for claim in claims}
    for first, second in zip(firsts, seconds, strict=True):
        settled = await world.settle(by_id[first], "completed")
        assert [ready.id for ready in settled.unblocked] == [second]
    assert (await world.job(seconds[1])).ordering_key == other


async def test_jobs_due_at_one_moment_arrive_as_they_were_enqueued(world: World) -> None:
    run_at = await world.now() + LEASE
    jobs = [new_job(id=name, ordering_key=KEY, run_at=run_at) for name in ("c", "a", "b")]
    await world.store.insert(jobs)
    await world.advance(LEASE + 5)
    order = [ready.id for ready in await world.store.promote(10)]
    while claims := await world.claim():
        order += [ready.id for ready in (await world.settle(claims[0], "completed")).unblocked]
    assert order == ["c", "a", "b"]


async def test_the_end_of_a_keyed_job_whose_answer_got_lost(store: RedisStore) -> None:
    """Those that it let through are ready, and the audit finds them."""
    jobs = [new_job(ordering_key=KEY) for _ in range(2)]
    await store.insert(jobs)
    (claim,) = await store.claim(claim_of([job.id for job in jobs]))
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.settle([outcome(claim, "completed")])
    (again,) = await store.settle([outcome(claim, "completed")])
    assert (again.accepted, again.unblocked) == (True, ())
    assert [ready.id for ready in await store.list_ready(QUEUE, -1, 10)] == [jobs[1].id]


async def test_a_limited_claim_whose_answer_got_lost_counts_once(settings: RedisSettings) -> None:
    store = RedisStore(settings, rules={QUEUE: QueueRules(rate="3/h", concurrency=5)})
    jobs = [new_job() for _ in range(10)]
    await store.insert(jobs)
    request = claim_of([job.id for job in jobs], limit=1)
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.claim(request)
    assert [claim.id for claim in await store.claim(request)] == [jobs[0].id]
    assert await store.claim(request._replace(limit=10)) == []  # a rate below one a second saves up one start
    await store.close()


async def test_a_clock_that_is_set_back_takes_no_tokens(
    settings: RedisSettings, client: Redis, redis_prefix: str
) -> None:
    store = RedisStore(settings, rules={QUEUE: QueueRules(rate="3/s")})
    jobs = [new_job() for _ in range(3)]
    await store.insert(jobs)
    request = claim_of([job.id for job in jobs], limit=1)
    assert len(await store.claim(request)) == 1
    at = int(await client.hget(f"{redis_prefix}{{{QUEUE}}}:rate", "at"))  # type: ignore[misc]
    await client.hset(f"{redis_prefix}{{{QUEUE}}}:rate", "at", at + 3600 * 10**6)  # type: ignore[misc]
    assert [claim.id for claim in await store.claim(request)] == [jobs[1].id]
    await store.close()


async def test_a_unique_insert_whose_answer_got_lost_is_one_job(store: RedisStore) -> None:
    job = new_job(unique_key="k")
    with pytest.raises(StoreUnavailable), losing_answers(store):
        await store.insert([job])
    (again,) = await store.insert([job])
    assert (again.id, again.created) == (job.id, False)


async def test_a_list_over_several_queues_goes_in_whole_or_not_at_all(settings: RedisSettings) -> None:
    """Also where another queue than the full one has no limit, or has room."""
    store = RedisStore(settings, rules={"a": QueueRules(limit=10), "b": QueueRules(limit=2)})
    await store.insert([new_job(queue="b")])
    for _ in range(2):
        with pytest.raises(QueueFull) as caught:
            await store.insert([new_job(queue=queue) for queue in ("free", "a", "b", "b")])
        assert (caught.value.queue, caught.value.limit) == ("b", 2)
    assert [await store.list_ready(queue, -1, 10) for queue in ("free", "a")] == [[], []]
    assert len(await store.insert([new_job(queue=queue) for queue in ("free", "a", "b")])) == 3
    await store.close()


async def test_a_list_of_several_scripts_goes_in_whole_or_not_at_all(settings: RedisSettings) -> None:
    store = RedisStore(settings, rules={QUEUE: QueueRules(limit=10_500)})
    with pytest.raises(QueueFull):
        await store.insert([new_job() for _ in range(10_501)])
    assert await store.list_ready(QUEUE, -1, 10) == []
    assert len(await store.insert([new_job() for _ in range(10_500)])) == 10_500
    await store.close()


async def test_duplicates_need_no_room(settings: RedisSettings) -> None:
    store = RedisStore(settings, rules={QUEUE: QueueRules(limit=2)})
    job, unique = new_job(), new_job(unique_key="k")
    await store.insert([job, unique])
    again = await store.insert([job, new_job(unique_key="k"), unique])
    assert [one.id for one in again] == [job.id, unique.id, unique.id]
    with pytest.raises(QueueFull):
        await store.insert([job, new_job()])
    await store.close()


@pytest.mark.parametrize("known", ["insert", "check_capacity", "neither"])
async def test_a_limit_holds_on_a_server_that_forgot_a_script(
    settings: RedisSettings, client: Redis, known: str
) -> None:
    """In a transaction the scripts that it knows have run when it says which ones it does not know."""
    store = RedisStore(settings, rules={QUEUE: QueueRules(limit=2)})
    for number in range(4):
        await client.script_flush()
        if known == "insert":
            await store.insert([new_job(queue="other")])
        elif known == "check_capacity":
            await store._link.run("check_capacity", ["a", "b", "c", "d", "e", "f"], ["name", "", "", "", ""])
        if number < 2:
            assert (await store.insert([new_job()]))[0].created
        else:
            with pytest.raises(QueueFull):
                await store.insert([new_job()])
    assert len(await store.list_ready(QUEUE, -1, 10)) == 2
    await store.close()


async def test_a_tick_waits_for_the_word_of_a_forgotten_script(
    redis_url: str, redis_prefix: str, client: Redis
) -> None:
    """It passes with its job, not without: nobody has said that there is no room."""
    world = await ruled(redis_url, redis_prefix, limit=1)
    await announce(world)
    await announce(world, name="other", queue="other")
    await client.script_flush()
    other = await planned(world, "other")
    assert await world.schedules.fire(tick_of(other)) is not None
    inserted, tick = await fire(world)
    assert inserted is not None
    assert (await planned(world)).last_job == inserted.id == (tick.job and tick.job.id)
    await world.close()


@pytest.mark.parametrize("small", [5000, 2])
async def test_who_waits_for_a_key_is_listed_and_counted(
    world: World, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(search, "SMALL_SET", small)
    monkeypatch.setattr(cursors, "FIRST_PAGE", min(small, cursors.FIRST_PAGE))
    ids = await world.insert_many(6, ordering_key=KEY) + await world.insert_many(3)
    inspector = world.inspector
    await world.claim(2)
    for text, expected in (("status:queued", 7), ("", 9), ("!status:completed", 9), ("status:running", 2)):
        assert await inspector.count(parse(text)) == expected, text
        assert len(await inspector.ids(parse(text), 100)) == expected, text
        assert len((await inspector.jobs(parse(text), 100)).jobs) == expected, text
    where = await inspector.conservation()
    assert where.unfinished == len(ids)
    (queue,) = (await inspector.overview()).queues
    assert (queue.depth, queue.running) == ({5: 7}, 2)


async def test_the_oldest_may_wait_for_its_key(world: World) -> None:
    await world.insert(ordering_key=KEY)
    blocked = await world.insert(ordering_key=KEY)
    await world.claim()
    await world.advance(60)
    await world.insert()
    (queue,) = (await world.inspector.overview()).queues
    assert queue.oldest == (await world.job(blocked)).run_at


async def test_depths_are_counted_through_everything(world: World, client: Redis, redis_prefix: str) -> None:
    """The counts are those of a look at every job, after each kind of move."""

    async def check() -> None:
        depths: dict[str, int] = {}
        for job in (await world.inspector.jobs(parse("!status:running"), 1000)).jobs:
            if job.status not in WAITING:
                continue
            field = f"{'q' if job.status == 'queued' else 'd'}{job.priority}"
            depths[field] = depths.get(field, 0) + 1
        stored = await client.hgetall(f"{redis_prefix}{{{QUEUE}}}:depths")
        assert {field: int(n) for field, n in stored.items()} == depths

    for priority in (-128, 5, 127):
        given = {"priority": priority, "ordering_key": KEY if priority == 5 else None}
        await world.insert_many(8, **given)
        await world.insert(delay=60, **given)
    await check()
    seen: set[str] = set()
    kinds = ["completed", "retrying", "dead", "released", "cancelled"]
    for number in range(12):
        claims = await world.claim(2)
        await check()
        given = {"to_back": number % 2 == 0, "delay": 30.0 * (number % 3)}
        ended = [outcome(claim, kinds[(number + place) % 5], **given) for place, claim in enumerate(claims)]
        await world.store.settle(ended)
        seen |= {claim.id for claim in claims}
        await check()
    await world.claim(2)
    await world.advance(LEASE * 3)
    await world.store.reclaim(100)
    await check()
    await world.store.promote(100)
    await check()
    await world.change("retry", sorted(seen), ChangeOptions(spread=5.0))
    await world.change("cancel", sorted(seen)[::2])
    await check()


async def test_a_unique_key_goes_with_its_holder_only(world: World, client: Redis, redis_prefix: str) -> None:
    unique = f"{redis_prefix}{{{QUEUE}}}:unique"
    await world.insert(id="a", unique_key="k")
    await world.settle(await world.claim_job("a"), "dead")
    await world.insert(id="b", unique_key="k")
    await world.change("delete", ["a"])
    await world.change("purge", ["a"])
    assert await client.hgetall(unique) == {"k": "b"}
    await world.settle(await world.claim_job("b"), "completed")
    await world.advance(8 * DAY)
    await world.store.upkeep()
    assert await client.exists(unique) == 0


async def test_a_retry_does_not_take_a_key_that_was_given_for_a_time(world: World) -> None:
    job_id = await world.job_in("dead", unique_key="k", unique_seconds=60.0)
    await world.advance(61)
    await world.change("retry", [job_id])
    (other,) = await world.store.insert([new_job(unique_key="k")])
    assert other.created


async def test_arrivals_grow_whatever_the_clock_does(redis_url: str, redis_prefix: str, client: Redis) -> None:
    """With aging, ranks are times: after a failover to a server whose clock is behind, first in is first out."""
    world = await ruled(redis_url, redis_prefix, aging="1s")
    ahead = int(await world.now() * 1e6) + 3600 * 10**6
    await client.set(f"{redis_prefix}{{{QUEUE}}}:arrival", ahead)
    inserted = [(await world.store.insert([new_job()]))[0] for _ in range(2)]
    assert [one.rank for one in inserted] == [aged_rank(5, ahead + number, 10**6) for number in (1, 2)]
    await world.close()


async def test_a_dead_job_that_expires_lets_its_key_go(redis_url: str, redis_prefix: str) -> None:
    """Nobody is told of it; the audit finds who is ready by it."""
    rules = {QUEUE: QueueRules(dead_blocks_key=True)}
    world = await opener(f"{redis_url} {redis_prefix}")(rules)
    jobs = await world.insert_many(2, ordering_key=KEY)
    await world.settle(await world.claim_job(jobs[0]), "dead")
    assert await world.claim_ids() == []
    await world.advance(2 * DAY)
    store = world.store
    assert isinstance(store, RedisStore)
    await RedisUpkeep(store._link, RetentionSettings(dead=DAY), rules).run()
    assert [ready.id for ready in await world.store.list_ready(QUEUE, -1, 10)] == [jobs[1]]
    await world.close()


async def live(world: World) -> None:
    """Bring jobs with keys of all kinds into all states, and end them."""
    jobs: list[NewJob] = []
    for n in range(12):
        seconds = 60.0 if n % 2 else None
        jobs.append(new_job(ordering_key=f"o{n % 3}", unique_key=f"u{n}", unique_seconds=seconds, priority=n))
    await world.store.insert(jobs)
    ids = [job.id for job in jobs]
    for kind in ("dead", "retrying", "released", "completed", "cancelled"):
        await world.store.settle([outcome(claim, kind, to_back=True, delay=5.0) for claim in await world.claim(2)])
    await world.change("retry", ids)
    await world.change("cancel", ids)
    await world.store.settle([outcome(claim, "completed") for claim in await world.claim()])
    dead = [job.id for job in (await world.inspector.jobs(parse("status:dead"), 100)).jobs]
    await world.change("delete", dead)


async def test_nothing_is_left_of_keys_and_rules(redis_url: str, redis_prefix: str, client: Redis) -> None:
    world = await ruled(redis_url, redis_prefix, aging="1s", rate="100/s", concurrency=50, limit=100)
    documented = {name for line in str(documentation.__doc__).splitlines() for name in _NAME.findall(line)}
    await live(world)
    assert await names(client, redis_prefix) <= documented
    await world.advance(40 * DAY)
    world.store._upkeep._seldom_at = float("-inf")  # type: ignore[attr-defined]
    await world.store.upkeep()
    admitted = f"{redis_prefix}{{{QUEUE}}}:capacity_answer"
    assert 0 < await client.ttl(admitted) <= 10
    await client.delete(admitted)
    assert await names(client, redis_prefix) <= LASTING | {"rate", "arrival"}
    await world.close()


@pytest.mark.parametrize("verb", ["cancel", "move"])
async def test_what_waits_for_its_key_no_longer_is_not_kept_as_such(
    world: World, client: Redis, redis_prefix: str, verb: MemberVerb
) -> None:
    _, second = await world.insert_many(2, ordering_key="k")
    places = [f"{redis_prefix}{{{QUEUE}}}:{name}" for name in ("blocked", "order_wait")]
    assert [await client.zcard(place) for place in places] == [1, 1]
    options = ChangeOptions(queue="other") if verb == "move" else UNCHANGED
    assert (await world.change(verb, [second], options)).ids == (second,)
    assert [await client.zcard(place) for place in places] == [0, 0]
