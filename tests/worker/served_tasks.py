"""What the worker processes of the service tests import."""

import os
import time
from pathlib import Path

from queue_core import JobContext, JobQueue
from queue_core.settings import JobsSettings

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
