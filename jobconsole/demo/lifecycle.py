"""`jobconsole demo`: start everything, show it, end it, add it up."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence

from jobconsole.demo.closing import sum_up
from jobconsole.demo.console import has_terminal, show_console
from jobconsole.demo.crash import await_workers, crash_one
from jobconsole.demo.errors import DemoError
from jobconsole.demo.headless import Ticker
from jobconsole.demo.options import DemoOptions
from jobconsole.demo.stage import Stage, open_stage
from jobconsole.demo.stopping import Stopping
from jobconsole.demo.summary import Summary
from jobconsole.demo.voice import Voice, occupy_standard_streams, voice_for
from queue_core import JobQueue
from queue_core.inspection import Inspector


def run_demo(options: DemoOptions) -> int:
    """Run the demo; see `jobconsole.demo.run`."""
    occupy_standard_streams()
    voice = voice_for(options.json)
    with Stopping() as stopping, open_stage(options) as stage:
        run = Run(options, stage, stopping, voice)
        summary = asyncio.run(run.to_its_end())
    for line in summary.lines():
        voice.say(line)
    if options.json:
        Voice(sys.stdout).say(json.dumps(summary.as_json()))
    if run.problem is not None:
        raise run.problem
    return summary.exit_code


class Run:
    """One run on a stage that stands already."""

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
                await self._show(jobs.inspector)
            except DemoError as problem:
                self.problem = problem
            return await sum_up(self._stage, jobs, self._voice, self._started)

    async def _show(self, inspector: Inspector) -> None:
        pids = await self._open(inspector)
        # The time that was asked for begins now: how long a machine takes to start says nothing about the run.
        self._started = time.monotonic()
        seconds = self._options.seconds
        end = float("inf") if seconds is None else self._started + seconds
        if self._options.headless or self._options.json or not has_terminal():
            ticker = Ticker(self._stage, inspector, self._voice, self._started, pids)
            await ticker.run(self._stopping, end)
        else:
            await show_console(self._stage, self._stopping, end, [*self._stage.addresses(), _named(pids)])

    async def _open(self, inspector: Inspector) -> list[int]:
        """Say where everything is, have the one crash behind it, and return the pids of the workers that live on."""
        for line in (*self._stage.addresses(), *self._stage.hints):
            self._voice.say(line)
        processes, lease = self._options.processes, self._options.lease
        await await_workers(self._stage, inspector, processes)
        victim = await crash_one(self._stage, inspector)
        self._voice.say(
            f"worker process {victim} was killed with signal 9 while it ran jobs: they run again when their lease of "
            f"{lease:g} s is over"
        )
        pids = await await_workers(self._stage, inspector, processes, without=victim)
        self._voice.say(_named(pids))
        return pids


def _named(pids: Sequence[int]) -> str:
    return f"workers: {' '.join(map(str, pids))}"
