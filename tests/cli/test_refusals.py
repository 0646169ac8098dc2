"""A server that refuses a statement is exit code 1, and no verb reports failure after it has changed something."""

from __future__ import annotations

import psycopg
import pytest
from redis import Redis

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.model.schedule import Announcement, Schedule
from tests.cli.conftest import Shop
from tests.cli.scenes import DEAD, four_dead, operation, operations, status
from tests.conformance.making import worker_beat
from tests.conformance.world import World
from tests.redis_topology.clients import plain_client

REFUSE = """
create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not on a Sunday'; end $$;
create trigger refuse before {when} for each row when ({condition}) execute function refuse();
"""


async def busy_night(world: World) -> None:
    """Dead jobs, a schedule and a worker."""
    await four_dead(world)
    schedule = Schedule("digest", "0 9 * * *", "UTC", "task", "{}", "work", 5, 3)
    await world.schedules.announce([Announcement(schedule, 4e9)])
    await world.beat(**worker_beat()._asdict() | {"leases": ()})


@pytest.fixture
def night(postgres_url: str) -> Shop:
    """A store in PostgreSQL in which there is something to do for every verb."""
    shop = Shop("postgres", postgres_url)
    shop.play(busy_night)
    return shop


def refuse(shop: Shop, when: str, condition: str = "true") -> None:
    """Let the server refuse some writes from now on."""
    with psycopg.connect(shop.address) as connection:
        connection.execute(REFUSE.format(when=when, condition=condition))


def allow(shop: Shop) -> None:
    """Let the server refuse nothing any more."""
    with psycopg.connect(shop.address) as connection:
        connection.execute("drop function refuse cascade")


def everything(shop: Shop) -> list[tuple[object, ...]]:
    """Return all that operators change."""
    rows: list[tuple[object, ...]] = []
    with psycopg.connect(shop.address) as connection:
        for query in (
            "select id, status, queue, priority, trashed_at from all_jobs order by 1",
            "select name, paused_at from queues order by 1",
            "select name, paused_at from schedules order by 1",
            "select id, command from workers order by 1",
        ):
            rows += connection.execute(query).fetchall()  # type: ignore[arg-type]
    return rows


VERBS = (
    f"job retry {DEAD[0]}",
    f"job delete {DEAD[0]} --yes",
    f"job move {DEAD[0]} --to-queue other --yes",
    f"job cancel {DEAD[0]} --yes",
    f"job edit {DEAD[0]} --set n=9",
    "dlq retry --all",
    "dlq delete --signature aaaa --yes",
    "queue pause work",
    "queue resume work",
    "schedule pause digest",
    "schedule resume digest",
    "schedule trigger digest",
    "schedule remove digest --yes",
    "worker quiet worker-1",
)


@pytest.mark.parametrize("line", VERBS)
def test_what_the_server_refuses_is_exit_code_1_and_changes_nothing(night: Shop, line: str) -> None:
    before = everything(night)
    refuse(night, "insert on operations")
    answer = night(*line.split())
    assert answer.code == 1, answer.err
    assert "postgres refused a statement: not on a Sunday" in answer.err
    assert "internal error" not in answer.err
    assert everything(night) == before


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("queue pause work", "paused work\n"),
        ("schedule pause digest", "paused digest\n"),
        ("schedule remove digest --yes", "removed digest\n"),
        ("worker quiet worker-1", "quiet: 1 worker will hear of it with the next heartbeat\n"),
        (f"job edit {DEAD[0]} --set n=9", None),
        ("schedule trigger digest", None),
    ],
)
def test_what_is_done_is_no_failure_though_its_note_cannot_be_ended(night: Shop, line: str, out: str | None) -> None:
    before = everything(night)
    refuse(night, "update on operations", "new.state = 'done'")
    answer = night(*line.split())
    assert answer.code == 0, answer.err
    assert out is None or answer.out == out
    assert everything(night) != before
    allow(night)


def test_of_several_those_that_are_done_are_named_before_the_failure(night: Shop) -> None:
    refuse(night, "update on queues", "new.name = 'other'")
    night("job", "enqueue", "task", "--queue", "other")
    answer = night("queue", "pause", "work", "other")
    assert (answer.code, answer.out) == (1, "paused work\n")
    assert "not on a Sunday" in answer.err


def test_steps_that_are_refused_are_exit_code_1_and_no_job_is_changed(night: Shop) -> None:
    refuse(night, "insert on jobs")
    answer = night("dlq", "retry", "--all")
    assert answer.code == 1
    assert "4 jobs could not be changed: StoreRefused: postgres refused a statement: not on a Sunday" in answer.err
    assert status(night, *DEAD) == ["dead"] * 4
    assert operation(night, 1)["errored"] == 4


@pytest.mark.parametrize("verb", ["retry", "delete --yes", "move --to-queue other --yes"])
def test_jobs_that_are_named_and_refused_are_not_said_to_be_in_the_wrong_state(night: Shop, verb: str) -> None:
    refuse(night, "insert or update on jobs_dead" if verb != "retry" else "insert on jobs")
    name, *rest = verb.split()
    answer = night("job", name, *DEAD[:2], *rest)
    assert answer.code == 1
    assert "2 jobs could not be changed: StoreRefused: postgres refused a statement: not on a Sunday" in answer.err
    assert "it cannot be" not in answer.err
    assert status(night, *DEAD[:2]) == ["dead"] * 2


def test_a_job_that_is_where_it_is_to_go_is_not_said_to_be_in_the_wrong_state(shop: Shop) -> None:
    shop.play(four_dead)
    assert shop("job", "move", DEAD[0], "--to-queue", "other", "--yes").code == 0
    answer = shop("job", "move", DEAD[0], DEAD[1], "--to-queue", "other")
    assert (answer.code, answer.out) == (1, "moved 1 job, skipped 1, errored 0\n")
    assert f"job {DEAD[0]} was left as it is: it is there already" in answer.err


def test_one_whose_members_cannot_be_written_is_ended(night: Shop) -> None:
    refuse(night, "insert on operation_members")
    answer = night("dlq", "retry", "--all")
    assert answer.code == 1
    assert "nothing was changed" in answer.err
    assert [one["state"] for one in operations(night)] == ["cancelled"]


def test_rights_that_are_missing_are_exit_code_1(night: Shop) -> None:
    with psycopg.connect(night.address) as connection:
        connection.execute("drop role if exists looker")
        connection.execute("create role looker login")
        connection.execute("grant usage on schema jobconsole to looker")
        connection.execute("grant select on all tables in schema jobconsole to looker")
    night.cli.environ["JOBS__POSTGRES__URL"] = night.address.replace("app@", "looker@")
    try:
        answer = night("queue", "pause", "work")
        assert (answer.code, "permission denied" in answer.err) == (1, True)
        answer = night("doctor")
        assert (answer.code, "permission denied" in answer.out) == (1, True)
    finally:
        with psycopg.connect(night.address) as connection:
            connection.execute("drop owned by looker")
            connection.execute("drop role looker")


def test_a_redis_that_refuses_is_exit_code_1(redis_url: str, redis_prefix: str) -> None:
    shop = Shop("redis", f"{redis_url} {redis_prefix}")
    shop.play(four_dead)
    with Redis.from_url(redis_url) as client:
        client.set(f"{redis_prefix}operations", "not what it was")
    answer = shop("dlq", "retry", "--all")
    assert answer.code == 1
    assert answer.err.splitlines()[-1].startswith("jobconsole: redis refused a statement: ")
    assert status(shop, *DEAD) == ["dead"] * 4


@pytest.mark.parametrize("body", [(), ("--json",)])
def test_watching_ends_on_one_that_nobody_begins(shop: Shop, monkeypatch: pytest.MonkeyPatch, body: tuple[str]) -> None:
    from tests.conformance.test_operations import asked

    async def forgotten(world: World) -> None:
        await world.operations.create(asked())

    shop.play(forgotten)
    monkeypatch.setattr("queue_core.model.operation.ABANDONED_SECONDS", -60.0)
    answer = shop("op", "watch", "1", *body)
    assert answer.code == 1
    assert "operation #1 was never begun" in answer.err


def test_a_full_redis_that_is_the_store_refuses(own_servers: EmbeddedServers) -> None:
    shop = Shop("redis", own_servers.redis_url)
    assert shop("job", "enqueue", "task").code == 0
    with plain_client(own_servers.redis_url) as client:
        client.config_set("maxmemory", 1)
        answer = shop("job", "enqueue", "task")
        client.config_set("maxmemory", 0)
    assert answer.code == 1
    assert "redis refused a statement: command not allowed when used memory > 'maxmemory'" in answer.err
    assert shop("job", "enqueue", "task").code == 0
