"""Handlers that write in their own transaction: whatever fails, there is one effect for each completed job."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import suppress

import psycopg
import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.errors import StoreUnavailable
from tests.faults.plant import LONG, Plant, now
from tests.waiting import eventually

JOBS = 1000 if LONG else 60
COMPLETED = "select id::text, last_token from job_history where status = 'completed'"


@pytest.fixture
def effects(postgres_url: str) -> str:
    """The address of a database that effects can be written to."""
    return with_effects(postgres_url)


def with_effects(url: str) -> str:
    with psycopg.connect(url) as connection:
        connection.execute("create table effects (job text, token bigint)")
    return url


def astray(url: str) -> list[str]:
    """Return what is wrong: effects that are missing, there twice, or of an attempt that did not complete its job."""
    with psycopg.connect(url) as connection:
        done = Counter(connection.execute("select job, token from effects").fetchall())
        completed = set(connection.execute(COMPLETED).fetchall())
    problems = [f"{key} has {count} effects" for key, count in done.items() if count > 1]
    problems += [f"{key} has an effect and did not complete" for key in done.keys() - completed]
    return problems + [f"{key} completed without its effect" for key in completed - done.keys()]


async def enqueue(plant: Plant, count: int, longest_ms: float = 20.0) -> None:
    """Enqueue in small batches, so that settles of all sorts meet."""
    for _ in range(count // 10):
        with suppress(StoreUnavailable):
            await plant.enqueue(10, "pays", ms=plant.random.uniform(0, longest_ms))


@pytest.mark.parametrize("point", ["in_handler", "before_joint_commit", "after_joint_commit"])
async def test_killed_at_a_step(plant: Plant, effects: str, point: str) -> None:
    plant.crew.start(2)
    plant.arm(point)
    await enqueue(plant, JOBS)
    hit = await plant.until_sprung(point)
    since = now()
    assert plant.crew.wait(hit) == -signal.SIGKILL
    await plant.until_quiet()
    found = await plant.findings(f"joint commit, killed {point}", since)
    assert (found.problems, found.jobs) == ([], JOBS)
    assert astray(effects) == []


async def test_can_fail(plant: Plant, effects: str) -> None:
    """Apart from the job's end, the effect of the attempt that was killed stays, and the checks see it."""
    plant.crew.start(2, environment={"FAULTS_APART": "1"})
    plant.arm("before_settle")
    await enqueue(plant, JOBS)
    await plant.until_sprung("before_settle")
    await plant.until_quiet()
    found = await plant.findings("effects apart, killed before settle")
    assert found.problems == []
    assert any("did not complete" in problem for problem in astray(effects))


@pytest.mark.parametrize("point", ["in_handler", "before_joint_commit"])
async def test_asleep_beyond_the_lease(plant: Plant, effects: str, point: str) -> None:
    """Also where it holds the lock of its job's row: another worker gets the job, and it is refused when it wakes."""
    (sleeper,) = plant.crew.start(1)
    plant.arm(point, "SIGSTOP")
    await plant.enqueue(1, "pays")
    assert await plant.until_sprung(point) == sleeper
    plant.crew.start(1)
    await plant.until_quiet()
    plant.crew.send(sleeper, signal.SIGCONT)
    assert await eventually(lambda: plant.ledger.refused), plant.crew.log()
    found = await plant.findings(f"joint commit, asleep {point}")
    assert found.problems == []
    assert (found.extra_runs, found.stale_refused) == (1, 1)
    assert astray(effects) == []


async def test_a_suspect_alone_in_its_process(plant: Plant, effects: str) -> None:
    """After two crashes of its workers a job runs in a child process, and the joint commit is done there."""
    await plant.enqueue(1, "pays")
    for _ in range(2):
        plant.arm("in_handler")
        (worker,) = plant.crew.start(1)
        assert await plant.until_sprung("in_handler") == worker
        next(plant.folder.glob("sprung-in_handler-*")).unlink()
        plant.crew.wait(worker)
    (worker,) = plant.crew.start(1)
    await plant.until_quiet()
    assert plant.ledger.ends[-1].pid != worker
    found = await plant.findings("joint commit, alone in a process")
    assert (found.problems, found.extra_runs) == ([], 2)
    assert astray(effects) == []


async def test_every_connection_cut_again_and_again(plant: Plant, effects: str) -> None:
    """Also between a commit and its answer."""
    plant.retries = 100
    plant.crew.start(2)
    producing = asyncio.create_task(enqueue(plant, 5 * JOBS))
    with psycopg.connect(effects, autocommit=True) as connection:
        for _ in range(200 if LONG else 30):
            await asyncio.sleep(plant.random.uniform(0, 0.1))
            since = now()
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
    await producing
    await plant.until_quiet()
    found = await plant.findings("joint commits, connections cut", since)
    assert found.problems == []
    assert astray(effects) == []


async def test_the_server_killed_and_frozen(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    plant = plant_of_its_own
    plant.retries = 100
    with_effects(plant.postgres_url)
    plant.crew.start(2)
    rounds = 10 if LONG else 2
    for _ in range(rounds):
        await enqueue(plant, JOBS, longest_ms=100)
        await plant.until_started(plant.started() + plant.random.randint(1, JOBS // 2))
        since = now()
        await asyncio.to_thread(hit_servers.postgres.pause)
        await asyncio.sleep(plant.random.uniform(0, 1.5) * plant.jobs.settings.postgres.timeout)
        await asyncio.to_thread(hit_servers.postgres.resume)
        await enqueue(plant, JOBS, longest_ms=100)
        await plant.until_started(plant.started() + plant.random.randint(1, JOBS // 2))
        await asyncio.to_thread(hit_servers.postgres.stop, "immediate")
        await asyncio.to_thread(hit_servers.postgres.start)
    await plant.until_quiet()
    found = await plant.findings("joint commits, server frozen and killed", since, crashes_of_the_store=rounds)
    assert found.problems == []
    assert astray(plant.postgres_url) == []
