"""Jobs that are enqueued and run all the time while servers are disturbed: what was acknowledged, what became of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from queue_core import JobQueue
from queue_core.errors import QueueCoreError
from queue_core.model.settings import JobsSettings
from queue_core.worker.worker import Worker

PATIENCE = 60.0
LONG = bool(os.environ.get("TOPOLOGY_LONG"))
"""Every disturbance in every mode, and the rates before and after."""
BACK_PART, BACK_SECONDS = 0.9, 10.0
"""Part of the rate before that is back so many seconds after a disturbance."""
PAUSE = 0.015 if LONG else 0.004
"""Seconds between two jobs of a producer. The long form compares rates: one that a busy machine can keep, too."""


@dataclass
class Found:
    """What a run has shown."""

    acknowledged: set[int] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)
    # ids of acknowledged jobs that the store does not have in the end, whether they have run or not
    gone: list[str] = field(default_factory=list)
    # number of a job -> how often it ran
    runs: Counter[int] = field(default_factory=Counter)
    # time.monotonic at the end of each run
    ended_at: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    disturbed_at: float = 0.0
    stopped_at: float = 0.0

    @property
    def lost(self) -> set[int]:
        """Jobs whose enqueue had returned and that never ran."""
        return self.acknowledged - self.runs.keys()

    def back_after(self, part: float, window: float = 2.0) -> float:
        """Return the seconds after the disturbance until a window begins with this part of the rate before."""

        def jobs_in(start: float) -> int:
            return sum(start <= at < start + window for at in self.ended_at)

        least = part * jobs_in(self.disturbed_at - window)
        steps = (step / 10 for step in range(1, round((self.stopped_at - self.disturbed_at - window) * 10)))
        return next((step for step in steps if jobs_in(self.disturbed_at + step) >= least), float("inf"))


async def under_load(
    settings: JobsSettings,
    queues: Sequence[str],
    disturb: Callable[[], object],
    before: float = 3.0 if LONG else 1.0,
    after: float = 14.0 if LONG else 2.0,
    pause: float = PAUSE,
    may_lose: bool = False,
) -> Found:
    """Enqueue and run jobs in these queues, disturb the servers meanwhile, and wait until all jobs have run.

    Redis as the store may lose jobs that no replica had: then nothing is waited for. Where a replica has to have each
    job, the rate is back when there is one again, which is not measured.
    """
    confirmed = settings.mode == "redis" and settings.redis.min_replicas > 0
    found = Found()
    jobs = JobQueue(settings=settings)
    stop = asyncio.Event()
    ended = asyncio.Condition()

    async def work(n: int) -> None:
        found.runs[n] += 1
        found.ended_at.append(time.monotonic())
        async with ended:
            ended.notify_all()

    tasks = {queue: jobs.task(queue=queue, name=f"work_{queue}")(work) for queue in queues}

    async def produce() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                handle = await tasks[queues[number % len(queues)]].enqueue(n=number)
                found.acknowledged.add(number)
                found.ids.append(handle.id)
            except QueueCoreError as error:
                found.refusals.append(str(error))
                await asyncio.sleep(0.1)
            await asyncio.sleep(pause)

    async with jobs:
        worker = asyncio.create_task(Worker(jobs, concurrency=20).run())
        producer = asyncio.create_task(produce())
        try:
            await asyncio.sleep(before)
            found.disturbed_at = time.monotonic()
            await asyncio.to_thread(disturb)
            mark = len(found.ended_at)
            async with asyncio.timeout(PATIENCE), ended:
                await ended.wait_for(lambda: len(found.ended_at) >= mark + 50)
            await asyncio.sleep(after)
            found.stopped_at = time.monotonic()
            stop.set()
            await producer
            async with asyncio.timeout(PATIENCE), ended:
                await ended.wait_for(lambda: may_lose or not found.lost)
            known = {one.id for one in await jobs.store.results(found.ids)}
            found.gone = [job_id for job_id in found.ids if job_id not in known]
        finally:
            stop.set()
            worker.cancel()
            producer.cancel()
            await asyncio.gather(worker, producer, return_exceptions=True)
    if LONG and not confirmed:
        assert found.back_after(BACK_PART) <= BACK_SECONDS
    return found
