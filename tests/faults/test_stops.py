"""SIGTERM under load, and everything else at once: a deploy costs nobody an attempt."""

from __future__ import annotations

import asyncio
import signal

from tests.faults.plant import LONG, Plant, now


async def test_sigterm_under_load(plant: Plant) -> None:
    """Rolling deploys: each worker drains and ends well; what it could not finish is released, without a crash."""
    plant.crew.start(2)
    async with plant.load(longest_ms=200):
        for _ in range(10 if LONG else 3):
            victim = plant.random.choice(plant.crew.alive)
            await plant.until_started(plant.started(victim) + plant.random.randint(1, 20), victim)
            since = now()
            plant.crew.send(victim, signal.SIGTERM)
            plant.crew.start(1)
            assert plant.crew.wait(victim) == 0
    await plant.until_quiet()
    found = await plant.findings("SIGTERM under load", since)
    assert found.problems == []
    assert found.stale_refused == 0
    assert "reclaimed" not in plant.ledger.back.values()


async def test_a_second_sigterm_gives_the_jobs_back_at_once(plant: Plant) -> None:
    (pid,) = plant.crew.start(1, grace=60.0, lease=60.0)
    await plant.enqueue(5, "waits_for", gate="open", of_attempt=0)
    await plant.until_started(5)
    since = now()
    plant.crew.send(pid, signal.SIGTERM)
    await asyncio.sleep(0.3)
    plant.crew.send(pid, signal.SIGTERM)
    assert plant.crew.wait(pid) == 0
    assert now() - since < 30
    assert set(plant.ledger.back.values()) == {"released"}
    plant.open_gate("open")
    plant.crew.start(1)
    await plant.until_quiet()
    found = await plant.findings("SIGTERM twice", since)
    assert found.problems == []
    assert found.extra_runs == 5
    for job_id in plant.ledger.ids:
        job = await plant.jobs.inspector.get(job_id)
        assert (job.crashes, job.retry_count) == (0, 0)


async def test_a_worker_that_lived_through_everything_has_lost_no_file_and_no_thread(plant: Plant) -> None:
    """Connections cut and Redis emptied fifty times: what a process holds stays what it was."""
    import psycopg
    from redis.asyncio import Redis

    (pid,) = plant.crew.start(1)
    await plant.enqueue_mixed(50)
    await plant.until_ended(50)
    before = plant.crew.holds(pid)
    with psycopg.connect(plant.postgres_url, autocommit=True) as connection:
        async with Redis.from_url(plant.redis_url) as client:
            for _ in range(50 if LONG else 10):
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
                await client.client_kill_filter(_type="normal", skipme=True)
                await client.client_kill_filter(_type="pubsub")
                ended = len(plant.ledger.ends)
                await plant.enqueue_mixed(20)
                await plant.until_ended(ended + 20)
    after = plant.crew.holds(pid)
    assert after.files <= before.files + 3, (before, after)
    assert after.threads <= before.threads + 3, (before, after)
    assert (await plant.findings("cut again and again")).problems == []
