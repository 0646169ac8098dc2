"""`job stack`: where a running job is, in words and as JSON, and what was kept of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from queue_core import JobQueue
from queue_core.model.settings import JobsSettings, SqliteSettings
from tests.cli.running import Cli
from tests.conformance.working import until_status, working


async def test_where_a_running_job_is(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    cli = Cli({"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": path})
    settings = JobsSettings(queue_backend="sqlite", sqlite=SqliteSettings(path=path))
    end = asyncio.Event()
    async with JobQueue(settings=settings) as jobs:

        @jobs.task
        async def waits_for_a_sign() -> None:
            await end.wait()

        handle = await waits_for_a_sign.enqueue()
        waiting = await asyncio.to_thread(cli, "job", "stack", handle.id)
        assert (waiting.code, waiting.out) == (1, "")
        assert waiting.err.count("\n") == 1
        async with working(jobs):
            await until_status(jobs, handle.id, "running")
            found = await asyncio.to_thread(cli, "job", "stack", handle.id[:20])
            body = (await asyncio.to_thread(cli, "job", "stack", handle.id, "--json")).body
            end.set()
            await until_status(jobs, handle.id, "completed")
        kept = await asyncio.to_thread(cli, "job", "stack", handle.id, "--kept", "--json")
    assert found.code == 0
    assert "await end.wait()" in found.out
    assert "waits_for_a_sign" in found.out
    assert body["answered"] is True
    assert len(body["stacks"]) == 2
    assert body["unmoved_since"] is not None
    assert len(kept.body["stacks"]) == 2
