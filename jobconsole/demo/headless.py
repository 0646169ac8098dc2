"""A plain line per second for those who have no terminal, or want none."""

from __future__ import annotations

import time

from jobconsole.demo.crash import live_workers
from jobconsole.demo.stage import Stage
from jobconsole.demo.stopping import Stopping
from jobconsole.demo.voice import Voice
from queue_core.errors import QueueCoreError
from queue_core.inspection import Inspector, Overview

SECOND = 1.0


class Ticker:
    """Writes what the store says, each second."""

    def __init__(self, stage: Stage, inspector: Inspector, voice: Voice, started: float, pids: list[int]) -> None:
        """`started` is a moment of the monotonic clock; `pids` are the workers that were named already."""
        self._stage = stage
        self._inspector = inspector
        self._voice = voice
        self._started = started
        self._completed = 0
        self._pids = pids

    async def run(self, stopping: Stopping, end: float) -> None:
        """Write until the end is asked for, `end` of the monotonic clock, or nobody reads any more.

        Raises:
            DemoError: a process of the demo has ended by itself.
        """
        following = time.monotonic()
        while not stopping.asked and self._voice.heard and time.monotonic() < end:
            self._stage.fleet.check()
            try:
                await self._tick()
            except QueueCoreError as problem:
                self._say(str(problem))
            following = max(following + SECOND, time.monotonic())
            await stopping.wait(min(following, end) - time.monotonic())

    async def _tick(self) -> None:
        overview = await self._inspector.overview()
        tallies = await self._inspector.tallies()
        completed = sum(tally.count for tally in tallies if tally.outcome == "completed")
        self._say(_line(overview, completed, completed - self._completed))
        self._completed = completed
        await self._tell_workers()

    async def _tell_workers(self) -> None:
        """Name the worker processes when they are not those that were named last."""
        pids = sorted(worker.pid for worker in await live_workers(self._inspector))
        if pids and pids != self._pids:
            self._pids = pids
            self._voice.say(f"workers: {' '.join(map(str, pids))}")

    def _say(self, line: str) -> None:
        self._voice.say(f"{time.monotonic() - self._started:5.0f} s  {line}")


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
