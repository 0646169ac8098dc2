"""Publishes the events of a busy installation, as its workers would: a process that `flood.py` starts and commands.

    python flooding.py POSTGRES_URL REDIS_URL

Lines on its input: `rate N` (events a second), `probe TEXT` (the message of the job that runs longest). It writes the
number of events so far to its output once a second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Iterator

from queue_core import JobQueue
from queue_core.model.events import Event, EventName
from queue_core.model.job import Claim, new_id
from queue_core.ports.store import ClaimRequest, HeartbeatRequest, LeaseRenewal
from queue_core.worker.journal import EventPublisher

TICK = 0.02
"""Seconds between two bursts of one worker: its settles and claims go in batches, and so do their events."""
WORKERS = 4
LONG = 48
"""Jobs that run all the time and report progress once a second; the others end before a screen could list them."""
QUEUES = ("q1", "q2", "q3", "q4")
TYPES = ("type0", "type1", "type2", "type3", "type4")
LEASE = 3600.0
FIRST_TOKEN = 1 << 50
"""Above those of the jobs that really run."""


class Worker:
    """One worker's events: each burst creates jobs, and brings those of the bursts before it further."""

    def __init__(self, number: int, bus: EventPublisher) -> None:
        self.name = f"bench-{number}:1"
        self._bus = bus
        self._made = 0
        # bursts of jobs on their way: created, claimed, at half, ended
        self._bursts: deque[list[tuple[str, str, str, int]]] = deque(maxlen=4)
        self._owed = 0.0

    def burst(self, events: float) -> int:
        """Publish about so many events; return how many."""
        self._owed += events / 4
        jobs, self._owed = int(self._owed), self._owed % 1
        self._bursts.append([self._job() for _ in range(jobs)])
        published = 0
        for age, burst in enumerate(reversed(self._bursts)):
            for event in (event for job in burst for event in self._events(job, age)):
                self._bus.publish(event)
                published += 1
        return published

    def _job(self) -> tuple[str, str, str, int]:
        self._made += 1
        return new_id(), QUEUES[self._made % 4], TYPES[self._made % 5], FIRST_TOKEN + self._made

    def _events(self, job: tuple[str, str, str, int], age: int) -> Iterator[Event]:
        job_id, queue, type_, token = job
        if age == 0:
            yield Event(EventName.CREATED, queue, job_id, type_, 0, {"priority": 5, "status": "queued"})
        elif age == 1:
            facts = {"worker": self.name, "priority": 5, "attempt": 1}
            yield Event(EventName.CLAIMED, queue, job_id, type_, token, facts)
        elif age == 2:
            yield Event(EventName.PROGRESS, queue, job_id, type_, token, {"progress": 50, "message": "half of it"})
        elif token % 20:
            yield Event(EventName.COMPLETED, queue, job_id, type_, token, {"ms": 40.125})
        else:
            failure = {"error": "TimeoutError: smtp mx-7:25 timed out", "signature": "9f31c2a07b11", "kind": "error"}
            yield Event(EventName.FAILED, queue, job_id, type_, token, failure)
            yield Event(EventName.DEAD, queue, job_id, type_, token, failure)


class Flood:
    """All workers, and the jobs that run long, which the store knows of, too."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs
        self._bus = EventPublisher(jobs.bus)
        self._workers = [Worker(number, self._bus) for number in range(WORKERS)]
        self._running: list[Claim] = []
        self.rate = 0.0
        self.published = 0

    async def run(self) -> None:
        """Publish until the input ends."""
        self._running = await self._start_long()
        async with asyncio.TaskGroup() as group:
            loops = [self._bus.run(), self._burst(), self._progress(), self._count(), self._renew()]
            tasks = [group.create_task(loop) for loop in loops]
            await self._obey()
            for task in tasks:
                task.cancel()

    async def _start_long(self) -> list[Claim]:
        handles = await self._jobs.enqueue_many("long", [{"n": n} for n in range(LONG)], queue="q1")
        # nothing can be claimed from a new store before a leader was elected
        await self._jobs.store.acquire_leadership("bench", self._workers[0].name, 1.0)
        ids = [handle.id for handle in handles]
        request = ClaimRequest("q1", self._workers[0].name, ("long",), LONG, LEASE, ids)
        claims = sorted(await self._jobs.store.claim(request), key=lambda claim: claim.id)
        if len(claims) < LONG:
            raise RuntimeError(f"of {LONG} jobs only {len(claims)} could be claimed")
        return claims

    async def _burst(self) -> None:
        due = time.monotonic()
        while True:
            for worker in self._workers:
                due += TICK / WORKERS
                await asyncio.sleep(due - time.monotonic())
                self.published += worker.burst(self.rate * TICK / WORKERS)

    async def _progress(self) -> None:
        percent = 0
        while True:
            percent = percent % 99 + 1
            for claim in self._running[1:]:
                await asyncio.sleep(1.0 / LONG)
                self._report(claim, percent, f"step {percent} of 99")

    async def _count(self) -> None:
        while True:
            print(self.published, flush=True)
            await asyncio.sleep(1.0)

    async def _renew(self) -> None:
        """The worker that holds the long jobs is alive."""
        heartbeat, leases = (
            self._jobs.store.open_heartbeat(),
            [LeaseRenewal(claim.id, claim.token) for claim in self._running],
        )
        request = HeartbeatRequest(
            self._workers[0].name, "bench", 1, "1", QUEUES, None, 64, LONG, False, LEASE, 10.0, leases
        )  # fmt: skip
        while True:
            await asyncio.to_thread(heartbeat.renew, request)
            await asyncio.sleep(5.0)

    async def _obey(self) -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            word, _, rest = line.strip().partition(" ")
            if word == "rate":
                self.rate = float(rest)
            else:
                self._report(self._running[0], 50, rest)

    def _report(self, claim: Claim, percent: int, message: str) -> None:
        # the message first: a narrow list of events cuts what comes behind it
        published = {"message": message, "progress": percent}
        self._bus.publish(Event(EventName.PROGRESS, claim.queue, claim.id, claim.type, claim.token, published))
        self.published += 1


async def main() -> None:
    """Open the queue and flood it."""
    async with JobQueue(postgres=sys.argv[1], redis=sys.argv[2]) as jobs:
        await Flood(jobs).run()


if __name__ == "__main__":
    asyncio.run(main())
