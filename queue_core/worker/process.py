"""One worker process of a service: imports the queue object, runs a worker, shows by its exit code how it ended.

Started by queue_core.worker.supervisor as `python -m queue_core.worker.process TARGET OPTIONS`, OPTIONS being JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from queue_core.client.logs import setup_logging
from queue_core.errors import (
    ConfigurationError,
    LifespanFailed,
    QueueCoreError,
    SchemaEarlier,
    SchemaError,
    SchemaNewer,
    StoreUnavailable,
)
from queue_core.queue import JobQueue
from queue_core.worker.options import (
    EXIT_FAILED,
    EXIT_LIFESPAN,
    EXIT_RECYCLE,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    ServiceOptions,
    Vitals,
    resident_memory,
    write_note,
    write_sign,
    write_vitals,
)
from queue_core.worker.worker import Worker

T = TypeVar("T")

logger = logging.getLogger("queue_core.worker")

FIRST_PAUSE, MAX_PAUSE = 0.25, 5.0
"""Seconds until a store that is away is tried again, doubling."""


CLOSE_SECONDS = 2.0
"""What the end of the event loop may take after the worker has ended."""
GUARD_TICK = 0.25
"""Seconds between two checks of the service that started this process, and at what this process has used."""
KEPT_LAGS = 60
"""Checks of which the latest one is kept, as the lag of the event loop."""


def load_target(target: str) -> JobQueue:
    """Return the queue object that `package.module:name` names; the current folder is looked into first.

    Raises:
        ConfigurationError: no such module or object, the module fails to import, or the object is no JobQueue.
    """
    module_name, separator, name = target.partition(":")
    if (separator and not name) or not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigurationError(f"'{target}' does not name a queue object; write package.module:jobs")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"cannot import '{module_name}': {error}") from error
    except QueueCoreError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"importing '{module_name}' failed: {type(error).__name__}: {error}") from error
    found = getattr(module, name or "jobs", None)
    if not isinstance(found, JobQueue):
        what = "has no object" if found is None else f"has a {type(found).__name__}, not a JobQueue, as"
        raise ConfigurationError(f"module '{module_name}' {what} '{name or 'jobs'}'")
    return found


async def work(jobs: JobQueue, target: str, options: ServiceOptions) -> int:
    """Run a worker until it is ordered to stop, used up, or left by its service; return the exit code."""
    worker = Worker(
        jobs,
        concurrency=options.concurrency,
        queues=options.queues or None,
        lease=options.lease,
        heartbeat=options.heartbeat,
        grace=options.grace,
        target=target,
    )
    worker.owns_loop = True
    worker.take_step = partial(take_step, worker)
    if options.vitals is not None:
        os.set_inheritable(options.vitals, False)
    if options.max_jobs is not None:
        worker.limit_jobs(options.max_jobs)
    guard = ProcessGuard(worker, options)
    watching = asyncio.create_task(guard.run())
    code = 0
    try:
        await take_step(worker, jobs.open)
        if options.note is not None:
            # Not before: where the store cannot be used it has no jobs, which the service would take back.
            write_note(options.note, worker.id, jobs.settings)
        await worker.run()
    except LifespanFailed as error:
        if not worker.stopping:
            raise
        logger.critical("%s", error)  # it did its work, and gives way to another one all the same
        code = EXIT_FAILED
    finally:
        watching.cancel()
        await jobs.close()
    if guard.recycled:
        code = EXIT_RECYCLE
    if worker.stuck:
        # The end of an event loop would wait for handlers that swallow their cancellation, for ever.
        logger.warning("%d handlers cannot be ended; the process ends without them", worker.stuck)
        end(code)
    # It also waits minutes for calls that handlers have left in the loop's own threads.
    last = threading.Timer(CLOSE_SECONDS, end, [code])
    last.daemon = True
    last.start()
    return code


async def take_step(worker: Worker, step: Callable[[], Awaitable[T]]) -> T:
    """Take a step of the start, again and again while the store cannot be used, until the worker is to stop.

    A new process would have to import everything again, and its service lets more and more time pass between two.
    """
    pause, reason = FIRST_PAUSE, ""
    while True:
        try:
            return await step()
        except (SchemaEarlier, SchemaNewer):
            raise  # no waiting makes these right
        except (StoreUnavailable, SchemaError) as error:
            if worker.stopping:
                raise
            if str(error) != reason:
                reason = str(error)
                logger.warning("the worker starts as soon as its store can be used: %s", error)
            await asyncio.sleep(pause)
            pause = min(MAX_PAUSE, 2 * pause)


def end(code: int) -> None:
    """End this process at once, whatever threads and tasks it has."""
    logging.shutdown()
    os._exit(code)


class ProcessGuard:
    """Drains the worker when its service is gone or another process shall go on; shows the service that it drains."""

    def __init__(self, worker: Worker, options: ServiceOptions) -> None:
        self._worker = worker
        self._options = options
        self.recycled = False
        self._lags: deque[float] = deque(maxlen=KEPT_LAGS)

    async def run(self) -> None:
        """Watch until there is a reason to stop the worker, and from its stop on show that it goes on, for ever."""
        # A service that dies while this process is still importing is not seen by looking only from here on.
        parent = self._options.service or os.getppid()
        while True:
            if self._worker.draining:
                self._show()
            elif not self._worker.stopping:
                self._check(parent)
            self._keep_vitals()
            before = time.monotonic()
            await asyncio.sleep(GUARD_TICK)
            self._lags.append(max(0.0, time.monotonic() - before - GUARD_TICK))

    def _check(self, parent: int) -> None:
        if os.getppid() != parent:  # no signal of a parent's death exists on every system
            logger.warning("the service is gone; this worker drains")
            self._worker.stop()
        elif reason := self._reason():
            self.recycled = True
            logger.info("%s; this worker drains and is replaced", reason)
            self._worker.stop()

    def _keep_vitals(self) -> None:
        if self._options.vitals is not None:
            lag, (working, slots, busy) = max(self._lags, default=0.0), self._worker.load
            vitals = Vitals(time.monotonic(), working, slots, busy, self._worker.stuck, resident_memory(), lag)
            with contextlib.suppress(OSError):
                write_vitals(self._options.vitals, vitals)

    def _show(self) -> None:
        if self._options.note is not None:
            with contextlib.suppress(OSError):
                write_sign(self._options.note)

    def _reason(self) -> str:
        if stuck := self._worker.used_up and self._worker.stuck:
            return "a handler cannot be ended" if stuck == 1 else f"{stuck} handlers cannot be ended"
        if self._worker.used_up:
            return "1 job was run" if self._options.max_jobs == 1 else f"{self._options.max_jobs} jobs were run"
        if self._options.max_memory is not None and (used := resident_memory()) > self._options.max_memory:
            return f"{used >> 20} MiB of memory are used"
        return ""


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def main(argv: list[str]) -> int:
    """Run one worker process and return its exit code."""
    target, text = argv
    options = ServiceOptions.from_json(text)
    setup_logging(options.log_format, options.log_level)
    try:
        return run_loop(work(load_target(target), target, options))
    except ConfigurationError as error:
        logger.critical("%s", error)
        return EXIT_USAGE
    except LifespanFailed as error:
        logger.critical("%s", error)
        return EXIT_LIFESPAN
    except (SchemaEarlier, SchemaNewer) as error:
        logger.critical("%s", error)
        return EXIT_REFUSED
    except (StoreUnavailable, SchemaError) as error:
        logger.critical("%s", error)
        return EXIT_UNREACHABLE
    except asyncio.CancelledError:  # by a job, which the log names
        return EXIT_FAILED
    except BaseException:  # also the SystemExit of a task that a handler has started
        logger.exception("the worker failed")
        return EXIT_FAILED


if __name__ == "__main__":
    end(main(sys.argv[1:]))
