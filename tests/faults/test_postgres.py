"""PostgreSQL is restarted, killed, frozen and cut off under load: everybody waits, and goes on by himself."""

from __future__ import annotations

import asyncio
from typing import Literal

import psycopg
import pytest

from jobconsole.embedded.servers import EmbeddedServers
from queue_core.errors import StoreUnavailable
from tests.faults.plant import LONG, Plant, now
from tests.waiting import PATIENCE, eventually

ROUNDS = 10 if LONG else 2


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_restarted_under_load(
    plant_of_its_own: Plant, hit_servers: EmbeddedServers, mode: Literal["fast", "immediate"]
) -> None:
    """Enqueues fail with an error of their own, workers wait; no process ends, and what was committed is there."""
    plant = plant_of_its_own
    pids = plant.crew.start(2)
    async with plant.load():
        for _ in range(ROUNDS):
            await plant.until_ended(len(plant.ledger.ends) + plant.random.randint(1, 100))
            await plant.enqueue_mixed(100)
            since = now()
            await asyncio.to_thread(hit_servers.postgres.stop, mode)
            await asyncio.sleep(plant.random.uniform(0, 1.5))
            await asyncio.to_thread(hit_servers.postgres.start)
            await plant.until_ended(len(plant.ledger.ends) + 20)
    await plant.until_quiet()
    assert plant.crew.alive == pids
    crashes = ROUNDS if mode == "immediate" else 0
    found = await plant.findings(f"restarted ({mode})", since, crashes_of_the_store=crashes)
    assert found.problems == []
    assert found.unfinished == 0


async def test_a_result_waits_for_the_store(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    """The handlers end while the server is away; their outcomes are stored when it is back, and none runs again."""
    plant = plant_of_its_own
    plant.crew.start(1, lease=30.0)
    await plant.enqueue(10, "waits_for", gate="open")
    await plant.until_started(10)
    since = now()
    await asyncio.to_thread(hit_servers.postgres.stop, "fast")
    plant.open_gate("open")
    await plant.until_ended(10)
    await asyncio.to_thread(hit_servers.postgres.start)
    await plant.until_quiet()
    found = await plant.findings("away at the end", since)
    assert found.problems == []
    assert (found.extra_runs, found.stale_refused) == (0, 0)


async def test_away_for_longer_than_a_lease(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    """The worker stops its own jobs before the lease ends; they run again afterwards."""
    plant = plant_of_its_own
    plant.crew.start(1)
    await plant.enqueue(5, "waits_for", gate="open", of_attempt=1)
    await plant.until_started(5)
    since = now()
    await asyncio.to_thread(hit_servers.postgres.stop, "fast")
    assert await eventually(lambda: now() - since > 5)
    await asyncio.to_thread(hit_servers.postgres.start)
    await plant.until_quiet()
    found = await plant.findings("away for longer than a lease", since)
    assert found.problems == []
    assert found.extra_runs == 5


async def test_frozen_and_back(plant_of_its_own: Plant, hit_servers: EmbeddedServers) -> None:
    """Connections stay open and nobody answers: every call ends in bounded time, and the answers that come too late
    are nobody else's."""
    plant = plant_of_its_own
    plant.crew.start(2)
    await plant.enqueue_mixed(100)
    await plant.until_ended(30)
    since = now()
    await asyncio.to_thread(hit_servers.postgres.pause)
    started = now()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(plant.enqueue_mixed(10), PATIENCE)
    bounded = now() - started
    await asyncio.to_thread(hit_servers.postgres.resume)
    await plant.enqueue_mixed(50)
    await plant.until_quiet()
    found = await plant.findings("frozen", since)
    assert found.problems == []
    limit = plant.jobs.settings.postgres.timeout
    print(f"[faults] frozen: an enqueue failed after {bounded:.1f} s, with a limit of {limit:g} s")  # noqa: T201
    assert bounded < 2 * limit + 5


async def test_every_connection_cut_again_and_again(plant: Plant) -> None:
    """Also between a commit and its answer: what was written is found, and nothing is written twice."""
    plant.crew.start(2)
    with psycopg.connect(plant.postgres_url, autocommit=True) as connection:
        async with plant.load():
            for _ in range(100 if LONG else 15):
                await asyncio.sleep(plant.random.uniform(0, 0.2))
                since = now()
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
    await plant.until_quiet()
    found = await plant.findings("connections cut", since)
    assert found.problems == []
    assert found.extra_runs == 0


async def test_a_transaction_that_holds_everything_up(plant: Plant) -> None:
    """Somebody has locked a table for a while: time limits pass, and everything goes on afterwards."""
    plant.crew.start(2)
    await plant.enqueue_mixed(30)
    await plant.until_ended(30)
    since = now()
    with psycopg.connect(plant.postgres_url) as connection:
        connection.execute("lock table jobs in access exclusive mode")
        waiting = asyncio.create_task(plant.enqueue_mixed(20))
        await asyncio.sleep(3)
        assert not waiting.done()
        connection.rollback()
    await waiting
    await plant.until_quiet()
    found = await plant.findings("table locked", since)
    assert found.problems == []
