"""Tasks whose lifespan notes in a folder which process has entered and left it; the environment lets it fail."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

from queue_core import JobContext, JobQueue

FOLDER = Path(os.environ["SERVED_FOLDER"])
jobs = JobQueue(sqlite=FOLDER / "jobs.db")


def note(what: str) -> None:
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{what} {os.getpid()}\n")


@jobs.lifespan
async def connections(state: SimpleNamespace) -> AsyncIterator[None]:
    note("entered")
    if os.environ.get("BROKEN") == "enter":
        raise ConnectionError("no \x1b[2J database\nhere")
    state.pid = os.getpid()
    yield
    note("left")
    if os.environ.get("BROKEN") == "leave":
        raise ConnectionError("it was gone")


@jobs.task(process=True)
def in_child(ctx: JobContext) -> list[int]:
    return [os.getpid(), ctx.state.pid]


@jobs.task
async def in_worker(ctx: JobContext) -> list[int]:
    return [os.getpid(), ctx.state.pid]
