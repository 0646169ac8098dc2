"""The processes of tasks that ask for one: kept warm, a job at a time each, replaced when a job takes them down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from queue_core.client.logs import logging_form
from queue_core.client.tasks import Definition
from queue_core.errors import ConfigurationError
from queue_core.model import outcome
from queue_core.model.job import Claim, Failure, Outcome, Ready, Settled
from queue_core.model.outcome import SUSPECT_LOSSES
from queue_core.model.settings import Limits
from queue_core.model.signature import sign
from queue_core.queue import JobQueue
from queue_core.worker.attempt import RunningAttempt

# Child processes that run jobs one after the other, so that what a job does to its process costs that job only.
#
# A job goes in as one JSON line on the child's standard input; that it has started, its progress, log and outcome
# come back as JSON lines through a pipe of their own, since a handler may print.

ASK_STACK = b"null\n"
"""What a child reads in place of a job when it is asked where its handler is."""
LONGEST = 64 << 20
"""Bytes of one line: well above what limits a result and a traceback."""


class ChildLost(Exception):
    """The child ended without an outcome; `started`: whether it had the job by then."""

    def __init__(self, code: int, started: bool) -> None:
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        super().__init__(how)
        self.code = code
        self.how = how
        self.started = started


class ChildProcess:
    """One child process that imported the worker's queue object."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        self._process = process
        self._reader = reader
        self._transport = transport
        # who waits for the stack of the job that it runs
        self._requested: asyncio.Future[dict[str, Any]] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @classmethod
    async def start(cls, target: str, worker: str) -> Self:
        """Start a child; `target` is `package.module:name` of the queue object.

        Raises:
            OSError: the system has no room for another process.
        """
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "queue_core.worker.child", target, worker, str(writing), str(os.getpid())),
                *(logging_form() or ()),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(writing,),
                # What a terminal sends to its programs is for the worker, which drains.
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        reader = asyncio.StreamReader(limit=LONGEST)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
        )
        return cls(process, reader, transport)

    @property
    def alive(self) -> bool:
        """Whether the child has not ended, as far as is known."""
        return self._process.returncode is None

    async def run(self, attempt: RunningAttempt, begin: Callable[[], None] = lambda: None) -> Outcome:
        """Run the attempt's handler in the child and return the outcome to store; `begin` is called when it begins.

        Raises:
            ChildLost: the child ended without one.
        """
        assert self._process.stdin is not None
        started = False
        attempt.child = self
        try:
            self._process.stdin.write(json.dumps(attempt.claim).encode() + b"\n")
            await self._process.stdin.drain()
            while line := await self._reader.readline():
                if not started:
                    started = True
                    begin()
                message = json.loads(line)
                if "outcome" in message:
                    attempt.settled = None if message["settled"] is None else _settled(message["settled"])
                    attempt.perhaps = None if message["perhaps"] is None else _outcome(message["perhaps"])
                    return _outcome(message["outcome"])
                if "progress" in message:
                    attempt.report(message["progress"], message["message"])
                if "log" in message:
                    attempt.relay(message["log"])
                if "stack" in message and self._requested is not None and not self._requested.done():
                    self._requested.set_result(message["stack"])
        except ConnectionError:  # it ended before it took the job
            pass
        finally:
            attempt.child = None
        raise ChildLost(await self._process.wait(), started)

    async def stack(self) -> dict[str, Any]:
        """Return where the handler in the child is; several that ask at a time get one answer.

        Raises:
            OSError: the child has ended.
        """
        assert self._process.stdin is not None
        if self._requested is None or self._requested.done():
            self._requested = asyncio.get_running_loop().create_future()
            self._process.stdin.write(ASK_STACK)
        return await asyncio.shield(self._requested)

    async def close(self, leaves: bool) -> None:
        """End the child; one that `leaves` lifespans gets some seconds for them."""
        if leaves and self.alive and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), LEAVE_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """End the child at once, whatever it does; a second time is safe."""
        self._transport.close()
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _settled(fields: list[object]) -> Settled:
    settled = Settled(*fields)  # type: ignore[arg-type]
    return settled._replace(unblocked=tuple(Ready(*one) for one in settled.unblocked))


def _outcome(fields: list[object]) -> Outcome:
    outcome = Outcome(*fields)  # type: ignore[arg-type]
    if outcome.failure is not None:
        outcome = outcome._replace(failure=Failure(*outcome.failure))
    return outcome


LEAVE_SECONDS = 5.0
"""What a child may take to leave its lifespans."""
START_SECONDS = 30.0
"""What a new child may take to import the queue object before the job's time limit begins."""


class Slots:
    """So many places for children, given as they were asked for; None: one for each processor, but at least some."""

    def __init__(self, most: int | None, least: int) -> None:
        self._free = asyncio.Semaphore(max(least, os.cpu_count() or 1) if most is None else most)
        # attempts that no child has taken yet
        self._waiting: set[RunningAttempt] = set()

    @asynccontextmanager
    async def taken(self, attempt: RunningAttempt) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Raises:
            CancelledError: the attempt was stopped.
        """
        self._waiting.add(attempt)
        try:
            async with self._free:
                self._waiting.discard(attempt)
                yield
        finally:
            self._waiting.discard(attempt)

    def hold_back(self) -> None:
        """Begin nothing more: give back the jobs that wait."""
        for attempt in list(self._waiting):
            attempt.stop("release")


def begin(attempt: RunningAttempt, definition: Definition, seconds: float = 0.0) -> None:
    """Count the attempt's run time from now on, and its time limit from so many seconds later."""
    attempt.started = time.perf_counter()
    if definition.timeout:
        attempt.deadline = time.monotonic() + seconds + definition.timeout


EXCEPTION = "ProcessDied"
TRIES = 3
"""Children tried for a job before it is blamed for none of them taking it."""


class ProcessPool:
    """Warm children; jobs beyond their number wait for one, and their time limit does not run."""

    def __init__(self, target: str, worker: str, most: int | None, leaves: bool) -> None:
        self._leaves = leaves
        self._target = target
        self._worker = worker
        self._slots = Slots(most, 2)
        self._idle: list[ChildProcess] = []

    async def execute(self, attempt: RunningAttempt, definition: Definition, limits: Limits) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store; a dead child fails the attempt.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        async with self._slots.taken(attempt):
            begin(attempt, definition, START_SECONDS)
            try:
                return await self._run(attempt, partial(begin, attempt, definition))
            except ChildLost as lost:
                message = f"the process that ran this job {lost.how}"
                failure = Failure("crashed", EXCEPTION, message, "", *sign(EXCEPTION, message))
                return outcome.crashed(attempt.claim, attempt.run_us(), failure, definition.policy)
            except OSError as error:
                return outcome.failed(attempt.claim, attempt.run_us(), error, definition.policy, limits)

    def hold_back(self) -> None:
        """Begin nothing more: give back the jobs that wait for a child."""
        self._slots.hold_back()

    async def _run(self, attempt: RunningAttempt, on_start: Callable[[], None]) -> Outcome:
        tries = 0
        while True:
            tries += 1
            child = await self._take()
            try:
                outcome = await child.run(attempt, on_start)
            except ChildLost as lost:
                await child.kill()
                if lost.started or tries >= TRIES:
                    raise
            except BaseException:
                await child.kill()
                raise
            else:
                self._idle.append(child)
                return outcome

    async def _take(self) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await child.kill()
        return await ChildProcess.start(self._target, self._worker)

    async def close(self) -> None:
        """End the children; those that run a job belong to its attempt."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(child.close(self._leaves) for child in idle))


def target_of(jobs: JobQueue, target: str | None) -> str | None:
    """Return how children find the queue object: as given, or as the module of its first process task names it.

    Raises:
        ConfigurationError: there are process tasks, and no module has the object under a name.
    """
    processes = [definition for name in jobs.tasks.types() if (definition := jobs.tasks.get(name)).process]
    if target is not None or not processes:
        return target
    for definition in processes:
        module = sys.modules.get(definition.function.__module__)
        for name, value in vars(module).items() if module is not None and module.__name__ != "__main__" else ():
            if value is jobs:
                return f"{definition.function.__module__}:{name}"
    raise ConfigurationError(
        f"task '{processes[0].name}' runs in a process of its own, which has to import the queue object: "
        "give the worker target='package.module:jobs'"
    )


# Runs a job alone in a process of its own, so that what it does to its process is proven to be its own doing.
#
# For jobs whose workers were lost twice, or which were buried as poison before. The time limit of such a job begins
# when its process has it.

WITNESS = 1.0
"""Seconds that a worker outlives a child before it blames the job: who ends a service ends its processes one by one."""
LEAST = 4
"""Children at a time on a machine with few processors: jobs that sleep for long must not hold up all others."""
OF_THE_SERVICE = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
"""Ends by the signals that are sent to all processes of a service when it is to stop."""


def is_suspect(claim: Claim) -> bool:
    """Return whether a job runs alone."""
    return claim.crashes > 0 or claim.losses >= SUSPECT_LOSSES


@dataclass(slots=True)
class Isolation:
    """Starts a child for each job, a few at a time: what lost one worker may have been started many times over."""

    # package.module:name of the queue object
    target: str
    worker: str
    # losses that bury a job
    max_losses: int
    # whether the worker is about to end
    draining: Callable[[], bool]
    # children at a time; None: one for each processor, at least a few
    most: int | None
    # whether children have lifespans to leave
    leaves: bool
    _slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = Slots(self.most, LEAST)

    def hold_back(self) -> None:
        """Begin nothing more: give back the jobs that wait for a child."""
        self._slots.hold_back()

    async def execute(self, attempt: RunningAttempt, definition: Definition) -> Outcome:
        """Run the attempt's handler in a child and return the outcome to store.

        A child that died while the worker lives on buries the job as poison. One that never had the job, or that ended
        by a signal of its service or with its worker, is no evidence about the job: that is a loss like any other.

        Raises:
            CancelledError: the attempt was stopped; the child is killed.
        """
        async with self._slots.taken(attempt):
            begin(attempt, definition, START_SECONDS)
            return await self._run(attempt, partial(begin, attempt, definition))

    async def _run(self, attempt: RunningAttempt, on_start: Callable[[], None]) -> Outcome:
        child = await ChildProcess.start(self.target, self.worker)
        try:
            outcome = await child.run(attempt, on_start)
            await child.close(self.leaves)
            return outcome
        except ChildLost as lost:
            await asyncio.sleep(WITNESS)
            to_blame = lost.started and lost.code not in OF_THE_SERVICE and not self.draining()
            return self._poison(attempt, lost.how) if to_blame else self._lost(attempt, lost)
        finally:
            await child.kill()

    def _poison(self, attempt: RunningAttempt, how: str) -> Outcome:
        what = f"the process that ran this job alone {how}"
        losses = attempt.claim.losses
        lost = "a worker was lost while it ran it" if losses == 1 else f"{losses} workers were lost while they ran it"
        # A retry forgets the losses of a job that was buried like this before.
        message = f"{what}; before that, {lost}" if losses else what
        failure = Failure("poison", EXCEPTION, message, "", *sign(EXCEPTION, what))
        return outcome.buried(attempt.claim, attempt.run_us(), failure)

    def _lost(self, attempt: RunningAttempt, lost: ChildLost) -> Outcome:
        why = "which says nothing about the job" if lost.started else "before it had the job"
        what = f"the process that was to run this job alone {lost.how}, {why}"
        failure = Failure("lost", EXCEPTION, what, "", *sign(EXCEPTION, what))
        return outcome.lost(attempt.claim, attempt.run_us(), failure, self.max_losses)
