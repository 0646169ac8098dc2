"""One schedule: real workers on one store in memory, jobs of all kinds, faults at random, and what must hold."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from queue_core import JobContext, JobQueue
from queue_core.backends import memory_backend
from queue_core.client.payloads import PayloadTypes
from queue_core.delivery.local import LocalDispatcher
from queue_core.errors import QueueCoreError
from queue_core.model.states import FINAL, Status
from queue_core.runtime import SystemClock
from queue_core.stores.memory.store import MemoryStore
from queue_core.worker import leader, neighbours, runner
from queue_core.worker import worker as worker_module
from queue_core.worker.worker import Worker
from tests.simulation.link import Ledger, Link, LoopHeartbeat, Weather, short
from tests.simulation.tasks import KINDS, register
from tests.simulation.virtual import StuckError, run_virtually

WORKERS = 2
TROUBLE = 20.0
"""Seconds in which faults happen; then the way is free, so that everything must come to its end."""
LEASE = 5.0
MOST = 900.0
"""Seconds of virtual time in which a schedule must be at its end."""
LOOKS = 0.25
"""Seconds between two looks of an idle worker's loops, in place of 0.05 or 0.1, which took a third of the time."""


@dataclass(frozen=True)
class Result:
    """What one schedule has shown."""

    seed: int
    problems: list[str]
    trace: list[str]
    jobs: int
    attempts: int
    refused: int
    faults: int


class _Errors(logging.Handler):
    """Keeps what the product logs as an error of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # A job's death is none, and outcomes that are not stored within the time are lost by contract.
        if not hasattr(record, "job_id") and "outcomes not stored" not in record.msg:
            self.lines.append(record.getMessage())


class _NoWatchdog:
    """Virtual time stands still while a handler computes."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


@dataclass
class _Crew:
    """The workers, those that were killed included."""

    links: list[Link] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    # whose tasks they are
    owners: WeakKeyDictionary[asyncio.Task[Any], Link] = field(default_factory=WeakKeyDictionary)
    faults: int = 0


class Simulation:
    """One schedule, decided by its seed."""

    def __init__(self, seed: int, store: Callable[[], MemoryStore]) -> None:
        self._seed = seed
        self._source = Random(seed)
        self._store = store()
        self._ledger = Ledger()
        self._backend = memory_backend(self._store)._replace(dispatcher=LocalDispatcher())
        self._crew = _Crew()
        self._ids: list[str] = []
        self._keys: dict[str, list[str]] = {}

    async def run(self) -> None:
        """Run it to the end, and check."""
        errors = _Errors()
        logger = logging.getLogger("queue_core")
        logger.addHandler(errors)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unhandled)
        loop.set_task_factory(self._make_task)
        try:
            await self._store.open()
            jobs = self._queue("producer", Weather(0.0, 0.0, 0.0, 0.5))
            for number in range(WORKERS):
                self._hire(f"w{number}")
            await asyncio.gather(self._produce(jobs), self._trouble(jobs))
            await self._until_ended()
            await self._dismiss()
        finally:
            logger.removeHandler(errors)
        self._ledger.problems += errors.lines
        self._check()

    def result(self) -> Result:
        """Return what it has shown so far."""
        ledger = self._ledger
        counts = (len(self._ids), len(ledger.started), len(ledger.refused), self._crew.faults)
        return Result(self._seed, ledger.problems, ledger.trace, *counts)

    def _queue(self, name: str, weather: Weather) -> JobQueue:
        """Return a queue object whose way to the store has this weather."""
        jobs = JobQueue(memory=True)
        link = Link(name, self._store, weather, Random(self._source.random()), self._ledger)
        jobs.swap(self._backend._replace(store=link), opened=True)  # type: ignore[arg-type]
        register(jobs, self._source, partial(self._handle, link))
        return jobs

    async def _handle(self, link: Link, ctx: JobContext, seconds: float) -> dict[str, int]:
        """Do the work of a handler, and say whose it was."""
        if link.dead:
            await asyncio.Event().wait()
        self._ledger.note(f"{link.link_name} starts {short(ctx.job_id)} as {ctx.token}")
        self._begin(ctx.job_id, ctx.token)
        await asyncio.sleep(seconds / 2)
        if ctx.attempt % 2:
            await ctx.progress(50)
        await asyncio.sleep(seconds / 2)
        if not link.dead:
            self._ledger.ended.add((ctx.job_id, ctx.token))
        return {"token": ctx.token}

    def _begin(self, job_id: str, token: int) -> None:
        """Note the start of a handler, and look whether it may start now."""
        ledger = self._ledger
        before = [one for job, one in ledger.started if job == job_id]
        if token in before:
            ledger.problems.append(f"{short(job_id)} was started twice as {token}")
        for earlier in before:
            if earlier < token and (job_id, earlier) not in ledger.back:
                ledger.problems.append(f"{short(job_id)} runs as {token}, and {earlier} was never given back")
        for ids in self._keys.values():
            for earlier_id in ids[: ids.index(job_id)] if job_id in ids else ():
                state = self._store.state.jobs[earlier_id].status
                if state not in FINAL:
                    ledger.problems.append(f"{short(job_id)} runs while {short(earlier_id)} of its key is {state}")
        lease = self._store.state.jobs[job_id].lease
        if lease is None or lease.token != token or lease.expires_at <= self._store.state.clock.now():
            ledger.problems.append(f"{short(job_id)} was started as {token}, whose lease was over")
        ledger.started.append((job_id, token))

    # -- what happens

    def _hire(self, name: str) -> None:
        jobs = self._queue(name, Weather.choose(self._source))
        link: Any = jobs.store
        worker = Worker(jobs, concurrency=self._source.randint(1, 4), lease=LEASE, heartbeat=1.0, grace=2.0)
        worker.on_wedged = None
        self._crew.links.append(link)
        task = asyncio.get_running_loop().create_task(self._employ(worker, link))
        self._crew.tasks.append(task)
        self._crew.owners[task] = link

    async def _employ(self, worker: Worker, link: Link) -> None:
        """Run a worker, again where it could not start."""
        while True:
            try:
                await worker.run()
                return
            except QueueCoreError:
                await asyncio.sleep(0.5)

    async def _produce(self, jobs: JobQueue) -> None:
        source = self._source
        for _ in range(source.randint(3, 12)):
            name = source.choice(KINDS)
            payload: dict[str, Any] = {"seconds": source.choice([0.0, 0.01, 0.3, 2.0, 6.0])}
            if name == "fails_first":
                payload["times"] = source.randint(1, 3)
            key = source.choice([None, None, "a", "b"])
            # A delayed job takes its place in its key when it is due.
            delay = source.choice([0.0, 0.0, 1.0, 3.0]) if key is None else 0.0
            job = await jobs.enqueue(name, payload, priority=source.randint(0, 9), ordering_key=key, delay=delay)
            self._ids.append(job.id)
            if key is not None:
                self._keys.setdefault(key, []).append(job.id)
            await asyncio.sleep(source.choice([0.0, 0.1, 2.0]))

    async def _trouble(self, jobs: JobQueue) -> None:
        """Cut, mend, kill, stop and hire workers, and cancel jobs, until the time for it is over."""
        source, loop = self._source, asyncio.get_running_loop()
        ends = loop.time() + TROUBLE
        while loop.time() < ends:
            await asyncio.sleep(source.uniform(0.0, 4.0))
            self._crew.faults += 1
            link, task = source.choice(list(zip(self._crew.links, self._crew.tasks, strict=True)))
            what = source.choice(["cut", "cut", "kill", "stop", "end", "cancel"])
            if what == "cut" and not link.dead:
                link.cut(forgets=source.random() < 0.5)
                loop.call_later(source.choice([0.5, 3.0, 7.0, 14.0]), self._mend, link)
            elif what == "kill" and not link.dead:
                link.kill()
                # Nothing that it still does reaches anyone.
                task.cancel()
                self._hire(f"w{len(self._crew.links)}")
            elif what == "stop" and not link.dead and not task.done():
                self._ledger.note(f"{link.link_name} is stopped")
                task.cancel()
                self._hire(f"w{len(self._crew.links)}")
            elif what == "end" and not link.dead and not task.done():
                self._ledger.note(f"the event loop of {link.link_name} ends")
                for one in [one for one, owner in self._crew.owners.items() if owner is link]:
                    one.cancel()
                self._hire(f"w{len(self._crew.links)}")
            elif what == "cancel" and self._ids:
                job_id = source.choice(self._ids)
                self._ledger.note(f"an operator cancels {short(job_id)}")
                with suppress(QueueCoreError):
                    await jobs.cancel(job_id)

    def _mend(self, link: Link) -> None:
        if not link.dead:
            link.mend()

    async def _until_ended(self) -> None:
        while any(self._store.state.jobs[one].status not in FINAL for one in self._ids):  # noqa: ASYNC110
            await asyncio.sleep(1.0)

    async def _dismiss(self) -> None:
        for task in self._crew.tasks:
            task.cancel()
        await asyncio.wait(self._crew.tasks, timeout=60)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=60)

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        """Make a task that belongs to the worker whose code makes it."""
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        maker = asyncio.tasks._current_tasks.get(loop)  # type: ignore[attr-defined]
        if maker in self._crew.owners:
            self._crew.owners[task] = self._crew.owners[maker]
        return task

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._ledger.problems.append(f"nobody handled: {context.get('message')}: {context.get('exception')!r}")

    # -- what must hold at the end

    def _check(self) -> None:
        ledger, problems = self._ledger, self._ledger.problems
        tokens: dict[str, list[int]] = {}
        for job_id, token in ledger.started:
            tokens.setdefault(job_id, []).append(token)
        rows = self._store.state.jobs
        if set(rows) != set(self._ids):
            problems.append(f"{len(rows)} jobs in the store, and {len(self._ids)} were enqueued")
        counts = Counter(rows[one].status for one in self._ids)
        ledger.note(f"at the end: {dict(counts)}")
        for job_id in self._ids:
            row = rows[job_id]
            if row.status is not Status.COMPLETED:
                continue
            final = json.loads(row.result or "null")
            last = max(tokens.get(job_id, [0]))
            if final != {"token": last} or (job_id, last) not in ledger.ended:
                problems.append(f"{short(job_id)} was completed as {final}, and its last attempt was {last}")
            if (job_id, last) in ledger.back:
                problems.append(f"{short(job_id)} was completed by {last}, which had been given back")
        if self._store.state.running:
            problems.append(f"leases are left: {sorted(self._store.state.running)}")


_draw, _drawn = PayloadTypes.schema, dict[str, dict[str, Any]]()


def _schema_of(payloads: PayloadTypes) -> dict[str, Any]:
    """Draw the schema of a task's payloads once: every worker of each schedule announces the same."""
    if payloads._task not in _drawn:
        _drawn[payloads._task] = _draw(payloads)
    return _drawn[payloads._task]


@contextmanager
def _in_one_thread() -> Iterator[None]:
    """Let workers have a heartbeat in virtual time, and no watchdog."""
    with (
        patch.object(PayloadTypes, "schema", _schema_of),
        patch.object(worker_module, "Heartbeat", LoopHeartbeat),
        patch.object(worker_module, "Watchdog", _NoWatchdog),
        patch.object(runner, "LIMITS_TICK", LOOKS),
        patch.object(leader, "DUE_POLL", LOOKS),
        patch.object(neighbours, "CHECK_SECONDS", LOOKS),
    ):
        yield


def simulate(seed: int, store: Callable[[], MemoryStore] = lambda: MemoryStore(SystemClock())) -> Result:
    """Run the schedule of a seed; the same one is always the same."""
    simulation = Simulation(seed, store)
    with _in_one_thread():
        try:
            run_virtually(simulation.run, seed, MOST)
        except StuckError as error:
            return replace(simulation.result(), problems=[*simulation.result().problems, str(error)])
    return simulation.result()
