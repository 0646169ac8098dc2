"""The benchmark's one task, and the queue object that its worker processes import."""

from __future__ import annotations

import os
from pathlib import Path

from jobconsole.bench.record import Recorder
from queue_core import JobQueue

TARGET = "jobconsole.bench.tasks:jobs"
FOLDER_VARIABLE = "BENCH_FOLDER"
"""Where a worker process finds its recorder's folder. Not JOBS_…: these names belong to the settings."""
TYPE = "noop"


def register(queue: JobQueue, recorder: Recorder) -> JobQueue:
    """Register the task on a queue object."""

    async def noop(number: int, sent: float, customer: str, text: str) -> None:
        recorder.note(number, sent)

    queue.task(name=TYPE)(noop)
    return queue


def __getattr__(name: str) -> JobQueue:
    """Make `jobs` when a worker process asks for it: only there the environment has all addresses."""
    if name != "jobs":
        raise AttributeError(name)
    return register(JobQueue.from_settings(), Recorder(Path(os.environ[FOLDER_VARIABLE])))
