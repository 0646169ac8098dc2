"""The demo from start to end: servers, workers, producer, console, and the audit when it stops."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from jobconsole.demo.ledger import compare, read_ledger
from jobconsole.demo.options import DemoOptions, Voice, voice_for
from jobconsole.demo.producer import TAG
from jobconsole.demo.stage import Stage, await_workers, crash_one, live_workers, open_stage
from jobconsole.demo.summary import RunFacts, Summary, agree, expected, scraped, summarise
from jobconsole.embedded.places import DemoError
from queue_core import JobQueue
from queue_core.client.logs import occupy_standard_streams
from queue_core.errors import QueueCoreError
from queue_core.model.filters import Filter, Term
from queue_core.model.report import Overview
from queue_core.ports.inspector import Inspector

PRODUCER_SECONDS = 10.0
MAX_FAILURES = 50


async def sum_up(stage: Stage, jobs: JobQueue, voice: Voice, started: float) -> Summary:
    """End producer and workers, then compare ledger, SQL and metrics."""
    await stage.fleet.end(stage.producer, PRODUCER_SECONDS)
    seconds = time.monotonic() - started
    voice.write("the producer has stopped; the workers end what they run")
    if not await stage.workers.end():
        voice.write("the workers did not end in time and were killed")
    ledger = await asyncio.to_thread(read_ledger, stage.folder.ledger)
    findings = await compare(ledger, jobs.store, jobs.inspector, TAG)
    counts = await jobs.inspector.conservation()
    metrics = await asyncio.to_thread(scraped, stage.exporter.url)
    sums = await expected(jobs.inspector)
    tail = RunFacts(
        crashed=int(sums["job_leases_expired_total"]),
        failures=await _failures(jobs.inspector),
        metrics_agree=None if metrics is None else agree(metrics, sums),
        seconds=seconds,
    )
    return summarise(findings, counts, tail)


async def _failures(inspector: Inspector) -> dict[str, int]:
    """Return dead jobs by the name of their exception, most first."""
    dead = Filter((Term("status", "=", "dead"),))
    counts: Counter[str] = Counter()
    for group in await inspector.signatures(dead, 3600.0, 1, MAX_FAILURES):
        counts[group.title.partition(":")[0]] += group.count
    return dict(counts.most_common())


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Listens to the ending signals while it is entered; for the main thread."""

    def __init__(self) -> None:
        self._requested = False
        self._before: dict[signal.Signals, Any] = {}
        self._on_request: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        for number in ENDING:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def requested(self) -> bool:
        """Return whether the end was asked for."""
        return self._requested

    def request(self) -> None:
        """Ask for the end, as the first signal does."""
        self._requested = True
        if self._on_request is not None:
            with suppress(RuntimeError):  # the loop is closed already
                self._on_request()

    def on_request(self, call: Callable[[], None] | None) -> None:
        """Have `call` called, in the main thread, when the end is asked for; at once when it was already."""
        self._on_request = call
        if self._requested and call is not None:
            call()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            raise KeyboardInterrupt
        self.request()

    async def wait(self, seconds: float, task: asyncio.Task[Any] | None = None) -> bool:
        """Wait until the end is asked for, `task` is done or the time is over; answer whether it was asked for."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def call() -> None:
            loop.call_soon_threadsafe(event.set)

        self.on_request(call)
        requested = asyncio.create_task(event.wait())
        try:
            await asyncio.wait(
                {requested} if task is None else {requested, task},
                timeout=max(0.0, seconds),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._on_request = None
            requested.cancel()
        return self._requested


POLL_SECONDS = 0.5


def has_terminal() -> bool:
    """Return whether standard input and output are a terminal, where a console can be used."""
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


async def show_console(stage: Stage, stopping: Stopping, end: float, facts: Sequence[str]) -> None:
    """Run the console until it is left, the end is asked for, or `end` of the monotonic clock.

    `facts` are shown on its help screen, before what can be repaired.

    Raises:
        DemoError: a process of the demo has ended by itself.
    """
    from jobconsole.core.connection import Connection
    from jobconsole.tui.app import ConsoleApp
    from jobconsole.tui.base.host import Hint

    hints = [*(Hint(fact) for fact in facts), *(Hint.parse(hint) for hint in stage.hints)]
    app = ConsoleApp(Connection(lambda: JobQueue.from_settings(stage.settings)), context="demo", hints=hints)
    app.on_hang_up(stopping.request)
    running: asyncio.Task[Any] = asyncio.create_task(app.run_async())
    try:
        while not running.done() and not stopping.requested and time.monotonic() < end:
            stage.fleet.check()
            await stopping.wait(min(POLL_SECONDS, end - time.monotonic()), running)
    finally:
        if not running.done():
            app.exit()
        await running


SECOND = 1.0


class Ticker:
    """Writes the store's counts, each second."""

    def __init__(self, stage: Stage, inspector: Inspector, voice: Voice, started: float, pids: list[int]) -> None:
        """`started` is a moment of the monotonic clock; `pids` are the workers that were named already."""
        self._stage = stage
        self._inspector = inspector
        self._voice = voice
        self._started = started
        self._completed = 0
        self._pids = pids

    async def run(self, stopping: Stopping, end: float) -> None:
        """Write until the end is asked for, `end` of the monotonic clock, or the output has no reader.

        Raises:
            DemoError: a process of the demo has ended by itself.
        """
        following = time.monotonic()
        while not stopping.requested and self._voice.heard and time.monotonic() < end:
            self._stage.fleet.check()
            try:
                await self._tick()
            except QueueCoreError as problem:
                self._write(str(problem))
            following = max(following + SECOND, time.monotonic())
            await stopping.wait(min(following, end) - time.monotonic())

    async def _tick(self) -> None:
        overview = await self._inspector.overview()
        tallies = await self._inspector.tallies()
        completed = sum(tally.count for tally in tallies if tally.outcome == "completed")
        self._write(_line(overview, completed, completed - self._completed))
        self._completed = completed
        await self._write_workers()

    async def _write_workers(self) -> None:
        """Name the worker processes when they are not those that were named last."""
        pids = sorted(worker.pid for worker in await live_workers(self._inspector))
        if pids and pids != self._pids:
            self._pids = pids
            self._voice.write(f"workers: {' '.join(map(str, pids))}")

    def _write(self, line: str) -> None:
        self._voice.write(f"{time.monotonic() - self._started:5.0f} s  {line}")


def _line(overview: Overview, completed: int, lately: int) -> str:
    queues = overview.queues
    numbers = {
        "queued": sum(queue.queued for queue in queues),
        "scheduled": sum(queue.scheduled for queue in queues),
        "retrying": sum(queue.retrying for queue in queues),
        "running": sum(queue.running for queue in queues),
        "dead": sum(queue.dead for queue in queues),
        "completed": completed,
    }
    return "  ".join(f"{name} {number:,}" for name, number in numbers.items()) + f" (+{lately:,})"


def run_demo(options: DemoOptions) -> int:
    """Run the demo; see `jobconsole.demo.run`."""
    occupy_standard_streams()
    voice = voice_for(options.json)
    with Stopping() as stopping, open_stage(options) as stage:
        run = Run(options, stage, stopping, voice)
        summary = asyncio.run(run.to_its_end())
    for line in summary.lines():
        voice.write(line)
    if options.json:
        Voice(sys.stdout).write(json.dumps(summary.as_json()))
    if run.problem is not None:
        raise run.problem
    return summary.exit_code


class Run:
    """One run on a stage that is set up already."""

    def __init__(self, options: DemoOptions, stage: Stage, stopping: Stopping, voice: Voice) -> None:
        self._options = options
        self._stage = stage
        self._stopping = stopping
        self._voice = voice
        self._started = time.monotonic()
        # what has ended the run before its time
        self.problem: DemoError | None = None

    async def to_its_end(self) -> Summary:
        """Show the run until it is over, and add it up."""
        async with JobQueue.from_settings(self._stage.settings) as jobs:
            try:
                await self._show(jobs)
            except DemoError as problem:
                self.problem = problem
            return await sum_up(self._stage, jobs, self._voice, self._started)

    async def _show(self, jobs: JobQueue) -> None:
        pids = await self._open(jobs.inspector)
        # The time that was asked for begins now: how long a machine takes to start is no property of the run.
        self._started = time.monotonic()
        seconds = self._options.seconds
        end = float("inf") if seconds is None else self._started + seconds
        lines = self._options.headless or self._options.json or not has_terminal()
        write = self._voice.write if lines else _unheard
        releases = asyncio.create_task(self._stage.workers.follow(jobs, self._started, write))
        try:
            if lines:
                ticker = Ticker(self._stage, jobs.inspector, self._voice, self._started, pids)
                await ticker.run(self._stopping, end)
            else:
                await show_console(self._stage, self._stopping, end, self._stage.addresses())
        finally:
            releases.cancel()
            with suppress(asyncio.CancelledError):
                await releases

    async def _open(self, inspector: Inspector) -> list[int]:
        """Write all addresses, crash one worker, and return the pids of the others."""
        for line in (*self._stage.addresses(), *self._stage.hints):
            self._voice.write(line)
        processes, lease = self._options.processes, self._options.lease
        await await_workers(self._stage, inspector, processes)
        victim = await crash_one(self._stage, inspector)
        self._voice.write(
            f"worker process {victim} was killed with signal 9 while it ran jobs: they run again when their lease of "
            f"{lease:g} s is over"
        )
        pids = await await_workers(self._stage, inspector, processes, without=victim)
        self._voice.write(_named(pids))
        return pids


def _unheard(line: str) -> None:
    """Write nothing: the console has the terminal."""


def _named(pids: Sequence[int]) -> str:
    return f"workers: {' '.join(map(str, pids))}"
