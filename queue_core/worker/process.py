"""One worker process of a service: imports the queue object, runs a worker, says by its exit code how it went.

Started by queue_core.worker.service as `python -m queue_core.worker.process TARGET OPTIONS`, OPTIONS being JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from queue_core.errors import ConfigurationError, QueueCoreError, SchemaError, StoreUnavailable
from queue_core.queue import JobQueue
from queue_core.worker.options import EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, ServiceOptions, setup_logging
from queue_core.worker.worker import Worker

ORPHAN_TICK = 0.5
"""Seconds between two looks whether the service that started this process is still there."""

logger = logging.getLogger("queue_core.worker")


def load_target(target: str) -> JobQueue:
    """Return the queue object that `package.module:name` names; the current folder is looked into first.

    Raises:
        ConfigurationError: no such module or object, the module fails to import, or the object is no JobQueue.
    """
    module_name, separator, name = target.partition(":")
    if not module_name or (separator and not name):
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
    except Exception as error:
        raise ConfigurationError(f"importing '{module_name}' failed: {type(error).__name__}: {error}") from error
    found = getattr(module, name or "jobs", None)
    if not isinstance(found, JobQueue):
        what = "has no object" if found is None else f"has a {type(found).__name__}, not a JobQueue, as"
        raise ConfigurationError(f"module '{module_name}' {what} '{name or 'jobs'}'")
    return found


async def work(jobs: JobQueue, target: str, options: ServiceOptions) -> None:
    """Run a worker until it is told to stop, or until the service that started it is gone."""
    worker = Worker(
        jobs,
        concurrency=options.concurrency,
        queues=options.queues or None,
        lease=options.lease,
        heartbeat=options.heartbeat,
        grace=options.grace,
        target=target,
    )
    guard = asyncio.create_task(_stop_with_parent(worker))
    try:
        await worker.run()
    finally:
        guard.cancel()
        await jobs.close()


async def _stop_with_parent(worker: Worker) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  nothing tells of a parent's death on every system
        await asyncio.sleep(ORPHAN_TICK)
    logger.warning("the service is gone; this worker drains")
    worker.stop()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop that is installed."""
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.run(main)
        return
    asyncio.run(main)


def main(argv: list[str]) -> int:
    """Run one worker process and return its exit code."""
    target, text = argv
    options = ServiceOptions.from_json(text)
    setup_logging(options.log_format)
    try:
        run_loop(work(load_target(target), target, options))
    except ConfigurationError as error:
        logger.critical("%s", error)
        return EXIT_USAGE
    except (StoreUnavailable, SchemaError) as error:
        logger.critical("%s", error)
        return EXIT_UNREACHABLE
    except Exception:
        logger.exception("the worker failed")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    # Threads that a time limit gave up on would keep a normal exit waiting for ever.
    os._exit(code)
