"""What an earlier version has stored under a prefix is taken over, or refused; `version_1.json` is such a store."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from queue_core import JobQueue, SchemaEarlier
from queue_core.model.filters import parse
from queue_core.model.settings import RedisSettings
from queue_core.redis import keys as documentation
from queue_core.stores.redis.migrate import migrate, pending
from queue_core.stores.redis.session import RENAMED_SCHEMA, SCHEMA
from tests.cli.running import Cli
from tests.conformance.making import worker_beat
from tests.conformance.working import PATIENCE, until, working

STORED = Path(__file__).with_name("version_1.json").read_text(encoding="utf-8")
STATES = {"queued": 3, "running": 1, "retrying": 1, "scheduled": 1, "dead": 1, "completed": 1}
OLD = re.compile(r":(gates|turns|causes|unique_ends|seen|passed:\w+|gen|eseq|marks|numbers|changes:.*)$")
REMEDY = "run 'jobconsole migrate', which takes over all jobs"


@pytest.fixture
async def old(client: Redis, redis_prefix: str) -> str:
    """A prefix under which version 1 has stored jobs in all states, an operation and a schedule."""
    stored: dict[str, list[Any]] = json.loads(STORED.replace("silo:jobs:", redis_prefix))
    for key, (kind, value) in stored.items():
        if kind == "string":
            await client.set(key, value)
        elif kind == "hash":
            await client.hset(key, mapping=value)
        elif kind == "zset":
            await client.zadd(key, dict(value))
        elif kind == "list":
            await client.rpush(key, *value)
        else:
            await client.sadd(key, *value)
    schedule = {"cron": "0 9 * * *", "tz": "UTC", "type": "work", "payload": '{"n":7}', "priority": 5, "max_retries": 3}
    far = 4_000_000_000_000_000
    await client.hset(f"{redis_prefix}{{work}}:schedule:daily", mapping=schedule | {"ordering_key": "", "next": far})
    await client.hset(f"{redis_prefix}schedules", "daily", "work")
    await client.zadd(f"{redis_prefix}{{work}}:ticks", {"daily": far})
    await client.zadd(f"{redis_prefix}{{work}}:fired:daily", {"3000000000000000 a": 3_000_000_000_000_000})
    return redis_prefix


async def taken_over(settings: RedisSettings) -> list[int]:
    return await asyncio.to_thread(migrate, settings)


async def names(client: Redis, prefix: str) -> list[str]:
    return [key async for key in client.scan_iter(f"{prefix}*", count=1000)]


async def test_a_program_refuses_it_in_one_sentence(old: str, redis_url: str, client: Redis) -> None:
    before = sorted(await names(client, old))
    jobs = JobQueue(redis=redis_url, prefix=old)
    sentence = f"an earlier version has stored what is under the prefix '{old}'; {REMEDY}"
    with pytest.raises(SchemaEarlier, match=f"^{re.escape(sentence)}$"):
        await jobs.open()
    facts = await jobs.inspector.facts()
    assert (facts["schema"], facts["schema_known"]) == (RENAMED_SCHEMA, SCHEMA)
    await jobs.close()
    assert sorted(await names(client, old)) == before


def test_the_command_line_refuses_it_until_it_is_taken_over(old: str, redis_url: str) -> None:
    cli = Cli({"JOBS__REDIS__URL": redis_url, "JOBS__REDIS__PREFIX": old, "JOBS__QUEUE_BACKEND": "redis"})
    for command in (("queue", "list"), ("job", "list"), ("dlq", "list")):
        answer = cli(*command)
        assert (answer.code, REMEDY in answer.err) == (5, True)
    assert f"version {RENAMED_SCHEMA}, older than {SCHEMA}" in cli("doctor").out
    taken = f"would take over the keys under the prefix '{old}', which an earlier version has made\n"
    assert cli("migrate", "--dry-run").out == taken
    assert cli("migrate").out == f"applied {SCHEMA:04}; the schema is {SCHEMA}\n"
    assert cli("queue", "list").code == 0
    for more in ((), ("--dry-run",)):
        assert cli("migrate", *more).out == f"nothing to do; the schema is {SCHEMA}\n"
    cli.close()


async def test_it_is_taken_over_with_its_jobs(old: str, redis_url: str, settings: RedisSettings, client: Redis) -> None:
    assert await taken_over(settings) == [SCHEMA]
    assert await taken_over(settings) == []
    assert [key for key in await names(client, old) if OLD.search(key)] == []
    documented = str(documentation.__doc__)
    short = {re.sub(r"^.*}:", "", key.removeprefix(old)).partition(":")[0] for key in await names(client, old)}
    assert {name for name in short if f"{name}`" not in documented and f"{name}:" not in documented} == set()
    async with JobQueue(redis=redis_url, prefix=old) as jobs:
        found = {state: await jobs.inspector.count(parse(f"status:{state}")) for state in STATES}
        assert found == STATES
        (entry,) = (await jobs.inspector.jobs(parse("trash:yes"), 10)).jobs
        (operation,) = await jobs.operations.list_for_job(entry.id)
        assert await jobs.operations.changed_ids(operation.number) == [entry.id]
        assert (await jobs.inspector.get(entry.id)).signature
        assert len(await jobs.schedules.ticks("daily")) == 1
        ran: list[int] = []

        @jobs.task(name="work", queue="work")
        async def work(n: int) -> int:
            ran.append(n)
            return n

        again = await work.options(unique="u").enqueue(20)
        assert again.created is False
        after = await work.options(ordering_key="customer").enqueue(13)

        async def all_done() -> bool:
            return not [one for one in ("queued", "running") if await jobs.inspector.count(parse(f"status:{one}"))]

        async with working(jobs):
            assert await after.result(PATIENCE) == 13
            await until(all_done)
        assert [n for n in ran if n in range(10, 14)] == [10, 11, 12, 13]
    assert await client.get(f"{old}operation_number") == "1"


async def test_an_interrupted_takeover_goes_on(old: str, settings: RedisSettings, client: Redis) -> None:
    await client.rename(f"{old}{{work}}:gates", f"{old}{{work}}:admitted")
    await client.rename(f"{old}operation:1:marks", f"{old}operation:1:changed")
    kept = {key: await client.type(key) for key in (f"{old}{{work}}:admitted", f"{old}operation:1:changed")}
    assert await taken_over(settings) == [SCHEMA]
    assert {key: await client.type(key) for key in kept} == kept


async def test_a_text_of_a_moment_is_not_in_the_way(old: str, settings: RedisSettings, client: Redis) -> None:
    """Version 1 had another key under one of the names of today."""
    await client.set(f"{old}{{work}}:admitted", "name:1")
    await taken_over(settings)
    assert await client.type(f"{old}{{work}}:admitted") == "zset"


async def test_workers_of_that_time_are_waited_for(old: str, settings: RedisSettings, client: Redis) -> None:
    time = await client.time()
    beat = {**worker_beat(worker="w-1")._asdict(), "leases": []}
    await client.hset(f"{old}workers", "w-1", f"1 {time[0]}000000 - {json.dumps(beat)}")
    with pytest.raises(SchemaEarlier, match="workers of an earlier version still run: w-1; stop all programs"):
        await taken_over(settings)
    assert await client.get(f"{old}schema") == "1"
    await client.hset(f"{old}workers", "w-1", f"1 {time[0] - 3600}000000 - {json.dumps(beat)}")
    assert await taken_over(settings) == [SCHEMA]


async def test_a_new_prefix_has_nothing_to_take_over(settings: RedisSettings, client: Redis, redis_prefix: str) -> None:
    assert (await asyncio.to_thread(pending, settings))[1:] == ([], None)
    assert await taken_over(settings) == []
    assert await names(client, redis_prefix) == []
