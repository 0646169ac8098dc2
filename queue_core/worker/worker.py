"""A worker process: composes the loops, starts them, drains them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from queue_core.client.tasks import Duration, TaskRegistry
from queue_core.errors import ConfigurationError
from queue_core.model.job import Stray
from queue_core.model.validation import check_queue_name
from queue_core.ports.store import ClaimRequest, HeartbeatRequest, Neighbour, NotifyingStore
from queue_core.queue import JobQueue
from queue_core.runtime import StopSignals, end_tasks
from queue_core.worker.attempt import MainTask, Patience, RunningAttempt, Watchdog, end_process
from queue_core.worker.execution import RawHandler, handlers_of
from queue_core.worker.fetcher import Fetcher
from queue_core.worker.heartbeat import Heartbeat, seconds, times_of, version
from queue_core.worker.journal import EventPublisher
from queue_core.worker.leader import Duty, Sweeper, keep_running
from queue_core.worker.runner import STUBBORN_SECONDS, Runner, RunPlan
from queue_core.worker.settler import make_settler

T = TypeVar("T")

logger = logging.getLogger("queue_core.worker")


RETIRE_SECONDS = 2.0
"""What the removal of a worker's entry may take."""
ABRUPT_SECONDS = 5.0
"""What outcomes may take that wait for the store when all tasks of the event loop were cancelled."""


class TakeStep(Protocol):
    """Takes a step of a worker's start, and returns what came of it."""

    async def __call__(self, step: Callable[[], Awaitable[T]], /) -> T:
        """Take it."""
        ...


async def once(step: Callable[[], Awaitable[T]], /) -> T:
    """Take a step of the start once: who runs the worker sees that its store is away."""
    return await step()


class Worker:
    """Claims and runs the jobs of a queue object's tasks until it is stopped.

    `concurrency`: jobs at a time. `queues`: those of the tasks when left out. `lease` and `heartbeat`: durations,
    from the settings when left out. `grace`: how long running jobs may go on after a stop before they are given back.
    `target`: `package.module:name` of the queue object, for child processes; with it, a job whose workers were lost
    twice runs alone in one. Tasks with `process=True` need it, unless it is found by their module. `handler`: is given
    every job of the `queues`, whatever its type, in place of the registered tasks.
    """

    # from its registration to its end
    _working = False
    # how the steps of the start are taken that need the store: again until it can be used, or once
    take_step: TakeStep = staticmethod(once)
    # the event loop runs nothing else: its end counts as the loss of the worker, unless that was stopped
    owns_loop = False

    def __init__(
        self,
        jobs: JobQueue,
        *,
        concurrency: int = 100,
        queues: Sequence[str] | None = None,
        lease: Duration | None = None,
        heartbeat: Duration | None = None,
        grace: Duration = 30.0,
        target: str | None = None,
        handler: RawHandler | None = None,
    ) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._jobs = jobs
        jobs.workers.add(self)
        self._queues = _queues_of(jobs.tasks, queues)
        # None: every type
        self._types = None if handler is not None else jobs.tasks.types()
        self._times = times_of(jobs.settings.defaults, lease, heartbeat)
        self._grace = seconds(grace, "a worker's grace")
        self._held: dict[str, RunningAttempt] = {}
        self._stopping = asyncio.Event()
        self._forced = asyncio.Event()
        # what outcomes may take that wait for the store at the end, and when, by time.monotonic, all is over
        self._settling = max(5.0, self._times.lease / 2)
        self._stopped_at = self._end_by = math.inf
        self._publisher = EventPublisher(jobs.bus, self.id, jobs.settings.rules)
        self._settler = make_settler(jobs.store, jobs.dispatcher, self._publisher, self._held, jobs.hooks)
        handlers, target = handlers_of(jobs, handler, queues, target)
        slots, limits = _check_slots(concurrency), jobs.settings.limits
        defaults, most = jobs.settings.defaults, jobs.settings.defaults.max_losses
        self._lifespan = jobs.lifespans.prepare()
        runs_in = (target, most, defaults.children, self._lifespan, self._times.lease)
        plan = RunPlan(handlers, jobs.hooks, limits, slots, self.id, jobs.store, *runs_in)
        self._runner = Runner(plan, self._settler, self._publisher, self._held)
        request = ClaimRequest("", self.id, self._types, 0, self._times.lease)
        self._fetcher = Fetcher(jobs.store, jobs.dispatcher, self._runner, self._queues, request, jobs.settings.rules)
        self._fetcher.pairing = jobs.pairing
        # what to do about an event loop that does not answer for the length of a lease; None: it is only logged
        self.on_wedged: Callable[[], None] | None = end_process
        self._stall = jobs.settings.defaults.stall
        self._sweeper = Sweeper(
            jobs.parts,
            jobs.operations.executor(),
            jobs.hooks,
            self._publisher,
            Duty(self.id, self._times.lease, most, self._queues),
        )

    def stop(self) -> None:
        """Stop claiming and drain; a second call gives the running jobs back at once. For the loop's thread."""
        if self._stopping.is_set():
            self._forced.set()
        else:
            self._stopped_at = time.monotonic()
            self._end_by = self._stopped_at + self._grace + STUBBORN_SECONDS + self._settling + RETIRE_SECONDS
        self._stopping.set()
        self._lifespan.interrupt()
        self._runner.stop_starting()  # at once: the loop that drains learns of it later

    def limit_jobs(self, most: int) -> None:
        """Run at most so many jobs from now on; `used_up` is set when they are done."""
        self._runner.left = most

    @property
    def used_up(self) -> bool:
        """Whether as many jobs were run as this worker may run, or too many threads cannot be ended."""
        return self._runner.used_up

    @property
    def stuck_threads(self) -> int:
        """Threads that a time limit or a cancellation gave up on, and that still run."""
        return self._runner.stuck_threads

    @property
    def stuck(self) -> int:
        """Handlers that a time limit, a cancellation or a stop gave up on, and that still run."""
        return self._runner.stuck

    @property
    def load(self) -> tuple[bool, int, int]:
        """Whether it works, and how many of how many slots are taken: working, slots, busy."""
        return self._working and not self.stopping, self._runner.concurrency, self._runner.busy

    @property
    def stopping(self) -> bool:
        """Whether it was stopped."""
        return self._stopping.is_set()

    @property
    def draining(self) -> bool:
        """Whether it was stopped and is within the time that its end may take."""
        return self.stopping and time.monotonic() < self._end_by

    @property
    def refused(self) -> int:
        """Outcomes that were refused because their lease was over."""
        return self._settler.refused

    async def run(self) -> None:
        """Work until stopped by `stop`, a signal to end or cancelled; what runs may finish in the grace period.

        When all tasks of the event loop are cancelled, as at the end of `asyncio.run`, what runs is given back; where
        a job's code does that, each counts a loss.

        Raises:
            ConfigurationError: no tasks are registered.
            LifespanFailed: a lifespan could not be entered, and nothing was claimed; or it could not be left.
            StoreUnavailable, SchemaMissing, SchemaNewer: the store cannot be used at the start; see `take_step`.
        """
        if self._types == ():
            raise ConfigurationError("no tasks are registered, so there is nothing to run")
        await self.take_step(self._jobs.open)
        # Room for today's history has to be there before the first settle, however long no worker ran.
        await self.take_step(self._jobs.store.prepare_history)
        with StopSignals(self.stop):
            try:
                if await self._lifespan.enter():
                    await self._to_the_end()
            finally:
                await self._lifespan.leave(
                    self._stopped_at + self._grace - time.monotonic() if self.stopping else self._grace
                )

    async def _to_the_end(self) -> None:
        """Work until the end; a cancellation drains it like SIGTERM, and another one stops it like a second signal."""
        store, release = self._jobs.store, self._jobs.settings.release
        await self.take_step(self._jobs.schedules.announce)
        if self._types is not None:
            await self.take_step(partial(store.register_types, self._jobs.tasks.schemas()))
        if release is not None:
            self._fetcher.release = await self.take_step(partial(store.register_release, release))
        self._runner.take_context()
        context = self._runner.context.copy()
        working = self._runner.main = MainTask(self._work(), context, self.owns_loop, self._stopping)
        cancelled = False
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                cancelled = True
                self.stop()
        working.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _work(self) -> None:
        heartbeat = self._new_heartbeat()
        self._settler.successors = self._fetcher
        announcing, settling = self._sending()
        loops = [
            asyncio.create_task(keep_running(name, run))
            for name, run in (
                ("leases", heartbeat.watch),
                ("sweeper", self._sweeper.run),
                ("limits", self._runner.watch_limits),
                *self._settler.loops,
                *([] if self._jobs.pairing is None else [("pairing", self._jobs.pairing.run)]),
                ("neighbours", self._sweeper.neighbours.run),
                ("fetcher", self._fetcher.run),
            )
        ]
        heartbeat.start()
        patience = Patience(self._stall, self._times.lease)
        watchdog = Watchdog(self._runner.job_of, patience, heartbeat.hand_back, self.on_wedged)
        watchdog.start()
        self._working = True
        self._publisher.enter("started")
        types = "every type" if self._types is None else ", ".join(self._types)
        logger.info("worker %s runs %s on %s", self.id, types, ", ".join(self._queues))
        try:
            await self._stopping.wait()
            await self._drain(loops, settling)
        except asyncio.CancelledError:  # and so was everything else
            announcing = await self._end_at_once(loops, announcing, settling)
        finally:
            self._publisher.enter("stopped")
            watchdog.stop()
            await end_tasks(*loops)
            await heartbeat.close()
            await self._publisher.close(announcing)
            with contextlib.suppress(Exception):  # the entry expires by itself
                await asyncio.wait_for(self._jobs.store.unregister_worker(self.id, heartbeat.place), RETIRE_SECONDS)
            await self._runner.close()
            self._runner.forget_stubborn()
            self._jobs.workers.discard(self)
            logger.info("worker %s has stopped", self.id)

    def _new_heartbeat(self) -> Heartbeat:
        heartbeat = Heartbeat(
            self._jobs.store.open_heartbeat(),
            self._identity,
            self._times,
            self._held,
            self._publisher,
            self,
            self._fetcher.claims,
        )
        self._sweeper.neighbours.ask, self._show = heartbeat.wake, heartbeat.show
        if isinstance(self._jobs.store, NotifyingStore):
            heartbeat.may_rest, heartbeat.hears = self._may_rest, self._jobs.store.hears
            self._jobs.store.on_order(self.id, heartbeat.place, heartbeat.wake)
        return heartbeat

    def _sending(self) -> tuple[asyncio.Task[None], asyncio.Task[None]]:
        """Start the loops that go on to the last: those of events and of outcomes."""
        announcing = asyncio.create_task(keep_running("publisher", self._publisher.run))
        return announcing, asyncio.create_task(keep_running("settler", self._settler.run))

    async def _end_at_once(self, loops: list[asyncio.Task[None]], *sending: asyncio.Task[None]) -> asyncio.Task[None]:
        """Give back what runs after all tasks of the event loop were cancelled; return the new loop of events."""
        self.stop()
        self._forced.set()
        self._settling = ABRUPT_SECONDS
        while True:
            try:
                await asyncio.wait([*sending, *loops])
                sending = self._sending()
                await self._drain(loops, sending[1])
            except asyncio.CancelledError:  # again: the program ends since its own tasks were cancelled, too
                continue
            return sending[0]

    async def _drain(self, loops: list[asyncio.Task[None]], settling: asyncio.Task[None]) -> None:
        """Stop claiming, give back what has not started, let the rest finish within the grace period."""
        logger.info("worker %s drains; jobs running: %d", self.id, self._runner.busy)
        await end_tasks(loops[-1])  # the fetcher; limits and sweeps go on meanwhile
        self._runner.release_waiting()
        idle = asyncio.create_task(self._runner.wait_until_idle())
        forced = asyncio.create_task(self._forced.wait())
        await asyncio.wait([idle, forced], timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        if not idle.done():
            self._runner.release_running()
            await asyncio.wait([idle], timeout=STUBBORN_SECONDS)
            self._runner.give_up_running()
        await end_tasks(idle, forced)
        await self._settler.close(settling, seconds=self._settling)

    def _identity(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            worker=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version(),
            queues=self._queues,
            types=self._types,
            concurrency=self._runner.concurrency,
            busy=self._runner.busy,
            quiet=self._fetcher.quiet or self.stopping,
            lease=self._times.lease,
            interval=self._times.tick,
            leases=(),
            stuck=self._runner.stuck,
            release=self._fetcher.release,
        )

    def _may_rest(self) -> bool:
        """Return whether the heartbeat has nothing to fetch or show: orders come at once, and no claim is in doubt."""
        store = self._jobs.store
        hears = isinstance(store, NotifyingStore) and store.hears()
        claims = self._fetcher.claims
        return hears and not self._runner.stuck and not claims.doubts(True) and not claims.doubt_until()

    # -- called by the heartbeat

    def drop(self, attempts: Sequence[RunningAttempt]) -> None:
        """Forget jobs that were handed back before they began."""
        self._runner.drop(attempts)

    def release(self, strays: Sequence[Stray]) -> None:
        """Give back what claims have given to this worker whose answers did not come."""
        self._settler.release(strays)

    def update_neighbours(self, neighbours: Sequence[Neighbour]) -> None:
        """Take note of the other workers at this place."""
        self._sweeper.neighbours.update_neighbours(neighbours)

    def stop_jobs(self, ids: list[str], lost: bool) -> None:
        """Stop jobs whose lease is lost, or that have a cancel request."""
        self._runner.stop_jobs(ids, lost)

    def apply_command(self, command: str) -> None:
        """Carry out an operator's order."""
        logger.info("worker %s was ordered to %s", self.id, command)
        if command == "quiet":
            self._fetcher.pause_claims()
            self._show(partial(self._publisher.enter, "quiet"))
        elif command == "resume":
            self._fetcher.resume()
            self._show(partial(self._publisher.enter, "resumed"))
        elif command == "stop":
            self.stop()


def _check_slots(concurrency: object) -> int:
    """Return how many jobs run at a time.

    Raises:
        ConfigurationError: no whole number of at least 1.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigurationError(f"a worker's concurrency is a whole number of at least 1, not {concurrency!r}")
    return concurrency


def _queues_of(tasks: TaskRegistry, queues: object) -> tuple[str, ...]:
    """Return the queues that were named, or those of the tasks.

    Raises:
        ConfigurationError: no list of names.
    """
    if isinstance(queues, str) or not isinstance(queues, Sequence | None):
        raise ConfigurationError(f"a worker's queues are a list of names, not {queues!r}")
    try:
        return tuple(dict.fromkeys(check_queue_name(queue) for queue in queues or tasks.queues()))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
