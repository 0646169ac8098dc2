"""With TLS, whose servers the wheels do not have: Debian's does."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from queue_core import JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.worker.worker import Worker
from tests.cli.running import Cli
from tests.redis_topology.rig import Cluster, Trio, started, tls_program


@pytest.fixture(autouse=True)
def programs() -> None:
    """Skip where there is none."""
    if tls_program() is None or shutil.which("openssl") is None:
        pytest.skip("a redis-server with TLS and openssl are needed")


async def run_one(url: str, prefix: str) -> None:
    """Enqueue a job, let a worker run it, and wait for its result."""
    redis = {"url": url, "prefix": prefix, "timeout": "10s"}
    async with JobQueue(settings=JobsSettings.model_validate({"queue_backend": "redis", "redis": redis})) as jobs:

        @jobs.task(queue="q1")
        async def double(n: int) -> int:
            return 2 * n

        handle = await double.enqueue(n=2)
        worker = asyncio.create_task(Worker(jobs).run())
        assert await handle.result(timeout=30) == 4
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_sentinels_with_tls_and_passwords() -> None:
    with started(Trio, "hunter2", tls=True) as trio:
        await run_one(trio.url(), "t:")
        untrusted = trio.url().partition("&ssl")[0]
        cli = Cli({"JOBS__REDIS__URL": untrusted, "JOBS__QUEUE_BACKEND": "redis"})
        answer = await asyncio.to_thread(cli, "queue", "list")
        assert answer.code == 3
        assert "hunter2" not in answer.err


async def test_a_cluster_with_tls() -> None:
    with started(Cluster, tls=True) as cluster:
        await run_one(cluster.url, "t:")
        cluster.migrate(1, cluster.masters()[1])
