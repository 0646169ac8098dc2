"""A notebook's connection to real servers: their drivers work in its thread, too."""

from __future__ import annotations

import pytest

from jobconsole.notebook import as_text, connect
from queue_core import JobQueue, Status, StoreUnavailable
from tests.conformance.world import World


async def _nothing(seconds: float) -> None:
    raise NotImplementedError("the servers have their own clock")


async def test_on_postgres_and_redis(empty_workers_url: str, redis_url: str, redis_prefix: str) -> None:
    """Called where a loop runs, which opens the same queue for itself."""
    async with JobQueue(postgres=empty_workers_url, redis=redis_url, prefix=redis_prefix) as jobs:
        await jobs.store.acquire_leadership("upkeep", "leader", 60.0)
        world = World(jobs.store, jobs.inspector, _nothing, operations=jobs._backend.operations)
        dead = await world.job_in("dead")
        with connect(postgres_url=empty_workers_url, redis_url=redis_url, prefix=redis_prefix) as console:
            assert console.stats().dlq == 1
            assert len(console.jobs().to_arrow()) == 1
            assert console.retry("status:dead").run("by hand").sentence == "retried 1 job (operation #1)"
            assert (await jobs.get(dead)).status == Status.QUEUED
            assert "READ-ONLY" in console.console_svg("live").svg
            assert "postgres+redis" in as_text(console)
            assert console.health().healthy


def test_passwords_are_shown_nowhere() -> None:
    with pytest.raises(StoreUnavailable) as error:
        connect(postgres_url="postgresql://app:secret@127.0.0.1:1/app", redis_url="redis://:secret@127.0.0.1:1/0")
    assert "secret" not in str(error.value)
