"""The child of queue_core.worker.children.pool: runs jobs one after the other and writes their outcomes.

Started as `python -m queue_core.worker.children.child TARGET WORKER FD PARENT [FORMAT LEVEL]`, PARENT being the process
of the worker, and the last two those of its logs, where it sends them to stderr. A claim is a line of
JSON on standard input.
Without the worker it ends at once without an answer: no outcome could be stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from queue_core.client.logs import enter_attempt, enter_worker, setup_logging
from queue_core.client.tasks import Definition
from queue_core.errors import LifespanFailed, QueueCoreError
from queue_core.model.addresses import mask
from queue_core.model.job import Claim, Outcome
from queue_core.model.outcome import failed
from queue_core.model.signature import class_name, message_of
from queue_core.model.text import safe
from queue_core.queue import JobQueue
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.execution import ExecutionContext, execute
from queue_core.worker.journal import Relay
from queue_core.worker.options import EXIT_FAILED, EXIT_LIFESPAN, EXIT_USAGE
from queue_core.worker.process import load_target, run_loop
from queue_core.worker.stacks.answer import ENDED, resident, take

logger = logging.getLogger("queue_core.worker")

ORPHAN_TICK = 0.5
"""Seconds between two checks whether the worker is still there."""


class ReportingAttempt(RunningAttempt):
    """Writes progress and lines to the worker as they come."""

    __slots__ = ("_output", "lines")

    def __init__(self, claim: Claim, output: TextIO) -> None:
        super().__init__(claim, time.monotonic())
        self._output = output
        self.lines = Relay(lambda lines: _send(output, {"log": lines}))

    def log(self, text: str) -> bool:
        """Send a line."""
        return self.lines.log(text)

    def report(self, percent: int, message: str) -> None:
        """Send the newest progress."""
        _send(self._output, {"progress": percent, "message": message})


class ChildCommands:
    """Reads what the worker writes, on a thread of its own, also while a handler blocks the loop."""

    def __init__(self, source: TextIO, output: TextIO) -> None:
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()
        # None: there will be none
        self.jobs: asyncio.Queue[list[Any] | None] = asyncio.Queue()
        # what is asked for is where this is
        self.running: ReportingAttempt | None = None
        threading.Thread(target=self._read, args=(source,), name="commands", daemon=True).start()

    def _read(self, source: TextIO) -> None:
        job: list[Any] | None = []
        while job is not None:
            line = source.readline()
            job = json.loads(line) if line.endswith("\n") else None
            if job is None and line:
                job = []
                self._show_stack()
                continue
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.jobs.put_nowait, job)

    def _show_stack(self) -> None:
        attempt = self.running
        found = {"problem": ENDED} if attempt is None else take(attempt, self._loop, self._ident)
        if "kind" in found:
            found["kind"] = f"child {found['kind']}"
        _send(self._output, {"stack": found | {"memory": resident(), "grown": None, "pid": os.getpid()}})


async def run(jobs: JobQueue, worker: str, source: TextIO, output: TextIO) -> None:
    """Run the jobs on `source` until it ends."""
    lifespan = jobs.lifespans.prepare()
    await lifespan.enter()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="job") as threads:
        around = ExecutionContext(jobs.settings.limits, worker, threads, jobs.hooks, jobs.store, lifespan.state)
        commands = ChildCommands(source, output)
        while (line := await commands.jobs.get()) is not None:
            claim = Claim(*line)
            claim = claim._replace(tags=tuple(claim.tags))
            _send(output, {"started": claim.id})
            attempt = ReportingAttempt(claim, output)
            attempt.started = time.perf_counter()
            commands.running = attempt
            # A task of its own: the context variables that a job sets are not those of the next one.
            context = contextvars.copy_context()
            enter_worker(context, worker)
            context.run(enter_attempt, claim)
            handling = _outcome(attempt, jobs.tasks.get(claim.type), around)
            attempt.task = task = asyncio.create_task(handling, context=context)
            await asyncio.wait([task])  # a handler that cancels all tasks takes this process down
            outcome = task.result()
            commands.running = None
            attempt.lines.flush()
            _send(output, {"outcome": outcome, "settled": attempt.settled, "perhaps": attempt.perhaps})
    try:
        await lifespan.leave()
    finally:
        await jobs.close()


async def _outcome(attempt: RunningAttempt, definition: Definition, around: ExecutionContext) -> Outcome:
    """Run the handler and return the outcome to store; nothing stops it here, for its worker kills the process."""
    try:
        return await execute(attempt, definition, around)
    except asyncio.CancelledError as error:  # the handler's own
        return failed(attempt.claim, attempt.run_us(), error, definition.policy, around.limits)


def _send(output: TextIO, message: object) -> None:
    # One write a line: a handler's threads may report progress at the same time.
    try:
        output.write(json.dumps(message) + "\n")
        output.flush()
    except BrokenPipeError:
        _end()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(ORPHAN_TICK)
    _end()


def _end() -> None:
    """End with all that handlers have started here, where this process leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main(target: str, worker: str, pipe: int, parent: int, *form: Any) -> None:
    """Run jobs until the worker closes standard input or is gone; `form`: format and level of logs on stderr."""
    if form:
        setup_logging(*form)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the worker, which drains
    threading.Thread(target=_end_with, args=(parent,), name="orphan", daemon=True).start()
    # Handlers, and the processes that they start, must not reach the messages between the worker and this process.
    os.set_inheritable(pipe, False)
    source = os.fdopen(os.dup(0), encoding="utf-8")
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), 0)
    with os.fdopen(pipe, "w", encoding="utf-8") as output:
        try:
            jobs = load_target(target)
            run_loop(run(jobs, worker, source, output))
        except QueueCoreError as error:
            _report(str(error), form)
            _send(output, {"unable": mask(str(error))})
            os._exit(EXIT_LIFESPAN if isinstance(error, LifespanFailed) else EXIT_USAGE)
        except BaseException as error:
            # A handler's doing: it cancelled all tasks, stopped the loop, or left a task behind that raised SystemExit.
            if isinstance(error, Exception) and "Event loop stopped" not in str(error):
                raise
            _report(f"the event loop of this process was ended: {class_name(error)}: {message_of(error)}", form)
            os._exit(EXIT_FAILED)


def _report(text: str, form: Sequence[Any]) -> None:
    if form:
        logger.critical("%s", text)
    else:
        sys.stderr.write(f"{safe(mask(text))}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
    os._exit(0)
