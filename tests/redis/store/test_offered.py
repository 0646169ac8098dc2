"""Jobs that one script writes, offers and publishes: the same as `insert`, `offer` and `publish` leave behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from queue_core.client.effects import creation_events
from queue_core.delivery.redis_events import RedisEventBus
from queue_core.errors import QueueClosed
from queue_core.model.events import EventName, encode_events, encode_queued
from queue_core.model.job import Inserted, NewJob
from queue_core.model.rules import QueueRules
from queue_core.model.settings import RedisSettings
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from queue_core.redis.pipeline import PipelinedConnection
from queue_core.stores.redis.store import RedisStore
from tests.conformance.making import LEASE, QUEUE, WORKER, new_job
from tests.redis.store.inserting import NEW, QUEUED
from tests.redis.store.stored import Look, changes
from tests.waiting import PATIENCE

JOB = new_job(id="a")


@pytest.fixture
async def jobs_in_redis(redis_url: str, redis_prefix: str) -> AsyncIterator[JobQueue]:
    """A queue in mode redis; no worker runs."""
    async with JobQueue(redis=redis_url, prefix=redis_prefix) as jobs:
        yield jobs


async def test_one_job(store: RedisStore, look: Look) -> None:
    (written,) = await store.insert_offered([JOB])
    assert written == (await store.insert([JOB]))[0]._replace(rank=written.rank, created=True)
    offered = {"offered": {"a": "5/1"}, "event_seq": "1", "seq": "2"}
    assert await look() == NEW | offered | {"job:a": QUEUED, "pending": {"a": "5/1"}}


@pytest.mark.parametrize("way", ["insert_offered", "insert"])
async def test_what_is_written_is_what_the_script_of_all_jobs_writes(
    store: RedisStore, settings: RedisSettings, look: Look, way: str
) -> None:
    """A limit, although it refuses nothing, keeps jobs out of the scripts that ask less of each."""
    limited = RedisStore(settings, rules={QUEUE: QueueRules(limit=1000)})

    def list_of(letter: str) -> list[NewJob]:
        given: list[dict[str, Any]] = [
            {"type": "one", "priority": 9, "tags": ("x", "é"), "headers": {"trace": "1"}},
            {"type": "two"},
            {"type": "one", "max_retries": 0},
            {"type": "one", "priority": 9, "tags": ("x", "é"), "headers": {"trace": "1"}},
        ]
        return [new_job(id=f"{letter}{place}", **one) for place, one in enumerate(given)]

    def spelt(state: dict[str, Any], letter: str) -> str:
        return json.dumps(state, sort_keys=True).replace(f'"{letter}', '"').replace(f":{letter}", ":")

    empty = await look()
    answers = await limited.insert(list_of("a"))
    await limited.close()
    first = await look()
    plain = await getattr(store, way)(list_of("b"))
    both = await look()
    assert [one.rank + 4 for one in answers if one.rank] == [one.rank for one in plain]
    assert [one._replace(id="", rank=0) for one in answers] == [one._replace(id="", rank=0) for one in plain]
    hashes = {key: value for key, value in changes(empty, first).items() if key.startswith("job:")}
    others = {key: value for key, value in changes(first, both).items() if key.startswith("job:")}
    for one in (*hashes.values(), *others.values()):
        one["rank"] = one["rank"].partition("/")[0]
        one.update(dict.fromkeys(("created_at", "updated_at", "run_at"), "then"))
    assert spelt(hashes, "a") == spelt(others, "b")
    ranks = {"b0": "9/5", "b1": "5/6", "b2": "5/7", "b3": "9/8"}
    assert both["pending"] == {"a0": "9/1", "a1": "5/2", "a2": "5/3", "a3": "9/4"} | ranks
    assert both.get("offered") == (ranks if way == "insert_offered" else None)
    for key in ("types", "depths", "tallies", "minutes"):
        assert both[key] == {name: type(n)(2 * int(n)) for name, n in first[key].items()}, key
    assert both["by_type:one"] == ["a0", "a2", "a3", "b0", "b2", "b3"]
    assert both["by_type:two"] == ["a1", "b1"]
    assert both["unfinished"].keys() == {f"{letter}{place}" for letter in "ab" for place in range(4)}


async def test_a_list_of_several_queues_and_scripts(store: RedisStore) -> None:
    """Each is answered at its own place."""
    queues = ("work", "ünï{code}")
    jobs = [new_job(queue=queues[place % 2], priority=place % 3) for place in range(1500)]
    inserted = await store.insert(jobs)
    assert [(one.id, one.queue, one.created) for one in inserted] == [(job.id, job.queue, True) for job in jobs]
    for queue in queues:
        ranked = sorted([(one.rank, one.id) for one in inserted if one.queue == queue])
        assert [(job.rank, job.id) for job in await store.list_ready(queue, -1, 1500)] == ranked
    again = await store.insert([*jobs[:3], new_job(), *jobs[3:]])
    assert [place for place, one in enumerate(again) if one.created] == [3]


async def test_a_list_of_more_queues_than_lua_unpacks(store: RedisStore, client: Redis, redis_prefix: str) -> None:
    jobs = [new_job(queue=f"queue-{place}") for place in range(9_000)]
    await client.set(f"{redis_prefix}{{queue-8999}}:closed", "1")
    with pytest.raises(QueueClosed, match="queue-8999"):
        await store.insert_new(jobs)
    await client.delete(f"{redis_prefix}{{queue-8999}}:closed")
    assert all([one.created for one in await store.insert_new(jobs)])


@pytest.mark.parametrize("closed", ["work", "other"])
async def test_a_list_with_jobs_of_a_closed_queue(
    store: RedisStore, look: Look, client: Redis, redis_prefix: str, closed: str
) -> None:
    jobs = [new_job(), new_job(queue="other")]
    await store.insert(jobs)
    await client.set(f"{redis_prefix}{{{closed}}}:closed", "1")
    before = await look()
    with pytest.raises(QueueClosed, match=closed):
        await store.insert([new_job(), *jobs, new_job(queue="other")])
    assert changes(before, await look()).keys() <= {"capacity_answer"}, "which goes by itself"
    assert [one.created for one in await store.insert(jobs)] == [False, False]


async def test_known_jobs_stay_as_they_are(store: RedisStore, look: Look) -> None:
    await store.insert_offered([JOB])
    before = await look()
    again = await store.insert_offered([JOB._replace(priority=9), new_job(id="b"), new_job(id="b")])
    assert [one.created for one in again] == [False, True, False]
    assert again[0] == Inserted("a", JOB.queue, None, None, False)
    after = await look()
    assert changes(before["job:a"], after["job:a"]) == {}
    assert after["offered"] == {"a": "5/1", "b": "5/3"}
    assert after["tallies"] == {"enqueued:n:task": "2"}
    assert after["event_seq"] == "2"
    for way, job_id in ((store.insert_offered, "c"), (store.insert, "d")):
        twice = await way([new_job(id=job_id), new_job(id=job_id)])
        assert [one.created for one in twice] == [True, False]


async def test_a_claim_by_rank_leaves_nothing_on_offer(store: RedisStore, look: Look) -> None:
    """A worker would take each of them from the offers, and ask for it in vain."""
    await store.insert_offered([new_job() for _ in range(3)])
    claims = await store.claim(ClaimRequest(JOB.queue, WORKER, (JOB.type,), 2, LEASE))
    offered = (await look())["offered"]
    assert len(claims) == 2
    assert len(offered) == 1
    assert offered.keys().isdisjoint([claim.id for claim in claims])


@pytest.mark.parametrize("count", [1, 2])
async def test_a_closed_queue(store: RedisStore, look: Look, client: Redis, redis_prefix: str, count: int) -> None:
    await store.insert_offered([JOB])
    await client.set(f"{redis_prefix}{{work}}:closed", "1")
    before = await look()
    with pytest.raises(QueueClosed, match="work"):
        await store.insert_offered([new_job() for _ in range(count)])
    assert changes(before, await look()) == {}
    assert not (await store.insert_offered([JOB]))[0].created


@pytest.mark.parametrize("key", ["offered", "event_seq", "generation", "sleepers"])
async def test_no_foreign_key_of_the_delivery_keeps_a_job_out(
    store: RedisStore, client: Redis, redis_prefix: str, key: str
) -> None:
    await client.rpush(f"{redis_prefix}{{work}}:{key}", "foreign")
    assert (await store.insert_offered([JOB]))[0].created
    assert await client.zrange(f"{redis_prefix}{{work}}:pending", 0, -1) == ["a"]
    assert await client.lrange(f"{redis_prefix}{{work}}:{key}", 0, -1) == ["foreign"]


async def test_its_event(
    store: RedisStore, settings: RedisSettings, jobs_in_redis: JobQueue, client: Redis, redis_prefix: str
) -> None:
    batches = jobs_in_redis.bus.subscribe()
    assert isinstance(jobs_in_redis.bus, RedisEventBus)
    assert (await anext(batches)).gap
    await store.insert_offered([JOB, new_job(id='"b"', type='a "type" é', priority=-7)])
    batch = await anext(batches)
    assert (batch.queue, batch.number, batch.gap) == (JOB.queue, 1, False)
    extras = [(event.id, event.type, event.extra) for event in batch.events]
    assert extras == [
        ("a", JOB.type, {"priority": 5, "status": "queued"}),
        ('"b"', 'a "type" é', {"priority": -7, "status": "queued"}),
    ]
    assert {event.event for event in batch.events} == {EventName.CREATED}
    # Of the life of the numbers, as all other events: numbers of another one would be a gap.
    await client.set(f"{redis_prefix}{{{JOB.queue}}}:generation", "this")
    await store.insert_offered([new_job()])
    batch = await anext(batches)
    assert (batch.number, batch.generation) == (2, "this")
    await batches.aclose()  # type: ignore[attr-defined]


def test_the_body_of_its_event_is_that_of_all_others() -> None:
    job = new_job(id='"\\b', type='a "type" é', priority=-7)
    (event,) = creation_events([job], [Inserted(job.id, job.queue, 1, None, True)])
    assert f"[{encode_queued(job)}]" == encode_events([event])


async def test_which_jobs_it_takes(store: RedisStore, settings: RedisSettings) -> None:
    job = new_job()
    assert not store.offers([job])  # whose queue has no name in the store yet
    await store.insert([job])
    assert store.offers([job, new_job()])
    assert not store.offers([new_job(queue="other")])
    assert not store.offers([job, new_job(queue="other")])
    assert not store.offers([job] * 1000)
    for given in ({"delay": 1.0}, {"run_at": 1.0}, {"ordering_key": "k"}, {"unique_key": "k"}):
        assert not store.offers([new_job(**given)])
    for rule in ({"limit": 5}, {"aging": 1.0}):
        ruled = RedisStore(settings, rules={job.queue: QueueRules.model_validate(rule)})
        await ruled.insert([new_job()])
        assert not ruled.offers([job])
        await ruled.close()


async def test_a_lone_enqueue_is_one_script_and_one_send(
    jobs_in_redis: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("default", "other"):
        await jobs_in_redis.enqueue("anything", queue=queue)
    await jobs_in_redis._enqueuer.drain()
    sent: list[Sequence[Sequence[Any]]] = []
    execute = PipelinedConnection.execute

    async def counted(self: PipelinedConnection, commands: Sequence[Sequence[Any]]) -> list[Any]:
        sent.append(commands)
        return await execute(self, commands)

    async def refused(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("another send")

    monkeypatch.setattr(PipelinedConnection, "execute", counted)
    monkeypatch.setattr(Redis, "execute_command", refused)
    monkeypatch.setattr(Pipeline, "execute", refused)
    for queue in ("default", "other", "default"):
        await jobs_in_redis.enqueue("anything", queue=queue)
    await jobs_in_redis._enqueuer.drain()
    assert [[command[0] for command in commands] for commands in sent] == [["EVALSHA"]] * 3


async def test_workers_that_wait_for_messages_get_one(
    store: RedisStore, client: Redis, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster; where none waits, none is sent."""
    channel = f"{redis_prefix}wake"
    monkeypatch.setattr(store._link, "wakeups", channel)
    async with client.pubsub() as listening:
        await listening.subscribe(channel)
        assert await listening.get_message(timeout=PATIENCE)
        await store.insert_offered([new_job()])
        await client.set(f"{redis_prefix}{{{QUEUE}}}:sleepers", 1)
        await store.insert_offered([new_job(), new_job()])
        await client.publish(channel, "end")
        found = [await listening.get_message(ignore_subscribe_messages=True, timeout=PATIENCE) for _ in range(2)]
    assert [message["data"] for message in found if message] == [QUEUE, "end"]
