"""What the worker processes of the service tests import."""

import asyncio
import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from queue_core import JobContext, JobQueue
from queue_core.model.settings import JobsSettings

FOLDER = Path(os.environ["SERVED_FOLDER"])

if slow := os.environ.get("SERVED_SLOW_IMPORT"):
    time.sleep(float(slow))
if os.environ.get("SERVED_DIES"):
    with (FOLDER / "deaths").open("a") as deaths:
        deaths.write("x")
    os._exit(1)

if settings := os.environ.get("SERVED_SETTINGS"):
    jobs = JobQueue(settings=JobsSettings.model_validate_json(settings))
else:
    jobs = JobQueue(sqlite=FOLDER / "jobs.db")
not_jobs = 42


@jobs.task(timeout=0)
async def which_process() -> int:
    """Return the pid of the worker."""
    return os.getpid()


@jobs.task(timeout=0)
def waits(ctx: JobContext) -> int:
    """Wait until a file called `gate` is there."""
    (FOLDER / f"started-{ctx.attempt}").touch()
    while not (FOLDER / "gate").exists():
        time.sleep(0.02)
    return ctx.attempt


@jobs.task(timeout=0)
async def swallows() -> None:
    """Swallow every cancellation."""
    (FOLDER / "begun").touch()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(600)


@jobs.task(timeout=0)
async def blocks() -> None:
    """Let nothing else run in the event loop."""
    (FOLDER / "begun").touch()
    time.sleep(600)  # noqa: ASYNC251  this is the point


@jobs.task(timeout=0)
def never_ends() -> None:
    """Go on in a thread."""
    (FOLDER / "begun").touch()
    threading.Event().wait()


@jobs.task(timeout=0)
async def leaves_threads() -> None:
    """Take all threads of the event loop for ever, and end at once when asked to."""
    for _ in range(100):
        asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    (FOLDER / "begun").touch()
    await asyncio.sleep(600)


@jobs.task(timeout=0, process=True)
def chatters(ctx: JobContext) -> None:
    """Tell the worker of progress as fast as it goes, in a child process."""
    for percent in range(10**9):
        ctx.progress_now(percent % 100)
        if percent == 100:
            (FOLDER / "begun").write_text(str(os.getpid()))


async def _leave() -> None:
    sys.exit(0)


@jobs.task(timeout=0)
async def ends_the_loop(how: str) -> None:
    """Take the event loop down in which it runs, and wait to be ended with it."""
    (FOLDER / "begun").touch()
    await asyncio.to_thread(_wait_for, FOLDER / "gate")
    if how == "stop":
        asyncio.get_running_loop().stop()
    elif how == "exit":
        asyncio.get_running_loop().leaving = asyncio.create_task(_leave())  # type: ignore[attr-defined]
    else:
        for task in asyncio.all_tasks() - ({asyncio.current_task()} if how == "cancel others" else set()):
            task.cancel()
    await asyncio.sleep(600)


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)
