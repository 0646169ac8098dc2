"""`jobconsole demo`: start everything, show it, end it, add it up."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from jobconsole.demo.closing import sum_up
from jobconsole.demo.crash import await_workers, crash_one
from jobconsole.demo.headless import Ticker
from jobconsole.demo.options import DemoOptions
from jobconsole.demo.stage import Stage, open_stage
from jobconsole.demo.stopping import Stopping
from jobconsole.demo.summary import Summary
from jobconsole.demo.voice import Voice, occupy_standard_streams, voice_for
from queue_core import JobQueue


def run_demo(options: DemoOptions) -> int:
    """Run the demo; see `jobconsole.demo.run`."""
    occupy_standard_streams()
    voice = voice_for(options.json)
    with Stopping() as stopping, open_stage(options) as stage:
        summary = asyncio.run(_headless(options, stage, stopping, voice))
    if options.json:
        Voice(sys.stdout).say(json.dumps(summary.as_json()))
    return summary.exit_code


async def _headless(options: DemoOptions, stage: Stage, stopping: Stopping, voice: Voice) -> Summary:
    async with JobQueue.from_settings(stage.settings) as jobs:
        started = time.monotonic()
        pids = await _open(options, stage, jobs, voice)
        ticker = Ticker(stage, jobs.inspector, voice, started, pids)
        await ticker.run(stopping, options.seconds)
        summary = await sum_up(stage, jobs, voice, started)
    for line in summary.lines():
        voice.say(line)
    return summary


async def _open(options: DemoOptions, stage: Stage, jobs: JobQueue, voice: Voice) -> list[int]:
    """Have the one crash behind it, then say where everything is, and return the pids that were named."""
    await await_workers(stage, jobs.inspector, options.processes)
    victim = await crash_one(stage, jobs.inspector)
    pids = await await_workers(stage, jobs.inspector, options.processes, without=victim)
    for line in (*stage.addresses(), f"workers: {' '.join(map(str, pids))}", *stage.hints):
        voice.say(line)
    voice.say(
        f"worker {victim} was killed (signal 9) while it ran jobs: they run again when their lease of "
        f"{options.lease:g} s is over"
    )
    return pids
