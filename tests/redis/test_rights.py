"""A user of Redis that may do what it needs: the one of the documentation, and others that lack something."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jobconsole.core.doctor.redis import RIGHTS
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.reading import Reader
from queue_core import JobContext
from queue_core.errors import QueueCoreError, StoreRefused
from queue_core.model.filters import Filter
from queue_core.model.retry import Retry
from queue_core.ports.store import ClaimRequest
from queue_core.queue import JobQueue
from queue_core.redis.client import keys_of, make_client
from queue_core.redis.keys import Keys
from queue_core.redis.rehearsal import commands_of, find_refused
from queue_core.stores.postgres.migrate import migrate
from tests.cli.running import Cli
from tests.conformance.working import until, until_status, working
from tests.conftest import StartServers
from tests.redis_topology.clients import plain_client

PATIENCE = 30.0
OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"
CORE = Path(__file__).parents[2] / "queue_core"
MODES = ("redis", "postgres+redis")

As = Callable[[str], JobQueue]
"""Returns a queue whose user has these rights."""


def documented() -> str:
    """Return the rights that the documentation names."""
    (rights,) = re.findall(r"^ACL SETUSER jobs on >secret (.*)$", OPERATING.read_text(encoding="utf-8"), re.MULTILINE)
    return str(rights)


@pytest.fixture
def servers(start_servers: StartServers) -> EmbeddedServers:
    """Servers of this test alone, with which the doctor finds no fault but PostgreSQL's."""
    return start_servers(redis_appendonly=True)


@pytest.fixture
def hand(servers: EmbeddedServers) -> Iterator[Any]:
    """A client that may do everything."""
    with plain_client(servers.redis_url) as client:
        yield client


@pytest.fixture(params=MODES)
def queue_as(request: pytest.FixtureRequest, servers: EmbeddedServers, hand: Any) -> As:
    """Both modes with a user of some rights."""
    if request.param != "redis":
        migrate(servers.postgres_url)

    def made(rights: str) -> JobQueue:
        hand.execute_command("ACL", "SETUSER", "jobs", "reset", "on", ">secret", *rights.split())
        hand.execute_command("ACL", "LOG", "RESET")
        url = servers.redis_url.replace("://", "://jobs:secret@")
        return JobQueue(redis=url) if request.param == "redis" else JobQueue(postgres=servers.postgres_url, redis=url)

    return made


def refused(hand: Any) -> set[str]:
    """Return what the server has refused to the user."""
    entries = [dict(zip(one[::2], one[1::2], strict=True)) if isinstance(one, list) else one for one in hand.acl_log()]
    return {str(one["object"]) for one in entries}


async def run_and_show(jobs: JobQueue) -> None:
    """Let jobs run in several ways, have an operator change one, and look at them."""

    @jobs.task
    async def work(n: int) -> int:
        if n < 0:
            raise ValueError(n)
        return n

    events = jobs.bus.subscribe()
    heard = asyncio.ensure_future(anext(events))
    async with working(jobs):
        for options in ({}, {"delay": 0.05, "unique": "key", "ordering_key": "key"}):
            handle = await jobs.enqueue("work", {"n": 1}, **options)
            assert await handle.result(PATIENCE) == 1
        handles = await jobs.enqueue_many("work", [{"n": n} for n in range(60)])
        assert [await handle.result(PATIENCE) for handle in handles] == list(range(60))
        dead = await jobs.enqueue("work", {"n": -1}, max_retries=0)
        await until_status(jobs, dead.id, "dead")
        assert (await jobs.operations.change("retry", [dead.id])).ids == (dead.id,)
        await until_status(jobs, dead.id, "dead")

        async def at_work() -> bool:
            return (await jobs.health()).workers == 1

        await until(at_work)
        health = await jobs.health()
        assert (health.healthy, health.degraded_since, health.reason) == (True, None, "")
        assert len((await jobs.inspector.jobs(Filter(), 100)).jobs) == 63
        states = (await Reader(jobs.inspector, jobs.dispatcher, jobs.settings.mode, PATIENCE).ping()).backends
        assert all(state.up for state in states.values())
        async with asyncio.timeout(PATIENCE):
            assert await heard


def command_line(jobs: JobQueue) -> Cli:
    """Return the command line for the servers of a queue."""
    names = {"REDIS__URL": jobs.settings.redis.url, "POSTGRES__URL": jobs.settings.postgres.url}
    given = {f"JOBS__{name}": url.get_secret_value() for name, url in names.items() if url is not None}
    return Cli(given if len(given) > 1 else {"JOBS__QUEUE_BACKEND": "redis", **given})


def used(hand: Any) -> set[str]:
    """Return the commands that were run since the statistics were reset, without the tests' own."""
    names = {name.removeprefix("cmdstat_") for name in hand.info("commandstats")}
    return {name.partition("|")[0] for name in names if not name.startswith(("acl", "config"))}


OF_CONNECTIONS = {"auth", "client", "discard", "exec", "hello", "info", "multi", "select"}
"""Commands that are not rehearsed, or are what the rehearsal itself is made of."""


async def test_the_documented_user_needs_no_more(queue_as: As, hand: Any) -> None:
    async with queue_as(documented()) as jobs:
        hand.config_resetstat()
        await run_and_show(jobs)
        assert refused(hand) == set()
        keys = keys_of(jobs.settings.redis)
        rehearsed = {str(command[0]).lower() for command in commands_of(keys, jobs.settings.mode == "redis")}
        assert used(hand) - OF_CONNECTIONS <= rehearsed
        cli = command_line(jobs)
        checks = (await asyncio.to_thread(cli, "doctor", "--json")).body["checks"]
        assert {one["name"] for one in checks if one["level"] == "fail"} <= {"durability"}
        assert (await asyncio.to_thread(cli, "health")).out.startswith("ok, ")
        assert (await asyncio.to_thread(cli, "job", "list")).code == 0
    assert refused(hand) <= {"config|get"}


def test_the_doctor_advises_what_is_documented() -> None:
    assert documented() == f"~jobs:* &jobs:* {RIGHTS}"


@pytest.mark.parametrize(
    ("less", "named"),
    [
        ("-@scripting", "evalsha"),
        ("-@pubsub", "subscribe"),
        ("-@transaction", "multi"),
        ("-zadd", "zadd"),
        ("-bzmpop", "bzmpop"),
        ("-evalsha", "evalsha"),
        ("resetkeys ~other:*", "zadd"),
        ("resetchannels", "publish"),
    ],
)
async def test_the_doctor_names_what_the_user_lacks(queue_as: As, hand: Any, less: str, named: str) -> None:
    async with queue_as(documented()) as jobs:
        await jobs.enqueue("work")
    before, cli, settings = set(hand.keys()), command_line(jobs), jobs.settings
    hand.execute_command("ACL", "SETUSER", "jobs", *less.split())
    facts = await find_refused(make_client(settings.redis), keys_of(settings.redis), True)
    found = await asyncio.to_thread(cli, "doctor", "--json")
    looked = await asyncio.to_thread(cli, "doctor", "--json", "--read-only")
    assert named in facts
    assert found.code == 1
    if less != "resetkeys ~other:*" or settings.mode != "redis":  # else nothing can be read, either
        (check,) = [one for one in found.body["checks"] if one["name"] == "redis rights"]
        assert (check["level"], "may not run" in check["said"], RIGHTS in check["advice"]) == ("fail", True, True)
    assert "redis rights" not in {one["name"] for one in looked.body["checks"]}
    assert set(hand.keys()) == before


@pytest.mark.parametrize("store", [False, True])
def test_every_command_of_a_script_is_rehearsed_and_none_is_run(hand: Any, store: bool) -> None:
    keys = Keys("jobs:")
    commands = commands_of(keys, store)
    packages = ["delivery/redis", *(["stores/redis"] if store else [])]
    texts = [file.read_text("utf-8") for one in packages for file in (CORE / one / "lua").glob("*.lua")]
    in_scripts = {name for text in texts for name in re.findall(r"redis\.p?call\('(\w+)'", text)}
    # INFO is needed by none of them, and these are in the arguments of a script.
    in_scripts = in_scripts - {"INFO"} | ({"HSET", "RPUSH", "ZADD"} if store else set())
    assert in_scripts <= {command[0] for command in commands}
    # What has too few arguments is refused before rights are looked at.
    with hand.client() as own:
        for command in [("MULTI",), *commands]:
            own.connection.send_command(*command)
            assert own.connection.read_response() == (b"OK" if command == ("MULTI",) else b"QUEUED"), command
        own.connection.send_command("DISCARD")
        assert own.connection.read_response() == b"OK"
    assert hand.keys() == []


async def test_without_info_jobs_run(queue_as: As, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with queue_as("~jobs:* &jobs:* +@all -info") as jobs:
        await run_and_show(jobs)
        found = await asyncio.to_thread(command_line(jobs), "doctor", "--json")
        assert [one for one in found.body["checks"] if one["name"] == "redis" and "'info' command" in one["said"]]
    assert refused(hand) == {"info"}
    lines = [record.getMessage() for record in caplog.records if record.name != "queue_core.jobs"]
    assert len([line for line in lines if "'info' command" in line]) == 1
    assert "audit failed" not in caplog.text


@pytest.mark.parametrize("queue_as", ["redis"], indirect=True)
async def test_what_a_claim_may_not_read_stays(queue_as: As, hand: Any) -> None:
    async with queue_as("~jobs:* &jobs:* +@all") as jobs:
        waiting = await jobs.enqueue("work")
    async with queue_as("~jobs:* &jobs:* +@all -hmget") as jobs:
        with pytest.raises(StoreRefused, match="permissions to run the 'hmget' command"):
            await jobs.store.claim(ClaimRequest("default", "w", ("work",), 5, 30.0, [waiting.id]))
        with pytest.raises(StoreRefused, match="permissions to run the 'hmget' command"):
            await jobs.inspector.get(waiting.id)
    assert hand.zcard("jobs:{default}:pending") == 1


@pytest.mark.parametrize("queue_as", ["redis"], indirect=True)
async def test_the_command_that_a_script_lacks_is_named(queue_as: As) -> None:
    async with queue_as("~jobs:* &jobs:* +@all -incrby -hincrby") as jobs:
        # Redis 7.0 does not tell which one it is where a script has caught it.
        with pytest.raises(StoreRefused, match=r"permissions to run (the 'h?incrby' command|one of .* hincrby, )"):
            await jobs.enqueue("work")


async def test_who_may_only_read_finds_the_server_well(queue_as: As) -> None:
    """As an exporter, whose endpoint for health would have it started again and again."""
    async with queue_as("~jobs:* &jobs:* +@all") as jobs:
        await jobs.health()
    async with queue_as("~jobs:* &jobs:* +@all -set") as jobs:
        health = await jobs.health()
    assert (health.healthy, health.degraded_since, health.reason) == (True, None, "")


SETS = (
    "pending", "blocked", "scheduled", "retrying", "running", "unfinished", "admitted", "order_wait", "completed",
    "dlq",
)  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"ordering_key": "k"},
    "delayed": {"delay": 0.05},
    "unique": {"unique": "u"},
    "tagged": {"tags": ["a"], "headers": {"a": "b"}},
    "later": {"delay": 0.05, "unique": "u2", "unique_for": "1h"},
}


@pytest.mark.parametrize("queue_as", ["redis"], indirect=True)
@pytest.mark.parametrize("command", ["hset", "zadd", "sadd", "hincrby", "incrby", "zscore", "exists", "set", "zrem"])
async def test_no_job_is_acknowledged_that_is_written_in_part(queue_as: As, hand: Any, command: str) -> None:
    """A script that fails in its middle keeps what it has written; so does one that meets a foreign value."""
    async with queue_as("~jobs:* &jobs:* +@all") as jobs:

        @jobs.task
        async def work() -> str:
            return "done"

        await work.options(ordering_key="k").enqueue()
        first = await jobs.enqueue("work", priority=20)
        hand.execute_command("ACL", "SETUSER", "jobs", f"-{command}")
        taken = []
        for options in KINDS.values():
            for _ in range(2):
                with suppress(QueueCoreError):
                    taken.append(await work.options(**options).enqueue())
        with suppress(QueueCoreError):
            taken += await jobs.enqueue_many("work", [{}] * 3)
        hand.execute_command("ACL", "SETUSER", "jobs", f"+{command}")
        created = {one.id for one in taken if one.created}
        assert len((await jobs.inspector.jobs(Filter(), 100)).jobs) == 2 + len(created)
        taken += [await work.options(**options).enqueue() for options in KINDS.values()]
        async with working(jobs):
            for one in (first, *taken):
                assert await one.result(PATIENCE) == "done"


@pytest.mark.parametrize("queue_as", ["redis"], indirect=True)
@pytest.mark.parametrize("key", ["pending", "unfinished", "types", "depths", "seq"])
async def test_a_foreign_value_leaves_no_job_behind(queue_as: As, hand: Any, key: str) -> None:
    async with queue_as("~jobs:* &jobs:* +@all") as jobs:
        await jobs.enqueue("other", queue="elsewhere")
        hand.rpush(f"jobs:{{work}}:{key}", "foreign")
        for _ in range(2):
            with pytest.raises(StoreRefused, match="wrong kind of value"):
                await jobs.enqueue("work", queue="work")
        assert [one for one in hand.scan_iter("jobs:{work}:*") if one.decode().count("-") == 4] == []


@pytest.mark.parametrize("queue_as", ["redis"], indirect=True)
@pytest.mark.parametrize(
    "command", ["zadd", "zrem", "hset", "hdel", "hincrby", "zscore", "zlexcount", "rpush", "zrange"]
)
async def test_what_a_script_has_left_half_done_is_put_right(
    queue_as: As, hand: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user lacks a command for a while, in which jobs end, fail, are due, and let go of their ordering keys."""
    monkeypatch.setattr("queue_core.stores.redis.upkeep.SELDOM_SECONDS", 0.0)
    monkeypatch.setattr("queue_core.worker.leader.IDLE_UPKEEP_INTERVAL", 1.0)
    async with queue_as("~jobs:* &jobs:* +@all") as jobs:
        begun = asyncio.Event()
        lacking = asyncio.Event()

        @jobs.task(queue="work", retry=Retry(max_retries=2, delay=0.1))
        async def work(ctx: JobContext, fails: int) -> int:
            begun.set()
            await lacking.wait()
            if ctx.attempt <= fails:
                raise ValueError(fails)
            return fails

        made = [
            await work.options(ordering_key=f"k{n % 2}" if n % 3 == 0 else None, delay=n % 4 / 10).enqueue(n % 3)
            for n in range(40)
        ]
        async with working(jobs, concurrency=8, lease=3.0):
            await begun.wait()
            hand.execute_command("ACL", "SETUSER", "jobs", f"-{command}")
            lacking.set()

            async def was_refused() -> bool:
                return command in refused(hand)

            await until(was_refused)
            await asyncio.sleep(0.5)  # more of them fail meanwhile
            hand.execute_command("ACL", "SETUSER", "jobs", f"+{command}")
            for one in made:
                await one.result(PATIENCE)

            async def all_right() -> bool:
                sizes = {name: hand.zcard(f"jobs:{{work}}:{name}") for name in SETS}
                return {name: size for name, size in sizes.items() if size} == {"completed": len(made)}

            await until(all_right)
