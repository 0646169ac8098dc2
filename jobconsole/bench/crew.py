"""The workers of a benchmark: real worker processes, or, where the store lives in one process, workers inside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jobconsole.bench.ground import Ground
from jobconsole.bench.recorder import Record, Recorder
from jobconsole.bench.tasks import FOLDER_VARIABLE, TARGET
from jobconsole.demo.errors import DemoError
from jobconsole.demo.processes import Fleet
from queue_core import JobQueue, Worker
from queue_core.worker.options import ServiceOptions

CONCURRENCY = 100
END_SECONDS = 20.0
"""How long a worker may take to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers at work."""

    record: Record
    pids: tuple[int, ...]
    # raises DemoError when one of them has ended by itself
    check: Callable[[], None]


@asynccontextmanager
async def processes(ground: Ground, count: int, record: Record) -> AsyncIterator[Crew]:
    """Run worker processes, and end them.

    Raises:
        DemoError: one has ended by itself.
    """
    (record.folder / "logs").mkdir(exist_ok=True)
    fleet = Fleet(record.folder, ground.environment | {FOLDER_VARIABLE: str(record.folder)})
    try:
        options = ServiceOptions(concurrency=CONCURRENCY).to_json()
        crew = [
            fleet.start(f"worker-{number}", "queue_core.worker.process", [TARGET, options])
            for number in range(1, count + 1)
        ]
        yield Crew(record, tuple(child.pid for child in crew), fleet.check)
        await asyncio.gather(*(fleet.end(child, END_SECONDS) for child in crew))
    finally:
        fleet.close()


@asynccontextmanager
async def inside(jobs: JobQueue, recorder: Recorder, count: int, record: Record) -> AsyncIterator[Crew]:
    """Run workers in this process, and end them."""
    recorder.open(record.folder)
    workers = [Worker(jobs, concurrency=CONCURRENCY) for _ in range(count)]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]

    def check() -> None:
        for task in tasks:
            if task.done():
                raise DemoError(f"A worker has ended: {task.exception() or 'it was stopped'}.")

    try:
        yield Crew(record, (), check)
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
