"""Behind Sentinels: failovers under load, and what is reported when there can be none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_core import JobQueue, StoreUnavailable
from queue_core.model.addresses import named
from tests.cli.running import Cli
from tests.redis_topology.conftest import MakeSettings
from tests.redis_topology.load import LONG, under_load
from tests.redis_topology.rig import NAME, Trio, started, wait_until


def kill_primary(trio: Trio) -> None:
    """Kill the primary, and wait for its successor."""
    before = trio.primary()
    before.kill()
    wait_until("there is another primary", lambda: trio.primary() is not before)


def pause_primary(trio: Trio) -> None:
    """Freeze the primary, and wait for its successor; then it comes back, and takes itself for the primary."""
    before = trio.primary()
    before.pause()
    wait_until("there is another primary", lambda: trio.primary() is not before)
    before.resume()


SHORT = [("postgres+redis", 0, Trio.failover), ("redis", 1, kill_primary)]
DISTURBANCES = (Trio.failover, kill_primary, pause_primary)
MODES = (("postgres+redis", 0), ("redis", 0), ("redis", 1))
ALL = [(mode, replicas, one) for mode, replicas in MODES for one in DISTURBANCES]


@pytest.mark.parametrize(("mode", "replicas", "disturb"), ALL if LONG else SHORT)
async def test_work_goes_on_behind_a_failover(
    trio: Trio, make_settings: MakeSettings, mode: str, replicas: int, disturb: Callable[[Trio], None]
) -> None:
    """Without a replica that has each job, a primary loses what it accepts last, where it is the store."""
    settings = make_settings(mode, trio.url(), min_replicas=replicas)
    may_lose = mode == "redis" and not replicas
    found = await under_load(settings, ["a", "b"], lambda: disturb(trio), may_lose=may_lose)
    if mode == "postgres+redis":
        assert not found.refusals, "PostgreSQL takes jobs all the time"


async def test_a_job_that_no_replica_has_is_not_acknowledged(trio: Trio, make_settings: MakeSettings) -> None:
    """Also where the primary, asked again, knows it by then: another server may take its place."""
    primary = trio.primary()
    replicas = [one for one in trio.servers if one is not primary]
    async with JobQueue(settings=make_settings("redis", trio.url(), min_replicas=1, timeout=2)) as jobs:
        await jobs.enqueue("before")
        for one in replicas:
            one.pause()
        for enqueue in (lambda: jobs.enqueue("alone"), lambda: jobs.enqueue_many("bulk", [{}] * 3)):
            with pytest.raises(StoreUnavailable):
                await enqueue()
        for one in replicas:
            one.resume()
        handle = await jobs.enqueue("after")
        assert await handle.status() == "queued"


def environ(url: str, postgres: str = "") -> dict[str, str]:
    """Return the environment of a program."""
    own = {"JOBS__REDIS__URL": url, "JOBS__REDIS__TIMEOUT": "2s", "JOBS__QUEUE_BACKEND": "redis"}
    return own | ({"JOBS__POSTGRES__URL": postgres} if postgres else {})


def test_an_unknown_name_is_one_sentence(trio: Trio, redis_prefix: str) -> None:
    cli = Cli(environ(trio.url("nobody")) | {"JOBS__REDIS__PREFIX": redis_prefix})
    answer = cli("queue", "list")
    assert answer.code == 3
    assert "know no primary of the name 'nobody'" in answer.err
    assert answer.err.count("\n") == 1
    (away,) = [one for one in cli("doctor", "--json").body["checks"] if one["level"] == "fail"]
    assert "know no primary of the name 'nobody'" in away["said"]


def test_the_doctor_reports_the_quorum(trio: Trio, postgres_url: str, redis_prefix: str) -> None:
    def sentinel() -> tuple[str, str]:
        checks = Cli(environ(trio.url(), postgres_url) | {"JOBS__REDIS__PREFIX": redis_prefix})("doctor", "--json").body
        found = next(one for one in checks["checks"] if one["name"] == "redis sentinel")
        # One that was the primary before follows the new one only 10 s later.
        return found["level"], found["said"].replace("1 replica", "2 replica").replace("replica,", "replicas,")

    assert sentinel() == ("ok", f"3 of 3 Sentinels of '{NAME}' answer, 2 replicas, with a quorum")
    trio.sentinels[0].kill()
    assert sentinel()[0] == "warn"
    assert sentinel()[1].startswith(f"2 of 3 Sentinels of '{NAME}' answer, 2 replica")
    trio.sentinels[1].kill()
    wait_until("the last one misses the others", lambda: sentinel()[0] == "fail")
    assert sentinel()[1].startswith(f"no quorum: 1 of 3 Sentinels of '{NAME}' answer, 2 replica")
    trio.primary().kill()
    answer = Cli(environ(trio.url()) | {"JOBS__REDIS__PREFIX": redis_prefix})("queue", "list")
    assert answer.code == 3
    assert "1 of 3 Sentinels answer, and without 2 of them there is no failover" in answer.err
    for one in trio.sentinels:
        one.kill()
    answer = Cli(environ(trio.url()) | {"JOBS__REDIS__PREFIX": redis_prefix})("queue", "list")
    assert answer.code == 3
    assert "no Sentinel answers" in answer.err


def test_passwords_of_servers_and_of_sentinels(redis_prefix: str) -> None:
    with started(Trio, "hunter2") as trio:
        right = trio.url()
        assert Cli(environ(right))("job", "enqueue", "task").code == 0
        for wrong in (right.replace("of-hunter2", "of-other"), right.replace(":hunter2@", ":other@")):
            answer = Cli(environ(wrong))("queue", "list")
            assert answer.code == 3
            assert "other" not in answer.err
        none = right.partition("?")[0]
        answer = Cli(environ(none))("queue", "list")
        hosts = ", ".join(named("127.0.0.1", host.partition(":")[2]) for host in trio.hosts.split(","))
        assert (answer.code, answer.err.count("\n")) == (3, 1)
        sentence = f"the Sentinels ({hosts}) demand a password; set sentinel_password in jobs.redis.url"
        assert sentence in answer.err
        checks = Cli(environ(none))("doctor", "--json").body["checks"]
        assert "?sentinel_password=PASSWORD" in next(one["advice"] for one in checks if one["level"] == "fail")
