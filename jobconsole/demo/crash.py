"""The one real crash: a worker process is killed while it runs jobs, and others have to finish them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from jobconsole.demo.errors import DemoError
from jobconsole.demo.ledger import read_ledger
from jobconsole.demo.stage import Stage
from queue_core.inspection import Inspector, WorkerInfo

STEP_SECONDS = 0.05
START_SECONDS = 60.0
"""Generous: a slow machine on which other things run."""
BUSY_SECONDS = 5.0


async def live_workers(inspector: Inspector) -> list[WorkerInfo]:
    """Return the workers that are there; one that was just killed is still announced for a moment."""
    return [worker for worker in (await inspector.overview()).workers if not worker.lost and _exists(worker.pid)]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


async def await_workers(stage: Stage, inspector: Inspector, count: int, without: int | None = None) -> list[int]:
    """Wait until so many workers have announced themselves, and return their pids.

    Raises:
        DemoError: a process has ended, or they did not come.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        stage.fleet.check()
        pids = sorted(worker.pid for worker in await live_workers(inspector) if worker.pid != without)
        if len(pids) >= count:
            return pids
        if time.monotonic() > deadline:
            raise DemoError(f"Only {len(pids)} of {count} workers came within {START_SECONDS:g} s.")
        await asyncio.sleep(STEP_SECONDS)


async def crash_one(stage: Stage, inspector: Inspector) -> int:
    """Kill a worker process, if possible in the middle of a handler, and return its pid."""
    deadline = time.monotonic() + BUSY_SECONDS
    workers = await live_workers(inspector)
    while not (busy := [one for one in _in_a_handler(stage, workers) if _stopped_there(stage, one)]):
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(STEP_SECONDS)
        workers = await live_workers(inspector) or workers
    victim = (busy or workers)[0].pid
    for each in [one.pid for one in busy[1:]]:
        _send(each, signal.SIGCONT)
    _send(victim, signal.SIGKILL)
    return victim


def _stopped_there(stage: Stage, worker: WorkerInfo) -> bool:
    """Stop a process where it is, and let it go on unless it still is in a handler: most take milliseconds."""
    _send(worker.pid, signal.SIGSTOP)
    if _in_a_handler(stage, [worker]):
        return True
    _send(worker.pid, signal.SIGCONT)
    return False


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _in_a_handler(stage: Stage, workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    """Return the workers that run handlers by the ledger's word."""
    ledger = read_ledger(stage.folder.ledger)
    names = {worker for job_id, attempts in ledger.starts.items() for token, worker in attempts.items()
             if (job_id, token) not in ledger.ends}  # fmt: skip
    return [worker for worker in workers if worker.id in names]
