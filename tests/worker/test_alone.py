"""Jobs that run alone: a few at a time, whose wait for a process and whose imports are no part of their time limits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from queue_core import JobHandle, JobQueue
from queue_core.model.settings import JobsSettings
from queue_core.ports.store import ClaimRequest
from queue_core.worker.children import starter
from tests.conformance.working import PATIENCE, until, working
from tests.worker import process_tasks

TARGET = "tests.worker.process_tasks:jobs"
AUTOMATIC = max(4, os.cpu_count() or 1)


@asynccontextmanager
async def opened(children: int | None = None) -> AsyncIterator[JobQueue]:
    """Open a queue object of this test alone, with the tasks of the module that children import."""
    settings = {"queue_backend": "memory", "defaults": {"children": children}}
    async with JobQueue(settings=JobsSettings.model_validate(settings)) as jobs:
        for name in process_tasks.jobs.tasks.types():
            jobs.tasks.add(process_tasks.jobs.tasks.get(name))
        yield jobs


async def suspects(jobs: JobQueue, number: int, name: str, **payload: Any) -> list[JobHandle[Any]]:
    """Enqueue jobs that have lost two workers each."""
    handles = await jobs.enqueue_many(name, [payload] * number)
    await jobs.store.acquire_leadership("sweep", "test", 0.0)
    for loss in range(2):
        assert len(await jobs.store.claim(ClaimRequest("default", f"lost-{loss}", None, number, 0.001))) == number
        left = number

        async def all_back() -> bool:
            nonlocal left
            left -= len(await jobs.store.reclaim(number))
            return left == 0

        await until(all_back)
    return list(handles)


def there(folder: Path) -> int:
    return len(list(folder.iterdir()))


def children() -> int:
    return len(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize(("setting", "at_a_time"), [(None, AUTOMATIC), (1, 1)])
async def test_a_few_at_a_time(tmp_path: Path, setting: int | None, at_a_time: int) -> None:
    before = children()
    async with opened(setting) as jobs:
        handles = await suspects(jobs, 3 * at_a_time, "alone_in_turn", folder=str(tmp_path))
        async with working(jobs, target=TARGET, concurrency=20):
            await until(lambda: asyncio.to_thread(lambda: there(tmp_path) == at_a_time))
            assert await asyncio.to_thread(children) - before == at_a_time
            (tmp_path / "go").touch()
            for handle in handles:
                await handle.result(PATIENCE)
    assert there(tmp_path) == 3 * at_a_time + 1, "each had a process of its own"


async def test_neither_the_wait_nor_the_imports_count_as_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes longer than the time limit."""
    monkeypatch.setenv("SLOW_CHILDREN", "1")
    async with opened(1) as jobs:
        handles = await suspects(jobs, 2, "alone_at_once")
        async with working(jobs, target=TARGET):
            assert len({await handle.result(PATIENCE) for handle in handles}) == 2
        runs = [await jobs.inspector.get(handle.id) for handle in handles]
    assert [job.retry_count for job in runs] == [0, 0]


async def test_no_losses_are_counted_faster_while_the_program_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them would be buried within a minute."""
    monkeypatch.setattr(starter, "FIRST_PAUSE", 10 * PATIENCE)
    monkeypatch.setenv("BROKEN_CHILDREN", str(tmp_path))
    async with opened(1) as jobs:
        handles = await suspects(jobs, 3, "alone_at_once")
        async with working(jobs, target=TARGET, stops=True) as worker:

            async def lost() -> bool:
                return max([(await jobs.inspector.get(handle.id)).losses for handle in handles]) > 2

            await until(lost)
            worker.stop()
        ends = [await jobs.inspector.get(handle.id) for handle in handles]
    assert sorted(job.losses for job in ends) == [2, 2, 3]
    assert {str(job.status) for job in ends} == {"queued"}


async def test_a_stop_gives_back_what_waits_for_its_turn(tmp_path: Path) -> None:
    async with opened(1) as jobs:
        handles = await suspects(jobs, 3, "alone_in_turn", folder=str(tmp_path))
        async with working(jobs, target=TARGET, stops=True) as worker:
            await until(lambda: asyncio.to_thread(lambda: there(tmp_path) == 1))
            worker.stop()
            await asyncio.to_thread((tmp_path / "go").touch)
        ends = [await jobs.inspector.get(handle.id) for handle in handles]
    assert sorted(str(job.status) for job in ends) == ["completed", "queued", "queued"]
    assert {job.losses for job in ends} == {2}
